"""The whole run, on toys: what is stored, reused, recomputed; and its face as an estimator."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from tests._networks import write_cnn
from tests._toys import FAST, contents, events, make_toys, make_truth

import tag2box as t2b
from tag2box.boxes import iou_matrix
from tag2box.config import Config
from tag2box.errors import InputError, Tag2BoxError
from tag2box.images import Truth
from tag2box.report.collecting import write_report
from tag2box.run.estimator import Tag2Box
from tag2box.run.fitting import detect_run, fit_run
from tag2box.run.folder import RunFolder, mined_windows
from tag2box.runtime import photo_store, stages
from tag2box.runtime.config import read_settings, settings

SOURCE = Path(t2b.__file__).parent
STAGES = ("described", "details", "activations", "object_maps", "objectness", "competition", "prior")
STAGES += ("two_stream", "boxes", "folds", "retrained", "findings", "extents", "tag_scores")
PAPER = ("described", "compared", "degrees", "covers", "initial", "refined", "unseen", "findings")
CONFIG = read_settings(Config(), None, FAST)
SONG = read_settings(Config.song2014(), None, FAST)


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "toys"
    return t2b.read_images(folder, make_toys(folder))


@pytest.fixture(scope="module")
def run(images, tmp_path_factory):
    """A finished run and its detections, counted every 5 images; not to be changed."""
    return finished(images, CONFIG, tmp_path_factory.mktemp("runs") / "toys")


@pytest.fixture(scope="module")
def song(images, tmp_path_factory):
    """The same by the method of Song et al. 2014."""
    return finished(images, SONG, tmp_path_factory.mktemp("runs") / "toys")


def finished(images, config, folder, workers=1):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stages, "SHARD", 5)
        patch.setattr(photo_store, "SOME", 5)
        fit_run(images, config, folder, workers=workers)
        detect_run(RunFolder(folder), images, workers=workers)
    return folder


@pytest.fixture
def copied(run, tmp_path):
    return shutil.copytree(run, tmp_path / "copy")


def computed(images, config, folder):
    """The stages that a run computes there."""
    return {
        name for name, cost in fit_run(images, config, folder, workers=1).costs.items() if not cost["reused"]
    }


def boxes_of(run):
    folder = RunFolder(run)
    return folder.detections(*folder.detected()[-1])


@pytest.mark.parametrize("method", ["two_stream", "song2014"])
def test_it_finds_the_thing(images, tmp_path, method):
    """In the photos learned from and by the detector: the best box of five in six is right, IoU >= 1/2."""
    sets = [*FAST[:2], "maps.side=256", "maps.fine_side=512"]  # large enough for the network to see stripes
    fit_run(images, read_settings(Config(method=method), None, sets), tmp_path / "run", workers=1)
    folder = RunFolder(tmp_path / "run")
    detections, _, _ = detect_run(folder, images, workers=1)
    assert (detections.ids, detections.classes) == (images.ids, ("thing",))
    truth = t2b.read_images(make_truth(images.paths[0].parent, tmp_path / "truth"), split="test").truth
    assert truth.image.tolist() == np.flatnonzero(images.tags[:, 0] == 1).tolist()
    whole = np.float32([[0, 0, 96, 96]])
    assert iou_matrix(truth.xyxy, whole).max() < 1 / 3  # which would be the easy answer
    for boxes in (mined_windows(folder), detections):
        best = np.stack([best_box(boxes, i) for i in truth.image])
        right = [iou_matrix(a[None], b[None])[0, 0] >= 0.5 for a, b in zip(best, truth.xyxy, strict=True)]
        assert np.mean(right) >= 5 / 6
    # And the photos that have the thing are ranked before the others.
    top = np.array([detections.score[detections.image == i].max() for i in range(len(images))])
    assert (top[images.tags[:, 0] == 1][:, None] > top[images.tags[:, 0] == -1]).mean() > 5 / 6


def best_box(boxes, i):
    at = np.flatnonzero(boxes.image == i)
    return boxes.xyxy[at[boxes.score[at].argmax()]]


def test_a_second_run_computes_nothing(copied, images):
    before, stored = len(events(copied)), contents(copied)
    assert computed(images, CONFIG, copied) == set()
    detect_run(RunFolder(copied), images, workers=1)
    happened = events(copied)[before:]
    assert [e["stage"] for e in happened if e["event"] == "reused"] == [*STAGES, "detections"]
    assert not [e for e in happened if e["event"] in ("finished", "damaged")]
    assert contents(copied) == stored


def from_on(name):
    return set(STAGES[STAGES.index(name) :]) - {"tag_scores"}


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("features.whitening=0.1", {*STAGES, "sample"}),
        ("maps.ring=0.5", from_on("details") - {"activations", "object_maps"} - {"details"}),
        ("two_stream.iterations=7", from_on("prior")),
        ("retrain.C=0.01", from_on("folds")),
        ("detect.vote_iou=0.7", set()),
        ("cover.k=0.9", set()),
    ],
)
def test_a_setting_changes_only_what_depends_on_it(copied, images, setting, expected):
    changed = read_settings(CONFIG, None, [setting])
    detector = (copied / "detector.npz").read_bytes()
    assert computed(images, changed, copied) - {"details"} == expected - {"details"}
    assert ((copied / "detector.npz").read_bytes() == detector) == (setting.startswith("cover"))
    assert computed(images, CONFIG, copied) == set()  # and back again for nothing


@pytest.mark.parametrize(
    ("setting", "first"), [("cover.k=0.9", "degrees"), ("refine.mu=0.2", "refined"), ("maps.side=64", None)]
)
def test_so_it_does_in_the_papers_method(song, images, tmp_path, setting, first):
    copied = shutil.copytree(song, tmp_path / "copy")
    expected = set(PAPER[PAPER.index(first) :]) if first else set()
    assert computed(images, read_settings(SONG, None, [setting]), copied) == expected


def test_the_papers_run_makes_nothing_of_ours(song):
    folder = RunFolder(song)
    assert set(folder.keys) == {*PAPER, "description", "detector"}
    detector, described = folder.detector, folder.result("described")
    assert described.maps is None
    assert described.early == ()
    assert detector.description.context is None
    assert described.X.shape[1] == detector.description.projection.width
    scorer = detector.scorer
    assert (scorer.objectness_weight, scorer.streams_weight, scorer.tag_weight) == (0, 0, 0)
    assert scorer.object_maps is scorer.two_stream is scorer.activations is None
    # No vote: the boxes found are windows.
    windows = {tuple(box) for box in described.windows.xyxy.tolist()}
    assert {tuple(box) for box in mined_windows(folder).xyxy.tolist()} <= windows


def test_every_stage_has_a_name_of_its_own():
    """Two of one name would take each other's results."""
    declared = [line for path in SOURCE.rglob("*.py") for line in path.read_text().splitlines()]
    names = [line.split('"')[1] for line in declared if line.startswith("@stage(")]
    assert len(names) == len(set(names)) > 15


def test_a_new_version_of_a_stage_is_computed_with_all_that_depends_on_it(copied, images, monkeypatch):
    from tag2box.training.folds import find_anew

    monkeypatch.setattr(find_anew, "stage", ("folds", find_anew.stage[1] + 1))
    assert computed(images, CONFIG, copied) == from_on("folds")


def test_a_changed_setting_leaves_an_old_result_that_can_be_cleaned(copied, images):
    fresh = computed(images, read_settings(CONFIG, None, ["retrain.C=0.01"]), copied)
    folder = RunFolder(copied)
    assert folder.detected() == []  # they were made by another detector
    unused = folder.clean(remove=True)
    names = {path.name if path.parent.name == "arrays" else path.parent.name for path in unused}
    assert {name.split("-")[0] for name in names} == {*fresh, "detections"}
    assert folder.clean(remove=False) == []
    assert computed(images, folder.config, copied) == set()


def test_tags_leave_the_description_alone(copied, images):
    assert computed(replace(images, tags=-images.tags), CONFIG, copied) == set(STAGES) - {"described"}


def test_nothing_is_keyed_by_where_it_is(images, tmp_path):
    """Photos, run folder and network elsewhere: the same keys, and a detector that knows the new place."""
    pytest.importorskip("onnx")

    def placed(folder):
        """The photos and a network in `folder`, as `images` and settings."""
        toys = folder / "photos"
        here = replace(images, paths=tuple(toys / path.name for path in images.paths))
        sets = [*FAST[:2], "features.dimensions=8", "features.mode=pool", "features.precision=f32"]
        return here, read_settings(Config(), None, [*sets, f"features.network={folder / 'net.onnx'}"])

    shutil.copytree(images.paths[0].parent, tmp_path / "one" / "photos")
    write_cnn(tmp_path / "one" / "net.onnx")
    fit_run(*placed(tmp_path / "one"), tmp_path / "one" / "run", workers=1)
    shutil.move(tmp_path / "one", tmp_path / "two")
    assert all(path.is_file() for path in RunFolder(tmp_path / "two" / "run").images.paths)
    here, config = placed(tmp_path / "two")
    assert computed(here, config, tmp_path / "two" / "run") == set()
    folder = RunFolder(tmp_path / "two" / "run")
    assert folder.detector.description.settings.features.network == str(tmp_path / "two" / "net.onnx")
    assert len(detect_run(folder, here, workers=1)[0])


def test_a_detector_of_others_opens_no_network_that_the_user_never_named(run, images, tmp_path, monkeypatch):
    """Whoever made it chose the path, and the hash beside it."""
    pytest.importorskip("onnx")
    network = write_cnn(tmp_path / "net.onnx")
    sets = [*FAST[:2], "features.dimensions=8", "features.mode=pool", "features.precision=f32"]
    config = read_settings(Config(), None, [*sets, f"features.network={network}"])
    fit_run(images, config, tmp_path / "run", workers=1)
    detector = RunFolder(tmp_path / "run").detector
    assert len(detector.detect(images.paths[0]).classes) == 1  # the user has named it
    monkeypatch.setenv("TAG2BOX_CACHE", str(tmp_path / "another user"))
    with pytest.raises(InputError, match="never used on this machine"):
        detector.detect(images.paths[0])


def test_truth_changes_nothing(run, images, tmp_path):
    """True boxes, one of the class in every photo, leave every byte as it is."""
    n = len(images)
    boxes = Truth(
        np.arange(n), np.tile(np.float32([0, 0, 9, 9]), (n, 1)), np.zeros(n, int), np.zeros(n, bool)
    )
    told, untold = (
        contents(f) for f in (finished(replace(images, truth=boxes), CONFIG, tmp_path / "told"), run)
    )
    assert {name.split("/")[0] for name in untold} >= {"retrained", "findings", "detector.npz", "arrays"}
    assert told == untold


@pytest.mark.parametrize(("config", "workers"), [(CONFIG, 2), (SONG, 3)])
def test_more_workers_give_the_same_bytes(run, song, images, tmp_path, config, workers):
    many = contents(finished(images, config, tmp_path / "many", workers))
    one = contents(run if config is CONFIG else song)
    assert many.keys() == one.keys()
    assert [name for name in many if many[name] != one[name]] == []


def test_a_moved_run_still_detects(copied, run, images, tmp_path):
    moved = shutil.move(copied, tmp_path / "else" / "where")
    other = shutil.copytree(images.paths[0].parent, tmp_path / "other photos")
    paths = tuple(other / path.name for path in images.paths)
    again, _, _ = detect_run(RunFolder(moved), replace(images, paths=paths), workers=1)
    first = boxes_of(run)
    assert again.xyxy.tobytes() == first.xyxy.tobytes()
    assert again.score.tobytes() == first.score.tobytes()
    assert events(moved)[-1]["event"] == "reused"  # the same photos at another place: nothing was computed


def test_what_is_not_finished_is_said(images, tmp_path, monkeypatch):
    with pytest.raises(InputError, match="is no run folder"):
        RunFolder(tmp_path)
    monkeypatch.setattr("tag2box.pipeline.METHODS", {})
    with pytest.raises(KeyError):
        fit_run(images, CONFIG, tmp_path, workers=1)
    folder = RunFolder(tmp_path)
    for ask in (lambda: folder.detector, lambda: folder.result("described")):
        with pytest.raises(Tag2BoxError, match="takes the run to its end"):
            ask()


def test_a_class_that_no_image_has_is_left_out(images, tmp_path):
    nothing = np.full((len(images), 1), -1, np.int8)
    with_ghost = replace(images, tags=np.hstack([nothing, images.tags]), classes=("ghost", "thing"))
    fit_run(with_ghost, CONFIG, tmp_path, workers=1)
    assert RunFolder(tmp_path).detector.classes == ("thing",)
    with pytest.raises(InputError, match="nothing to learn from"):
        fit_run(replace(images, tags=nothing), CONFIG, tmp_path, workers=1)


@pytest.mark.parametrize("n", [1, 2])
def test_a_handful_of_images_runs_through(images, n):
    found = Tag2Box(CONFIG, n_jobs=1).fit(images.take(range(n))).predict(images.paths[:3])
    assert found.ids == images.ids[:3]


@pytest.mark.parametrize("kind", ["few windows", "one window each", "equal photos", "plain photos"])
def test_small_and_uniform_sets_run_through_with_fewer_dimensions(images, tmp_path, kind):
    sets = ["features.dimensions=512", f"windows.max_windows={1 if kind == 'one window each' else 12}"]
    if kind in ("equal photos", "plain photos"):
        for i in range(6):
            picture = Image.open(images.paths[0]) if kind == "equal photos" else Image.new("RGB", (96, 96))
            picture.save(tmp_path / f"{i}.png")
        images = replace(images.take(range(6)), paths=tuple(sorted(tmp_path.glob("*.png"))))
    fit_run(images, read_settings(CONFIG, None, sets), tmp_path / "run", workers=1)
    folder = RunFolder(tmp_path / "run")
    detector, described = folder.detector, folder.result("described")
    width = detector.description.projection.A.shape[1]
    assert 1 <= width <= min(len(described.X), 320)
    W = detector.scorer.weights.W
    assert W.shape[1] == described.X.shape[1] > width
    assert np.isfinite(W).all()
    assert np.isfinite(detect_run(folder, images, workers=1)[0].score).all()
    assert write_report(tmp_path / "run").is_file()


def test_a_run_by_the_papers_method_is_reported(song, images, tmp_path):
    folder = RunFolder(shutil.copytree(song, tmp_path / "run"))
    assert len(detect_run(folder, images, workers=1)[0])
    assert write_report(folder.folder).is_file()


def test_the_estimator_is_scikit_learns(images, tmp_path, run):
    model = Tag2Box(CONFIG, n_jobs=1)
    assert clone(model).get_params() == model.get_params()
    assert model.set_params(out=tmp_path / "run").out == tmp_path / "run"
    with pytest.raises(NotFittedError):
        model.predict(images.paths)
    found = model.fit(images).predict(images.paths)
    first = boxes_of(run)
    assert found.ids == tuple(path.stem for path in images.paths)
    assert found.xyxy.tobytes() == first.xyxy.tobytes()
    assert (tmp_path / "run" / "detector.npz").is_file()


def test_random_state_is_the_seed_of_every_stage_that_has_one(images, tmp_path):
    Tag2Box(CONFIG, out=tmp_path, n_jobs=1, random_state=7).fit(images)
    stored = settings(RunFolder(tmp_path).config)
    seeds = {name: value for name, value in stored if name.endswith(".seed")}
    assert len(seeds) > 3
    assert set(seeds.values()) == {7}


def test_bad_photos_are_skipped_with_a_warning_or_refused(run, tmp_path):
    model = Tag2Box(CONFIG, n_jobs=1)
    model.detector_ = RunFolder(run).detector
    (tmp_path / "bad.jpg").write_text("no photo")
    Image.new("RGB", (64, 48), "red").save(tmp_path / "good.png")
    with pytest.warns(UserWarning, match=r"1 photos were left out: .*bad.jpg"):
        found = model.predict(tmp_path)
    assert found.ids == ("good",)
    with pytest.raises(InputError, match=r"bad.jpg"):
        model.set_params(on_error="fail").predict(tmp_path)
    with pytest.raises(InputError, match="no such file"):
        model.predict(tmp_path / "nothing.jpg")
