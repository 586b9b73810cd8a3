import hashlib
import json
import struct
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tag2box import InputError, read_images
from tag2box.data import decoding
from tag2box.data.decoding import MAX_PIXELS, read_image, read_photo
from tag2box.data.first_look import look, look_from, photo_facts, usable
from tag2box.data.photos import changed_photos


def photo(path, seed, size=(60, 40), mode="RGB"):
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(seed).bytes(size[0] * size[1] * len(mode))  # a band per letter
    Image.frombytes(mode, size, noise).save(path)
    return path


def png(width, height):
    """A PNG that claims a size and holds next to nothing."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b""))
        + chunk(b"IEND", b"")
    )


@pytest.fixture(scope="module")
def messy(tmp_path_factory):
    """Photos with bad ones among them, as people have them."""
    root = tmp_path_factory.mktemp("messy")
    for i in range(6):
        photo(root / f"cat/{i}.jpg", i)
        photo(root / f"dog/{i}.jpg", 100 + i)
    photo(root / "cow/1.jpg", 200)
    photo(root / "cow/cmyk.jpg", 201, mode="CMYK")
    photo(root / "cow/ü ber/1.jpg", 202)
    (root / "dog/again.jpg").write_bytes((root / "dog/3.jpg").read_bytes())
    (root / "cat/empty.jpg").touch()
    (root / "cat/text.jpg").write_text("this is no photo")
    whole = (root / "cat/1.jpg").read_bytes()
    (root / "cat/cut.jpg").write_bytes(whole[: len(whole) // 2])
    (root / "cat/nothing.png").write_bytes(png(0, 0))
    (root / "cat/nothing.ppm").write_bytes(b"P6 0 0 255\n")
    (root / "cat/bomb.png").write_bytes(png(100_000, 100_000))
    (root / "cat/large bomb.png").write_bytes(png(MAX_PIXELS // 9000 + 1, 9000))
    (root / "outside.jpg").touch()
    (root / "cow/link.jpg").symlink_to("/etc/hostname.jpg")
    return root


BAD = ["bomb", "cut", "empty", "large bomb", "nothing.png", "nothing.ppm", "text"]


@pytest.mark.parametrize("workers", [1, 2])
def test_bad_images_are_named_and_skipped(messy, workers):
    images = read_images(messy)
    seen = []
    first = look(images, workers=workers, progress=lambda *event: seen.append(event))
    assert [each.id for each in first.unreadable] == [f"cat/{name}" for name in BAD]
    assert all(each.reason and str(each.path) not in each.reason for each in first.unreadable)
    assert first.duplicates == (("dog/3", "dog/again"),)
    assert first.few == ("cow",)
    assert first.without_negatives == ()
    assert [line.split(": ")[1] for line in first.skipped] == [
        "a symbolic link that leads out of the folder",
        "in no class folder",
    ]
    assert seen[-1] == ("first look", len(images), len(images))
    good = usable(images, first)
    assert len(good) == len(images) - len(BAD)
    assert all(read_image(path).size for path in good.paths)
    assert look(good).unreadable == ()


def test_failing_names_the_first_ones_and_the_count(messy):
    images = read_images(messy)
    first = look(images)
    with pytest.raises(
        InputError, match=r"9 images cannot be used \(.*bomb.png: more than .*, \.\.\.\)"
    ) as error:
        usable(images, first, "fail")
    assert "\n" not in str(error.value)
    with pytest.raises(InputError, match="one of skip, fail"):
        usable(images, first, "stop")
    bad = images.take([name.startswith("cat/nothing") for name in images.ids])
    with pytest.raises(InputError, match="none of the 2 images"):
        usable(bad, look(bad))


def test_the_table_and_the_record_say_the_same(messy):
    first = look(read_images(messy))
    record = json.loads(json.dumps(first.to_dict()))
    assert record["classes"]["cow"] == {"positives": 3, "negatives": 20, "unknown": 0}
    assert [each["id"] for each in record["unreadable"]] == [each.id for each in first.unreadable]
    lines = str(first).splitlines()
    assert lines[0] == "23 images, 3 classes"
    assert lines[3].split() == ["cow", "3", "20", "0"]
    assert any("7 unreadable" in line for line in lines)
    assert any("dog/3 = dog/again" in line for line in lines)


def test_real_photos_are_all_right(voc_folder):
    images = read_images(voc_folder).take(range(0, 1062, 20))
    first = look(images)
    assert (first.unreadable, first.duplicates, first.skipped) == ((), (), ())


def test_a_look_is_made_of_facts_that_another_has_collected(messy):
    images = read_images(messy)
    facts = [photo_facts(path) for path in images.paths]
    for path, fact in zip(images.paths, facts, strict=True):
        assert fact.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
        assert bool(fact.reason) == (fact.size == (0, 0))
    here = look(images)
    elsewhere = replace(images, paths=tuple(Path("/nowhere") / path.name for path in images.paths))
    there = look_from(elsewhere, facts)
    assert {**there.to_dict(), "unreadable": []} == {**here.to_dict(), "unreadable": []}
    assert [each.reason for each in there.unreadable] == [each.reason for each in here.unreadable]


def test_a_look_decodes_jpeg_at_an_eighth(tmp_path, monkeypatch):
    photo(tmp_path / "cat/a.jpg", 0, size=(3200, 2400))
    decoded = []
    shrink = decoding._shrink
    monkeypatch.setattr(decoding, "_shrink", lambda p, *rest: decoded.append(p.size) or shrink(p, *rest))
    look(read_images(tmp_path))
    assert decoded == [(400, 300)]


def test_replaced_photos_are_told_from_missing_ones(tmp_path):
    paths = [photo(tmp_path / f"{i}.png", i) for i in range(4)]
    sha256s = [read_photo(path).sha256 for path in paths]
    assert changed_photos(paths, sha256s) == ((), ())
    photo(paths[1], 100)
    paths[2].unlink()
    changed = changed_photos(paths, sha256s)
    assert (changed.replaced, changed.missing) == ((1,), (2,))
    assert changed.names("abcd") == "b"
