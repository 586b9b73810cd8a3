"""Photos elsewhere: behind servers whose files change, and in archives that are cut or swell."""

import sys

import numpy as np
import pytest
from tests._elsewhere import (
    SAYINGS,
    Changing,
    archive,
    cost,
    flat,
    long_header,
    many,
    serving,
    small_set,
    zeros,
)
from tests.data.test_archives import KINDS, content

from tag2box import read_images
from tag2box.data.decoding import read_image

pytest.importorskip("aiohttp")
pytestmark = [
    pytest.mark.torture,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]


STEP = {"zip": 1, "tar": 7, "tgz": 1}  # most of a tar file is padding


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TAG2BOX_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("saying", SAYINGS)
def test_what_is_read_is_what_is_there(saying, capsys):
    """Photos and tags change at random, also to what they were, and keep their length."""
    rng, changing = np.random.default_rng(0), Changing(saying)
    palette = [(255, 0, 0), (0, 255, 0), (0, 0, 255)]
    names = [f"/data/{i}.bmp" for i in range(6)]
    color, tag = {}, {}

    def change(name):
        color[name], tag[name] = (int(rng.integers(3)) for _ in range(2))
        changing.put(name, flat(palette[color[name]]))
        rows = [f"{each.rpartition('/')[2]},{'abc'[tag[each]]}\n" for each in color]
        changing.put("/data/tags.csv", ("file,tags\n" + "".join(rows)).encode())

    for name in names:
        change(name)
    readings = 0
    with serving(changing) as host:
        for _ in range(100):
            if rng.random() < 0.7:
                change(names[rng.integers(len(names))])
            images = read_images(f"http://{host}/data")
            for name, path, tags in zip(names, images.paths, images.tags, strict=True):
                assert read_image(path)[0, 0].tolist() == list(palette[color[name]])
                assert images.classes[int(np.argmax(tags))] == "abc"[tag[name]]
                readings += 1
    with capsys.disabled():
        fetched = sum(verb == "GET" and path.endswith(".bmp") for verb, path, _ in changing.asked)
        sys.stdout.write(f"\n{readings} readings, all right; {fetched} answers with a photo ({saying})\n")


@pytest.mark.parametrize("kind", KINDS)
def test_an_archive_cut_in_thousands_of_places(tmp_path, kind):
    whole = archive(tmp_path / f"whole.{kind}", small_set(3))
    expected, data = content(whole), whole.read_bytes()
    cut = tmp_path / f"cut.{kind}"
    for length in range(0, len(data), STEP[kind]):
        cut.write_bytes(data[:length])
        assert content(cut) in (None, expected), length


@pytest.mark.parametrize("kind", KINDS)
def test_an_archive_changed_in_thousands_of_places_ends_in_a_result_or_in_one_line(tmp_path, kind):
    path = archive(tmp_path / f"whole.{kind}", small_set(2))
    data = path.read_bytes()
    for at in range(0, len(data), STEP[kind]):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :])
        assert not isinstance(content(path), str), at


BOMBS = {
    "800 MB in a zip": lambda folder: zeros(folder / "a.zip", 800 << 20),
    "800 MB in a tgz": lambda folder: zeros(folder / "a.tgz", 800 << 20),
    "10 GB in a tgz": lambda folder: zeros(folder / "b.tgz", 10 << 30),
    "a name of 2 GB": lambda folder: long_header(folder / "a.tgz", 2 << 30),
    "a million files in a tgz": lambda folder: many(folder / "a.tgz", 1_000_000),
    "300,000 files in a zip": lambda folder: many(folder / "a.zip", 300_000),
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_cost_little(tmp_path, name, capsys):
    bomb = BOMBS[name](tmp_path)
    megabytes, seconds, end = cost(bomb)
    with capsys.disabled():
        sys.stdout.write(
            f"\n{name}: {bomb.stat().st_size / 1e6:.1f} MB cost {megabytes} MB, {seconds:.1f} s\n"
        )
    assert str(bomb) in end
    assert megabytes < 1000
    assert seconds < 60
