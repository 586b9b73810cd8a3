"""The whole run, on toys: what is stored, reused, recomputed, resumed; and its face as an estimator."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from tests._toys import FAST, contents, events, make_toys

import tag2box as t2b
from tag2box.config import VERSIONS, Config, stage_keys
from tag2box.errors import InputError, Tag2BoxError
from tag2box.images import Truth
from tag2box.report.collecting import write_report
from tag2box.run.estimator import Tag2Box
from tag2box.run.folder import RunFolder, detect_run, fit_run
from tag2box.run.notes import write_run
from tag2box.runtime import runner as runner_module
from tag2box.runtime.config import read_settings, settings
from tag2box.runtime.stages import Runner
from tag2box.runtime.store import Store

STAGES = (
    *("windows", "maps", "projection", "context", "features", "objectness"),
    *("competition", "two_stream", "retrain", "findings"),
)
PAPER = "degrees cover initial refine"
OURS = "two_stream retrain findings"
ROOT = Path(__file__).parents[1]
CONFIG = read_settings(Config(), None, FAST)


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "toys"
    return t2b.read_images(folder, make_toys(folder))


@pytest.fixture(scope="module")
def run(images, tmp_path_factory):
    """A finished run and its detections, in shards of 5 images; not to be changed."""
    folder = tmp_path_factory.mktemp("runs") / "toys"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner_module, "SHARD", 5)
        fit_run(images, CONFIG, folder, workers=1)
        detect_run(RunFolder(folder), images, workers=1)
    return folder


@pytest.fixture
def copied(run, tmp_path):
    return shutil.copytree(run, tmp_path / "copy")


def found_by(run):
    folder = RunFolder(run)
    return folder.store.load("detections", folder.detected()[-1][0])


def test_it_finds_the_thing(run, images):
    found = found_by(run)
    assert found.ids == images.ids
    assert found.classes == ("thing",)
    best = [found.score[found.image == i].max() for i in range(len(images))]
    positive = images.tags[:, 0] == 1
    # One in six may be wrong: the ranking of the images by their best box, as the area under the ROC curve.
    order = np.array(best)[positive][:, None] > np.array(best)[~positive]
    assert order.mean() > 5 / 6


def test_a_second_run_computes_nothing(copied, images):
    before, stored = len(events(copied)), contents(copied)
    costs = fit_run(images, CONFIG, copied, workers=1)
    assert all(cost["reused"] for cost in costs.values())
    detect_run(RunFolder(copied), images, workers=1)
    happened = events(copied)[before:]
    assert [e["stage"] for e in happened if e["event"] == "reused"] == [*STAGES, "detections"]
    assert not [e for e in happened if e["event"] == "finished"]
    assert {**contents(copied), "run.json": None} == {**stored, "run.json": None}


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("windows.seed=1", f"windows projection features objectness competition {PAPER} {OURS}"),
        ("features.whitening=0.1", f"projection features {PAPER} {OURS}"),
        ("features.dtype=float32", f"features {PAPER} {OURS}"),
        (
            "maps.side=64",
            f"maps context features objectness competition {PAPER} {OURS}",
        ),
        ("maps.ring=0.5", f"objectness competition cover initial refine {OURS}"),
        ("maps.context=4", f"context features {PAPER} {OURS}"),
        ("maps.context=0", f"context features {PAPER} {OURS}"),
        ("cover.k=0.9", PAPER),
        ("cover.alpha=0.9", "cover initial refine"),
        ("initial.C=0.1", "initial refine"),
        ("refine.mu=0.2", "refine"),
        ("two_stream.prior=2", OURS),
        ("retrain.tag_weight=0.1", "retrain findings"),
        ("detect.iou_threshold=0.5", ""),
    ],
)
def test_a_setting_changes_only_what_depends_on_it(images, tmp_path, setting, expected):
    keys = [
        stage_keys(images, c, Runner(Store(tmp_path)))
        for c in (CONFIG, read_settings(CONFIG, None, [setting]))
    ]
    changed = {stage for stage in keys[0] if keys[0][stage] != keys[1][stage]}
    last = {"detector"} if "findings" in expected or setting.startswith("detect") else set()
    assert changed == {*expected.split(), *last}


def test_a_changed_setting_is_computed_and_the_old_result_can_be_cleaned(copied, images):
    costs = fit_run(images, read_settings(CONFIG, None, ["retrain.C=0.01"]), copied, workers=1)
    fresh = [stage for stage, cost in costs.items() if not cost["reused"]]
    assert fresh == ["retrain", "findings"]
    folder = RunFolder(copied)
    assert folder.detected() == []  # they were made by another detector
    unused = folder.clean(remove=True)
    assert {path.parent.name for path in unused} == {*fresh, "detections"}
    assert folder.clean(remove=False) == []
    assert all(cost["reused"] for cost in fit_run(images, folder.config, copied, workers=1).values())


def test_tags_leave_windows_and_features_alone(images, tmp_path):
    store = Runner(Store(tmp_path))
    other = replace(images, tags=-images.tags)
    one, two = stage_keys(images, CONFIG, store), stage_keys(other, CONFIG, store)
    assert one["features"] == two["features"]
    assert one["degrees"] != two["degrees"]


def test_truth_changes_nothing(run, images, tmp_path, monkeypatch):
    """True boxes, one of the class in every photo, leave every byte of every stage as it is."""
    monkeypatch.setattr(runner_module, "SHARD", 5)
    n = len(images)
    boxes = Truth(
        np.arange(n), np.tile(np.float32([0, 0, 9, 9]), (n, 1)), np.zeros(n, int), np.zeros(n, bool)
    )
    fit_run(replace(images, truth=boxes), CONFIG, tmp_path / "told", workers=1)
    told, untold = contents(tmp_path / "told"), contents(run)
    learned = [name for name in untold if name.split("/")[0] in (*STAGES, "detector.npz")]
    assert {name.split("/")[0] for name in learned} == {*STAGES, "detector.npz"}
    assert [name for name in learned if told[name] != untold[name]] == []


def test_two_workers_give_the_same_bytes(run, images, tmp_path, monkeypatch):
    monkeypatch.setattr(runner_module, "SHARD", 5)
    fit_run(images, CONFIG, tmp_path / "two", workers=2)
    detect_run(RunFolder(tmp_path / "two"), images, workers=2)
    mine, theirs = contents(tmp_path / "two"), contents(run)
    assert mine.keys() == theirs.keys()
    assert [name for name in mine if mine[name] != theirs[name] and name != "run.json"] == []


def test_a_moved_run_still_detects(copied, run, images, tmp_path):
    moved = shutil.move(copied, tmp_path / "else" / "where")
    other = shutil.copytree(images.paths[0].parent, tmp_path / "other photos")
    paths = tuple(other / path.name for path in images.paths)
    again = detect_run(RunFolder(moved), replace(images, paths=paths), workers=1)
    first = found_by(run)
    assert again.xyxy.tobytes() == first.xyxy.tobytes()
    assert again.score.tobytes() == first.score.tobytes()
    assert events(moved)[-1]["event"] == "reused"  # the same photos at another place: nothing was computed


def test_photos_moved_together_with_the_run_are_found(images, tmp_path):
    data = shutil.copytree(images.paths[0].parent, tmp_path / "here" / "photos")
    moving = replace(images, paths=tuple(data / path.name for path in images.paths))
    fit_run(moving, CONFIG, tmp_path / "here" / "run", workers=1)
    shutil.move(tmp_path / "here", tmp_path / "there")
    found = RunFolder(tmp_path / "there" / "run").images
    assert all(path.is_file() for path in found.paths)
    assert found.ids == images.ids
    assert (found.tags == images.tags).all()


def test_what_is_not_finished_is_said(images, tmp_path):
    with pytest.raises(InputError, match="is no run folder"):
        RunFolder(tmp_path)
    store = Store(tmp_path)
    store.write("config.toml", "")
    write_run(store, images, ["0" * 64] * len(images), None)
    folder = RunFolder(tmp_path)
    for ask in (lambda: folder.detector, lambda: folder.result("windows")):
        with pytest.raises(Tag2BoxError, match="takes the run to its end"):
            ask()


def test_a_class_that_no_image_has_is_left_out(images, tmp_path):
    nothing = np.full((len(images), 1), -1, np.int8)
    with_ghost = replace(images, tags=np.hstack([nothing, images.tags]), classes=("ghost", "thing"))
    fit_run(with_ghost, CONFIG, tmp_path, workers=1)
    assert RunFolder(tmp_path).detector.classes == ("thing",)
    with pytest.raises(InputError, match="no image is tagged with thing: there is nothing to learn from"):
        fit_run(replace(images, tags=nothing), CONFIG, tmp_path, workers=1)


@pytest.mark.parametrize("n", [1, 2])
def test_a_handful_of_images_runs_through(images, tmp_path, n):
    found = Tag2Box(CONFIG, n_jobs=1).fit(images.take(range(n))).predict(images.paths[:3])
    assert found.ids == images.ids[:3]


@pytest.mark.parametrize("kind", ["few windows", "one window each", "equal photos", "plain photos"])
def test_small_and_uniform_sets_run_through_with_fewer_dimensions(images, tmp_path, kind):
    sets = ["features.dimensions=512", f"windows.max_windows={1 if kind == 'one window each' else 12}"]
    if kind in ("equal photos", "plain photos"):
        for i in range(6):
            picture = Image.open(images.paths[0]) if kind == "equal photos" else Image.new("RGB", (96, 96))
            picture.save(tmp_path / f"{i}.png")
        paths = tuple(sorted(tmp_path.glob("*.png")))
        images = replace(images.take(range(6)), paths=paths)
    fit_run(images, read_settings(CONFIG, None, sets), tmp_path / "run", workers=1)
    folder = RunFolder(tmp_path / "run")
    width, count = folder.result("projection").A.shape[1], len(folder.result("windows").xyxy)
    assert 1 <= width <= min(count, 320)
    assert folder.detector.W.shape[1] == folder.result("features").X.shape[1] > width
    assert np.isfinite(folder.detector.W).all()
    assert np.isfinite(detect_run(folder, images, workers=1).score).all()
    assert write_report(tmp_path / "run").is_file()


def test_without_objectness_no_map_is_made(images, tmp_path):
    sets = [
        "maps.context=0",
        "cover.snap=none",
        "refine.prior=0",
        "refine.objectness_weight=0",
        "retrain.method=none",
    ]
    costs = fit_run(images, read_settings(CONFIG, None, sets), tmp_path, workers=1)
    assert not {"maps", "objectness"} & set(costs)
    folder = RunFolder(tmp_path)
    assert folder.detector.object_maps is None
    assert len(detect_run(folder, images, workers=1))
    assert "Where it looks" in write_report(tmp_path).read_text()


def test_the_estimator_is_scikit_learns(images, tmp_path, run):
    model = Tag2Box(CONFIG, n_jobs=1)
    assert clone(model).get_params() == model.get_params()
    assert model.set_params(out=tmp_path / "run").out == tmp_path / "run"
    with pytest.raises(NotFittedError):
        model.predict(images.paths)
    found = model.fit(images).predict(images.paths)
    first = found_by(run)
    assert found.ids == tuple(path.stem for path in images.paths)
    assert found.xyxy.tobytes() == first.xyxy.tobytes()
    assert (tmp_path / "run" / "detector.npz").is_file()


def test_random_state_is_the_seed_of_every_stage_that_has_one(images, tmp_path):
    Tag2Box(CONFIG, out=tmp_path, n_jobs=1, random_state=7).fit(images)
    stored = settings(RunFolder(tmp_path).config)
    seeds = {name: value for name, value in stored if name.endswith(".seed")}
    assert set(seeds) == {"windows.seed", "features.seed", "initial.seed", "retrain.seed"}
    assert set(seeds.values()) == {7}


def test_bad_photos_are_skipped_with_a_warning_or_refused(run, images, tmp_path):
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
        model.predict(["nowhere.jpg"])


def test_every_stage_has_a_version(images, tmp_path):
    corrected = {"judged", "corrected"}  # only where a person said something
    known = {"detections"} | corrected
    assert set(stage_keys(images, CONFIG, Runner(Store(tmp_path)))) | known == set(VERSIONS)
