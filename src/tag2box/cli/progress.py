"""Progress for people, on standard error: one bar for the whole command in a terminal, lines in a log."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tag2box.runtime.progress import Progress
from tag2box.runtime.units import seconds_in_words

# What is over sooner needs no word; a log wants a line no more often; a time left is believed from then on.
SECONDS_BEFORE_FIRST, SECONDS_BETWEEN_LINES = 2.0, 10.0
SECONDS_OF_PROOF, SHARE_OF_PROOF = 5.0, 0.03
# The steps of a run or a detection in their order: their label, what it is in a user's words, and about how
# large a share of the time it takes.
STEPS = {
    "first look": ("reading the photos", 4),
    "reading": ("reading the photos", 1),
    "sample": ("looking at some photos", 6),
    "describing": ("looking at the photos", 60),
    "details": ("looking for small objects", 6),
    "neighbors": ("comparing the photos", 10),
    "cover": ("choosing what is alike", 2),
    "choosing the prior": ("weighing the evidence", 6),
    "two streams": ("learning where the objects are", 7),
    "finding boxes anew": ("checking the boxes", 5),
    "initial detector": ("learning the detector", 2),
    "refinement": ("learning the detector", 5),
    "retraining": ("learning the detector", 3),
    "student's maps": ("looking at the photos again", 5),
    "your boxes": ("looking at your boxes", 5),
    "learning with corrections": ("learning from your corrections", 5),
    "detections": ("finding objects", 90),
    "drawing the boxes": ("drawing the boxes", 10),
}


@contextmanager
def progress_shown() -> Iterator[Progress]:
    """A `Progress` on standard error, as a bar where that is a terminal and as lines where it is not."""
    if sys.stderr.isatty():
        with _bar() as progress:
            yield progress
    else:
        yield _Lines()


class _Step:
    """One step: when it began, and how much was done by then; that says nothing about the speed."""

    def __init__(self, label: str, done: int) -> None:
        self.label, self.before, self.last, self.started = label, done, done, time.monotonic()

    def left(self, done: int, total: int) -> str:
        """The time left in words, once that can be believed."""
        seconds, made = time.monotonic() - self.started, done - self.before
        if done >= total or made < max(2, SHARE_OF_PROOF * total) or seconds < SECONDS_OF_PROOF:
            return ""
        return f", about {seconds_in_words(seconds / made * (total - done))} left"


@contextmanager
def _bar() -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (BarColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task, whole = bars.add_task("", total=None), _Whole()
        step = _Step("", 0)

        def show(label: str, done: int, total: int) -> None:
            nonlocal step
            if label != step.label or done < step.last:
                step = _Step(label, done)
            step.last = done
            share = whole.share(label, done / max(total, 1))
            text = f"{in_words(label)}: {done}/{total}{step.left(done, total)}"
            bars.update(task, description=text, total=1 if share else None, completed=share)

        yield show


class _Whole:
    """How much of the whole command is done, by what its steps take for most; it never goes back."""

    def __init__(self) -> None:
        self._most, self._detects = 0.0, False

    def share(self, label: str, done: float) -> float:
        self._detects |= label in ("detections", "drawing the boxes")
        steps = [(name, weight) for name, (_, weight) in STEPS.items()]
        cut = [name for name, _ in steps].index("detections")
        steps = [*steps[:2], *steps[cut:]] if self._detects else steps[:cut]
        names = [name for name, _ in steps]
        if label in names:
            at = names.index(label)
            reached = sum(weight for _, weight in steps[:at]) + done * steps[at][1]
            self._most = max(self._most, reached / sum(weight for _, weight in steps))
        return self._most


class _Lines:
    """A line where a step takes its time."""

    def __init__(self) -> None:
        self._steps: dict[str, _Step] = {}
        self._spoke: dict[str, float] = {}

    def __call__(self, label: str, done: int, total: int) -> None:
        now = time.monotonic()
        step = self._steps.setdefault(label, _Step(label, done))
        spoke = self._spoke.get(label, step.started - SECONDS_BETWEEN_LINES + SECONDS_BEFORE_FIRST)
        if (done >= total and label in self._spoke) or now - spoke >= SECONDS_BETWEEN_LINES:
            self._spoke[label] = now
            sys.stderr.write(f"{in_words(label)}: {done}/{total}{step.left(done, total)}\n")
            sys.stderr.flush()
        if done >= total:  # should the step come again, for other images, its time starts anew
            self._steps.pop(label, None)
            self._spoke.pop(label, None)


def in_words(label: str) -> str:
    """A step in a user's words."""
    return STEPS.get(label, (label, 0))[0]
