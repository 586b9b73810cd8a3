"""Descriptions of data that are damaged, or meant to do harm: each is refused in one line, at once."""

import csv
import json
import os
import time
import unicodedata
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from tag2box import ImageSet, InputError, read_detections, read_images, write_detections
from tag2box.config import Config
from tag2box.data.decoding import read_image
from tag2box.data.formats.yolo import data_yaml
from tag2box.detection.detections import Detections
from tag2box.errors import Tag2BoxError
from tag2box.names import objection_to_name, plain_name
from tag2box.runtime.config import read_settings
from tag2box.runtime.files import write_whole


def photo(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (20, 10)).save(path)
    return path


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    text = content if isinstance(content, str | bytes) else json.dumps(content)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def refusal(function, *arguments, **options):
    """The one line that `function` refuses its arguments with."""
    with pytest.raises(InputError) as error:
        function(*arguments, **options)
    assert len(str(error.value).splitlines()) == 1
    assert str(error.value).isprintable()
    return str(error.value)


def coco(*files, **changes):
    content = {
        "images": [{"id": i, "file_name": str(file)} for i, file in enumerate(files, start=1)],
        "categories": [{"id": 1, "name": "cat"}],
        "annotations": [{"image_id": 1, "category_id": 1, "bbox": [0, 0, 5, 5]}],
    }
    return content | changes


# Numbers and names


def test_two_coco_images_of_one_number_are_refused(tmp_path):
    """The tags of both would go to the last of them."""
    content = coco("a.jpg", "b.jpg")
    content["images"][1]["id"] = 1
    assert "two of the images have the number 1" in refusal(
        read_images, write(tmp_path / "instances.json", content)
    )
    content["images"][1]["id"] = 1.5
    assert "1.5 is no whole number" in refusal(read_images, write(tmp_path / "instances.json", content))
    twice = [{"id": 1, "name": "cat"}, {"id": 1, "name": "dog"}]
    path = write(tmp_path / "instances.json", coco("a.jpg", categories=twice))
    assert "two of the categories have the number 1" in refusal(read_images, path)


def test_names_that_differ_only_in_how_they_are_stored(tmp_path):
    """Two files whose names look the same, as some systems store them: each keeps its own tags."""
    one, other = (unicodedata.normalize(form, "ü.jpg") for form in ("NFC", "NFD"))
    photo(tmp_path / one)
    photo(tmp_path / other)
    write(tmp_path / "tags.csv", f"file,tags\n{one},cat\n{other},dog\n")
    images = read_images(tmp_path)
    tags = dict(zip(images.ids, images.tags.tolist(), strict=True))
    assert tags == {one[:-4]: [1, -1], other[:-4]: [-1, 1]}


BAD_NAMES = ["\ud800", "a\x00b", "a\nb", "\x1b[2J", "\u2028", ""]


@pytest.mark.parametrize("name", BAD_NAMES, ids=ascii)
def test_names_that_no_file_can_hold_are_refused(tmp_path, name):
    path = photo(tmp_path / "a.jpg")
    for tags in ({"file": "a.jpg", "tags": [name]}, {"file": "a.jpg", "tags": {name: True}}):
        refusal(read_images, tmp_path, write(tmp_path / "tags.jsonl", tags))
    content = coco("a.jpg", categories=[{"id": 1, "name": name}])
    refusal(read_images, write(tmp_path / "instances.json", content))
    refusal(read_images, write(tmp_path / "instances.json", coco(name)))
    images = {"ids": ("a",), "paths": (path,), "tags": np.ones((1, 1), np.int8), "classes": ("cat",)}
    refusal(ImageSet, **images | {"ids": (name,)})
    refusal(ImageSet, **images | {"classes": (name,)})
    refusal(Detections, [0], [[0, 0, 1, 1]], [1], [0], ids=(name,))
    refusal(Detections, [0], [[0, 0, 1, 1]], [1], [0], classes=(name,))


@pytest.mark.skipif(os.name == "nt", reason="no such names there")
def test_a_file_whose_name_is_no_line_is_named_and_skipped(tmp_path):
    photo(tmp_path / "cat/a.jpg")
    photo(tmp_path / "cat/b\nc.jpg")
    images = read_images(tmp_path)
    assert images.ids == ("cat/a",)
    assert images.skipped == (
        rf"{tmp_path}/cat/b\nc.jpg: its name holds a control character (\n): rename it",
    )


# Numbers, encodings and nesting that parsers stumble over


def test_xml_can_neither_swell_nor_reach_out(tmp_path):
    write(tmp_path / "ImageSets/Main/train.txt", "a\n")
    write(tmp_path / "secret.txt", "cat")
    laughs = "".join(f"<!ENTITY l{i + 1} '{10 * f'&l{i};'}'>" for i in range(9))
    out = f"<!ENTITY l9 SYSTEM '{(tmp_path / 'secret.txt').as_uri()}'>"
    for entities in ("<!ENTITY l0 'ha'>" + laughs, out):
        text = f"<!DOCTYPE a [{entities}]><annotation><object><name>&l9;</name></object></annotation>"
        write(tmp_path / "Annotations/a.xml", text)
        assert "a DOCTYPE" in refusal(read_images, tmp_path)


def yolo(root, text):
    photo(root / "images/train/a.jpg")
    return write(root / "data.yaml", text)


LAUGHS = "a0: &a0 [ha, ha]\n" + "".join(f"a{i + 1}: &a{i + 1} [{9 * f'*a{i}, '}]\n" for i in range(9))
MERGES = "b0: &b0 {x: y}\n" + "".join(f"b{i + 1}: &b{i + 1} {{<<: [{9 * f'*b{i}, '}]}}\n" for i in range(9))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("names: [cat\n" + "a, b\n" * 17_000, "is not YAML"),
        ("names: [cat]\nx: [" + "a" * 86_000, "is not YAML"),
        ("names: " + "[" * 86_000, "nested more than 20"),
        ("names:\n" + "- " * 86_000, "nested more than 20"),
        ("names: " + "{a: " * 86_000, "nested more than 20"),
        (LAUGHS + "names: *a9\ntrain: images/train\n", "expected plain text"),
        (LAUGHS + "names: [*a9]\ntrain: images/train\n", "expected plain text"),
        (LAUGHS + "names: [cat]\ntrain: *a9\n", "expected plain text"),
        (MERGES + "names: *b9\ntrain: images/train\n", "must be numbered"),
        ("names: &n [*n]\ntrain: images/train\n", "is not YAML"),
        ("names: [cat]\ntrain: images/train\nx: " + "a" * 1_000_000, "longer than 1000000"),
        ("names: {? " + "1" * 5000 + ": cat}\n", "must be numbered"),
        ("names: [!!python/object/apply:os.getcwd []]\ntrain: .\n", "expected plain text"),
        ("names: [[cat]]\ntrain: images/train\n", "expected plain text"),
        ("names: [cat]\ntrain: {a: b}\n", "expected plain text"),
        ("? [a, b]\n: c\nnames: [cat]\n", "is not YAML"),
        ("names: [cat]\nx: \x01\n", "is not YAML"),
        ("names: [cat]\n\ttrain: x\n", "is not YAML"),
    ],
)
def test_yaml_ends_at_once_and_in_one_line(tmp_path, text, says):
    yolo(tmp_path, text)
    start = time.process_time()
    assert says in refusal(read_images, tmp_path)
    assert time.process_time() - start < 2


USABLE = (
    st.text(st.characters(codec="utf-8")).map(plain_name).filter(lambda name: not objection_to_name(name))
)


@given(st.lists(USABLE, unique=True, min_size=1))
def test_any_class_comes_back_from_our_yaml(tmp_path_factory, names):
    root = tmp_path_factory.mktemp("yaml")
    photo(root / "images/a.jpg")
    write(root / "data.yaml", data_yaml(tuple(names)))
    assert read_images(root).classes == tuple(names)


# Names that lead out of the data


def test_names_that_lead_out_are_refused(tmp_path):
    photo(tmp_path / "secret.jpg")
    data = tmp_path / "data"
    for name in ("../secret.jpg", "sub/../../secret.jpg", str(tmp_path / "secret.jpg")):
        write(data / "instances.json", coco(name))
        assert "outside of the data" in refusal(read_images, data)
    (data / "instances.json").unlink()
    for name in ("../../secret", str(tmp_path / "secret")):
        write(data / "VOC/ImageSets/Main/train.txt", f"{name}\n")
        write(data / "VOC/Annotations/x.xml", "<annotation/>")
        assert "outside of the data" in refusal(read_images, data / "VOC")


@pytest.mark.parametrize("name", ["../secret.jpg", "{0}/secret.jpg"])
def test_yolo_lists_that_lead_out_are_refused(tmp_path, name):
    photo(tmp_path / "secret.jpg")
    data = tmp_path / "data"
    yolo(data, "names: [cat]\ntrain: train.txt\n")
    write(data / "train.txt", name.format(tmp_path))
    assert "outside of the data" in refusal(read_images, data)
    assert "outside of the data" in refusal(read_images, data / "data.yaml")


def test_names_within_the_data_may_be_absolute_or_wind(tmp_path):
    for name in ("images/train/a.jpg", "images/val/b.jpg", "images/val/c.jpg"):
        photo(tmp_path / name)
    files = ("a.jpg", tmp_path / "images/val/b.jpg", "../val/c.jpg")
    write(tmp_path / "annotations/instances_train.json", coco(*files))
    images = read_images(tmp_path)
    assert images.ids == ("a", "images/val/b", "images/val/c")
    assert all(path.is_file() for path in images.paths)
    (tmp_path / "annotations/instances_train.json").unlink()
    write(tmp_path / "lists/train.txt", "".join(f"{tmp_path}/images/{name}\n" for name in ("train/a.jpg",)))
    write(tmp_path / "data.yaml", "names: [cat]\ntrain: lists/train.txt\n")
    assert read_images(tmp_path).ids == ("images/train/a",)


def test_a_yaml_that_leads_out_is_followed_where_it_was_given_itself(tmp_path):
    photo(tmp_path / "elsewhere/images/train/a.jpg")
    photo(tmp_path / "data/cat/b.jpg")
    for text in (f"path: {tmp_path}/elsewhere\ntrain: images/train\n", "train: ../elsewhere/images/train\n"):
        path = write(tmp_path / "data/data.yaml", text + "names: [cat]\n")
        assert "leads out of" in refusal(read_images, tmp_path / "data")
        assert read_images(path).ids == ("a",)
    write(tmp_path / "data/train.txt", f"{tmp_path}/elsewhere/images/train/a.jpg\n")
    write(path, f"path: {tmp_path}/elsewhere\ntrain: train.txt\nnames: [cat]\n")
    assert read_images(path).ids == ("images/train/a",)


# Folders


def closed(folder, real=os.scandir):
    """`os.scandir` where one folder may not be opened."""

    def scandir(path="."):
        if os.fspath(path).rstrip("/") == str(folder):
            raise PermissionError(13, "Permission denied", os.fspath(path))
        return real(path)

    return scandir


# What we write


def test_no_name_becomes_a_formula(tmp_path):
    ids = ("=1+1", "+a", "-b", "@c", "'=d", "'e", "f")
    classes = ('=HYPERLINK("http://x")', "-cat", "'@", "dog")
    paths = [photo(tmp_path / "photos" / f"{name}.jpg") for name in ids]
    found = Detections(range(7), [[0, 0, 1, 1]] * 7, [-1] * 7, [0, 1, 2, 3, 0, 1, 2], ids, classes)
    (path,) = write_detections(found, paths, tmp_path / "found.csv", "csv")
    with path.open(newline="") as file:
        cells = [cell for row in csv.reader(file) for cell in (row[:2])]
    assert not any(cell.startswith(("=", "+", "-", "@")) for cell in cells)
    images = ImageSet(ids, tuple(paths), np.zeros((7, 4), np.int8), classes)
    for again in (read_detections(path, images), read_detections(path)):
        names = np.array(again.ids)[again.image], np.array(again.classes)[again.label]
        assert [list(column) for column in names] == [list(ids), [classes[c] for c in found.label]]


# Detections


def test_an_array_that_claims_to_be_huge_is_one_line(tmp_path):
    path = tmp_path / "found.npz"
    Detections([], [], [], []).save(path)
    with zipfile.ZipFile(path) as archive:
        arrays = {name: archive.read(name) for name in archive.namelist()}
    arrays["score.npy"] = arrays["score.npy"].replace(b"(0,), }             ", b"(10000000000000,), }")
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in arrays.items():
            archive.writestr(name, content)
    assert "does not hold detections" in refusal(read_detections, path)


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="no such device")
def test_settings_are_read_from_files_alone(tmp_path):
    """L4 of a review: a device was read without end."""
    for path in (Path("/dev/zero"), tmp_path):
        assert "where a file was expected" in refusal(read_settings, Config(), path)


def test_a_picture_of_large_floats_says_what_to_do(tmp_path):
    Image.fromarray(np.full((8, 8), 200, np.float32)).save(tmp_path / "a.tif")
    assert "save it with 8 bits" in refusal(read_image, tmp_path / "a.tif")
    (tmp_path / "out").touch()
    with pytest.raises(Tag2BoxError, match="choose another name"):
        write_whole(tmp_path / "out" / "a.json", "")
