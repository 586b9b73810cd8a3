"""COCO AP against pycocotools run on its own, from JSON files as its users write them."""

import contextlib
import io
import json
import sys

import numpy as np
import pytest

from tag2box.detection.detections import Detections
from tag2box.errors import InputError
from tag2box.evaluation.scores import evaluate
from tag2box.images import Truth


def reference(truth_rows, result_rows, n_classes, folder):
    """pycocotools' twelve figures, and its AP of each class on its own, from files."""
    coco, cocoeval = pytest.importorskip("pycocotools.coco"), pytest.importorskip("pycocotools.cocoeval")
    (folder / "truth.json").write_text(json.dumps(truth_rows))
    (folder / "result.json").write_text(json.dumps(result_rows))
    with contextlib.redirect_stdout(io.StringIO()):
        truth = coco.COCO(str(folder / "truth.json"))
        result = truth.loadRes(str(folder / "result.json"))
        figures = []
        for wanted in (None, *range(1, n_classes + 1)):
            judge = cocoeval.COCOeval(truth, result, "bbox")
            judge.params.catIds = judge.params.catIds if wanted is None else [wanted]
            judge.evaluate()
            judge.accumulate()
            judge.summarize()
            figures.append(judge.stats)
    return figures[0], [stats[0] for stats in figures[1:]]


def random_rows(seed, n_classes=3):
    """COCO's own JSON: x, y, width, height, ids from 1 for images, categories and annotations."""
    rng = np.random.default_rng(seed)

    def box(size):
        return [*rng.integers(0, 100, 2).tolist(), *rng.integers(8, size, 2).tolist()]

    truth = [
        {"image_id": int(i), "category_id": int(c), "bbox": box(150), "iscrowd": int(rng.random() < 0.2)}
        for i, c in zip(rng.integers(1, 7, 40), rng.integers(1, n_classes + 1, 40), strict=True)
    ]
    for number, row in enumerate(truth, start=1):
        row |= {"id": number, "area": row["bbox"][2] * row["bbox"][3]}
    result = [
        {key: row[key] for key in ("image_id", "category_id")}
        | {
            "bbox": [max(1, v + int(rng.integers(-6, 7))) for v in row["bbox"]],
            "score": float(rng.integers(9)),
        }
        for row in truth
        for _ in range(2)
    ]
    result += [
        {"image_id": 1, "category_id": 1, "bbox": box(100), "score": float(rng.integers(9))}
        for _ in range(130)  # COCO looks at the best 100 of an image and class
    ]
    names = {"images": [{"id": i} for i in range(1, 7)]}
    names |= {"categories": [{"id": c} for c in range(1, n_classes + 1)]}
    return names | {"annotations": truth}, result


def ours(truth_rows, result_rows):
    def columns(rows, *names):
        boxes = np.array([row["bbox"] for row in rows], np.float32)
        boxes[:, 2:] += boxes[:, :2]
        image, label = (np.array([row[k] for row in rows]) - 1 for k in ("image_id", "category_id"))
        return {"image": image, "label": label, "xyxy": boxes} | {k: [row[k] for row in rows] for k in names}

    truth = columns(truth_rows["annotations"], "iscrowd")
    truth["difficult"] = np.array(truth.pop("iscrowd"), bool)
    return Detections(**columns(result_rows, "score")), Truth(**truth)


@pytest.mark.parametrize("seed", range(8))
def test_coco_ap_is_pycocotools_own(seed, tmp_path):
    truth_rows, result_rows = random_rows(seed)
    stats, per_class = reference(truth_rows, result_rows, 3, tmp_path)
    scores = evaluate(*ours(truth_rows, result_rows), metric="coco")
    np.testing.assert_allclose(scores.ap, per_class, rtol=0, atol=1e-12)
    assert scores.mean == pytest.approx(stats[0], abs=1e-12)
    assert list(scores.coco.values()) == [x for x in stats if x > -1]
    assert 0.02 < scores.mean < 0.98  # a case that says something


def test_coco_ap_by_hand():
    """A box of overlap 0.72 is right for 0.5, 0.55, ... 0.7: five of COCO's ten."""
    truth = Truth(np.array([0]), np.array([[0, 0, 100, 100]]), np.array([0]), np.array([False]))
    scores = evaluate(Detections([0], [[0, 0, 100, 72]], [1.0], [0]), truth, "coco")
    assert scores.ap[0] == pytest.approx(0.5)
    assert (scores.coco["AP50"], scores.coco["AP75"]) == (pytest.approx(1), 0)
    assert "APs" not in scores.coco  # no small object: left out, not -1


def test_coco_is_silent(capsys):
    truth_rows, result_rows = random_rows(0)
    evaluate(*ours(truth_rows, result_rows), metric="coco")
    assert capsys.readouterr().out == ""


def test_without_pycocotools_the_error_names_the_install_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "pycocotools.coco", None)
    truth_rows, result_rows = random_rows(0)
    with pytest.raises(InputError, match=r'pip install "tag2box\[coco\]"'):
        evaluate(*ours(truth_rows, result_rows), metric="coco")
