"""VOC AP and CorLoc: tables worked by hand, the devkit's rules written out slowly, names, borders."""

import json
from fractions import Fraction

import numpy as np
import pytest

from tag2box.detection.detections import Detections
from tag2box.errors import InputError
from tag2box.evaluation.scores import corloc, evaluate
from tag2box.images import ImageSet, Truth

HALF = Fraction(1, 2)


def truth_of(*rows):
    """Rows of image, label, difficult, (xmin, ymin, xmax, ymax) as VOC writes them."""
    boxes = [(x1 - 1, y1 - 1, x2, y2) for *_, (x1, y1, x2, y2) in rows]
    return Truth(
        image=np.array([row[0] for row in rows], np.intp),
        xyxy=np.array(boxes, np.float32).reshape(-1, 4),
        label=np.array([row[1] for row in rows], np.intp),
        difficult=np.array([row[2] for row in rows], bool),
    )


def detections_of(*rows, **names):
    """Rows of image, label, score, (xmin, ymin, xmax, ymax) as VOC writes them."""
    boxes = [(x1 - 1, y1 - 1, x2, y2) for *_, (x1, y1, x2, y2) in rows]
    return Detections(
        image=[row[0] for row in rows],
        xyxy=boxes,
        score=[row[2] for row in rows],
        label=[row[1] for row in rows],
        **names,
    )


def voc_overlap(a, b):
    """VOCevaldet.m's own lines, 1-based inclusive, in exact numbers; None where they do not meet."""
    width = min(a[2], b[2]) - max(a[0], b[0]) + 1
    height = min(a[3], b[3]) - max(a[1], b[1]) + 1
    if width <= 0 or height <= 0:
        return None
    areas = sum((x2 - x1 + 1) * (y2 - y1 + 1) for x1, y1, x2, y2 in (a, b))
    return Fraction(width * height, areas - width * height)


def voc_best(box, objects):
    """Index and overlap of the object that `box` overlaps most; the first of equals."""
    best, most = None, Fraction(-1)
    for j, (*_, other) in enumerate(objects):
        overlap = voc_overlap(box, other)
        if overlap is not None and overlap > most:
            best, most = j, overlap
    return best, most


def voc_points(found, objects, label):
    """(recall, precision) after each detection of class `label`, VOCevaldet.m step by step."""
    objects = [o for o in objects if o[1] == label]
    n_positive = sum(not difficult for _, _, difficult, _ in objects)
    found = sorted((d for d in found if d[1] == label), key=lambda d: -d[2])
    detected, tp, fp, points = set(), 0, 0, []
    for image, _, _, box in found:
        here = [o for o in objects if o[0] == image]
        j, overlap = voc_best(box, here)
        if overlap >= HALF:
            if not here[j][2]:
                if (image, j) in detected:
                    fp += 1
                else:
                    tp += 1
                    detected.add((image, j))
        else:
            fp += 1
        if tp + fp and n_positive:
            points.append((Fraction(tp, n_positive), Fraction(tp, tp + fp)))
    return points


def slow_ap07(points):
    grid = [Fraction(k, 10) for k in range(11)]
    return sum(max((p for r, p in points if r >= t), default=0) for t in grid) / Fraction(11)


def slow_ap10(points):
    """VOCap.m: sentinels, envelope from the right, area of the steps."""
    recall = [Fraction(0), *(r for r, _ in points), Fraction(1)]
    precision = [Fraction(0), *(p for _, p in points), Fraction(0)]
    for i in range(len(precision) - 2, -1, -1):
        precision[i] = max(precision[i], precision[i + 1])
    return sum((recall[i] - recall[i - 1]) * precision[i] for i in range(1, len(recall)))


def random_case(seed):
    """A few crowded images: whole numbers on a small grid and few scores, so that ties and halves abound."""
    rng = np.random.default_rng(seed)
    n_images, n_classes = rng.integers(1, 5), rng.integers(1, 4)

    def box():
        x, y = rng.integers(1, 7, 2)
        return int(x), int(y), int(x + rng.integers(0, 6)), int(y + rng.integers(0, 6))

    def place():
        return int(rng.integers(n_images)), int(rng.integers(n_classes))

    objects = [(*place(), bool(rng.random() < 0.3), box()) for _ in range(rng.integers(0, 21))]
    near = [o for o in objects if rng.random() < 0.8]
    found = [(image, label, int(rng.integers(4)), at) for image, label, _, at in near]
    found += [(*place(), int(rng.integers(4)), box()) for _ in range(rng.integers(0, 25))]
    return [found[i] for i in rng.permutation(len(found))], objects


@pytest.mark.parametrize("block", range(6))
def test_voc_ap_is_the_devkits_on_random_cases(block):
    for seed in range(500 * block, 500 * block + 500):
        found, objects = random_case(seed)
        detections, truth = detections_of(*found), truth_of(*objects)
        ap07, ap10 = (evaluate(detections, truth, metric) for metric in ("voc07", "voc10"))
        for c in range(len(ap07.classes)):
            points = voc_points(found, objects, c)
            assert ap07.ap[c] == pytest.approx(float(slow_ap07(points)), abs=1e-12), (seed, c)
            assert ap10.ap[c] == pytest.approx(float(slow_ap10(points)), abs=1e-12), (seed, c)
            assert ap07.n_truth[c] == sum(o[1] == c and not o[2] for o in objects)


def slow_kind(d, rank, found, objects):
    """Hoiem's kinds, one detection at a time; None where it is no false positive."""
    image, label, _, box = d
    own = [o for o in objects if o[:2] == (image, label)]
    j, overlap = voc_best(box, own)
    if overlap >= HALF:
        better = any(
            f[:2] == (image, label) and voc_best(f[3], own)[0] == j and voc_best(f[3], own)[1] >= HALF
            for r, f in enumerate(found)
            if (-f[2], r) < (-d[2], rank)
        )
        return "duplicate" if better and not own[j][2] else None
    if overlap >= Fraction(1, 10):
        return "localization"
    others = [o for o in objects if o[0] == image and o[1] != label]
    return "similar" if voc_best(box, others)[1] >= Fraction(1, 10) else "background"


def test_false_positive_kinds_on_random_cases():
    seen = set()
    for seed in range(300):
        found, objects = random_case(seed)
        scores = evaluate(detections_of(*found), truth_of(*objects))
        expected = {kind: [0] * len(scores.classes) for kind in scores.false_positives}
        for rank, d in enumerate(found):
            kind = slow_kind(d, rank, found, objects)
            if kind is not None:
                expected[kind][d[1]] += 1
                seen.add(kind)
        assert {kind: n.tolist() for kind, n in scores.false_positives.items()} == expected, seed
    assert seen == {"duplicate", "localization", "similar", "background"}


def test_a_table_worked_by_hand():
    truth = truth_of((0, 0, 0, (1, 1, 10, 10)), (0, 0, 1, (21, 1, 30, 10)), (1, 0, 0, (1, 1, 10, 10)))
    detections = detections_of(
        (0, 0, 0.9, (1, 1, 10, 10)),  # true: recall 1/2, precision 1
        (0, 0, 0.8, (1, 1, 10, 9)),  # its second: false, precision 1/2
        (0, 0, 0.7, (21, 1, 30, 10)),  # difficult: neither
        (1, 0, 0.6, (50, 50, 60, 60)),  # background: false, precision 1/3
        (1, 0, 0.5, (1, 1, 10, 10)),  # true: recall 1, precision 2/4
    )
    scores = evaluate(detections, truth)
    curve = scores.curves[0]
    np.testing.assert_allclose(curve.recall, [0.5, 0.5, 0.5, 1])
    np.testing.assert_allclose(curve.precision, [1, 1 / 2, 1 / 3, 1 / 2])
    np.testing.assert_allclose(curve.score, [0.9, 0.8, 0.6, 0.5])
    assert scores.ap[0] == pytest.approx((6 * 1 + 5 * 0.5) / 11)
    assert evaluate(detections, truth, "voc10").ap[0] == pytest.approx(0.5 * 1 + 0.5 * 0.5)
    assert scores.n_truth[0] == 2
    assert scores.n_detections[0] == 5
    assert {kind: int(n[0]) for kind, n in scores.false_positives.items()} == {
        "duplicate": 1,
        "localization": 0,
        "similar": 0,
        "background": 1,
    }


@pytest.mark.parametrize("n_truth", [10, 20, 30, 70, 1000])
@pytest.mark.parametrize("tenths", range(1, 11))
def test_recall_exactly_on_a_grid_point_counts(n_truth, tenths):
    """0.1 * 3 is not 0.3 in floats: the point at recall 0.3 must not be lost."""
    box = (1, 1, 10, 10)
    truth = truth_of(*((i, 0, 0, box) for i in range(n_truth)))
    detections = detections_of(*((i, 0, -i, box) for i in range(n_truth * tenths // 10)))
    assert evaluate(detections, truth).ap[0] == pytest.approx((tenths + 1) / 11, abs=1e-12)


def test_overlap_of_exactly_half_is_right_and_needs_the_devkits_plus_one():
    truth = truth_of((0, 0, 0, (1, 1, 10, 10)))
    half = detections_of((0, 0, 1, (1, 1, 10, 5)))  # 50 of 100 pixels; 36 of 81 without the +1
    assert evaluate(half, truth).mean == 1
    assert corloc(half, truth).mean == 1
    below = detections_of((0, 0, 1, (1, 1, 9, 5)))
    assert evaluate(below, truth).mean == 0
    assert corloc(below, truth).mean == 0


def test_a_detection_belongs_to_its_best_object_even_if_that_is_taken_or_difficult():
    objects = (0, 0, 0, (1, 1, 10, 10)), (0, 0, 0, (1, 1, 10, 14))
    twice = detections_of((0, 0, 2, (1, 1, 10, 10)), (0, 0, 1, (1, 1, 10, 11)))
    assert evaluate(twice, truth_of(*objects), "voc10").ap[0] == 0.5  # the second object stays unfound
    difficult = truth_of((0, 0, 1, (1, 1, 10, 10)), objects[1])
    scores = evaluate(twice, difficult)
    assert scores.ap[0] == 0
    assert len(scores.curves[0].recall) == 0


def test_equal_scores_count_in_the_order_given():
    truth = truth_of((0, 0, 0, (1, 1, 10, 10)))
    right, wrong = (0, 0, 1, (1, 1, 10, 10)), (0, 0, 1, (50, 50, 60, 60))
    assert evaluate(detections_of(right, wrong), truth).ap[0] == pytest.approx(1)
    assert evaluate(detections_of(wrong, right), truth).ap[0] == pytest.approx(0.5)


@pytest.mark.parametrize("metric", ["voc07", "voc10", "coco"])
def test_classes_without_truth_or_detections_have_a_stated_value(metric):
    box = (1, 1, 10, 10)
    truth = truth_of((0, 0, 0, box), (0, 1, 0, box), (0, 2, 1, box))
    detections = detections_of((0, 0, 1, box), (0, 2, 1, box), (0, 3, 1, (50, 50, 60, 60)))
    scores = evaluate(detections, truth, metric)
    np.testing.assert_allclose(scores.ap, [1, 0, 0, 0])
    assert scores.n_truth.tolist() == [1, 1, 0, 0]  # found; missed; only difficult; none
    assert scores.n_detections.tolist() == [1, 0, 1, 1]
    assert scores.mean == pytest.approx(0.5)
    assert [line.split()[1:] for line in str(scores).splitlines()].count(["-", "0"]) == 2
    assert str(corloc(detections, truth)).splitlines()[-1].split() == ["mean", "0.500"]


@pytest.mark.parametrize("metric", ["voc07", "voc10", "coco"])
def test_nothing_at_all_scores_nought(metric):
    scores = evaluate(detections_of(), truth_of(), metric)
    assert (scores.mean, len(scores.ap)) == (0, 0)
    scores = evaluate(detections_of(classes=("cat",)), truth_of(), metric)
    assert (scores.mean, scores.ap.tolist()) == (0, [0])
    assert corloc(detections_of(), truth_of()).mean == 0


def image_set(truth, ids=("a", "b"), classes=("cat", "dog"), tags=None):
    tags = np.ones((len(ids), len(classes)), np.int8) if tags is None else np.array(tags, np.int8)
    return ImageSet(tuple(ids), tuple(ids), tags, tuple(classes), truth)


def test_an_image_set_is_matched_by_name():
    box, there = (1, 1, 10, 10), (31, 31, 40, 40)
    images = image_set(truth_of((0, 0, 0, box), (1, 1, 0, there)))
    here = detections_of((0, 0, 1, box), (1, 1, 1, there))
    turned = detections_of((1, 1, 1, box), (0, 0, 1, there), ids=("b", "a"), classes=("dog", "cat"))
    for detections in (here, turned):
        assert evaluate(detections, images).ap.tolist() == pytest.approx([1, 1])
        assert corloc(detections, images).share.tolist() == [1, 1]
    assert evaluate(here, images)["dog"] == evaluate(here, images.truth).ap[1]
    assert evaluate(turned, images).classes == ("cat", "dog")


def test_names_that_hold_no_detection_do_no_harm():
    box = (1, 1, 10, 10)
    images = image_set(truth_of((0, 0, 0, box)))
    detections = detections_of((2, 1, 1, box), ids=("x", "y", "a"), classes=("cow", "cat"))
    assert evaluate(detections, images).mean == pytest.approx(1)


@pytest.mark.parametrize(
    ("detections", "says"),
    [
        (detections_of((0, 0, 1, (1, 1, 2, 2)), ids=("z",)), "image 'z'.*not in the truth"),
        (detections_of((0, 0, 1, (1, 1, 2, 2)), classes=("cow",)), "class 'cow'.*not in the truth"),
        (detections_of((2, 0, 1, (1, 1, 2, 2))), "image 2.*has 2"),
        (detections_of((0, 2, 1, (1, 1, 2, 2))), "class 2.*has 2"),
    ],
)
def test_detections_of_strangers_are_refused(detections, says):
    with pytest.raises(InputError, match=says):
        evaluate(detections, image_set(truth_of()))
    with pytest.raises(InputError, match=says):
        corloc(detections, image_set(truth_of()))


def test_wrong_arguments_are_refused():
    found = detections_of((0, 0, 1, (1, 1, 2, 2)), classes=("cat",))
    with pytest.raises(InputError, match="no metric 'voc12': there are voc07, voc10, coco"):
        evaluate(found, truth_of(), "voc12")
    with pytest.raises(InputError, match="no true boxes"):
        evaluate(found, image_set(None))
    with pytest.raises(InputError, match="must be an ImageSet or its Truth"):
        evaluate(found, found)
    with pytest.raises(InputError, match="class 1"):
        evaluate(found, truth_of((0, 1, 0, (1, 1, 2, 2))))
    with pytest.raises(InputError, match="no class 'cow' here"):
        evaluate(found, truth_of())["cow"]


def test_to_dict_is_plain_json():
    box = (1, 1, 10, 10)
    found, truth = detections_of((0, 0, 1, box), classes=("cat",)), truth_of((0, 0, 0, box))
    for scores in (evaluate(found, truth, "coco"), evaluate(found, truth), corloc(found, truth)):
        back = json.loads(json.dumps(scores.to_dict()))
        assert back["mean"] == scores.mean
        assert list(back["classes"]) == ["cat"]


def slow_corloc(found, objects, tags, label):
    hits = []
    for image, tag in enumerate(tags):
        own = [o for o in objects if o[:2] == (image, label)]
        if tag != 1 or not own:
            continue
        here = [d for d in found if d[:2] == (image, label)]
        best = max(here, key=lambda d: d[2], default=None)  # the first of equals
        hits.append(best is not None and voc_best(best[3], own)[1] >= HALF)
    return sum(hits) / len(hits) if hits else 0.0, len(hits)


def test_corloc_is_the_slow_one_on_random_cases():
    for seed in range(1000):
        found, objects = random_case(seed)
        tags = np.random.default_rng(seed).choice([-1, 0, 1], (4, 3), p=[0.2, 0.2, 0.6])
        images = image_set(truth_of(*objects), "abcd", ("x", "y", "z"), tags)
        result = corloc(detections_of(*found), images)
        expected = [slow_corloc(found, objects, tags[:, c], c) for c in range(3)]
        assert list(zip(result.share, result.n_images, strict=True)) == expected, seed
        counted = [share for share, n in expected if n]
        assert result.mean == pytest.approx(np.mean(counted) if counted else 0)


def test_corloc_of_bare_truth_counts_images_with_an_object_that_is_not_difficult():
    box = (1, 1, 10, 10)
    truth = truth_of((0, 0, 0, box), (1, 0, 1, box), (2, 0, 0, (31, 31, 40, 40)), (2, 0, 1, box))
    result = corloc(detections_of(*((i, 0, 1, box) for i in range(3))), truth)
    assert (result.share.tolist(), result.n_images.tolist()) == ([1], [2])  # a difficult one may be hit
