"""Detections written and read again."""

import contextlib
import io
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from pycocotools.coco import COCO

from tag2box import Detections, ImageSet, InputError, evaluate, read_detections, read_images, write_detections
from tag2box.exports.writing import FORMATS
from tag2box.images import Numbers

SIZES = [(100, 50), (640, 480), (30, 40)]
IDS = ("ü 1", "sub/2", "3")
CLASSES = ("cat", "hot dog")


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    root = tmp_path_factory.mktemp("photos")
    paths = [root / f"{name}.jpg" for name in IDS]
    for path, size in zip(paths, SIZES, strict=True):
        path.parent.mkdir(exist_ok=True)
        Image.new("RGB", size).save(path)
    return ImageSet(IDS, tuple(paths), np.zeros((3, 2), np.int8), CLASSES)


def some(n=20, seed=0, whole=False):
    """Boxes inside their images, on a grid of 1/4 pixel or of whole pixels."""
    rng = np.random.default_rng(seed)
    image = rng.integers(0, 2, n)  # the last image has none
    size = 4 * np.array(SIZES)[image]
    low = (rng.random((n, 2)) * (size - 8)).astype(int)
    high = low + 4 + (rng.random((n, 2)) * (size - low - 4)).astype(int)
    boxes = np.hstack([low, high]) / 4
    if whole:
        boxes = np.hstack([np.floor(boxes[:, :2]), np.ceil(boxes[:, 2:])])
    return Detections(image, boxes, rng.normal(size=n), rng.integers(0, 2, n), IDS, CLASSES)


def rows(found):
    """Detections as sorted tuples of names and numbers: formats differ in order."""
    ids, classes = np.array(found.ids, dtype=object), np.array(found.classes, dtype=object)
    columns = zip(ids[found.image], classes[found.label], found.score, found.xyxy.tolist(), strict=True)
    return sorted((name, kind, float(score), tuple(box)) for name, kind, score, box in columns)


@pytest.mark.parametrize("n", [0, 20])
@pytest.mark.parametrize("kind", ["coco", "coco-results", "comp4", "csv"])
def test_what_evaluation_reads_comes_back_exactly(tmp_path, images, kind, n):
    found = some(n)
    path = tmp_path / {"comp4": "folder"}.get(kind, f"found.{'csv' if kind == 'csv' else 'json'}")
    written = write_detections(found, images, path, kind)
    assert all(file.is_file() for file in written)
    again = read_detections(path, images)
    assert rows(again) == rows(found)
    assert (again.ids, again.classes) == (IDS, CLASSES)
    if kind != "coco-results":
        assert rows(read_detections(path)) == rows(found)


@given(
    x=st.floats(0, 400, width=32),
    w=st.floats(2.0**-6, 80, width=32),
    score=st.floats(allow_nan=False, allow_infinity=False),
)
@pytest.mark.parametrize("kind", ["coco", "coco-results", "csv"])
def test_any_float32_comes_back(images, tmp_path_factory, kind, x, w, score):
    path = tmp_path_factory.mktemp("any") / f"x.{'csv' if kind == 'csv' else 'json'}"
    right = np.float32(x) + np.float32(w)
    found = Detections([1], [[x, x, right, right]], [score], [1], IDS, CLASSES)
    write_detections(found, images, path, kind)
    again = read_detections(path, images)
    np.testing.assert_array_equal(again.xyxy, found.xyxy)
    assert again.score[0] == found.score[0]


def test_pycocotools_takes_both_coco_files(tmp_path, images):
    found = some(whole=True)
    write_detections(found, images, tmp_path / "instances.json", "coco")
    write_detections(found, images, tmp_path / "results.json", "coco-results")
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO(str(tmp_path / "instances.json"))
        results = truth.loadRes(str(tmp_path / "results.json"))
    assert len(results.anns) == len(truth.anns) == len(found)
    for number, name, (width, height) in zip((1, 2, 3), IDS, SIZES, strict=True):
        expected = {"id": number, "file_name": f"{name}.jpg", "width": width, "height": height}
        assert truth.imgs[number] == expected
    # and as annotations they are a data set of ours
    (tmp_path / "instances.json").rename(images.paths[2].parent / "instances.json")
    again = read_images(images.paths[2].parent / "instances.json")
    order = np.argsort(found.image, kind="stable")
    np.testing.assert_array_equal(again.truth.xyxy, found.xyxy[order])
    assert evaluate(found, again, "voc10").mean > 0.999
    assert again.paths == images.paths


def test_a_coco_set_keeps_its_own_numbers(tmp_path, images):
    numbered = ImageSet(
        IDS, images.paths, np.zeros((3, 3), np.int8), ("bus", *CLASSES), numbers=Numbers((9, 4, 1), (5, 8, 2))
    )
    write_detections(some(), numbered, tmp_path / "results.json", "coco-results")
    content = json.loads((tmp_path / "results.json").read_text())
    assert [row["image_id"] for row in content] == [(9, 4, 1)[i] for i in some().image]
    assert [row["category_id"] for row in content] == [(8, 2)[c] for c in some().label]
    assert rows(read_detections(tmp_path / "results.json", numbered)) == rows(some())


@pytest.mark.parametrize("confidence", [False, True])
def test_yolo_labels_are_a_yolo_data_set(tmp_path, images, confidence):
    found = some()
    written = write_detections(found, images, tmp_path, "yolo", confidence=confidence)
    assert sorted(file.relative_to(tmp_path).as_posix() for file in written) == [
        "data.yaml",
        "labels/3.txt",
        "labels/sub/2.txt",
        "labels/ü 1.txt",
    ]
    columns = {len(line.split()) for line in (tmp_path / "labels/sub/2.txt").read_text().splitlines()}
    assert columns == {6 if confidence else 5}
    (tmp_path / "images").symlink_to(images.paths[2].parent)
    again = read_images(tmp_path)
    assert again.classes == CLASSES
    order = [again.ids.index(name) for name in IDS]
    for i, j in enumerate(order):
        here, there = found[found.image == i], again.truth.image == j
        np.testing.assert_allclose(again.truth.xyxy[there], here.xyxy, atol=1e-3)
        np.testing.assert_array_equal(again.truth.label[there], here.label)


@pytest.mark.parametrize("whole", [True, False])
def test_voc_annotations_come_back_on_whole_pixels(tmp_path, images, whole):
    found = some(whole=whole)
    written = write_detections(found, images, tmp_path / "Annotations", "voc")
    assert [file.name for file in written] == ["ü 1.xml", "2.xml", "3.xml"]
    (tmp_path / "ImageSets/Main").mkdir(parents=True)
    (tmp_path / "ImageSets/Main/train.txt").write_text("\n".join(IDS), encoding="utf-8")
    again = read_images(tmp_path)
    order = np.argsort(found.image, kind="stable")
    np.testing.assert_array_equal(again.truth.image, found.image[order])
    # A fraction goes to the nearest pixel; only a box below one pixel goes further.
    np.testing.assert_allclose(again.truth.xyxy, found.xyxy[order], atol=0 if whole else 1)


def test_comp4_is_one_based_and_inclusive(tmp_path, images):
    found = Detections([1, 1], [[0, 0, 10, 20], [0.5, 1, 2, 3]], [0.25, -1], [1, 1], IDS, CLASSES)
    write_detections(found, images, tmp_path, "comp4", split="val")
    assert (tmp_path / "comp4_det_val_cat.txt").read_text() == ""
    assert (tmp_path / "comp4_det_val_hot dog.txt").read_text() == (
        "sub/2 0.25 1 1 10 20\nsub/2 -1.0 1.5 2 2 3\n"
    )


def test_label_studio_predictions_are_in_per_cent(tmp_path, images):
    found = Detections([1, 0], [[64, 48, 128, 480], [0, 0, 100, 50]], [2.5, -1], [1, 0], IDS, CLASSES)
    write_detections(found, images, tmp_path / "tasks.json", "labelstudio")
    tasks = json.loads((tmp_path / "tasks.json").read_text())
    assert tasks[0]["data"]["image"] == "/data/local-files/?d=%C3%BC%201.jpg"
    assert tasks[2]["predictions"][0]["result"] == []
    (result,) = tasks[1]["predictions"][0]["result"]
    assert result["value"] == {
        "x": 10,
        "y": 10,
        "width": 10,
        "height": 90,
        "rotation": 0,
        "rectanglelabels": ["hot dog"],
    }
    assert (result["original_width"], result["original_height"], result["score"]) == (640, 480, 2.5)
    # accepted in Label Studio and exported, they are images with truth
    for task in tasks:
        task["annotations"] = task.pop("predictions")
    (tmp_path / "tasks.json").write_text(json.dumps(tasks))
    again = read_images(images.paths[2].parent, tmp_path / "tasks.json")
    assert sorted(again.truth.xyxy.tolist()) == sorted(found.xyxy.tolist())


@pytest.mark.parametrize("kind", ["coco", "coco-results", "comp4", "csv"])
def test_boxes_end_where_their_photos_do(tmp_path, images, kind):
    """Of a photo of 100 x 50: one box over its edge, one beyond it."""
    over = Detections([0, 0], [[-5, 10, 5000, 40], [200, 10, 300, 40]], [0.9, 0.8], [0, 0], IDS, CLASSES)
    path = tmp_path / ("folder" if kind == "comp4" else f"x.{'csv' if kind == 'csv' else 'json'}")
    write_detections(over, images, path, kind)
    assert read_detections(path, images).xyxy.tolist() == [[0, 10, 100, 40]]


def test_a_threshold_is_a_number(tmp_path, images):
    with pytest.raises(InputError, match="not a number"):
        write_detections(some(), images, tmp_path / "x.csv", "csv", min_score=float("nan"))


@pytest.mark.parametrize("kind", FORMATS)
def test_writing_is_deterministic_and_empty_is_allowed(tmp_path, images, kind):
    first = write_detections(some(), images, tmp_path / "one", kind)
    second = write_detections(some(), images, tmp_path / "two", kind)
    assert [file.read_bytes() for file in first] == [file.read_bytes() for file in second]
    assert write_detections(some(0), images, tmp_path / "none", kind)


def test_no_photo_is_overwritten(tmp_path):
    for name in ("a.png", "images/a.png", "b.dat"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.new("RGB", (64, 64), "red" if "/" in name else "blue").save(tmp_path / name, "PNG")
    (tmp_path / "link.json").symlink_to(tmp_path / "a.png")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*")}
    paths = [tmp_path / "a.png", tmp_path / "images/a.png", tmp_path / "b.dat"]
    found = Detections([0], [[1, 2, 30, 40]], [0.8], [0], ids=("a", "i", "b"), classes=("cat",))
    for out, kind, says in (
        ("a.png", "csv", "one of the photos"),
        ("link.json", "coco", "one of the photos"),
        ("b.dat", "coco", "one of the photos"),
        ("new.png", "coco", "called as a photo is"),
    ):
        with pytest.raises(InputError, match=says):
            write_detections(found, paths, tmp_path / out, kind)
    with pytest.raises(InputError, match="one of the photos"):  # a.png would become images/a.png
        write_detections(found, paths, tmp_path, "yolo", photos=True)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.*")} == before


def test_every_format_is_in_the_docs():
    text = (Path(__file__).parents[2] / "docs" / "formats.md").read_text(encoding="utf-8")
    table = {line.split("`")[1] for line in text.splitlines() if line.startswith("| `")}
    assert set(FORMATS) <= table
