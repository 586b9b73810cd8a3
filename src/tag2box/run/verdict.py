"""The verdict on a run: of each class about how many boxes are right, what looks wrong, what to try next.

Nobody says which boxes are right: the shares are means of confidences, which are learned on other data
(`training/confidence.py`); two of three classes are in the range given. What looks wrong is what can be seen
without true boxes: a rule of thumb each.
"""

import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tag2box.boxes import iou_matrix
from tag2box.description.record import Described
from tag2box.images import known_tags
from tag2box.run.folder import RunFolder
from tag2box.run.suspects import LIKELY, read_suspects
from tag2box.training.confidence import CLASS_ERROR
from tag2box.training.findings import best_windows

Boxes = NDArray[np.float32]

# So many classes are named, the worst first, and of a name so many letters: a screen holds no more.
LINES, LETTERS = 20, 24
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
# Below this share of right boxes something is to be done: this, where nothing else looks wrong.
GOOD, REVIEW = 0.75, "review some"


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

    @property
    def share(self) -> str:
        """About how many of its boxes are right, and the range."""
        between = f"{self.low:.0%} to {self.high:.0%}"
        return f"{self.right:.0%} of {self.boxes} ({between})" if self.boxes else "no box"

    @property
    def sentence(self) -> str:
        """What looks wrong and what to try, in a sentence."""
        if not self.wrong:
            return "Nothing looks wrong." if self.right >= GOOD else "Many may be wrong: review some."
        return f"{self.wrong[0].upper()}{self.wrong[1:]}{f': {self.advice}' if self.advice else ''}."

    @property
    def remark(self) -> str:
        """What looks wrong, and what to try; nothing where it is but to be reviewed, as any class may be."""
        return ": ".join(filter(None, [self.wrong, self.advice])) if self.wrong else ""


@dataclass(frozen=True)
class Verdict:
    """Of each class, the worst first; notes: what concerns all of them; next: the one thing to try now."""

    classes: tuple[ClassVerdict, ...]
    notes: tuple[str, ...] = ()
    next: str = ""

    def __str__(self) -> str:
        shown = self.classes[:LINES]
        names = [f"{each.name[:LETTERS]}" for each in shown]
        wide, wider = max(map(len, names), default=0), max((len(each.share) for each in shown), default=0)
        lines = ["About so many boxes are right, the worst class first:"] if shown else []
        for name, each in zip(names, shown, strict=True):
            lines.append(f"  {name:<{wide}}  {each.share:<{wider}}  {each.remark}".rstrip())
        if (more := len(self.classes) - LINES) > 0:
            lines.append(f"  and {more} more classes, which look better")
        return "\n".join([*lines, *self.notes, *([f"Try next: {self.next}"] if self.next else [])])

    def to_dict(self) -> dict[str, Any]:
        """The same for JSON."""
        return {
            "classes": [asdict(each) for each in self.classes],
            "notes": list(self.notes),
            "next": self.next,
        }


def judge_run(run: RunFolder) -> Verdict:
    """The verdict on a finished run, from its boxes and tags alone."""
    images, findings = run.images, run.findings
    tags = known_tags(images.tags, run.config.unknown)
    described: Described = run.result("described")
    windows = described.windows
    classes = []
    for c, name in enumerate(images.classes):
        photos = windows.image_of(findings.rows[c])
        if not len(photos) and run.last_stage == "corrected":
            continue  # a person has judged all of them
        boxes = (findings.boxes[c] / np.tile(windows.sizes[photos], 2)).astype(np.float32)
        right = float(findings.confidence[c].mean()) if len(boxes) else 0.0
        hinted = run.config.maps.details == "always"
        wrong, advice = _odd(boxes, _larger(run, described, tags, c), tags, c, images.classes, hinted=hinted)
        if right < GOOD and not advice:
            advice = REVIEW
        spread = float(CLASS_ERROR * np.sqrt(right * (1 - right)))
        low, high = max(0.0, right - spread), min(1.0, right + spread)
        classes.append(ClassVerdict(name, len(boxes), right, low, high, wrong, advice))
    classes.sort(key=lambda each: each.right)
    return Verdict(tuple(classes), tuple(_notes(run, tags)), _next(run.folder, classes))


def _notes(run: RunFolder, tags: NDArray[np.int8]) -> list[str]:
    """What looks wrong about the photos and tags of all classes."""
    notes = []
    if len(tags) and (tags == 1).any(axis=1).all() and tags.shape[1] > 1:
        notes.append("Every photo has a class: some without any would help to tell objects from ground.")
    if likely := sum(doubt >= LIKELY for *_, doubt in read_suspects(run)):
        what = "1 tag looks" if likely == 1 else f"{likely} tags look"
        notes.append(f"{what} wrong: order “check these tags first” of tag2box review {run.folder}")
    return notes


def _next(folder: Path, classes: Sequence[ClassVerdict]) -> str:
    """The one thing to try: what helps the class of which the fewest boxes are right."""
    if not classes or (worst := classes[0]).right >= GOOD:
        return ""
    if worst.advice != REVIEW:
        return f"{worst.name}: {worst.advice}"
    return f"tag2box review {folder} --class {shlex.quote(worst.name)}"


def _odd(
    boxes: Boxes,
    larger: float,
    tags: NDArray[np.int8],
    c: int,
    classes: Sequence[str],
    *,
    hinted: bool = False,
) -> tuple[str, str]:
    """What looks wrong about a class's boxes, in shares of their photos, and what to try; two texts.

    hinted: objects were said to be small already.
    """
    if not len(boxes):
        return "none was found", "check its photos and tags"
    if (other := _always_with(tags, c)) is not None:
        return f"nearly always with {classes[other]}", "add photos of one alone"
    area = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1)
    if (area > WHOLE).mean() >= MOST:
        return "nearly whole photos", "add some where it is farther away"
    if (area < SMALL).mean() >= MOST:
        return "very small", "add larger photos, or crops" if hinted else "run again with --objects small"
    if _same_place(boxes) >= MOST:
        return "all at one place", "add photos where it is elsewhere"
    if larger >= PART:
        return "may be parts of it", "run again with --set two_stream.prior=8"
    if larger <= 1 / GROUP:
        return "may hold more than it", "add photos of one alone, or review some"
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


def _larger(run: RunFolder, described: Described, tags: NDArray[np.int8], c: int) -> float:
    """How many times larger than the box the object map's best window is, in the median; 1 without maps."""
    if "competition" not in run.keys or run.last_stage == "corrected":
        return 1.0
    column = run.result("competition").values[:, [c]]
    best = best_windows(described.windows, tags[:, [c]], described.by_image(column)).boxes[0]
    boxes = run.findings.boxes[c]
    if len(best) != len(boxes) or not len(best):
        return 1.0
    ratio = np.prod(best[:, 2:] - best[:, :2], axis=1) / np.prod(boxes[:, 2:] - boxes[:, :2], axis=1)
    return float(np.median(ratio))
