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
from tag2box.reproduce.show_voc import as_dict, as_markdown
from tag2box.reproduce.voc_tables import (
    CLASSES,
    OURS,
    PAPER,
    ROWS,
    SIX,
    describe_test,
    detect_described,
    row_settings,
    run_voc_table,
)
from tag2box.run.folder import RunFolder, detect_run
from tag2box.runtime.config import read_settings
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
    assert fresh == [ROWS[0], OURS]  # once for each method, which describe photos differently


def test_a_row_is_what_detect_and_evaluate_say(voc, cells):
    run, test = RunFolder(voc.parent / "out" / "train"), read_images(voc, split="test")
    found = detect_run(run, test, workers=1)
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
    sure = np.sort(run.detector.confidence(every).score)
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


def test_the_papers_rows_have_nothing_of_ours():
    """No map, no context, no voting, no whitening; what the paper and its release say of the rest."""
    config = row_settings("Cover + SLSVM", 0)
    assert (config.method, config.unknown, config.keeps_maps) == ("song2014", "positive", False)
    assert description_settings(config).maps is None  # and so no context
    assert config.cover.initializer == "cover"
    assert (config.detect.vote_iou, config.detect.full_windows, config.features.whitening) == (1, 0, 0)
    for stage in (config.initial, config.refine):
        assert (stage.C, stage.loss) == (1e-3, "smooth_hinge")
    assert (config.refine.method, config.refine.mu) == ("slsvm", 0.01)
    assert row_settings("negative mining + SVM", 0).cover.initializer == "negative_mining"
    assert row_settings("Cover + LSVM", 0).refine.method == "lsvm"
    assert row_settings("Cover + SVM", 3).initial.seed == 3
    assert row_settings(OURS, 3) == replace(Config(), retrain=replace(Config().retrain, seed=3))


def test_a_missing_class_is_refused(voc, tmp_path):
    with pytest.raises(InputError, match="the table needs the class bird"):
        run_voc_table(voc, ["bird"], tmp_path, seeds=1, workers=1)
