"""Photos elsewhere: behind a server, in an archive. The same images and the same run as here."""

import os
import pickle
import shutil
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from tests._elsewhere import SAYINGS, Changing, flat, serving
from tests._toys import FAST, contents, make_toys

from tag2box.data import archives as limits
from tag2box.data.decoding import read_image
from tag2box.data.photos import find_photos
from tag2box.data.reading import read_images
from tag2box.data.remote import RemotePath, is_address, place
from tag2box.errors import InputError, redacted
from tag2box.pipeline import Config
from tag2box.run.fitting import fit_run
from tag2box.run.folder import RunFolder, read_path, write_path
from tag2box.runtime.config import read_settings
from tag2box.runtime.index import Index

pytest.importorskip("fsspec")
pytest.importorskip("aiohttp")

# The server of the test and fsspec's loop close their sockets when they like.
pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def toys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("here") / "toys"
    make_toys(folder, n=8)
    for path in folder.iterdir():
        os.utime(path, (1e9, 1e9))  # what was written just now may change within the same second
    return folder


@pytest.fixture(scope="module")
def server(toys):
    """The address of the toys' folder, behind a real server."""
    found = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=toys.parent))
    threading.Thread(target=found.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{found.server_port}/toys"
    found.shutdown()
    found.server_close()


@pytest.fixture(scope="module")
def archives(toys):
    return [Path(shutil.make_archive(str(toys.parent / "archive"), kind, toys)) for kind in ("zip", "tar")]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TAG2BOX_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("s3://bucket/a/b.jpg", "s3://bucket/a/b.jpg"),
        ("s3:/bucket/a/b.jpg", "s3://bucket/a/b.jpg"),  # as a Path has made it of the address
        ("https://host:80/a", "https://host:80/a"),
        ("zip://a/b.jpg::s3://bucket/c.zip", "zip://a/b.jpg::s3://bucket/c.zip"),
        ("s3://bucket/c.zip", "zip://::s3://bucket/c.zip"),
        ("filecache::https://host/a/b.jpg", "filecache::https://host/a/b.jpg"),
        ("https://host/p.zip?sv=1&sig=secret", "zip://::https://host/p.zip?sv=1&sig=***"),
    ],
)
def test_addresses_are_paths(address, expected):
    found = place(address)
    assert str(found) == expected
    assert str(place(Path(address))) == expected
    assert found == pickle.loads(pickle.dumps(found))
    if "***" in expected:
        assert found.address == expected.replace("***", "secret")
        return
    assert place(expected) == found
    assert (found / "d.png").name == "d.png"
    assert found.is_absolute()
    assert read_path(write_path(found, Path("run")), Path("run")) == found


@pytest.mark.parametrize("path", ["photos", "/a/b.jpg", "C:/photos", "a:b", "photos.v2"])
def test_others_are_not(path):
    assert not is_address(path)
    assert type(place(path)) is type(Path())


def test_images_behind_a_server_are_those_here(server, toys):
    here = read_images(toys, toys / "tags.csv")
    for tags in (None, toys / "tags.csv"):
        there = read_images(server, tags)
        assert there.ids == here.ids
        assert there.tags.tolist() == here.tags.tolist()
    assert isinstance(there.paths[0], RemotePath)
    np.testing.assert_array_equal(read_image(there.paths[0]), read_image(here.paths[0]))
    assert find_photos([server]).ids == here.ids


def test_images_in_an_archive_are_those_here(archives, toys):
    here = read_images(toys)
    for archive in archives:
        there = read_images(archive)
        assert (there.ids, there.tags.tolist()) == (here.ids, here.tags.tolist())
        np.testing.assert_array_equal(read_image(there.paths[3]), read_image(here.paths[3]))


def test_a_run_over_photos_elsewhere_has_the_same_results(server, toys, tmp_path):
    config = read_settings(Config(), None, FAST)
    found = {}
    for name, data in {"here": toys, "server": server}.items():
        fit_run(read_images(data), config, tmp_path / name, workers=2 if name == "server" else 1)
        found[name] = {**contents(tmp_path / name), "card.md": b""}  # it says where from
    assert found["server"] == found["here"]
    assert isinstance(RunFolder(tmp_path / "server").images.paths[0], RemotePath)


@pytest.mark.parametrize("wrong", ["http://127.0.0.1:1/photos", "nothing://a/b", "{server}/missing"])
def test_what_cannot_be_read_is_one_line(wrong, server):
    with pytest.raises(InputError) as error:
        read_images(wrong.format(server=server))
    assert "\n" not in str(error.value)


def test_images_in_a_bucket_are_those_here(toys, monkeypatch):
    """By moto, a server that speaks as S3 does."""
    pytest.importorskip("s3fs")
    moto = pytest.importorskip("moto.server")
    import fsspec

    server = moto.ThreadedMotoServer(port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "test")
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        files = fsspec.filesystem("s3")
        files.mkdir("bucket")
        for path in toys.iterdir():
            files.pipe_file(f"bucket/toys/{path.name}", path.read_bytes())
        here, there = read_images(toys), read_images("s3://bucket/toys")
        assert (there.ids, there.tags.tolist()) == (here.ids, here.tags.tolist())
        np.testing.assert_array_equal(read_image(there.paths[2]), read_image(here.paths[2]))
    finally:
        server.stop()


RED, GREEN = (255, 0, 0), (0, 255, 0)


@pytest.mark.parametrize("saying", SAYINGS)
def test_what_changed_behind_a_server_is_read_anew(saying):
    """Photo and tags keep their length, and become what they were: only the server can tell."""
    changing = Changing(saying)
    with serving(changing) as host:
        for color, tag in ((RED, "cat"), (GREEN, "dog"), (GREEN, "cat"), (RED, "dog")):
            changing.put("/toys/a.bmp", flat(color))
            changing.put("/toys/tags.csv", f"file,tags\na.bmp,{tag}\n".encode())
            images = read_images(f"http://{host}/toys")
            assert images.classes == (tag,)
            assert read_image(images.paths[0])[0, 0].tolist() == list(color)


def test_a_photo_is_fetched_at_each_reading_but_by_the_cache_of_fsspec(cache):
    """Newer versions of that ask how long the file is first, by a request whose answer they leave unread."""
    for address, times in {"http://{}/a.bmp": [3], "filecache::http://{}/a.bmp": [1, 2]}.items():
        changing = Changing()
        changing.put("/a.bmp", flat(RED))
        with serving(changing) as host:
            for _ in range(3):
                assert read_image(place(address.format(host)))[0, 0].tolist() == list(RED)
        assert sum(verb == "GET" for verb, *_ in changing.asked) in times, address
    assert list((cache / "photos").iterdir())


def test_answers_have_a_limit(monkeypatch):
    changing = Changing("nothing")
    changing.put("/toys/a.bmp", bytes(3 << 20))
    with serving(changing) as host:
        monkeypatch.setattr(limits, "MOST_BYTES", 1 << 20)
        with pytest.raises(InputError, match=r"a\.bmp.* an answer of more than 1 MB"):
            read_image(place(f"http://{host}/toys/a.bmp"))
        monkeypatch.setattr(limits, "MOST_BYTES", 3)
        with pytest.raises(InputError, match="an answer of more than"):
            place(f"http://{host}/toys").below()


def test_folders_without_end_are_one_line(monkeypatch):
    class Endless(dict):
        def __contains__(self, path):
            return True

        def __getitem__(self, path):
            return b'<a href="more/">more</a>'

    changing = Changing("nothing")
    changing.files, changing.versions = Endless(), Endless()
    monkeypatch.setattr(limits, "MOST_FILES", 20)
    with serving(changing) as host, pytest.raises(InputError, match="more than 20 files and folders"):
        place(f"http://{host}/toys").below()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://me:pass@host/a.jpg", "http://***@host/a.jpg"),
        ("https:/me:p@ss@host/a.jpg is missing", "https:/***@host/a.jpg is missing"),
        ("https://ghp_token@host/a", "https://***@host/a"),
        ("HTTP://me:pa'ss@host", "HTTP://***@host"),
        ("zip://a.jpg::ftp://me:pass@host/b.zip", "zip://a.jpg::ftp://***@host/b.zip"),
        ("https://host/a?x=1&X-Amz-Signature=ab%2F&y=2", "https://host/a?x=1&X-Amz-Signature=***&y=2"),
        ("https://host/a.zip?sv=2&sig=a/b+c=", "https://host/a.zip?sv=2&sig=***"),
        ("https://host/a?token=abc", "https://host/a?token=***"),
        ("sftp://me@host/a.jpg", "sftp://me@host/a.jpg"),
        ("s3://bucket/a@b.jpg", "s3://bucket/a@b.jpg"),
        ("zip://me@home:1/a.jpg::/b.zip", "zip://me@home:1/a.jpg::/b.zip"),
        ("github://org:repo@main/a.jpg", "github://org:repo@main/a.jpg"),
        ("photos/a@b.jpg: cannot be read", "photos/a@b.jpg: cannot be read"),
        ("?" * 20_000 + "sig" * 20_000, None),
        ("a-" * 50_000 + ":/", None),
    ],
)
def test_no_secret_of_an_address_is_shown(text, expected):
    assert redacted(text) == (text if expected is None else expected)
    assert str(InputError(text)) == redacted(text)


def test_a_password_is_used_and_not_written_down(tmp_path, toys):
    changing = Changing()
    for path in toys.iterdir():
        changing.put(f"/toys/{path.name}", path.read_bytes())
    with serving(changing) as host:
        images = read_images(f"http://me:hunter2@{host}/toys")
        fit_run(images, read_settings(Config(), None, FAST), tmp_path / "run", workers=1)
        RunFolder(tmp_path / "run").set_truth(Path(f"http://me:hunter2@{host}/toys"), None, "voc07")
        signs = {authorization for _, _, authorization in changing.asked}
    assert signs == {"Basic bWU6aHVudGVyMg=="}
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert not [path for path in files if b"hunter2" in path.read_bytes()]
    assert "hunter2" not in (tmp_path / "run/events.jsonl").read_text()
    stored = Index(tmp_path / "run").rows("photos")[0][2]
    assert stored == f"http://***@{host}/toys/toy-00.png"
    # Read back, it is the address without a password: that may be in ~/.netrc.
    assert RunFolder(tmp_path / "run").images.paths[0].address == f"http://{host}/toys/toy-00.png"
    assert "hunter2" not in repr(images)
    for wrong in (f"http://me:hunter2@{host}/missing", "http://me:hunter2@127.0.0.1:1/toys"):
        with pytest.raises(InputError) as error:
            read_images(Path(wrong))
        assert "hunter2" not in str(error.value)


def test_passwords_of_netrc_are_used(tmp_path, monkeypatch):
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password hunter2\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    changing = Changing()
    changing.put("/a.bmp", flat(RED))
    with serving(changing) as host:
        read_image(place(f"http://{host}/a.bmp"))
    assert {authorization for *_, authorization in changing.asked} == {"Basic bWU6aHVudGVyMg=="}
