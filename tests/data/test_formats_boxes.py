"""Detections written and read again."""

import contextlib
import csv
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


def test_our_own_files_are_read_too(tmp_path):
    for suffix in ("npz", "json"):
        some().save(tmp_path / f"x.{suffix}")
        assert rows(read_detections(tmp_path / f"x.{suffix}")) == rows(some())


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


def test_csv_reads_as_csv_and_min_score_holds(tmp_path, images):
    write_detections(some(), images, tmp_path / "x.csv", "csv", min_score=0)
    with (tmp_path / "x.csv").open(encoding="utf-8") as file:
        records = list(csv.DictReader(file))
    assert len(records) == (some().score >= 0).sum()
    assert {record["file"] for record in records} == {"ü 1.jpg", "sub/2.jpg"}


def test_files_stand_for_images(tmp_path, images):
    whole, part = tmp_path / "whole.json", tmp_path / "part.json"
    write_detections(some(), images, whole, "coco")
    write_detections(some(), [str(path) for path in images.paths], part, "coco-instances")  # its other name
    assert whole.read_bytes() == part.read_bytes()
    bare = Detections([1], [[0, 0, 5, 5]], [1], [3])
    write_detections(bare, images.paths, tmp_path / "x.csv", "csv")
    assert (tmp_path / "x.csv").read_text().splitlines()[1] == "2.jpg,3,1.0,0,0,5,5"


@pytest.mark.parametrize("kind", FORMATS)
def test_writing_is_deterministic_and_empty_is_allowed(tmp_path, images, kind):
    first = write_detections(some(), images, tmp_path / "one", kind)
    second = write_detections(some(), images, tmp_path / "two", kind)
    assert [file.read_bytes() for file in first] == [file.read_bytes() for file in second]
    assert write_detections(some(0), images, tmp_path / "none", kind)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_name_of_240_letters_is_written_whole(tmp_path, kind):
    """Of every length that a name may have; what would be longer is refused before the first file."""
    for suffix, n in ((".jpg", 251), (".jpg", 240), (".jpeg", 250)):
        path = tmp_path / kind / f"{'ü' * 100}{'x' * (n - 200)}{suffix}"
        path.parent.mkdir(exist_ok=True)
        Image.new("RGB", (64, 64)).save(path)
        found = Detections([0], [[1, 2, 30, 40]], [0.8], [0], ids=(path.stem,), classes=("cat",))
        write_detections(found, [path], tmp_path / f"{kind}-{n}", kind)
    long = "x" * 252
    found = Detections([0], [[1, 2, 30, 40]], [0.8], [0], ids=(long,), classes=(long,))
    out = tmp_path / "long"
    if kind in ("voc", "yolo", "comp4"):
        with pytest.raises(InputError, match="has more than the 255 bytes"):
            write_detections(found, [path], out, kind)
        assert not out.exists()


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


def test_wrong_use_is_one_line(tmp_path, images):
    found = some()
    (tmp_path / "file").touch()
    slash = Detections([0], [[0, 0, 1, 1]], [1], [0], IDS, ("a/b",))
    up = Detections([0], [[0, 0, 1, 1]], [1], [0], ("../a",), CLASSES)
    twins = Detections([], [], [], [], ("a.jpg", "a.png"), CLASSES)
    shades = [tmp_path / name for name in twins.ids]
    for path in shades:
        Image.new("RGB", (4, 4)).save(path)
    for arguments, says in [
        ((found, images, tmp_path / "x", "xml"), "no format 'xml': there are coco"),
        ((found, images, tmp_path, "csv"), "is a folder"),
        ((found, images, tmp_path / "file", "voc"), "is a file"),
        ((found, images.take([1, 2]), tmp_path / "x", "csv"), "1 images with detections are not"),
        ((found, images.paths[:2], tmp_path / "x", "csv"), "3 ids and 2 files"),
        ((Detections([5], [[0, 0, 1, 1]], [1], [0]), images, tmp_path / "x", "csv"), "beyond those given"),
        ((slash, images, tmp_path / "x", "comp4"), "cannot be part of a file name"),
        ((up, images.paths[:1], tmp_path / "x", "voc"), "outside of the folder"),
        ((twins, shades, tmp_path / "x", "yolo"), "share the label file"),
        ((found, [Path("none.jpg")] * 3, tmp_path / "x", "voc"), "none.jpg: no such file"),
    ]:
        with pytest.raises(InputError, match=says) as error:
            write_detections(*arguments)
        assert "\n" not in str(error.value)
    with pytest.raises(InputError, match="underscore"):
        write_detections(found, images, tmp_path / "x", "comp4", split="a_b")
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("x.json", "[]", "give the images too"),
        ("x.json", '{"images": [], "annotations": [{}], "categories": []}', "not COCO as it should be"),
        ("x.json", "{}", "no detections known here"),
        ("x.txt", "", "no detections known here"),
        ("x.csv", "a,b\n", "expected the columns"),
        ("x.csv", "file,class,score,x1,y1,x2,y2\na,b,1,2\n", "line 2"),
        ("x.csv", "file,class,score,x1,y1,x2,y2\na,b,c,1,1,2,2\n", "line 2"),
        ("x.csv", "file,class,score,x1,y1,x2,y2\na,b,1,5,5,2,2\n", "x.csv: boxes must be finite"),
        ("folder/comp4_det_test_cat.txt", "a 1 2 3\n", "line 1: expected image, score"),
        ("folder/other.txt", "", "expected files such as comp4_det_test_cat.txt"),
    ],
)
def test_bad_detections_are_one_line(tmp_path, name, content, says):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)
    with pytest.raises(InputError) as error:
        read_detections(tmp_path / name.split("/")[0])
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_coco_results_of_other_images_are_refused(tmp_path, images):
    path = tmp_path / "x.json"
    for item, says in [
        ({"image_id": 9}, "9 is missing or unknown"),
        ({"score": "high"}, "could not convert"),
    ]:
        record = {"image_id": 1, "category_id": 1, "bbox": [0, 0, 1, 1], "score": 1} | item
        path.write_text(json.dumps([record]))
        with pytest.raises(InputError, match=says):
            read_detections(path, images)
    path = tmp_path / "comp4"
    write_detections(some(), images, path, "comp4")
    with pytest.raises(InputError, match="not among those given"):
        read_detections(path, images.take([2]))
    write_detections(some(), images, path, "comp4", split="val")
    with pytest.raises(InputError, match="the splits test, val"):
        read_detections(path)
    with pytest.raises(InputError, match="no such file"):
        read_detections(tmp_path / "none.csv")


def test_every_format_is_in_the_docs():
    text = (Path(__file__).parents[2] / "docs" / "formats.md").read_text(encoding="utf-8")
    table = {line.split("`")[1] for line in text.splitlines() if line.startswith("| `")}
    assert set(FORMATS) <= table


def test_the_example_in_the_docs(tmp_path):
    photo = tmp_path / "000012.jpg"
    Image.new("RGB", (500, 375)).save(photo)
    found = Detections([0], [[48, 240, 195, 371]], [0.87], [0], ("000012",), ("car",))
    text = (Path(__file__).parents[2] / "docs" / "formats.md").read_text(encoding="utf-8")
    for kind, file in [("csv", "x.csv"), ("comp4", ""), ("yolo", ""), ("coco-results", "x.json")]:
        written = write_detections(found, [photo], tmp_path / kind / file, kind)
        line = written[-1].read_text().splitlines()[-1]
        assert f"{kind:16}{line}\n" in text
