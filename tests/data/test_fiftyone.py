"""FiftyOne: tags in and boxes out, with the real library and its database where it is installed and starts.

It is too heavy for the development packages (and needs MongoDB): `pip install fiftyone`, and set
FIFTYONE_DATABASE_URI where its own MongoDB does not start.
"""

import os

import numpy as np
import pytest
from PIL import Image

from tag2box import Detections, read_fiftyone
from tag2box.data.formats.fiftyone_samples import sample_ids
from tag2box.errors import InputError

SIZES = {"a": (40, 30), "sub/b": (64, 48), "sub/c": (20, 50)}
BOXES = np.array([[1, 2, 21, 12], [0, 0, 40, 30], [8, 6, 64, 48]], np.float32)


@pytest.fixture(scope="module")
def fo():
    os.environ.setdefault("FIFTYONE_DO_NOT_TRACK", "true")
    fiftyone = pytest.importorskip("fiftyone", reason="FiftyOne is not installed")
    try:
        fiftyone.list_datasets()
    except Exception as error:
        pytest.skip(f"FiftyOne is installed, but its database does not start: {error}")
    return fiftyone


@pytest.fixture
def dataset(fo, tmp_path):
    made = fo.Dataset()
    for name, size in SIZES.items():
        path = tmp_path / f"{name}.png"
        path.parent.mkdir(exist_ok=True)
        Image.new("RGB", size).save(path)
        made.add_sample(fo.Sample(filepath=str(path)))
    yield made
    made.delete()


def test_every_kind_of_field_is_tags(fo, dataset):
    def classes(*names):
        return fo.Classifications(classifications=[fo.Classification(label=name) for name in names])

    values = {
        "tags": [["cat", "dog"], [], ["dog"]],
        "text": ["cat", None, "dog"],
        "one": [fo.Classification(label="cat"), None, fo.Classification(label="dog")],
        "many": [classes("cat", "dog"), classes(), classes("dog")],
    }
    for field, content in values.items():
        dataset.set_values(field, content)
        images = read_fiftyone(dataset, field)
        assert images.classes == ("cat", "dog")
        assert images.ids == tuple(dataset.values("id"))
        assert [str(path) for path in images.paths] == dataset.values("filepath")
        assert images.truth is None
        unknown = [0, 0] if field in {"text", "one"} else [-1, -1]
        both = [1, 1] if field in {"tags", "many"} else [1, -1]
        assert images.tags.tolist() == [both, unknown, [-1, 1]]
    assert len(read_fiftyone(dataset.match_tags("cat"))) == 1
    assert read_fiftyone(dataset, classes=["dog"]).classes == ("dog",)


def test_boxes_come_back(fo, dataset):
    ids = tuple(dataset.values("id"))
    found = Detections([0, 0, 1], BOXES, [0.25, 0.5, 0.75], [1, 0, 1], ids, ("cat", "dog"))
    found.to_fiftyone(dataset)
    theirs = dataset.values("tag2box.detections")
    assert [[each.label for each in boxes] for boxes in theirs] == [["dog", "cat"], ["dog"], []]
    assert [each.confidence for boxes in theirs for each in boxes] == [0.25, 0.5, 0.75]
    again = read_fiftyone(dataset, "tag2box")
    np.testing.assert_allclose(again.truth.xyxy, BOXES, atol=1e-4)
    assert again.truth.label.tolist() == [1, 0, 1]
    assert again.truth.image.tolist() == [0, 0, 1]
    assert again.tags.tolist() == [[1, 1], [-1, 1], [-1, -1]]


def test_fiftyone_evaluates_them_as_right(fo, dataset):
    """Its own evaluation, with the boxes as predictions and as truth."""
    ids = tuple(dataset.values("id"))
    found = Detections([0, 0, 1], BOXES, [0.25, 0.5, 0.75], [1, 0, 1], ids, ("cat", "dog"))
    found.to_fiftyone(dataset, "truth")
    found.to_fiftyone(dataset, "found")
    report = dataset.evaluate_detections("found", gt_field="truth").report()
    assert report["weighted avg"]["f1-score"] == 1.0


def test_images_are_found_by_their_paths_or_positions(fo, dataset):
    found = Detections([0, 1], BOXES[:2] / 2, [1, 1], [0, 0], ("c", "sub/b"), ("cat",))
    found.to_fiftyone(dataset, "by_path")
    assert [each and len(each.detections) for each in dataset.values("by_path")] == [None, 1, 1]
    plain = Detections([2], BOXES[:1] / 2, [1], [0])
    plain.to_fiftyone(dataset.view(), "by_place")
    assert [len(each.detections) for each in dataset.values("by_place")] == [0, 0, 1]


def test_what_does_not_fit_is_one_line(fo, dataset):
    dataset.set_values("number", [1, 2, 3])
    for call, says in [
        (lambda: read_fiftyone(dataset, "nothing"), "no field 'nothing'"),
        (lambda: read_fiftyone(dataset.limit(0)), "no samples"),
        (lambda: read_fiftyone(dataset, "number"), "'number' holds int"),
        (lambda: Detections([0], BOXES[:1], [1], [0], ("gone",)).to_fiftyone(dataset), "not in the dataset"),
        (lambda: Detections([3], BOXES[:1], [1], [0]).to_fiftyone(dataset), "3 samples"),
    ]:
        with pytest.raises(InputError, match=says):
            call()


class Samples:
    """As much of a dataset as finding samples needs."""

    def values(self, fields):
        assert fields == ["id", "filepath"]
        return [["1", "2", "3"], ["/x/a.png", "/x/b/a.png", "/x/b/c.jpg"]]


def test_samples_by_the_ends_of_their_paths():
    assert sample_ids(["1", "x/a", "b/a.png", "c"], Samples()) == ["1", "1", "2", "3"]
    with pytest.raises(InputError, match="several there have their name"):
        sample_ids(["a"], Samples())


def test_without_fiftyone_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "fiftyone", None)
    with pytest.raises(InputError, match="pip install fiftyone"):
        Detections([], np.zeros((0, 4)), [], []).to_fiftyone(Samples())
