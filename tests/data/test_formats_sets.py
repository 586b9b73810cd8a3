"""Data sets that carry true boxes: VOC, COCO, YOLO, Label Studio."""

import json
import shutil

import numpy as np
import pytest
from PIL import Image

from tag2box import InputError, read_images


def photo(path, size=(100, 50), **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size).save(path, **options)
    return path


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def xml(*objects):
    body = "".join(
        f"<object><name>{name}</name><difficult>{hard}</difficult><bndbox><xmin>{x1}</xmin><ymin>{y1}</ymin>"
        f"<xmax>{x2}</xmax><ymax>{y2}</ymax></bndbox></object>"
        for name, hard, x1, y1, x2, y2 in objects
    )
    return f"<annotation>{body}</annotation>"


def test_a_devkit_without_lists_per_class_has_the_tags_of_its_annotations(tmp_path):
    root = tmp_path / "VOC2007"
    write(root / "ImageSets/Main/train.txt", "a b\nc\nd\n\n")
    write(root / "Annotations/a b.xml", xml(("cat", 0, 1, 1, 5, 5), ("cat", 1, 2, 2, 3, 3)))
    write(root / "Annotations/c.xml", xml(("cat", 1, 1, 1, 5, 5), ("dog", 0, 1, 1, 2, 2)))
    write(root / "Annotations/d.xml", xml())
    photo(root / "JPEGImages/c.png")
    for path in (root, tmp_path):  # VOCdevkit/VOC2007 or VOCdevkit
        images = read_images(path)
        assert images.ids == ("a b", "c", "d")
        assert images.tags.tolist() == [[1, -1], [0, 1], [-1, -1]]
        assert images.truth.difficult.tolist() == [False, True, True, False]
        assert [file.name for file in images.paths] == ["a b.jpg", "c.png", "d.jpg"]
    write(tmp_path / "VOC2012/ImageSets/Main/train.txt", "a\n")
    with pytest.raises(InputError, match="VOC2007, VOC2012: give one"):
        read_images(tmp_path)


def test_voc_without_annotations_has_no_truth(tmp_path):
    write(tmp_path / "ImageSets/Main/test.txt", "a\n")
    with pytest.raises(InputError, match="no annotations either"):
        read_images(tmp_path)
    write(tmp_path / "ImageSets/Main/cat_test.txt", "a -1\n")
    images = read_images(tmp_path)  # its only split
    assert (images.truth, images.tags.tolist()) == (None, [[-1]])


@pytest.mark.parametrize(
    ("photos", "notes"),
    [("images", "annotations"), ("JPEGImages", "Annotations"), (".", "."), ("a/b", "labels"), (".", "xml")],
)
def test_annotations_as_labelimg_writes_them(tmp_path, photos, notes):
    """Wherever photos and XML are: tags and true boxes, and no class of a folder's name."""
    for name in ("a b", "c", "none"):
        photo(tmp_path / photos / f"{name}.png")
    write(tmp_path / notes / "a b.xml", xml(("cat", 0, 1, 1, 5, 5), ("cat", 1, 2, 2, 3, 3)))
    write(tmp_path / notes / "c.xml", xml(("cat", 1, 1, 1, 5, 5), ("dog", 0, 1, 1, 2, 2)))
    write(tmp_path / notes / "gone.xml", xml(("cow", 0, 1, 1, 5, 5)))
    write(tmp_path / "other.xml", "<metadata/>")
    images = read_images(tmp_path)
    assert images.ids == ("a b", "c", "none")  # as where the folder of photos is given
    assert images.paths[0] == tmp_path / photos / "a b.png"
    assert images.classes == ("cat", "dog")
    assert images.tags.tolist() == [[1, -1], [0, 1], [-1, -1]]
    assert images.truth.xyxy.tolist() == [[0, 0, 5, 5], [1, 1, 3, 3], [0, 0, 5, 5], [0, 0, 2, 2]]
    assert images.truth.difficult.tolist() == [False, True, True, False]
    lines = [line for line in images.skipped if "gone.xml: an annotation without an image" in line]
    assert len(lines) == 1
    with pytest.raises(InputError, match="has no splits"):
        read_images(tmp_path, split="train")


@pytest.mark.parametrize(
    ("photos", "notes"), [("{}", "{}"), ("{}/images", "{}/xml"), ("images/{}", "xml/{}")]
)
def test_annotations_in_folders_of_splits(tmp_path, photos, notes):
    for split, kind in (("train", "cat"), ("valid", "dog")):
        photo(tmp_path / photos.format(split) / "1.jpg")
        write(tmp_path / notes.format(split) / "1.xml", xml((kind, 0, 1, 1, 5, 5)))
    assert read_images(tmp_path).classes == ("cat",)
    assert read_images(tmp_path, split="valid").classes == ("dog",)
    assert read_images(tmp_path, split="valid").truth.xyxy.tolist() == [[0, 0, 5, 5]]


def test_annotations_are_read_in_an_archive_too(tmp_path):
    photo(tmp_path / "set/images/a.png")
    write(tmp_path / "set/annotations/a.xml", xml(("cat", 0, 1, 1, 5, 5)))
    images = read_images(shutil.make_archive(str(tmp_path / "set"), "zip", tmp_path / "set"))
    assert (images.classes, images.truth.xyxy.tolist()) == (("cat",), [[0, 0, 5, 5]])


LAUGHS = '<!DOCTYPE a [<!ENTITY b "ha"><!ENTITY c "&b;&b;&b;">]><annotation>&c;</annotation>'


def coco(**changes):
    content = {
        "images": [
            {"id": 7, "file_name": "ü 1.jpg", "width": 100, "height": 50},
            {"id": 3, "file_name": "sub/2.jpg", "width": 100, "height": 50},
        ],
        "categories": [{"id": 18, "name": "dog"}, {"id": 2, "name": "hot dog"}, {"id": 90, "name": "never"}],
        "annotations": [
            {"id": 1, "image_id": 7, "category_id": 18, "bbox": [10, 5, 20.5, 30], "iscrowd": 0},
            {"id": 2, "image_id": 7, "category_id": 2, "bbox": [0, 0, 100, 50], "iscrowd": 1},
            {"id": 3, "image_id": 3, "category_id": 2, "bbox": [0, 0, 0, 9], "iscrowd": 0},
        ],
    }
    return content | changes


@pytest.mark.parametrize(
    ("file", "folder", "split"),
    [
        ("annotations/instances_train2017.json", "train2017", "train"),
        ("annotations/train.json", "images/train", None),
        ("train/_annotations.coco.json", "train", "train"),
        ("instances.json", "images", None),
    ],
)
def test_coco(tmp_path, file, folder, split):
    write(tmp_path / file, coco())
    photo(tmp_path / folder / "ü 1.jpg")
    photo(tmp_path / folder / "sub/2.jpg")
    images = read_images(tmp_path, split=split)
    assert images.classes == ("hot dog", "dog", "never")  # by their numbers
    assert images.ids == ("ü 1", "sub/2")
    assert images.tags.tolist() == [[0, 1, -1], [1, -1, -1]]
    np.testing.assert_array_equal(images.truth.xyxy, [[10, 5, 30.5, 35], [0, 0, 100, 50]])
    assert images.truth.difficult.tolist() == [False, True]
    assert images.numbers.images == (7, 3)
    assert images.numbers.classes == (2, 18, 90)
    assert all(path.is_file() for path in images.paths)


def test_coco_by_its_file(tmp_path):
    path = write(tmp_path / "boxes.json", coco())
    photo(tmp_path / "photos/ü 1.jpg")
    assert read_images(tmp_path / "photos", path).paths[0].is_file()
    assert read_images(path).ids == ("ü 1", "sub/2")  # truth can be read without the photos
    with pytest.raises(InputError, match="has no splits"):
        read_images(path, split="train")
    write(tmp_path / "instances.json", coco())
    with pytest.raises(InputError, match="has no splits"):
        read_images(tmp_path, split="train")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ([1, 2], "not COCO"),
        (coco(images=[{"id": 1}]), "'file_name' is missing"),
        (coco(images=[{"id": 1, "file_name": "a"}, {"id": 2, "file_name": "a"}]), "a file twice"),
        (coco(annotations=[{"image_id": 8, "category_id": 2, "bbox": [0, 0, 1, 1]}]), "image 8, category 2"),
        (
            coco(annotations=[{"image_id": 7, "category_id": 2, "bbox": [0, 0, 1]}]),
            "not COCO as it should be",
        ),
        (coco(annotations=7), "not COCO as it should be"),
    ],
)
def test_bad_coco_is_one_line(tmp_path, content, says):
    write(tmp_path / "instances.json", content)
    with pytest.raises(InputError, match=says) as error:
        read_images(tmp_path)
    assert "\n" not in str(error.value)


def yolo(root, yaml="train: images/train\nval: images/val\nnames: [cat, 'hot dog']\n"):
    photo(root / "images/train/a.jpg")
    photo(root / "images/train/b b.png")
    photo(root / "images/val/c.jpg")
    write(root / "labels/train/a.txt", "1 0.5 0.5 0.2 0.4\n\n0 0.1 0.2 0.3 0.2 0.3 0.6\n")
    write(root / "labels/val/c.txt", "0 .5 .5 1 1 0.875\n")
    return write(root / "data.yaml", yaml)


def test_yolo(tmp_path):
    path = yolo(tmp_path)
    images = read_images(tmp_path)
    assert images.classes == ("cat", "hot dog")
    assert images.ids == ("a", "b b")
    assert images.tags.tolist() == [[1, 1], [-1, -1]]  # no label file: none of the classes
    np.testing.assert_allclose(images.truth.xyxy, [[40, 15, 60, 35], [10, 10, 30, 30]], rtol=1e-6)
    val = read_images(path, split="val")
    assert val.truth.xyxy.tolist() == [[0, 0, 100, 50]]
    with pytest.raises(InputError, match="no split 'test': it has train, val"):
        read_images(tmp_path, split="test")


@pytest.mark.parametrize(
    "yaml",
    [
        "path: ../elsewhere\ntrain: ../images/train\nnames:\n  0: cat\n  1: dog\n",
        "path: .\ntrain:\n- images/train\n- images/val\nnames: {1: dog, 0: cat}\n",
        "train: train.txt\nnames: [cat,\n  dog]\n",
        "train: /of/another/machine\nnames: [cat, dog]\n",
    ],
)
def test_other_ways_to_write_a_data_yaml(tmp_path, yaml):
    yolo(tmp_path, yaml)
    write(tmp_path / "train.txt", "./images/train/a.jpg\n./images/train/b b.png\n")
    images = read_images(tmp_path)
    assert images.classes == ("cat", "dog")
    assert [path.name for path in images.paths][:2] == ["a.jpg", "b b.png"]
    assert images.tags[0].tolist() == [1, 1]


def test_boxes_are_in_the_upright_image(tmp_path):
    yolo(tmp_path)
    exif = Image.Exif()
    exif[0x0112] = 6  # lies on its side
    photo(tmp_path / "images/val/c.jpg", exif=exif)
    assert read_images(tmp_path, split="val").truth.xyxy.tolist() == [[0, 0, 50, 100]]


YAML = """# a comment
%YAML 1.2
---
path: ../a b  # another
url: https://example.org/a#b
it's: 'it''s # no comment'
"key: q": "a \\"b\\" \\u00fc, [c]"
names: [a, 'b, c', "d: e",
  f g]  # over two lines
map: {0: a, 1: 'b: c'}
block:
  0: traffic light
  1: "x # y"
list:
  - one
  - 'two'
flush:
- three
empty: []
nothing:
"""


def task(image, *results, annotated=True):
    one = {"result": list(results), "was_cancelled": False}
    return {"id": 1, "data": {"text": "x", "image": image}, "annotations": [one] if annotated else []}


def choice(*names):
    return {"type": "choices", "value": {"choices": list(names)}}


BOX = {
    "type": "rectanglelabels",
    "original_width": 200,
    "original_height": 100,
    "value": {"x": 10, "y": 20, "width": 50, "height": 30, "rectanglelabels": ["dog"]},
}


def test_label_studio(tmp_path):
    for name in ("a.jpg", "sub/b b.jpg", "c.jpg", "d.jpg"):
        photo(tmp_path / "photos" / name)
    tasks = [
        task("/data/upload/3/1a2b3c4d-a.jpg", choice("cat", "dog")),
        task("/data/local-files/?d=sub/b%20b.jpg", BOX),
        task("https://example.org/x/c.jpg?size=3", annotated=False),
        task("s3://bucket/d.jpg"),
    ]
    path = write(tmp_path / "export.json", tasks)
    images = read_images(tmp_path / "photos", path)
    assert images.ids == ("a", "c", "d", "sub/b b")
    assert images.tags.tolist() == [[1, 1], [0, 0], [-1, -1], [-1, 1]]
    assert images.truth.xyxy.tolist() == [[20, 20, 120, 50]]
    bare = {key: BOX[key] for key in ("type", "value")}  # then the file says how large it is: 100 x 50
    write(path, [tasks[0], task("d.jpg", bare)])
    assert read_images(tmp_path / "photos", path).truth.xyxy.tolist() == [[10, 10, 60, 25]]
    write(path, [*tasks, task("gone.jpg")])
    with pytest.raises(InputError, match=r"1 of the images .* \(gone.jpg\)"):
        read_images(tmp_path / "photos", path)
    assert len(read_images(tmp_path / "photos", path, on_error="skip").skipped) == 1
