"""The whole run, on toys: what is stored, reused, recomputed, resumed; and its face as an estimator."""

import shutil
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Annotated, get_args, get_origin

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
from tag2box.description.photos import describe_photos, hash_photos, sample_photos
from tag2box.errors import InputError, Tag2BoxError
from tag2box.images import Truth
from tag2box.pipeline import learn
from tag2box.report.collecting import write_report
from tag2box.run.estimator import Tag2Box
from tag2box.run.folder import RunFolder, detect_run, fit_run, mined_windows
from tag2box.run.notes import write_run
from tag2box.run.settings import prepare
from tag2box.runtime import stages
from tag2box.runtime.checks import Choice
from tag2box.runtime.config import declarations, read_settings, settings, to_toml, toml_value
from tag2box.runtime.stages import Run
from tag2box.runtime.store import Store

SOURCE = Path(t2b.__file__).parent
STAGES = (
    *("description", "details", "described", "tag_scores", "activations", "object_maps", "objectness"),
    "competition",
    *("prior", "two_stream", "boxes", "folds", "retrained", "findings", "extents"),
)
PAPER = ("description", "described", "compared", "degrees", "covers", "initial", "refined", "findings")
CONFIG = read_settings(Config(), None, FAST)
SONG = read_settings(Config.song2014(), None, FAST)


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "toys"
    return t2b.read_images(folder, make_toys(folder))


@pytest.fixture(scope="module")
def run(images, tmp_path_factory):
    """A finished run and its detections, in shards of 5 images; not to be changed."""
    return finished(images, CONFIG, tmp_path_factory)


@pytest.fixture(scope="module")
def song(images, tmp_path_factory):
    """The same by the method of Song et al. 2014."""
    return finished(images, SONG, tmp_path_factory)


def finished(images, config, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "toys"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stages, "SHARD", 5)
        fit_run(images, config, folder, workers=1)
        detect_run(RunFolder(folder), images, workers=1)
    return folder


@pytest.fixture
def copied(run, tmp_path):
    return shutil.copytree(run, tmp_path / "copy")


def boxes_of(run):
    folder = RunFolder(run)
    return folder.detections(*folder.detected()[-1])


@pytest.mark.parametrize("method", ["two_stream", "song2014"])
def test_it_finds_the_thing(images, tmp_path, method):
    """In the photos learned from and by the detector: the best box of five in six is right, IoU >= 1/2."""
    sets = [*FAST[:2], "maps.side=256", "maps.fine_side=512"]  # large enough for the network to see stripes
    fit_run(images, read_settings(Config(method=method), None, sets), tmp_path / "run", workers=1)
    folder = RunFolder(tmp_path / "run")
    detections = detect_run(folder, images, workers=1)
    assert detections.ids == images.ids
    assert detections.classes == ("thing",)
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
    order = top[images.tags[:, 0] == 1][:, None] > top[images.tags[:, 0] == -1]
    assert order.mean() > 5 / 6


def best_box(boxes, i):
    at = np.flatnonzero(boxes.image == i)
    return boxes.xyxy[at[boxes.score[at].argmax()]]


def test_a_second_run_computes_nothing(copied, images):
    before, stored = len(events(copied)), contents(copied)
    costs = fit_run(images, CONFIG, copied, workers=1)
    assert all(cost["reused"] for cost in costs.values())
    detect_run(RunFolder(copied), images, workers=1)
    happened = events(copied)[before:]
    assert [e["stage"] for e in happened if e["event"] == "reused"] == [*STAGES, "detections"]
    assert not [e for e in happened if e["event"] == "finished"]
    assert {**contents(copied), "run.json": None} == {**stored, "run.json": None}


@cache
def results_of(folder):
    """What the finished run in `folder` has made."""
    run = RunFolder(folder)
    return {name: run.result(name) for name in run.keys if run.has(name)}


class Keys(Run):
    """A run that computes nothing: stages are called as ever, and what they made is taken from `folder`."""

    def __init__(self, folder):
        super().__init__(Store(folder))
        self.results = results_of(folder)

    def _stored(self, name, make):
        result = self.results[name]
        self._made[id(result)] = result, self.keys[name]
        return result

    def drop(self, promise):
        pass


def keys_of(folder, images, config):
    """The key of every stage of a run with that `config`, and of its detector."""
    start = prepare(images, config, folder)
    run = Keys(folder)
    detector = learn(start.images, hash_photos(images), start.config, run)
    return {**run.keys, "detector": run.key_of(detector)}


def changed(folder, images, one, two):
    first, second = (keys_of(folder, images, config) for config in (one, two))
    assert first.keys() == second.keys()
    return {stage for stage in first if first[stage] != second[stage]}


def test_keys_are_those_of_the_run_itself(run, song, images):
    for folder, config, names in ((run, CONFIG, STAGES), (song, SONG, PAPER)):
        assert keys_of(folder, images, config) == RunFolder(folder).keys
        assert set(RunFolder(folder).keys) == {*names, "detector"}


FROM = {name: {*STAGES[i:], "detector"} for i, name in enumerate(STAGES)}
FROM_SONG = {name: {*PAPER[i:], "detector"} for i, name in enumerate(PAPER)}


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("windows.seed=1", FROM["description"]),
        ("features.whitening=0.1", FROM["description"]),
        ("maps.side=64", FROM["description"]),
        ("maps.context=0", FROM["description"]),
        ("maps.ring=0.5", FROM["objectness"]),
        ("maps.components=5", FROM["object_maps"]),
        ("two_stream.iterations=7", FROM["prior"]),
        ("retrain.C=0.01", FROM["folds"]),
        ("retrain.tag_weight=0.1", FROM["folds"]),
        ("two_stream.weight=0.25", FROM["prior"]),
        ("retrain.vote_iou=0.7", FROM["folds"]),
        ("detect.vote_iou=0.7", {"detector"}),
        ("detect.iou_threshold=0.5", {"detector"}),
        ("cover.k=0.9", set()),
        ("refine.mu=0.2", set()),
    ],
)
def test_a_setting_changes_only_what_depends_on_it(run, images, setting, expected):
    assert changed(run, images, CONFIG, read_settings(CONFIG, None, [setting])) == expected


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("features.dtype=float32", FROM_SONG["description"]),
        ("cover.dimensions=4", FROM_SONG["compared"]),
        ("cover.k=0.9", FROM_SONG["degrees"]),
        ("cover.alpha=0.9", FROM_SONG["covers"]),
        ("initial.C=0.1", FROM_SONG["initial"]),
        ("refine.mu=0.2", FROM_SONG["refined"]),
        ("maps.side=64", set()),
        ("retrain.C=0.01", set()),
    ],
)
def test_so_it_does_in_the_papers_method(song, images, setting, expected):
    assert changed(song, images, SONG, read_settings(SONG, None, [setting])) == expected


def others(kind, value):
    """Values that are declared for a setting, but for the one it has."""
    if get_origin(kind) is Annotated:
        plain, rule = get_args(kind)
        if isinstance(rule, Choice):
            return [each for each in rule.values if each not in (value, "auto")]
        if get_origin(plain) is tuple:
            return [[item] * max(len(value), 1) for item in others(get_args(plain)[0], None)]
        return [each for each in (rule.low, rule.high) if each != value]
    if get_args(kind):
        return others(next(each for each in get_args(kind) if each is not type(None)), value)
    return [not value]


# The user's words for it decide nothing: what they name does, and that is in the key.
NAMES = {"features.network", "features.device", "features.runtime", "features.cut"}
# Chosen before a run is: by `METHODS`, and in the tags.
# Those of the network are read where there are photos enough for one (`detector`).
ELSEWHERE = {
    "method",
    "unknown",
    "detect.by",
    *(name for name, _ in declarations(CONFIG) if name.startswith("detector.")),
}


@pytest.fixture(scope="module")
def read(run, song, images):
    """The settings that a run of each method reads: to change one of them changes a key."""

    def changes(folder, config, keys, name, kind):
        for value in others(kind, dict(settings(config))[name]):
            with suppress(InputError):  # some ends of ranges are refused beside the other settings
                other = read_settings(config, None, [f"{name}={toml_value(value)}"])
                if keys_of(folder, images, other) != keys:
                    return True
        return False

    names = [(name, kind) for name, kind in declarations(CONFIG) if name not in NAMES | ELSEWHERE]
    out = {}
    with pytest.MonkeyPatch.context() as patch:  # networks are not compiled where nothing is computed
        patch.setattr("tag2box.description.photos.raw_widths", lambda _: (8,))
        patch.setattr("tag2box.run.settings.check_maps", lambda _: None)
        for folder, config in ((run, CONFIG), (song, SONG)):
            keys = keys_of(folder, images, config)
            out[config.method] = {name for name, kind in names if changes(folder, config, keys, name, kind)}
    return out


def test_every_setting_changes_a_key_of_some_method(read):
    """One that changes none would be read by nobody, or behind the back of the keys."""
    known = {name for name, _ in declarations(CONFIG)} - NAMES - ELSEWHERE
    assert known - read["two_stream"] - read["song2014"] == set()


# Ours, and off where the paper's method is run: whitening, voting, and the cascade of full_windows.
OFF = {"features.whitening": 0, "detect.vote_iou": 1, "detect.full_windows": 0}
# What else the paper's method reads; a new setting belongs here or above, and somebody has to say which.
READ = {
    "windows": "mode min_size n_search thin_iou max_windows seed",
    "features": "mode levels size crop grid padding norm length dimensions precision sample_images "
    "sample_windows dtype seed",
    "cover": "initializer most_images dimensions seed_dimensions k t g alpha method seeds",
    "initial": "C loss bias positive_weight rounds hardest iou seed",
    "refine": "method C mu loss omega bias positive_weight top rounds tol",
    "detect": "iou_threshold max_detections confidence min_score max_windows thin_iou",
}


def test_the_papers_settings_have_nothing_of_ours(read):
    """Every setting is walked over: it is read and the paper's, or it is ours and off, or nobody reads it."""
    paper, read = dict(settings(Config.song2014())), read["song2014"]
    assert read - set(OFF) <= {f"{group}.{name}" for group, names in READ.items() for name in names.split()}
    assert {name: paper[name] for name in OFF} == OFF
    assert not {name for name in read if name.split(".")[0] in ("maps", "two_stream", "retrain")}
    assert (paper["method"], paper["unknown"]) == ("song2014", "positive")


def test_the_papers_run_makes_nothing_of_ours(song):
    folder = RunFolder(song)
    assert set(folder.keys) == {
        *PAPER,
        "detector",
    }  # no object maps, no competition, no streams, no retraining
    detector, described = folder.detector, folder.result("described")
    assert described.maps is None
    assert detector.description.settings.maps is None
    assert detector.description.context is None
    assert described.X.shape[1] == detector.description.projection.width
    scorer = detector.scorer
    assert (scorer.objectness_weight, scorer.streams_weight, scorer.tag_weight) == (0, 0, 0)
    assert scorer.object_maps is scorer.two_stream is scorer.activations is None
    assert all(np.isnan(each[:, 2]).all() for each in folder.findings.features)  # no map to agree with
    # No vote: the boxes found are windows.
    windows = {tuple(box) for box in described.windows.xyxy.tolist()}
    assert {tuple(box) for box in mined_windows(folder).xyxy.tolist()} <= windows


def test_what_the_key_of_a_description_leaves_out_changes_no_byte(run, images):
    """Of the settings of the maps it leaves out what they are used for later."""
    folder = RunFolder(run)
    description = folder.detector.description
    maps = replace(description.settings.maps, ring=0.9, components=3)
    other = replace(description, settings=replace(description.settings, maps=maps))
    photos = hash_photos(images).part(0, 3)
    one, two = (describe_photos(photos, each) for each in (description, other))
    assert folder.config.maps.ring != 0.9
    assert one.X.tobytes() == two.X.tobytes()
    assert one.maps.X.tobytes() == two.maps.X.tobytes()
    assert one.windows.xyxy.tobytes() == two.windows.xyxy.tobytes()


@pytest.mark.parametrize("config", [CONFIG, SONG], ids=["two_stream", "song2014"])
def test_a_photo_of_the_sample_is_described_as_any_other(images, tmp_path, config):
    fit_run(images, config, tmp_path, workers=1)
    description, photos = RunFolder(tmp_path).detector.description, hash_photos(images).part(0, 4)
    sample = sample_photos(photos.part(1, 3), description.settings)
    by_sample, alone = describe_photos(photos, description, sample), describe_photos(photos, description)
    assert by_sample.X.tobytes() == alone.X.tobytes()
    assert by_sample.windows.xyxy.tobytes() == alone.windows.xyxy.tobytes()
    if alone.maps:
        assert by_sample.maps.X.tobytes() == alone.maps.X.tobytes()


def test_settings_there_and_back_compute_nothing_the_third_time(copied, images):
    other = read_settings(CONFIG, None, ["features.whitening=0.1", "retrain.C=0.01"])
    before = contents(copied)
    costs = fit_run(images, other, copied, workers=1)
    assert set(costs) == {"sample", *STAGES}
    assert not any(cost["reused"] for cost in costs.values())
    third = fit_run(images, CONFIG, copied, workers=1)
    assert set(third) == set(STAGES)  # the sample is gone, and nobody needs it
    assert all(cost["reused"] for cost in third.values())
    assert {name: data for name, data in contents(copied).items() if name in before} == before


def test_every_stage_has_a_name_of_its_own(run, song, images):
    """Two of one name would take each other's results; and one of a new version takes no old ones."""
    declared = [line for path in SOURCE.rglob("*.py") for line in path.read_text().splitlines()]
    names = [line.split('"')[1] for line in declared if line.startswith("@stage(")]
    assert len(names) == len(set(names))
    assert {*STAGES, *PAPER, "sample", "detections"} <= set(names)


@pytest.mark.parametrize("name", STAGES)
def test_a_new_version_of_a_stage_is_computed_with_all_that_depends_on_it(run, images, name, monkeypatch):
    before, real = keys_of(run, images, CONFIG), Run._key

    def newer(self, function, given):
        if function.stage[0] != name:
            return real(self, function, given)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(function, "stage", (name, function.stage[1] + 1))
            return real(self, function, given)

    monkeypatch.setattr(Run, "_key", newer)
    after = keys_of(run, images, CONFIG)
    different = {stage for stage in before if before[stage] != after[stage]}
    # What comes behind knows them by their content, and nothing comes behind the scores of tags.
    if name in ("description", "details", "prior", "extents", "tag_scores"):
        assert different == {name}
    elif name == "findings":
        assert different == {name, "extents"}
    else:
        assert different == FROM[name]


def test_a_changed_setting_is_computed_and_the_old_result_can_be_cleaned(copied, images):
    costs = fit_run(images, read_settings(CONFIG, None, ["retrain.C=0.01"]), copied, workers=1)
    fresh = [stage for stage, cost in costs.items() if not cost["reused"]]
    assert fresh == ["folds", "retrained", "findings", "extents"]
    folder = RunFolder(copied)
    assert folder.detected() == []  # they were made by another detector
    unused = folder.clean(remove=True)
    assert {path.parent.name for path in unused} == {*fresh, "detections"}
    assert folder.clean(remove=False) == []
    assert all(cost["reused"] for cost in fit_run(images, folder.config, copied, workers=1).values())


def test_tags_leave_the_description_alone(run, song, images):
    other = replace(images, tags=-images.tags)
    for folder, config, first in ((run, CONFIG, "activations"), (song, SONG, "degrees")):
        one, two = keys_of(folder, images, config), keys_of(folder, other, config)
        assert one["described"] == two["described"]
        assert one[first] != two[first]


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
    here, config = placed(tmp_path / "two")
    costs = fit_run(here, config, tmp_path / "two" / "run", workers=1)
    assert all(cost["reused"] for cost in costs.values())
    folder = RunFolder(tmp_path / "two" / "run")
    assert folder.detector.description.settings.features.network == str(tmp_path / "two" / "net.onnx")
    assert len(detect_run(folder, here, workers=1))


def test_truth_changes_nothing(run, images, tmp_path, monkeypatch):
    """True boxes, one of the class in every photo, leave every byte of every stage as it is."""
    monkeypatch.setattr(stages, "SHARD", 5)
    n = len(images)
    boxes = Truth(
        np.arange(n), np.tile(np.float32([0, 0, 9, 9]), (n, 1)), np.zeros(n, int), np.zeros(n, bool)
    )
    fit_run(replace(images, truth=boxes), CONFIG, tmp_path / "told", workers=1)
    told, untold = contents(tmp_path / "told"), contents(run)
    learned = [name for name in untold if name.split("/")[0] in (*STAGES, "detector.npz")]
    assert {name.split("/")[0] for name in learned} == {*STAGES, "detector.npz"}
    assert [name for name in learned if told[name] != untold[name]] == []


@pytest.mark.parametrize(("config", "workers"), [(CONFIG, 2), (SONG, 2), (CONFIG, 4)])
def test_more_workers_give_the_same_bytes(run, song, images, tmp_path, monkeypatch, config, workers):
    monkeypatch.setattr(stages, "SHARD", 5)
    fit_run(images, config, tmp_path / "two", workers=workers)
    detect_run(RunFolder(tmp_path / "two"), images, workers=workers)
    many, one = contents(tmp_path / "two"), contents(run if config is CONFIG else song)
    assert many.keys() == one.keys()
    # The notes hold paths from the run folder to the photos.
    notes = {"run.json", "detections.json"}
    assert [name for name in many if many[name] != one[name] and name not in notes] == []


def test_a_moved_run_still_detects(copied, run, images, tmp_path):
    moved = shutil.move(copied, tmp_path / "else" / "where")
    other = shutil.copytree(images.paths[0].parent, tmp_path / "other photos")
    paths = tuple(other / path.name for path in images.paths)
    again = detect_run(RunFolder(moved), replace(images, paths=paths), workers=1)
    first = boxes_of(run)
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
    store.write("config.toml", to_toml(CONFIG))
    write_run(store, images, ["0" * 64] * len(images), None)
    folder = RunFolder(tmp_path)
    for ask in (lambda: folder.detector, lambda: folder.result("described")):
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
    detector, described = folder.detector, folder.result("described")
    width = detector.description.projection.A.shape[1]
    assert 1 <= width <= min(len(described.X), 320)
    W = detector.scorer.weights.W
    assert W.shape[1] == described.X.shape[1] > width
    assert np.isfinite(W).all()
    assert np.isfinite(detect_run(folder, images, workers=1).score).all()
    assert write_report(tmp_path / "run").is_file()


def test_a_run_by_the_papers_method_is_reported(song, images, tmp_path):
    folder = RunFolder(shutil.copytree(song, tmp_path / "run"))
    assert len(detect_run(folder, images, workers=1))
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
    assert set(seeds) == {"windows.seed", "features.seed", "initial.seed", "retrain.seed", "detector.seed"}
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
