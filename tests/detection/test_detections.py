import json
import sys
import zipfile
from types import SimpleNamespace

import numpy as np
import pytest
import supervision
from hypothesis import given
from hypothesis import strategies as st

from tag2box.boxes import nms
from tag2box.detection.detections import COLUMNS, Detections
from tag2box.detection.suppression import detect_windows
from tag2box.errors import InputError
from tag2box.runtime.arrays import sealed

BOX = [0, 0, 4, 4]


def random_detections(n=30, seed=0, **names):
    rng = np.random.default_rng(seed)
    corner = rng.random((n, 2)) * 100
    return Detections(
        image=rng.integers(0, 5, n),
        xyxy=np.hstack([corner, corner + 1 + rng.random((n, 2)) * 50]),
        score=rng.standard_normal(n),
        label=rng.integers(0, 3, n),
        **names,
    )


def named(n=30, seed=0):
    return random_detections(n, seed, ids=("a", "b", "ü", "d", "e"), classes=("cat", "dog", "cow"))


def assert_same(a, b):
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
        assert getattr(a, name).dtype == getattr(b, name).dtype
    assert (a.ids, a.classes) == (b.ids, b.classes)


@pytest.mark.parametrize("index", [3, -1, slice(2, 9, 3), [5, 1, 5], np.arange(30) % 4 == 0, []])
def test_columns_are_sliced_together(index):
    whole = named()
    part = whole[index]
    for name in COLUMNS:
        rows = getattr(whole, name)[index]
        np.testing.assert_array_equal(getattr(part, name), rows.reshape(getattr(part, name).shape))
    assert (part.ids, part.classes) == (whole.ids, whole.classes)


def test_concatenate_undoes_slicing():
    whole = named()
    assert_same(Detections.concatenate([whole[:7], whole[7:7], whole[7:]]), whole)
    with pytest.raises(InputError, match="same ids and classes"):
        Detections.concatenate([whole, random_detections()])
    with pytest.raises(InputError, match="nothing to concatenate"):
        Detections.concatenate([])
    with pytest.raises(InputError, match="ids already"):
        Detections.concatenate([whole], ids="vwxyz")
    with pytest.raises(InputError, match="below 1"):
        Detections.concatenate([random_detections()], ids=["only one"])


def test_lists_become_arrays_of_the_house():
    one = Detections([0], [BOX], [1], [2])
    assert [getattr(one, name).dtype for name in COLUMNS] == [np.intp, np.float32, np.float64, np.intp]
    assert len(Detections([], [], [], [])) == 0


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"image": [0, 1]}, "one length"),
        ({"image": [-1]}, "at least 0"),
        ({"image": [1], "ids": ("a",)}, "below 1"),
        ({"label": [1], "classes": ("a",)}, "below 1"),
        ({"label": [0.5]}, "whole number"),
        ({"label": [[0]]}, "whole number"),
        ({"score": [np.nan]}, "finite"),
        ({"score": [[1]]}, "finite"),
        ({"xyxy": [[4, 4, 0, 0]]}, "x2 > x1"),
        ({"ids": ("a", "a")}, "must differ"),
        ({"classes": (1, 2)}, "is no text"),
    ],
)
def test_bad_columns_are_refused(wrong, says):
    with pytest.raises(InputError, match=says):
        Detections(**{"image": [0], "xyxy": [BOX], "score": [1.0], "label": [0]} | wrong)


@pytest.mark.parametrize("name", ["d.npz", "d.json"])
@pytest.mark.parametrize(
    "detections", [named(), named(0), random_detections()], ids=["named", "none", "bare"]
)
def test_load_gives_back_what_was_saved(tmp_path, name, detections):
    detections.save(tmp_path / name)
    assert_same(Detections.load(tmp_path / name), detections)
    first = (tmp_path / name).read_bytes()
    Detections.load(str(tmp_path / name)).save(tmp_path / name)
    assert (tmp_path / name).read_bytes() == first


def test_a_pickle_in_the_file_is_never_opened(tmp_path):
    class Bomb:
        def __reduce__(self):
            return pytest.fail, ("the pickle was opened",)

    columns = {name: getattr(named(1), name) for name in COLUMNS}
    columns["image"] = np.array([Bomb()], dtype=object)
    header = np.frombuffer(b'{"format": "tag2box detections 1", "ids": null, "classes": null}', np.uint8)
    np.savez(tmp_path / "d.npz", header=header, **columns)
    (tmp_path / "d.npz").write_bytes(sealed((tmp_path / "d.npz").read_bytes()))
    with pytest.raises(InputError, match="does not hold detections"):
        Detections.load(tmp_path / "d.npz")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("d.npz", b""),
        ("d.npz", b"not a zip"),
        ("d.npz", b"PK\x03\x04 cut off"),
        ("d.json", b""),
        ("d.json", b"\xff\xfe"),
        ("d.json", b"[1, 2]"),
        ("d.json", b"{}"),
        ("d.json", b'{"format": "tag2box detections 99"}'),
        ("d.json", b'{"format": "tag2box detections 1", "ids": 3, "classes": null}'),
    ],
)
def test_other_files_are_refused_in_one_line(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=r"does not hold detections as tag2box saves them"):
        Detections.load(tmp_path / name)


def test_a_file_with_a_wrong_column_is_refused(tmp_path):
    named().save(tmp_path / "d.json")
    content = json.loads((tmp_path / "d.json").read_text())
    content["score"] = content["score"][:-1]
    (tmp_path / "d.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match="one length"):
        Detections.load(tmp_path / "d.json")
    with zipfile.ZipFile(tmp_path / "d.npz", "w") as empty:
        empty.writestr("other.npy", b"")
    with pytest.raises(InputError, match="does not hold"):
        Detections.load(tmp_path / "d.npz")


def test_paths_that_cannot_be_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"\.npz or \.json, but the file is 'd\.pkl'"):
        named().save(tmp_path / "d.pkl")
    with pytest.raises(InputError, match="is not a file"):
        Detections.load(tmp_path / "d.npz")


@given(st.integers(0, 60), st.integers(1, 4), st.integers(0, 10_000), st.sampled_from([-np.inf, 0.0, 9.0]))
def test_detect_windows_is_nms_class_by_class(n, n_classes, seed, min_score):
    rng = np.random.default_rng(seed)
    corner = rng.integers(0, 30, (n, 2))
    windows = np.hstack([corner, corner + rng.integers(1, 30, (n, 2))]).astype(np.float32)
    scores = rng.integers(-3, 4, (n, n_classes)).astype(float)
    found = detect_windows(scores, windows, image=7, min_score=min_score)
    expected = [
        (7, windows[row].tolist(), scores[row, label], label)
        for label in range(n_classes)
        for row in nms(windows, scores[:, label], 0.3)
        if scores[row, label] >= min_score  # a poor window never suppresses a better one
    ]
    rows = zip(found.image, found.xyxy.tolist(), found.score, found.label, strict=True)
    assert list(rows) == expected


def test_voted_boxes_do_not_lie_on_each_other():
    """Two windows on either side of many poorer ones: both are voted onto the middle, and one is left."""
    rng = np.random.default_rng(0)
    middle = np.array([5, 0, 26, 20]) + rng.uniform(-1, 1, (30, 4))
    windows = np.float32([[0, 0, 20, 20], [11, 0, 31, 20], *middle])
    scores = np.array([[1.0], [0.9], *[[0.8]] * 30])
    assert len(nms(windows, scores[:, 0], 0.3)) == 2
    assert len(detect_windows(scores, windows, vote_iou=0.3)) == 1


def test_detect_windows_hands_the_names_on_and_refuses_what_does_not_fit():
    found = detect_windows([[1.0, 2.0]], [BOX], image=1, classes=["cat", "dog"])
    assert (found.classes, found.label.tolist()) == (("cat", "dog"), [0, 1])
    assert Detections.concatenate([found, found], ids=["a", "b"]).ids == ("a", "b")
    with pytest.raises(InputError, match="one row per window"):
        detect_windows([1.0], [BOX])
    with pytest.raises(InputError, match="one column per class"):
        detect_windows([[1.0]], [BOX], classes=["cat", "dog"])
    with pytest.raises(InputError, match="finite"):
        detect_windows([[np.nan]], [BOX])


def test_detect_windows_of_an_image_without_windows():
    assert len(detect_windows(np.empty((0, 3)), [])) == 0
    assert len(detect_windows(np.empty((2, 0)), [BOX, BOX])) == 0


def test_supervision_has_the_same_boxes_scores_and_names():
    ours = named()
    theirs = ours.to_supervision()
    assert isinstance(theirs, supervision.Detections)
    np.testing.assert_array_equal(theirs.xyxy, ours.xyxy)
    np.testing.assert_allclose(theirs.confidence, ours.score, rtol=1e-6)
    np.testing.assert_array_equal(theirs.class_id, ours.label)
    assert theirs["class_name"].tolist() == [ours.classes[c] for c in ours.label]
    assert theirs["image_id"].tolist() == [ours.ids[i] for i in ours.image]
    np.testing.assert_array_equal(theirs[theirs["image"] == 2].xyxy, ours[ours.image == 2].xyxy)
    assert set(random_detections().to_supervision().data) == {"image"}


@pytest.mark.parametrize("iou", [0.3, 0.7])
def test_supervision_suppresses_the_same_boxes(iou):
    """Its non-maximum suppression per class is the oracle of ours; boxes of one image, no scores equal."""
    rng = np.random.default_rng(0)
    corner = rng.uniform(0, 60, size=(80, 2))
    xyxy = np.concatenate([corner, corner + rng.uniform(15, 40, size=(80, 2))], axis=1).astype(np.float32)
    scores = rng.permutation(160).reshape(80, 2) / 160
    ours = detect_windows(scores, xyxy, iou_threshold=iou)
    every = Detections(np.zeros(160, int), np.tile(xyxy, (2, 1)), scores.T.ravel(), np.repeat([0, 1], 80))
    theirs = every.to_supervision().with_nms(iou)
    assert len(ours) < 160

    def as_set(xyxy, label):
        return {(*box, c) for box, c in zip(xyxy.tolist(), label.tolist(), strict=True)}

    assert as_set(ours.xyxy, ours.label) == as_set(theirs.xyxy, theirs.class_id)


def test_above_keeps_what_is_worth_showing():
    sure = Detections([0, 0], [BOX, BOX], [0.2, 0.9], [0, 0])
    assert sure.above().score.tolist() == [0.9]
    assert len(sure.above(0.1)) == 2
    margins = Detections([0, 0], [BOX, BOX], [-0.2, 0.9], [0, 0])
    assert len(margins.above()) == 2
    with pytest.raises(InputError, match="not a number"):
        sure.above(float("nan"))


def test_what_is_printed_is_a_short_table():
    lines = str(named()).splitlines()
    assert lines[0] == "30 boxes in 5 images; the best 10"
    assert len(lines) == 12
    assert [float(line.split()[2]) for line in lines[2:]] == sorted(named().score.round(2))[:-11:-1]
    assert str(named(0)) == "0 boxes in 0 images"


def test_plot_draws_the_boxes_of_one_photo():
    photo = np.full((300, 400, 3), 128, np.uint8)
    found = Detections(
        [0, 0], [[50, 60, 150, 200], [200, 60, 300, 200]], [0.9, 0.1], [0, 0], classes=("cat",)
    )
    for picture in (found.plot(photo), found.with_photos([photo]).plot()):
        assert picture.size == (400, 300)
        changed = np.abs(np.asarray(picture).astype(int) - 128).max(axis=2) > 40
        assert changed[60:200, 50].all()
        assert not changed[:, 200:].any()  # not sure enough
    assert (np.asarray(found.plot(photo, min_score=0))[60:200, 200] != 128).any()
    with pytest.raises(InputError, match="the photo is not known"):
        found.plot()
    with pytest.raises(InputError, match="boxes in 5 images"):
        named().plot(photo)


def test_a_dataframe_has_a_row_a_box(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=dict))
    table = named().to_dataframe()
    assert list(table) == ["image", "class", "score", "x1", "y1", "x2", "y2"]
    assert table["image"] == [named().ids[i] for i in named().image]
    np.testing.assert_array_equal(table["x2"], named().xyxy[:, 2])


def test_without_supervision_the_error_names_the_install_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "supervision", None)
    with pytest.raises(InputError, match="pip install supervision"):
        named().to_supervision()
