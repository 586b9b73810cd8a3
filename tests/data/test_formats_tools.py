"""What other tools read of ours and we of theirs, with the tools themselves where they can be installed."""

import shutil
import warnings
from importlib.metadata import version

import numpy as np
import pytest
from PIL import Image

from tag2box import Detections, ImageSet, InputError, read_images, write_detections

SIZES = {"ü 1": (100, 50), "sub/2": (640, 480), "3": (30, 40), "4": (64, 64)}
IDS = tuple(SIZES)
CLASSES = ("cat", "hot dog")


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    root = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    for name, (width, height) in SIZES.items():
        (root / name).parent.mkdir(exist_ok=True)
        noise = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
        Image.fromarray(noise).save(root / f"{name}.jpg")
    paths = tuple(root / f"{name}.jpg" for name in IDS)
    return ImageSet(IDS, paths, np.zeros((len(IDS), 2), np.int8), CLASSES)


@pytest.fixture(scope="module")
def found():
    """Boxes on whole pixels in all images but the last."""
    rng = np.random.default_rng(1)
    image = np.repeat(np.arange(3), 3)
    size = np.array([SIZES[IDS[i]] for i in image])
    low = (rng.random((9, 2)) * size / 2).astype(int)
    high = low + 1 + (rng.random((9, 2)) * (size - low - 1)).astype(int)
    return Detections(image, np.hstack([low, high]), rng.random(9), np.arange(9) % 2, IDS, CLASSES)


def boxes(ids, classes, image, label, xyxy):
    """Boxes as sorted tuples of names and numbers."""
    rows = zip(image, label, np.asarray(xyxy, float).round(2).tolist(), strict=True)
    return sorted((ids[i], classes[c], tuple(box)) for i, c, box in rows)


def ours(found):
    return boxes(found.ids, found.classes, found.image, found.label, found.xyxy)


def truth(images):
    return boxes(images.ids, images.classes, images.truth.image, images.truth.label, images.truth.xyxy)


def in_one_folder(images, found, folder):
    """The photos copied to one folder, which is all that some readers know, and the boxes in them."""
    folder.mkdir(parents=True)
    ids = tuple(name.replace("/", "-") for name in IDS)
    here = [folder / f"{name}.jpg" for name in ids]
    for old, new in zip(images.paths, here, strict=True):
        shutil.copy(old, new)
    return here, Detections(found.image, found.xyxy, found.score, found.label, ids, CLASSES)


# Hugging Face


def test_an_image_folder_comes_back(tmp_path, images, found):
    write_detections(found, images, tmp_path, "huggingface", photos=True)
    again = read_images(tmp_path)
    assert again.ids == tuple(sorted(IDS))
    assert truth(again) == ours(found)
    assert all(
        path.read_bytes() == images.paths[IDS.index(name)].read_bytes()
        for name, path in zip(again.ids, again.paths, strict=True)
    )
    (tmp_path / "train").mkdir()
    for name in ("metadata.jsonl", "sub", *(f"{name}.jpg" for name in IDS if "/" not in name)):
        shutil.move(tmp_path / name, tmp_path / "train" / name)
    assert truth(read_images(tmp_path, split="train")) == ours(found)


def test_hugging_face_datasets_reads_the_same_boxes(tmp_path, images, found, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets = pytest.importorskip("datasets")
    write_detections(found, images, tmp_path / "data", "huggingface", photos=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loaded = datasets.load_dataset(
            "imagefolder", data_dir=str(tmp_path / "data"), cache_dir=str(tmp_path / "cache"), split="train"
        )
        rows = list(loaded)
    assert len(rows) == len(IDS)
    seen = []
    for row in rows:
        name = next(
            name for name, size in SIZES.items() if size == row["image"].size == (row["width"], row["height"])
        )
        for (x, y, w, h), kind in zip(row["objects"]["bbox"], row["objects"]["categories"], strict=True):
            seen.append((name, kind, (x, y, x + w, y + h)))
    assert sorted(seen) == ours(found)


# CVAT


def test_cvat_comes_back(tmp_path, images, found):
    (path,) = write_detections(found, images, tmp_path / "annotations.xml", "cvat")
    again = read_images(images.paths[0].parent, path)
    assert again.classes == CLASSES
    assert again.ids == tuple(sorted(IDS))
    assert truth(again) == ours(found)
    assert all(path.is_file() for path in again.paths)


CVAT = """<?xml version="1.0" encoding="utf-8"?>
<annotations><version>1.1</version>
<meta><project><labels><label><name>never</name></label></labels></project></meta>
<image id="0" name="b.jpg" subset="Train" width="100" height="50">
  <tag label="cat" source="manual"/>
  <box label="dog" occluded="0" xtl="10" ytl="20" xbr="30" ybr="40"><attribute name="x">y</attribute></box>
  <box label="dog" xtl="10" ytl="20" xbr="30" ybr="30" rotation="90.0"/>
</image>
<image id="1" name="a.jpg" subset="Train" width="100" height="50">
  <polygon label="cow" points="1.5,2;3,9;7,4"/>
  <mask label="cow" rle="1, 2" left="5" top="6" width="7" height="8"/>
  <ellipse label="cow" cx="20" cy="20" rx="5" ry="2"/>
  <points label="pin" points="1,2"/>
</image>
<image id="2" name="c.jpg" subset="Test" width="100" height="50"/>
</annotations>"""


def test_what_cvat_exports_is_read(tmp_path):
    for name in ("Train/a", "Train/b", "Test/c"):
        (tmp_path / "images" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (100, 50)).save(tmp_path / "images" / f"{name}.jpg")
    (tmp_path / "annotations.xml").write_text(CVAT)
    images = read_images(tmp_path, split="Train")
    assert images.ids == ("a", "b")
    assert images.classes == ("cat", "cow", "dog", "never", "pin")
    assert images.tags.tolist() == [[-1, 1, -1, -1, 1], [1, -1, 1, -1, -1]]
    np.testing.assert_allclose(
        images.truth.xyxy,
        [[1.5, 2, 7, 9], [5, 6, 12, 14], [15, 18, 25, 22], [10, 20, 30, 40], [15, 15, 25, 35]],
    )
    assert all(path.is_file() for path in images.paths)
    assert read_images(tmp_path, split="Test").ids == ("c",)
    with pytest.raises(InputError, match="the splits Test, Train: say which"):
        read_images(tmp_path)


@pytest.fixture(scope="module")
def datumaro():
    """Too old in its dependencies (Pillow, pandas) for the development packages: pip install datumaro."""
    return pytest.importorskip("datumaro", reason="datumaro is not installed")


def in_datumaro(datumaro, folder, kind):
    """Boxes as datumaro reads them."""
    data = datumaro.Dataset.import_from(str(folder), kind)
    names = [label.name for label in data.categories()[datumaro.AnnotationType.label]]
    return sorted(
        (item.id.removeprefix("images/"), names[box.label], tuple(float(round(v, 2)) for v in box.points))
        for item in data
        for box in item.annotations
        if box.type == datumaro.AnnotationType.bbox
    )


def test_datumaro_reads_cvat_and_coco(datumaro, tmp_path, images, found):
    """The library that CVAT's own imports are made of."""
    for kind, name, theirs in (
        ("cvat", "data.xml", "cvat"),
        ("coco-instances", "annotations/instances_x.json", "coco"),
    ):
        root = tmp_path / kind
        write_detections(found, images, root / name, kind)
        shutil.copytree(images.paths[0].parent, root / "images")
        assert in_datumaro(datumaro, root, theirs) == ours(found)


def test_datumaro_reads_yolo(datumaro, tmp_path, images, found):
    if version("datumaro").startswith("0."):
        pytest.skip("datumaro knows the layout of ultralytics from 1.0 on")
    here, found = in_one_folder(images, found, tmp_path / "photos")
    write_detections(found, here, tmp_path / "yolo", "yolo", photos=True, val=0.25)
    assert in_datumaro(datumaro, tmp_path / "yolo", "yolo") == ours(found)


def test_datumaro_reads_voc(datumaro, tmp_path, images, found):
    here, found = in_one_folder(images, found, tmp_path / "voc/JPEGImages")
    write_detections(found, here, tmp_path / "voc/Annotations", "voc")
    (tmp_path / "voc/labelmap.txt").write_text("".join(f"{name}:::\n" for name in CLASSES))  # its own
    (tmp_path / "voc/ImageSets/Main").mkdir(parents=True)
    (tmp_path / "voc/ImageSets/Main/train.txt").write_text("".join(f"{name}\n" for name in found.ids))
    seen = in_datumaro(datumaro, tmp_path / "voc", "voc_detection")
    # It leaves VOC's first pixel at 1, where the devkit and ours have it at 0.
    assert [(*names, (x - 1, y - 1, *high)) for *names, (x, y, *high) in seen] == ours(found)


# YOLO


def test_yolo_for_training(tmp_path, images, found):
    """Photos where they are looked for, and a share of them for validation."""
    written = write_detections(found, images, tmp_path, "yolo", photos=True, val=0.25)
    assert len(written) == 1 + 2 * len(IDS)
    train, val = (read_images(tmp_path, split=split) for split in ("train", "val"))
    assert (len(train), len(val)) == (3, 1)
    assert sorted(truth(train) + truth(val)) == ours(found)
    again = write_detections(found, images, tmp_path / "again", "yolo", photos=True, val=0.25)
    assert [file.relative_to(tmp_path / "again") for file in again] == [
        file.relative_to(tmp_path) for file in written
    ]
    for share in (0.001, 0.999):
        write_detections(found, images, tmp_path / str(share), "yolo", photos=True, val=share)
        assert all(len(read_images(tmp_path / str(share), split=split)) for split in ("train", "val"))


def test_validation_has_its_share_of_every_class(tmp_path):
    path = tmp_path / "a.jpg"
    Image.new("RGB", (10, 10)).save(path)
    kinds = [0] * 40 + [1] * 20 + [2] * 8
    ids = tuple(f"{i}" for i in range(100))  # the last 32 have nothing in them
    found = Detections(range(68), [[1, 2, 3, 4]] * 68, [1] * 68, kinds, ids, ("cat", "cow", "dog"))
    write_detections(found, [path] * 100, tmp_path / "out", "yolo", photos=True, val=0.25)
    counts = (read_images(tmp_path / "out", split="val").tags == 1).sum(axis=0)
    assert counts.tolist() == [10, 5, 2]
    assert len(read_images(tmp_path / "out", split="train")) == 75


def test_ultralytics_reads_the_same_boxes(tmp_path, images, found):
    pytest.importorskip("ultralytics")
    from ultralytics.data.dataset import YOLODataset
    from ultralytics.data.utils import check_det_dataset

    write_detections(found, images, tmp_path, "yolo", photos=True, val=0.25)
    data = check_det_dataset(str(tmp_path / "data.yaml"))
    seen = []
    for split in ("train", "val"):
        for label in YOLODataset(data[split], data=data, augment=False).labels:
            name = label["im_file"].split(f"/images/{split}/")[1].removesuffix(".jpg")
            width, height = SIZES[name]
            for kind, (cx, cy, w, h) in zip(label["cls"][:, 0], label["bboxes"], strict=True):
                box = (
                    (cx - w / 2) * width,
                    (cy - h / 2) * height,
                    (cx + w / 2) * width,
                    (cy + h / 2) * height,
                )
                seen.append((name, data["names"][int(kind)], tuple(round(float(side), 2) for side in box)))
    assert sorted(seen) == ours(found)


# supervision


@pytest.fixture
def supervision():
    return pytest.importorskip("supervision")


def test_supervision_holds_the_same_boxes_and_draws_them(supervision, images, found):
    for i in range(len(IDS)):
        part = found[found.image == i]
        theirs = part.to_supervision()
        assert isinstance(theirs, supervision.Detections)
        np.testing.assert_array_equal(theirs.xyxy, part.xyxy)
        np.testing.assert_array_equal(theirs.class_id, part.label)
        np.testing.assert_allclose(theirs.confidence, part.score, rtol=1e-6)
        assert theirs["class_name"].tolist() == [CLASSES[c] for c in part.label]
        scene = np.zeros((*SIZES[IDS[i]][::-1], 3), np.uint8)
        drawn = supervision.BoxAnnotator(thickness=1).annotate(scene.copy(), theirs)
        assert bool((drawn != scene).any()) == bool(len(part))


def test_supervision_reads_our_exports(supervision, tmp_path, images, found):
    photos = tmp_path / "photos"
    here, found = in_one_folder(images, found, photos)
    write_detections(found, here, tmp_path / "yolo", "yolo")
    write_detections(found, here, tmp_path / "voc", "voc")
    write_detections(found, here, tmp_path / "boxes.json", "coco-instances")
    sets = supervision.DetectionDataset
    folder = str(photos)
    read = {
        "yolo": sets.from_yolo(folder, str(tmp_path / "yolo/labels"), str(tmp_path / "yolo/data.yaml")),
        "voc": sets.from_pascal_voc(folder, str(tmp_path / "voc")),
        "coco": sets.from_coco(folder, str(tmp_path / "boxes.json")),
    }
    for kind, data in read.items():
        seen = []
        for path, _, theirs in data:
            name = path.rpartition("/")[2].removesuffix(".jpg")
            sides = theirs.xyxy.astype(float).round(2).tolist()
            seen += [
                (name, data.classes[c], tuple(box)) for c, box in zip(theirs.class_id, sides, strict=True)
            ]
        assert sorted(seen) == ours(found), kind
