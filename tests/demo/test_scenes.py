import csv
import json

import numpy as np
import pytest
from PIL import Image, ImageDraw
from tests._schemas import check

from tag2box import InputError, read_images
from tag2box.boxes import area
from tag2box.demo import cutouts
from tag2box.demo.scenes import CLASSES, box_of, make_scenes, visible

pytest.importorskip("skimage")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("scenes")


@pytest.fixture(scope="module")
def scenes(folder):
    return make_scenes(folder, n_train=15, n_test=5)


def files(folder):
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*.*"))}


def size_of(path):
    with Image.open(path) as photo:
        return photo.size


def test_the_same_seed_gives_the_same_bytes_and_another_one_others(scenes, folder, tmp_path):
    seen = []
    make_scenes(tmp_path / "again", n_train=15, n_test=5, progress=lambda *now: seen.append(now))
    assert seen == [("making scenes", i, 20) for i in range(1, 21)]
    assert files(tmp_path / "again") == files(folder)
    make_scenes(tmp_path / "other", seed=1, n_train=5, n_test=5)
    photos = [{b for p, b in files(f).items() if p.suffix == ".jpg"} for f in (folder, tmp_path / "other")]
    assert [len(p) for p in photos] == [20, 10]  # no scene twice, no test scene among the training scenes
    assert not photos[0] & photos[1]


def test_classes_are_balanced_and_some_scenes_have_none_and_some_two(scenes):
    shown = (scenes.train.tags == 1).sum(axis=1)
    assert np.bincount(shown).tolist() == [3, 9, 3]
    assert (scenes.train.tags == 1).sum(axis=0).tolist() == [5, 5, 5]


@pytest.mark.parametrize("split", ["train", "test"])
def test_tags_on_disk_are_the_true_objects_and_hold_no_box(scenes, folder, split):
    images = getattr(scenes, split)
    with (folder / split / "tags.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["file", "tags"]
    for i, (name, tags) in enumerate(rows[1:]):
        true = {images.classes[c] for c in images.truth.label[images.truth.image == i]}
        assert (
            set(tags.split(";")) - {""} == true == {CLASSES[c] for c in np.flatnonzero(images.tags[i] == 1)}
        )
        assert images.paths[i].name == name
        assert min(size_of(images.paths[i])) >= 300


def test_the_folder_read_as_anyone_would_holds_tags_and_no_boxes(scenes, folder):
    images = read_images(folder / "train")
    assert images.truth is None
    assert (images.ids, images.classes) == (scenes.train.ids, scenes.train.classes)
    np.testing.assert_array_equal(images.tags, scenes.train.tags)


def test_the_truth_is_coco_and_the_same_as_in_memory(scenes, folder):
    images, expected = read_images(folder / "train", tags=folder / "train" / "truth.json"), scenes.train
    assert (images.ids, images.classes) == (expected.ids, expected.classes)
    for name in ("image", "xyxy", "label"):
        np.testing.assert_array_equal(getattr(images.truth, name), getattr(expected.truth, name))


def test_true_boxes_lie_in_the_scene_and_are_neither_tiny_nor_all_of_it(scenes):
    for images in (scenes.train, scenes.test):
        for i, box in zip(images.truth.image, images.truth.xyxy, strict=True):
            width, height = size_of(images.paths[i])
            assert (box[:2] >= 0).all()
            assert (box[2:] <= (width, height)).all()
            assert 0.04 < area(box[None])[0] / (width * height) < 0.8


def square(x, y, side, color, size=(60, 40)):
    picture = Image.new("RGBA", size)
    ImageDraw.Draw(picture).rectangle([x, y, x + side - 1, y + side - 1], fill=color)
    return picture


def test_a_box_is_what_the_layers_in_front_leave():
    seen = visible([square(10, 10, 20, "red"), square(20, 0, 40, "blue")])
    assert box_of(seen[0]) == [10, 10, 20, 30]
    assert box_of(seen[1]) == [20, 0, 60, 40]
    assert seen[0].sum() == 200


def test_missing_photographs_are_one_line_with_the_command(monkeypatch, tmp_path):
    monkeypatch.setattr(cutouts, "find_spec", lambda package: None)
    for cached in (cutouts.photograph, cutouts.cutout):
        cached.cache_clear()
    with pytest.raises(InputError, match=r'^[^\n]*pip install --upgrade "tag2box\[demo\]"; in a clone: '):
        make_scenes(tmp_path, n_train=5, n_test=5)


def test_too_few_scenes_are_refused(tmp_path):
    with pytest.raises(InputError, match="n_test must be at least 5"):
        make_scenes(tmp_path, n_train=5, n_test=4)


@pytest.mark.slow
def test_the_demo_learns_writes_its_pages_and_computes_nothing_twice(tmp_path):
    from tag2box.demo.demo import run_demo

    def finished():
        lines = (tmp_path / "run" / "events.jsonl").read_text().splitlines()
        return sum(json.loads(line)["event"] == "finished" for line in lines)

    answer = run_demo(tmp_path)
    check("demo", answer.to_dict())
    assert answer.learned.mean >= 0.8
    assert answer.scores.mean >= 0.3
    assert answer.report.read_text().startswith("<!doctype html>")
    assert f"{answer.learned.mean:.2f}" in str(answer)
    done = finished()
    again = run_demo(tmp_path)
    assert finished() == done
    assert json.dumps(again.to_dict() | {"seconds": 0}) == json.dumps(answer.to_dict() | {"seconds": 0})
