"""Tables 2 and 3 on toys: every row is trained, scored as `detect` and `evaluate` do, and found again."""

from dataclasses import replace

import numpy as np
import pytest
from tests._schemas import check
from tests._toys import FAST, make_toys, make_truth

from tag2box import Config, evaluate, read_images
from tag2box.detection.config import DetectConfig
from tag2box.errors import InputError
from tag2box.pipeline import description_settings
from tag2box.reproduce.printed import CLASSES, OTHERS, PAPER, SIX
from tag2box.reproduce.show_voc import as_dict, as_markdown
from tag2box.reproduce.voc_tables import (
    OURS,
    ROWS,
    describe_test,
    detect_described,
    row_settings,
    run_voc_table,
)
from tag2box.run.fitting import detect_run
from tag2box.run.folder import RunFolder
from tag2box.runtime.config import read_settings, settings
from tag2box.runtime.progress import silent

CONFIG = read_settings(Config(), None, FAST)


@pytest.fixture(scope="module")
def voc(tmp_path_factory):
    """Toys in the devkit's layout, the same images as trainval and as test."""
    folder = tmp_path_factory.mktemp("voc")
    make_toys(folder / "toys")
    make_truth(folder / "toys", folder / "VOC")
    lists = folder / "VOC" / "ImageSets" / "Main"
    for path in list(lists.glob("*test.txt")):
        path.with_name(path.name.replace("test", "trainval")).write_text(path.read_text())
    return folder / "VOC"


@pytest.fixture(scope="module")
def cells(voc):
    return run_voc_table(voc, ["thing"], voc.parent / "out", seeds=2, workers=1, base=CONFIG)


def test_every_row_and_seed_is_there(cells):
    assert [(cell.row, cell.seed) for cell in cells] == [
        (row, seed) for seed in range(2) for row in (*ROWS, OURS)
    ]
    fresh = [cell.row for cell in cells if not cell.costs["described"]["reused"]]
    assert fresh == 2 * [ROWS[0], OURS]  # once for each seed and method, which describe photos differently


def test_a_row_is_what_detect_and_evaluate_say(voc, cells):
    run, test = RunFolder(voc.parent / "out" / "train"), read_images(voc, split="test")
    found = detect_run(run, test, workers=1)[0]
    assert evaluate(found, test)["thing"] == pytest.approx(cells[-1].ap["thing"])


def test_test_photos_are_detected_in_as_detect_does(voc, cells):
    """With settings that matter: some boxes overlap others, and there are more than may be kept."""
    out, test = voc.parent / "out", read_images(voc, split="test")
    run = RunFolder(out / "train")
    few = DetectConfig(iou_threshold=0.6, max_detections=2, confidence=False)
    detector = replace(run.detector, settings=few)
    found = detect_described(detector, test, describe_test(test, run, out / "test", 1, silent))
    parts = [detector.detect(path) for path in test.paths]
    assert found.image.tolist() == [i for i, part in enumerate(parts) for _ in range(len(part))]
    np.testing.assert_array_equal(found.xyxy, np.concatenate([part.xyxy for part in parts]))
    np.testing.assert_allclose(
        found.score, np.concatenate([part.score for part in parts]), rtol=1e-3, atol=1e-3
    )
    assert np.bincount(found.image).max() == 2
    every = replace(detector, settings=replace(few, max_detections=100))
    assert len(every.detect(test.paths[0])) > 2


def test_the_least_score_is_a_confidence_in_the_tables_too(voc, cells):
    out, test = voc.parent / "out", read_images(voc, split="test")
    run = RunFolder(out / "train")
    photos = describe_test(test, run, out / "test", 1, silent)
    every = detect_described(run.detector, test, photos)
    sure = np.sort(np.concatenate([run.detector.detect(path).score for path in test.paths]))
    gap = np.argmax(np.diff(sure))  # some on either side, and none near it
    least = replace(run.detector.settings, min_score=(sure[gap] + sure[gap + 1]) / 2)
    detector = replace(run.detector, settings=least)
    found = detect_described(detector, test, photos)
    parts = [detector.detect(path) for path in test.paths]
    assert 0 < len(found) < len(every)
    np.testing.assert_array_equal(found.xyxy, np.concatenate([part.xyxy for part in parts]))


def test_the_table_says_means_and_spread(cells):
    values = np.array([cell.ap["thing"] for cell in cells if cell.row == ROWS[1]])
    with pytest.MonkeyPatch.context() as patch:
        for row in ROWS:
            patch.setitem(PAPER, row, {"thing": 50.0})
        table = as_dict(cells, ["thing"])
        check("reproduce table2", table)
    row = table["rows"][ROWS[1]]["ap"]
    assert row["mean"] == pytest.approx(100 * values.mean(), abs=0.06)
    assert row["std_over_seeds"] == pytest.approx(100 * values.std(), abs=0.06)
    text = as_markdown(table)
    assert text.count("| *Song et al. 2014* | 50.0 | 50.0 |") == len(ROWS)
    assert "| described |" in text


def test_the_papers_means_are_those_it_prints():
    for row, six, twenty in (("Cover + SVM", 29.0, 20.3), ("Cover + LSVM", 30.8, 22.2)):
        assert np.mean([PAPER[row][name] for name in SIX]) == pytest.approx(six, abs=0.06)
        assert np.mean([PAPER[row][name] for name in CLASSES]) == pytest.approx(twenty, abs=0.06)
    assert np.mean(list(PAPER["Cover + SLSVM"].values())) == pytest.approx(22.7, abs=0.06)
    assert np.mean(list(PAPER["negative mining + SVM"].values())) == pytest.approx(11.6, abs=0.06)


def test_the_means_of_others_are_those_of_their_rows():
    rows = [(other, len(classes)) for classes, others in OTHERS.items() for other in others if other.ap]
    assert len(rows) == 5
    for other, n in rows:
        assert len(other.ap) == n
        # The paper prints 16.0 and 20.8 where the mean of its row is 15.6 and 20.6.
        assert np.mean(other.ap) == pytest.approx(other.mean, abs=0.4), other.name


def test_rows_of_others_stand_below_ours(cells):
    named = [
        replace(cell, ap=each, corloc=each, first=each)
        for cell in cells
        for each in [dict.fromkeys(SIX, 0.5)]
    ]
    table = as_dict(named, SIX)
    check("reproduce table2", table)
    lines = as_markdown(table).splitlines()
    assert "| *Russakovsky et al. 2012* | 30.8 | 25.0 | 3.6 | 26.0 | 21.3 | 29.9 | 22.8 | | | |" in lines
    assert any("| 9.1, 23.6 | 33.4, 49.4 |" in line for line in lines)
    assert len({line.count("|") for line in lines[2 : lines.index("", 2)]}) == 1


# What the paper and its release say, setting by setting.
OF_THE_PAPER = {
    "detect.by": "windows",
    "method": "song2014",
    "unknown": "positive",
    "windows.n_search": 2000,
    "features.padding": 0,
    "features.whitening": 0,
    "features.norm": "l2",
    "features.length": 20,
    "cover.initializer": "cover",
    "cover.k": 0.5,
    "cover.t": 1,
    "cover.g": "identity",
    "cover.alpha": 0.95,
    "cover.method": "score",
    "cover.seeds": 0.2,
    **{f"{stage}.bias": 10 for stage in ("initial", "refine")},
    **{f"{stage}.positive_weight": 2 for stage in ("initial", "refine")},
    **{f"{stage}.loss": "smooth_hinge" for stage in ("initial", "refine")},
    "refine.method": "slsvm",
    "refine.mu": 0.01,
    "refine.top": 15,
    "detect.iou_threshold": 0.3,
    "detect.vote_iou": 1,
    "detect.full_windows": 0,
    "detect.min_score": -np.inf,
}
# What stands for the paper's network and windows, and what bounds time and memory.
IN_PLACE = (
    *("windows.mode", "windows.min_size", "windows.thin_iou", "windows.max_windows", "windows.seed"),
    *("features.network", "features.mode", "features.cut", "features.levels", "features.grid"),
    *("features.precision", "features.runtime", "features.device", "features.dimensions", "features.dtype"),
    *("features.sample_images", "features.sample_windows", "features.seed"),
    *("cover.dimensions", "cover.seed_dimensions", "cover.most_images"),
    *("initial.C", "refine.C"),  # by folds: they belong to the vectors
    *("initial.rounds", "initial.hardest", "initial.seed", "refine.rounds", "refine.tol"),
    *("detect.max_detections", "detect.confidence", "detect.max_windows", "detect.thin_iou"),
)
# What its method does not read: no map, no context, no two streams.
UNREAD = (
    *("maps.", "two_stream.", "retrain.", "features.crop", "features.size"),
    "detector.",
)


def test_the_papers_settings_have_nothing_of_ours():
    """Every setting is named above: a new one has to say whether it is the paper's."""
    config = Config.song2014()
    assert description_settings(config).maps is None  # and so no context
    assert config.features.mode == "pyramid"
    for name, value in settings(config):
        if not name.startswith(UNREAD) and name not in IN_PLACE:
            assert value == OF_THE_PAPER.get(name, "not named above"), name


def test_the_rows_of_the_table_are_by_the_papers_settings():
    paper = Config.song2014()
    paper = replace(paper, detect=replace(paper.detect, confidence=False))
    assert row_settings("Cover + SLSVM", 0) == paper
    assert row_settings("Cover + LSVM", 0) == replace(paper, refine=replace(paper.refine, method="lsvm"))
    assert row_settings("negative mining + SVM", 0).cover == replace(
        paper.cover, initializer="negative_mining"
    )
    third = row_settings("Cover + SVM", 3)
    assert (third.features.seed, third.initial.seed) == (3, 3)
    ours = Config()
    assert row_settings(OURS, 3) == replace(
        ours, features=replace(ours.features, seed=3), retrain=replace(ours.retrain, seed=3)
    )


def test_a_missing_class_is_refused(voc, tmp_path):
    with pytest.raises(InputError, match="the table needs the class bird"):
        run_voc_table(voc, ["bird"], tmp_path, seeds=1, workers=1)
