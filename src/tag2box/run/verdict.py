"""The verdict on a run: of each class about how many boxes are right, what looks wrong, what to try next.

Nobody says which boxes are right: the shares are means of confidences, which are learned on other data
(`training/confidence.py`); two of three classes are in the range given. What looks wrong is what can be seen
without true boxes: a rule of thumb each.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tag2box.boxes import iou_matrix
from tag2box.images import known_tags
from tag2box.run.folder import RunFolder
from tag2box.training.confidence import CLASS_ERROR
from tag2box.training.findings import best_windows
from tag2box.windows.record import Windows

__all__ = ["ClassVerdict", "Verdict", "judge_run"]

Boxes = NDArray[np.float32]

# So many classes are named, the worst first: a screen holds no more.
LINES = 20
# From this share of a class's boxes on, something is said of all of them.
MOST = 0.6
# A box above this share of its photo is nearly all of it; below that one it is small.
WHOLE, SMALL = 0.8, 0.01
# Boxes of two photos that overlap by more, each in shares of its photo, are at the same place.
SAME_PLACE = 0.7
# A box that is so many times smaller than what the object map shows is a part; so many times larger, a group.
PART, GROUP = 3.0, 3.0
# A class is told by another's presence where so many of its photos have the other tag too.
TOGETHER = 0.9
# Below this share of right boxes something is to be done.
GOOD = 0.75


@dataclass(frozen=True)
class ClassVerdict:
    """right: about the share of its boxes that are right, between low and high; wrong, advice: in words."""

    name: str
    boxes: int
    right: float
    low: float
    high: float
    wrong: str = ""
    advice: str = ""

    def __str__(self) -> str:
        between = f"{self.low:.0%} to {self.high:.0%}"
        share = f"{self.name}: about {self.right:.0%} of {self.boxes} boxes right ({between})"
        return ". ".join(filter(None, [share, self.remark]))

    @property
    def remark(self) -> str:
        """What looks wrong, and what to try."""
        return ": ".join(filter(None, [self.wrong, self.advice]))


@dataclass(frozen=True)
class Verdict:
    """Of each class, the worst first, and what concerns all of them."""

    classes: tuple[ClassVerdict, ...]
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [str(each) for each in self.classes[:LINES]]
        if (more := len(self.classes) - LINES) > 0:
            lines.append(f"and {more} more classes, which look better")
        return "\n".join([*lines, *self.notes])

    def to_dict(self) -> dict[str, Any]:
        """The same for JSON."""
        return {"classes": [asdict(each) for each in self.classes], "notes": list(self.notes)}


def judge_run(run: RunFolder) -> Verdict:
    """The verdict on a finished run, from its boxes and tags alone."""
    images, findings = run.images, run.findings
    tags = known_tags(images.tags, run.config.unknown)
    windows = run.result("described").windows
    classes = []
    for c, name in enumerate(images.classes):
        photos = windows.image_of(findings.rows[c])
        if not len(photos) and run.last_stage == "corrected":
            continue  # a person has judged all of them
        boxes = findings.boxes[c] / np.tile(windows.sizes[photos], 2)
        right = float(findings.confidence[c].mean()) if len(boxes) else 0.0
        wrong, advice = _odd(boxes, _larger(run, windows, tags, c), tags, c, images.classes)
        if right < GOOD and not advice:
            advice = f"review some: tag2box review {run.folder} --class {_quoted(name)}"
        spread = float(CLASS_ERROR * np.sqrt(right * (1 - right)))
        low, high = max(0.0, right - spread), min(1.0, right + spread)
        classes.append(ClassVerdict(name, len(boxes), right, low, high, wrong, advice))
    notes = []
    if len(tags) and ((tags == 1).any(axis=1)).all() and len(images.classes) > 1:
        notes.append(
            "Every photo has a class: some photos without any would help to tell objects from ground."
        )
    return Verdict(tuple(sorted(classes, key=lambda each: each.right)), tuple(notes))


def _odd(
    boxes: Boxes, larger: float, tags: NDArray[np.int8], c: int, classes: Sequence[str]
) -> tuple[str, str]:
    """What looks wrong about a class's boxes, in shares of their photos, and what to try; two texts."""
    if not len(boxes):
        return "No box was found", "check its photos and tags"
    if (other := _always_with(tags, c)) is not None:
        return f"Nearly all its photos have {classes[other]} too", "add photos of one without the other"
    area = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1)
    if (area > WHOLE).mean() >= MOST:
        return "Most boxes are nearly the whole photo", "add photos where it is farther away"
    if (area < SMALL).mean() >= MOST:
        return "Most boxes are very small", "larger photos, or crops of them, show more of such objects"
    if _same_place(boxes) >= MOST:
        return "Most boxes are at the same place of their photos", "add photos where it is elsewhere"
    if larger >= PART:
        return "Most boxes may be parts: what stands out around them is larger", ""
    if larger <= 1 / GROUP:
        return "Most boxes may hold more than the object: what stands out in them is smaller", ""
    return "", ""


def _always_with(tags: NDArray[np.int8], c: int) -> int | None:
    """The class whose tag nearly all photos of class c have too; None where there is none."""
    share = (tags[tags[:, c] == 1] == 1).mean(axis=0)
    share[c] = 0
    rarer = (tags == 1).mean(axis=0) < MOST  # of one that most photos have, that says nothing
    found = np.flatnonzero((share >= TOGETHER) & rarer)
    return int(found[0]) if len(found) else None


def _same_place(boxes: Boxes) -> float:
    """The share of pairs of photos whose boxes are at the same place."""
    few = boxes[np.linspace(0, len(boxes) - 1, min(len(boxes), 200)).astype(np.intp)]
    if len(few) < 3:
        return 0.0
    same = iou_matrix(few, few) > SAME_PLACE
    return float((same.sum() - len(few)) / (len(few) * (len(few) - 1)))


def _larger(run: RunFolder, windows: Windows, tags: NDArray[np.int8], c: int) -> float:
    """How many times larger than the box the object map's best window is, in the median; 1 without maps."""
    if "competition" not in run.keys or run.last_stage == "corrected":
        return 1.0
    column = run.result("competition").values[:, [c]]
    best = best_windows(windows, tags[:, [c]], windows.by_image(column)).boxes[0]
    boxes = run.findings.boxes[c]
    if len(best) != len(boxes) or not len(best):
        return 1.0
    ratio = np.prod(best[:, 2:] - best[:, :2], axis=1) / np.prod(boxes[:, 2:] - boxes[:, :2], axis=1)
    return float(np.median(ratio))


def _quoted(name: str) -> str:
    return f'"{name}"' if " " in name else name
