"""A folder of COCO's for trainers: both parts whole, and read by torchvision's and RF-DETR's own loaders."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from tag2box import Detections, write_detections

CLASSES = ("cat", "dog")


@pytest.fixture
def found(tmp_path):
    """Eight photos, each with a cat, every other one with a dog; below one folder, which is kept."""
    rng, rows = np.random.default_rng(0), []
    ids = tuple(f"photos/{i}" for i in range(8))
    (tmp_path / "from/photos").mkdir(parents=True)
    for i, name in enumerate(ids):
        pixels = rng.integers(0, 255, (60, 80, 3), np.uint8)
        Image.fromarray(pixels).save(tmp_path / "from" / f"{name}.jpg")
        rows += [(i, [1 + i, 2, 30, 40], 0.9, 0)] + [(i, [40, 20, 70, 50 + i], 0.8, 1)] * (i % 2)
    return Detections(*zip(*rows, strict=True), ids, CLASSES)


@pytest.fixture
def folder(found, tmp_path):
    paths = [tmp_path / "from" / f"{name}.jpg" for name in found.ids]
    write_detections(found, paths, tmp_path / "to", "coco-folder", photos=True, val=0.25)
    return tmp_path / "to"


def boxes_of(content):
    """(photo, class, box) of a COCO file."""
    name = {image["id"]: image["file_name"] for image in content["images"]}
    kind = {category["id"]: category["name"] for category in content["categories"]}
    rows = content["annotations"]
    assert [row["id"] for row in rows] == [*range(1, len(rows) + 1)]
    return [(name[row["image_id"]], kind[row["category_id"]], *row["bbox"]) for row in rows]


def ours(found):
    rows = zip(found.image, found.label, found.xyxy.tolist(), strict=True)
    return [(f"{found.ids[i]}.jpg", CLASSES[c], x1, y1, x2 - x1, y2 - y1) for i, c, (x1, y1, x2, y2) in rows]


def test_both_parts_together_are_all(found, folder):
    parts = {name: json.loads((folder / name / "_annotations.coco.json").read_text()) for name in NAMES}
    assert [len(part["images"]) for part in parts.values()] == [6, 2]
    for name, part in parts.items():
        assert [category["name"] for category in part["categories"]] == list(CLASSES)
        assert all((folder / name / image["file_name"]).is_file() for image in part["images"])
    assert sorted(boxes_of(parts["train"]) + boxes_of(parts["valid"])) == sorted(ours(found))


def test_without_a_share_there_is_one_part(found, tmp_path):
    paths = [tmp_path / "from" / f"{name}.jpg" for name in found.ids]
    (file,) = write_detections(found, paths, tmp_path / "one", "coco-folder")
    assert file == tmp_path / "one/train/_annotations.coco.json"
    whole = tmp_path / "whole.json"
    write_detections(found, paths, whole, "coco-instances")
    assert file.read_bytes() == whole.read_bytes()


NAMES = ("train", "valid")


@pytest.mark.filterwarnings("default")
def test_torchvision_reads_it(found, folder):
    datasets = pytest.importorskip("torchvision.datasets", reason="torchvision is not installed")
    seen = []
    for name in NAMES:
        data = datasets.CocoDetection(str(folder / name), str(folder / name / "_annotations.coco.json"))
        for number, (photo, rows) in zip(data.ids, data, strict=True):
            assert photo.size == (80, 60)
            file = data.coco.imgs[number]["file_name"]
            seen += [(file, CLASSES[row["category_id"] - 1], *row["bbox"]) for row in rows]
    assert sorted(seen) == sorted(ours(found))


@pytest.mark.filterwarnings("default")
def test_rfdetr_reads_it(found, folder):
    datasets = pytest.importorskip("rfdetr.datasets", reason="RF-DETR is not installed: pip install rfdetr")
    settings = {"square_resize_div_64": True, "segmentation_head": False, "multi_scale": False}
    settings |= {"expanded_scales": False, "patch_size": 16, "num_windows": 2}
    args = SimpleNamespace(dataset_file="roboflow", dataset_dir=str(folder), **settings)
    labels = []
    for part in ("train", "val"):
        data = datasets.build_roboflow(part, args, 128)
        targets = [data[i][1] for i in range(len(data))]
        labels += [label for target in targets for label in target["labels"].tolist()]
        assert all(((target["boxes"] >= 0) & (target["boxes"] <= 1)).all() for target in targets)
    assert sorted(labels) == sorted(found.label.tolist())  # it counts from 0
