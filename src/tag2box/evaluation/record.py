"""`Scores` and `CorLoc`: what an evaluation found, class by class and in the mean."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tag2box.names import place_of_class

Ints = NDArray[np.intp]
Doubles = NDArray[np.float64]


class Curve(NamedTuple):
    """Precision and recall after each detection that counts, best score first: three arrays of one length."""

    recall: Doubles
    precision: Doubles
    score: Doubles


@dataclass(frozen=True, eq=False)
class Scores:
    """Average precision per class, with the curves and errors behind it.

    Parameters
    ----------
    metric : str
        The metric: "voc07", "voc10" or "coco".
    classes : tuple of str
        The names of the classes.
    ap : ndarray of shape (n_classes,)
        The average precision of each class.
    n_truth : ndarray of shape (n_classes,)
        The number of objects to find, without the difficult ones. A class without any has an AP of 0 and
        does not count in `mean`; a class with objects and no detections has an AP of 0 that counts.
    n_detections : ndarray of shape (n_classes,)
        The number of detections.
    curves : tuple of Curve
        The precision and recall of each class at an overlap of 0.5, whatever the metric.
    false_positives : dict of str to ndarray of shape (n_classes,)
        The number of false positives of each kind: "duplicate", "localization", "similar" and "background".
    coco : dict, default=None
        The summary of pycocotools, for the metric "coco".

    See Also
    --------
    evaluate : Makes it.

    Examples
    --------
    >>> import tag2box as t2b
    >>> detections = t2b.Detections([0], [[0, 0, 10, 10]], [0.9], [0])
    >>> truth = t2b.Truth(detections.image, detections.xyxy, detections.label, detections.score < 0)
    >>> scores = t2b.evaluate(detections, truth)
    >>> scores.mean
    1.0
    >>> scores.to_dict()["classes"]["0"]["n_truth"]
    1
    """

    metric: str
    classes: tuple[str, ...]
    ap: Doubles
    n_truth: Ints
    n_detections: Ints
    curves: tuple[Curve, ...]
    false_positives: dict[str, Ints]
    coco: dict[str, float] | None = None

    @property
    def mean(self) -> float:
        """The mean AP of the classes that have objects to find; 0 if there is none."""
        return _mean(self.ap, self.n_truth)

    def __getitem__(self, name: str) -> float:
        return float(self.ap[place_of_class(name, self.classes)])

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain numbers, for JSON.

        Returns
        -------
        dict
            Everything except the curves.
        """
        out: dict[str, Any] = {"metric": self.metric, "mean": self.mean, "classes": {}}
        for c, name in enumerate(self.classes):
            out["classes"][name] = {
                "ap": float(self.ap[c]),
                "n_truth": int(self.n_truth[c]),
                "n_detections": int(self.n_detections[c]),
                "false_positives": {kind: int(count[c]) for kind, count in self.false_positives.items()},
            }
        return out if self.coco is None else out | {"coco": self.coco}

    def __str__(self) -> str:
        return table(self.classes, {f"{self.metric} AP": (self.ap, self.mean)}, self.n_truth, "objects")


@dataclass(frozen=True, eq=False)
class CorLoc:
    """Correct localization per class: the share of positive images whose best box is right.

    Parameters
    ----------
    classes : tuple of str
        The names of the classes.
    share : ndarray of shape (n_classes,)
        The share of each class; 0 for a class without positive images, which does not count in `mean`.
    n_images : ndarray of shape (n_classes,)
        The number of positive images of each class.

    See Also
    --------
    corloc : Makes it.

    Examples
    --------
    >>> import numpy as np
    >>> import tag2box as t2b
    >>> result = t2b.CorLoc(("cat", "dog"), np.array([0.5, 0.9]), np.array([10, 20]))
    >>> result["dog"], result.mean
    (0.9, 0.7)
    """

    classes: tuple[str, ...]
    share: Doubles
    n_images: Ints

    @property
    def mean(self) -> float:
        """The mean share of the classes that have positive images; 0 if there is none."""
        return _mean(self.share, self.n_images)

    def __getitem__(self, name: str) -> float:
        return float(self.share[place_of_class(name, self.classes)])

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain numbers, for JSON.

        Returns
        -------
        dict
            The share and the number of images of each class, and the mean.
        """
        rows = zip(self.classes, self.share.tolist(), self.n_images.tolist(), strict=True)
        return {
            "metric": "corloc",
            "mean": self.mean,
            "classes": {name: {"corloc": share, "n_images": n} for name, share, n in rows},
        }

    def __str__(self) -> str:
        return table(self.classes, {"CorLoc": (self.share, self.mean)}, self.n_images, "images")


def _mean(values: Doubles, counts: Ints) -> float:
    return float(values[counts > 0].mean()) if (counts > 0).any() else 0.0


def table(
    classes: tuple[str, ...], columns: dict[str, tuple[Doubles, float]], counts: Ints, counted: str
) -> str:
    """A row for each class and one for the mean: each column's values, and how many they are of."""
    rows = [[*columns, counted]]
    for c in range(len(classes)):
        cells = [f"{values[c]:.3f}" if counts[c] else "-" for values, _ in columns.values()]
        rows.append([*cells, f"{counts[c]}"])
    rows.append([*(f"{mean:.3f}" for _, mean in columns.values()), ""])
    names, width = ("", *classes, "mean"), max(map(len, ("mean", *classes)))
    padded = (
        "  ".join(cell.rjust(len(head)) for head, cell in zip(rows[0], row, strict=True)) for row in rows
    )
    return "\n".join(f"{name:{width}}  {row}".rstrip() for name, row in zip(names, padded, strict=True))
