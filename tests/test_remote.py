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
from tests._toys import FAST, contents, make_toys

from tag2box.data.decoding import read_image
from tag2box.data.photos import find_photos
from tag2box.data.reading import read_images
from tag2box.data.remote import RemotePath, is_address, place
from tag2box.data.remote_cache import make_room
from tag2box.errors import InputError
from tag2box.pipeline import Config
from tag2box.run.folder import RunFolder, fit_run
from tag2box.run.notes import read_path, write_path
from tag2box.runtime.config import read_settings

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
    return tmp_path / "cache" / "photos"


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("s3://bucket/a/b.jpg", "s3://bucket/a/b.jpg"),
        ("s3:/bucket/a/b.jpg", "s3://bucket/a/b.jpg"),  # as a Path has made it of the address
        ("https://host:80/a", "https://host:80/a"),
        ("zip://a/b.jpg::s3://bucket/c.zip", "zip://a/b.jpg::s3://bucket/c.zip"),
        ("s3://bucket/c.zip", "zip://::s3://bucket/c.zip"),
    ],
)
def test_addresses_are_paths(address, expected):
    found = place(address)
    assert str(found) == expected
    assert str(place(Path(address))) == expected
    assert place(expected) == found == pickle.loads(pickle.dumps(found))
    assert (found / "d.png").name == "d.png"
    assert found.is_absolute()
    assert read_path(write_path(found, Path("run")), Path("run")) == found


@pytest.mark.parametrize("path", ["photos", "/a/b.jpg", "C:/photos", "a:b", "photos.v2"])
def test_others_are_not(path):
    assert not is_address(path)
    assert type(place(path)) is type(Path())


def test_images_behind_a_server_are_those_here(server, toys, cache):
    here = read_images(toys, toys / "tags.csv")
    for tags in (None, toys / "tags.csv"):
        there = read_images(server, tags)
        assert there.ids == here.ids
        assert there.tags.tolist() == here.tags.tolist()
    assert isinstance(there.paths[0], RemotePath)
    np.testing.assert_array_equal(read_image(there.paths[0]), read_image(here.paths[0]))
    before = len(list(cache.iterdir()))
    read_image(there.paths[0])
    assert len(list(cache.iterdir())) == before
    assert find_photos([server]).ids == here.ids


def test_images_in_an_archive_are_those_here(archives, toys):
    here = read_images(toys)
    for archive in archives:
        there = read_images(archive)
        assert (there.ids, there.tags.tolist()) == (here.ids, here.tags.tolist())
        np.testing.assert_array_equal(read_image(there.paths[3]), read_image(here.paths[3]))


def test_a_folder_per_class_in_an_archive(toys, tmp_path):
    for name, file in (("thing", "toy-00.png"), ("background", "toy-01.png")):
        (tmp_path / "sorted" / name).mkdir(parents=True)
        shutil.copy(toys / file, tmp_path / "sorted" / name)
    archive = shutil.make_archive(str(tmp_path / "sorted"), "zip", tmp_path / "sorted")
    there = read_images(archive)
    assert there.classes == ("thing",)
    assert there.tags.tolist() == [[-1], [1]]


def test_a_run_over_photos_elsewhere_has_the_same_results(server, toys, tmp_path):
    config = read_settings(Config(), None, FAST)
    found = {}
    for name, data in {"here": toys, "server": server}.items():
        fit_run(read_images(data), config, tmp_path / name, workers=2 if name == "server" else 1)
        found[name] = {**contents(tmp_path / name), "run.json": b""}
    assert found["server"] == found["here"]
    assert isinstance(RunFolder(tmp_path / "server").images.paths[0], RemotePath)


@pytest.mark.parametrize("wrong", ["http://127.0.0.1:1/photos", "nothing://a/b", "{server}/missing"])
def test_what_cannot_be_read_is_one_line(wrong, server):
    with pytest.raises(InputError) as error:
        read_images(wrong.format(server=server))
    assert "\n" not in str(error.value)


@pytest.fixture
def tiny(monkeypatch):
    """A cache of 100 bytes."""
    monkeypatch.setenv("TAG2BOX_CACHE_GB", "1e-7")
    monkeypatch.setattr("tag2box.data.remote_cache._unseen", {})


def test_room_is_made_of_what_was_read_first(tmp_path, tiny):
    for i, name in enumerate("cabd"):
        (tmp_path / name).write_bytes(bytes(30))
        os.utime(tmp_path / name, (i, i))
    (tmp_path / ".being-written").write_bytes(bytes(1000))
    make_room(tmp_path, 20)  # 120 + 20 of 100, and five are spared
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == [".being-written", "b", "d"]


def test_as_long_as_there_is_room_nothing_goes(tmp_path, tiny):
    (tmp_path / "a").write_bytes(bytes(30))
    make_room(tmp_path, 70)
    assert (tmp_path / "a").exists()
    make_room(tmp_path / "missing", 10)


def test_photos_that_do_not_fit_are_read_all_the_same(server, toys, cache, tiny):
    here, there = read_images(toys), read_images(server, toys / "tags.csv")
    for i in range(4):
        np.testing.assert_array_equal(read_image(there.paths[i]), read_image(here.paths[i]))
    assert len(list(cache.iterdir())) == 1


@pytest.mark.parametrize("wrong", ["much", "-1", "nan"])
def test_a_limit_that_is_none_is_one_line(tmp_path, monkeypatch, wrong):
    monkeypatch.setenv("TAG2BOX_CACHE_GB", wrong)
    with pytest.raises(InputError, match="must be a number of GB"):
        make_room(tmp_path, 1)


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
