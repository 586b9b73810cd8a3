"""Whether confidences mean what they say on kinds of photos that they were not fitted on, and the fit.

    python -m benchmarks.confidence RUNS [--fit]

RUNS: a folder with finished runs named cards, steel, animals, tiles (`tag2box run wild/NAME/photos`) and
voc20 (`--split trainval`), as many as there are. Boxes in photos that have the tag are those of the run
itself. For boxes in new photos it learns anew from two thirds of each run's photos (of 600 at most), with the
prior that the run chose, and detects in the others, three times; no test photo is looked at. Each set is
judged by numbers fitted on the other sets (leave one set out). What is kept at 0.5 is a share of what all
boxes find, and of what those of 0.1 and more find, which `detect` writes by default. --fit writes the numbers
of all sets to training/confidence_table.py.
"""

import argparse
import inspect
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression

import tag2box as t2b
from benchmarks import DATA, Skip
from tag2box.description.describe import describe
from tag2box.description.record import Described, Maps
from tag2box.detection.detections import Detections
from tag2box.evaluation.matching import IGNORED, TRUE, outcomes
from tag2box.images import known_tags
from tag2box.methods import METHODS
from tag2box.run.folder import RunFolder, mined_windows
from tag2box.training import confidence_table
from tag2box.training.confidence import FEATURES, Shape, evened
from tag2box.training.known import Known
from tag2box.windows.record import Windows

SETS = ("cards", "steel", "animals", "tiles", "voc20")
TABLE = Path(confidence_table.__file__)
FOLDS = 3
# So many photos of a set at most, which bounds the time.
PHOTOS = 600
# Boxes of a photo and class that are looked at: the others are hardly ever right.
MOST = 20
# In photos learned from the score says little; in new ones nothing else may change the ranking of a class.
USED = {"tagged": ("share", "map", "smaller", "ahead"), "new": ("score", "ahead")}
COUNTED = {"tagged": 200, "new": 300}
# Of boxes in new photos those are fitted that may be right: the many below would shape the curve for all.
LEAST_SCORE = -4.0
# Where the middle begins, whose boxes are shown at 0.5. F1, in the mean over the sets, is best from 0.3 on;
# this is the smallest middle within a point of it (docs/experiments).
BEGINNING = 0.35
# Boxes below this confidence do not count in the errors: fewer than one in ten is right.
LEAST = 0.1


@dataclass(frozen=True)
class Boxes:
    """features: (n, n_features); right: (n,); label: (n,); margin: (n,); objects: how many there are."""

    features: np.ndarray
    right: np.ndarray
    label: np.ndarray
    margin: np.ndarray
    objects: np.ndarray


class InMemory:
    """Stages that are computed and not kept."""

    def __call__(self, function, *given):
        known = inspect.signature(function).parameters
        return function(*given, **({"workers": 1} if "workers" in known else {}))

    per_photo = __call__


def truth_of(name, images):
    """The images of a run, with their true boxes."""
    if name == "voc20":
        truth = t2b.read_images(DATA / "voc20" / "VOC2007", split="trainval")
    else:
        folder = DATA / "wild" / name
        truth = t2b.read_images(folder / "photos", folder / "truth" / "train.json")
    place = {image: i for i, image in enumerate(truth.ids)}
    return truth.only(images.classes).take([place[image] for image in images.ids])


def judged(detections, features, margin, truth, photos):
    """The boxes with which of them are right; those on difficult objects are left out."""
    outcome = outcomes(detections, truth.truth)
    kept = outcome != IGNORED
    real = ~truth.truth.difficult & np.isin(truth.truth.image, photos)
    objects = np.bincount(truth.truth.label[real], minlength=len(truth.classes))
    return Boxes(features[kept], outcome[kept] == TRUE, detections.label[kept], margin[kept], objects)


def tagged_boxes(run, truth):
    """Those of the run itself."""
    findings = run.findings
    margin = np.concatenate(findings.scores)
    return judged(
        mined_windows(run), np.concatenate(findings.features), margin, truth, np.arange(len(run.images))
    )


def take(described, photos):
    """Some photos, in memory."""
    rows, maps = described.rows_of(photos), described.maps
    windows = described.windows
    own = Windows(
        windows.xyxy[rows], np.append(0, np.cumsum(described.counts[photos])), windows.sizes[photos]
    )
    return Described(
        own, np.asarray(described.X[rows]), cells(maps, photos), cells(described.details, photos)
    )


def cells(maps, photos):
    """The maps of some photos, in memory."""
    if maps is None:
        return None
    offsets = np.append(0, np.cumsum(maps.counts[photos]))
    return Maps(np.asarray(maps.X[maps.rows_of(photos)]), offsets, maps.shape[photos])


def new_boxes(run, truth, seed=0):
    """In each third of the photos, by what is learned from the others; each has classes of its own."""
    drawn = np.random.default_rng(seed).permutation(len(run.images))[:PHOTOS]
    thirds = np.sort(drawn[: len(drawn) // FOLDS * FOLDS].reshape(FOLDS, -1))  # one or two only teach
    parts = [boxes_of_third(run, truth, np.setdiff1d(drawn, rest), rest) for rest in thirds]
    label = [k * len(truth.classes) + part.label for k, part in enumerate(parts)]
    rest = [[getattr(part, name) for part in parts] for name in ("features", "right", "margin", "objects")]
    features, right, margin, objects = map(np.concatenate, rest)
    return Boxes(features, right, np.concatenate(label), margin, objects)


def boxes_of_third(run, truth, learn, rest):
    """In some photos, by what is learned from others."""
    described, config = run.result("described"), run.config
    if "prior" in run.keys:
        settings = replace(config.two_stream, prior=run.result("prior").prior)
        config = replace(config, two_stream=settings)
    tags = known_tags(run.images.tags, config.unknown)
    learned = METHODS[config.method](Known(take(described, learn), tags[learn]), config, InMemory())
    calibration = learned.findings.calibration
    margins = replace(config.detect, confidence=False, max_detections=MOST)
    detector = replace(run.detector, scorer=learned.scorer, calibration=calibration, settings=margins)
    boxes, features = [], []
    for i in rest.tolist():
        photo = describe(run.images.paths[i], detector.searching, choose=detector.promising)
        scores, objectness = detector.scores(photo)
        everything = replace(detector, settings=replace(margins, max_detections=10_000))
        found = everything.select(scores, photo.windows)
        own = detector.features(found, photo.windows, objectness)
        first = np.arange(len(found)) - np.searchsorted(found.label, found.label) < MOST
        boxes.append(replace(found[first], image=np.full(first.sum(), i)))
        features.append(own[first])
    together = Detections.concatenate(boxes, ids=run.images.ids)
    return judged(together, np.concatenate(features), together.score, truth, rest)


def fit(kind, sets):
    """The numbers of `Shape`, from several sets; each counts as so many boxes at most: none outvotes all."""
    if kind == "new":
        sets = [likely(each) for each in sets]
    X = np.concatenate([each.features for each in sets])
    y = np.concatenate([each.right for each in sets])
    share = [min(len(each.right), COUNTED[kind]) / len(each.right) for each in sets]
    weight = np.concatenate([np.full(len(each.right), w) for each, w in zip(sets, share, strict=True)])
    mean, spread = np.nanmean(X, axis=0), np.nanstd(X, axis=0)
    spread[spread == 0] = 1
    used = np.isin(FEATURES, USED[kind])
    Z = np.nan_to_num((X - mean) / spread)[:, used]
    model = LogisticRegression(C=1.0, max_iter=1000).fit(Z, y, sample_weight=weight)
    weights = np.zeros(len(FEATURES))
    weights[used] = model.coef_[0]
    return (float(model.intercept_[0]), *weights.tolist(), *mean.tolist(), *spread.tolist())


def likely(boxes):
    """Those whose score is not very low."""
    kept = boxes.features[:, FEATURES.index("score")] >= LEAST_SCORE
    return replace(
        boxes,
        features=boxes.features[kept],
        right=boxes.right[kept],
        label=boxes.label[kept],
        margin=boxes.margin[kept],
    )


def probability(table, boxes):
    return 1 / (1 + np.exp(-Shape.of(table).logit(boxes.features)))


def middle(table, sets):
    """From where to where probabilities are shown at 0.5: so that half of those between are right."""
    above = [np.sort(p[p >= BEGINNING]) for p in (probability(table, boxes) for boxes in sets)]
    p = np.concatenate(above)
    order = np.argsort(p)
    weight = np.concatenate([np.full(len(own), 1 / len(own)) for own in above])[order]  # sets count alike
    right = np.cumsum(weight * p[order]) / np.cumsum(weight)
    return BEGINNING, float(p[order][min(np.searchsorted(right, 0.5), len(p) - 1)])


def calibration_error(sure, right, least=LEAST):
    kept = sure >= least
    bins = np.minimum((sure[kept] * 10).astype(int), 9)
    gaps = [abs((sure[kept] - right[kept])[bins == b].sum()) for b in range(10)]
    return sum(gaps) / max(kept.sum(), 1)


def average_precision(score, right, objects):
    order = np.argsort(-score, kind="stable")
    true = np.cumsum(right[order])
    precision = true / np.arange(1, len(true) + 1)
    return np.mean([precision[true >= t * objects].max(initial=0) for t in np.linspace(0, 1, 11)])


def mean_ap(score, boxes):
    classes = np.flatnonzero(boxes.objects)
    per_class = [(boxes.label == c, boxes.objects[c]) for c in classes]
    return np.mean([average_precision(score[own], boxes.right[own], n) for own, n in per_class])


def class_gap(sure, boxes):
    """(mean confidence - share of right boxes) of each class, in deviations of a coin of that probability."""
    gaps = []
    for c in np.unique(boxes.label):
        own = boxes.label == c
        p = sure[own].mean()
        gaps.append((p - boxes.right[own].mean()) / np.sqrt(p * (1 - p)))
    return gaps


def line(name, kind, sure, boxes):
    half = sure >= 0.5
    found = [boxes.right[half].sum() / max(boxes.right[sure >= t].sum(), 1) for t in (-np.inf, LEAST)]
    precision = boxes.right[half].mean() if half.any() else np.nan
    ranked = [100 * mean_ap(score, boxes) for score in (boxes.margin, sure)]
    return (
        f"{name:8} {kind:7} {calibration_error(sure, boxes.right):.3f}   {half.sum():5d} {precision:10.2f} "
        f"{found[0]:11.2f} {found[1]:12.2f}   {ranked[0]:6.1f} {ranked[1]:6.1f}"
    )


def run():
    """Nothing for `make bench`: it takes the runs of several sets."""
    raise Skip("python -m benchmarks.confidence RUNS measures it, in runs over several sets")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=Path)
    parser.add_argument("--fit", action="store_true", help=f"write {TABLE.name}")
    asked = parser.parse_args()
    names = [name for name in SETS if (asked.runs / name / "detector.npz").is_file()]
    tagged, new = {}, {}
    for name in names:
        run = RunFolder(asked.runs / name)
        truth = truth_of(name, run.images)
        tagged[name], new[name] = tagged_boxes(run, truth), new_boxes(run, truth)
        print(f"{name}: {len(tagged[name].right)} and {len(new[name].right)} boxes", flush=True)
    print("set      photos  ECE    at 0.5 precision  of all's recall, of 0.1's   AP by margin, by confidence")
    gaps = []
    for kind, sets in (("tagged", tagged), ("new", new)):
        for name in names:
            others = [boxes for other, boxes in sets.items() if other != name] or [sets[name]]
            table = fit(kind, others)
            sure = probability(table, sets[name])
            if kind == "new":
                sure = evened(sure, middle(table, others))
            print(line(name, kind, sure, sets[name]), flush=True)
            if kind == "tagged":
                gaps += class_gap(sure, sets[name])
    error = float(np.sqrt(np.mean(np.square(gaps))))
    print(f"classes: mean confidence off by {error:.2f} deviations")
    tables = [fit(kind, list(sets.values())) for kind, sets in (("tagged", tagged), ("new", new))]
    for which, table in zip(("tagged", "new"), tables, strict=True):
        print(which, ", ".join(f"{f} {b:+.2f}" for f, b in zip(FEATURES, table[1:], strict=False)))
    evenly = middle(tables[1], list(new.values()))
    print("shown at 0.5: from {:.2f} to {:.2f}".format(*evenly))
    if asked.fit:
        TABLE.write_text(as_text(names, error, evenly, *tables))


def as_text(names, error, evenly, tagged, new):
    def rows(table):
        n = len(FEATURES)
        lines = [table[:1], *(table[1 + k * n : 1 + (k + 1) * n] for k in range(3))]
        return "".join(
            f"    *({', '.join(f'{value:.4g}' for value in line)}{',' * (len(line) == 1)}),\n"
            for line in lines
        )

    return f'''"""The numbers of `confidence`, as `python -m benchmarks.confidence --fit` wrote them.

β₀, then β, mean and spread of each feature. Fitted on {", ".join(names)}: on the boxes
found in the photos that each was learned from, and on detections in thirds of them that were left out.
"""

__all__ = ["CLASS_ERROR", "MIDDLE", "NEW", "TAGGED"]

# How far the mean confidence of a class is from its share of right boxes on a set that was left out of the
# fit, in deviations of a coin toss.
CLASS_ERROR = {error:.2f}
# The probabilities of boxes in new photos, from and to, that are shown at 0.5.
MIDDLE = ({evenly[0]:.4g}, {evenly[1]:.4g})
TAGGED = (
{rows(tagged)})
NEW = (
{rows(new)})
'''


if __name__ == "__main__":
    main()
