"""What a report says, apart from how it looks: plain records of pictures, charts and tables.

`build_content` makes them from the records of the stages; `page.py` lays them out.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tag2box.cover.greedy import Cover
from tag2box.detection.detections import Detections
from tag2box.detection.drawing import Picture
from tag2box.evaluation.reliability import Reliability
from tag2box.evaluation.scores import CorLoc, Scores
from tag2box.images import ImageSet
from tag2box.neighbors.search import Neighbors
from tag2box.report.charts import gain_chart, recall_chart, reliability_chart
from tag2box.report.sections import (
    before_and_after,
    best_and_worst,
    heat_maps,
    picks_and_neighbors,
)
from tag2box.report.tables import Table, metric_name, settings_table, summary_table, timing_table
from tag2box.report.thumbnails import Thumbnails
from tag2box.run.card import Card
from tag2box.run.heat_maps import Heat
from tag2box.runtime.units import seconds_in_words
from tag2box.windows.search import Windows

__all__ = ["ClassContent", "ClassRecords", "ReportContent", "Table", "build_content"]

Boxes = Mapping[int, NDArray[np.float32]]  # image: its one box


@dataclass(frozen=True)
class ClassRecords:
    """What the stages made for one class; what is None is left out of the report.

    heat: of an image's number, its map of the class; before, after: the first window of each positive image,
    and its box after learning; mined: the window of negative mining (Siva et al. 2012), for comparison.
    """

    cover: Cover | None = None
    heat: Callable[[int], Heat] | None = None
    before: Boxes = field(default_factory=dict)
    after: Boxes = field(default_factory=dict)
    mined: Boxes = field(default_factory=dict)


@dataclass(frozen=True)
class ClassContent:
    """The part of one class. Charts are SVG; picks are rows: the window selected, then its neighbors.

    mined: windows of negative mining are drawn too.
    """

    name: str
    facts: tuple[tuple[str, str], ...]
    picks: tuple[tuple[Picture, ...], ...] = ()
    gains: str = ""
    heat: tuple[Picture, ...] = ()
    boxes: tuple[Picture, ...] = ()
    mined: bool = False
    best: tuple[Picture, ...] = ()
    worst: tuple[Picture, ...] = ()
    curve: str = ""
    note: str = ""


@dataclass(frozen=True)
class ReportContent:
    """Everything a report says. facts: (what, value) of the whole; judged: true boxes were given.

    notes: what the verdict says of all classes.
    """

    title: str
    facts: tuple[tuple[str, str], ...]
    summary: Table
    classes: tuple[ClassContent, ...]
    judged: bool
    reliability: str = ""
    verdict: Table | None = None
    notes: tuple[str, ...] = ()
    lead: str = "Learned from image tags alone: nobody drew a box."
    suspects: Table | None = None
    timing: Table | None = None
    config: Table | None = None
    version: str = ""
    card: Card | None = None


def build_content(
    images: ImageSet,
    windows: Windows,
    classes: Mapping[str, ClassRecords],
    *,
    title: str = "tag2box report",
    neighbors: Neighbors | None = None,
    detections: Detections | None = None,
    test: ImageSet | None = None,
    scores: Scores | None = None,
    sure: Reliability | None = None,
    corlocs: Mapping[str, CorLoc] | None = None,
    events: Sequence[Mapping[str, Any]] = (),
    config: Mapping[str, Any] | None = None,
) -> ReportContent:
    """The content of a report from the records of a run; what is not given is left out.

    detections: boxes in the images of `test` (of `images` where that is None). scores: their AP. sure: how
    often they are right at each confidence. corlocs: the CorLoc of each stage or method, by the name it is
    shown under. events: those of `events.jsonl`.
    Photos are read only where shown. Memory: one photo, and the pictures made: below 5 MB.
    """
    from tag2box._version import __version__

    corlocs = corlocs or {}
    thumbnails = Thumbnails.for_classes(len(images.classes))
    parts = []
    for name in images.classes:
        learned = _learned(images, windows, neighbors, classes.get(name, ClassRecords()), name, thumbnails)
        found = best_and_worst(test or images, detections, name, thumbnails)
        facts, curve = _facts(images, name, scores, corlocs), _curve(scores, name)
        best, worst = found.get("best", ()), found.get("worst", ())
        parts.append(replace(learned, facts=facts, curve=curve, best=best, worst=worst))
    return ReportContent(
        title=title,
        facts=_whole(images, windows, test, scores, corlocs, events),
        summary=summary_table(images, scores, corlocs),
        classes=tuple(parts),
        judged=scores is not None or bool(corlocs),
        reliability=_reliability(sure),
        timing=timing_table(events),
        config=settings_table(config),
        version=__version__,
    )


def _learned(
    images: ImageSet,
    windows: Windows,
    neighbors: Neighbors | None,
    records: ClassRecords,
    name: str,
    thumbnails: Thumbnails,
) -> ClassContent:
    """What was made of the images learned from."""
    before, after = records.before, records.after
    return ClassContent(
        name=name,
        facts=(),
        picks=picks_and_neighbors(images, windows, neighbors, records.cover, name, thumbnails),
        gains=_gains(records.cover, name),
        heat=heat_maps(images, windows, records.heat, after or before, name, thumbnails),
        boxes=before_and_after(images, before, after, name, thumbnails, records.mined),
        mined=bool(records.mined),
        note=records.cover.message if records.cover else "",
    )


def _facts(
    images: ImageSet, name: str, scores: Scores | None, corlocs: Mapping[str, CorLoc]
) -> tuple[tuple[str, str], ...]:
    facts = [
        ("tagged with it", f"{len(images.positives(name))}"),
        ("tagged without", f"{len(images.negatives(name))}"),
    ]
    facts += [(f"CorLoc, {method}", f"{shares[name]:.2f}") for method, shares in corlocs.items()]
    if scores is not None and name in scores.classes:
        facts.append((metric_name(scores), f"{scores[name]:.2f}"))
    return tuple(facts)


def _gains(cover: Cover | None, name: str) -> str:
    if cover is None or len(cover.gains) == 0:
        return ""
    reached = cover.F_S / max(cover.F_V, 1e-12)
    caption = f"Gain curve of {name}: {len(cover.selected)} windows reach {reached:.0%} of the value of all"
    return gain_chart(cover.gains, cover.F_V, caption)


def _curve(scores: Scores | None, name: str) -> str:
    if scores is None or name not in scores.classes:
        return ""
    at = scores.classes.index(name)
    if scores.n_truth[at] == 0 or len(scores.curves[at].recall) == 0:
        return ""
    caption = f"Precision against recall of {name}, AP {scores[name]:.2f}"
    return recall_chart(scores.curves[at].recall, scores.curves[at].precision, caption)


def _reliability(sure: Reliability | None) -> str:
    if sure is None or not sure.boxes.any():
        return ""
    filled = sure.boxes > 0
    caption = f"Share of right boxes against confidence, expected calibration error {sure.error:.2f}"
    return reliability_chart(sure.confidence[filled], sure.right[filled], caption)


def _whole(
    images: ImageSet,
    windows: Windows,
    test: ImageSet | None,
    scores: Scores | None,
    corlocs: Mapping[str, CorLoc],
    events: Sequence[Mapping[str, Any]],
) -> tuple[tuple[str, str], ...]:
    facts = [("images to learn from", f"{len(images):,}"), ("classes", f"{len(images.classes):,}")]
    facts.append(("windows", f"{len(windows.xyxy):,}"))
    if test is not None:
        facts.append(("images to detect in", f"{len(test):,}"))
    facts += [(f"mean CorLoc, {method}", f"{shares.mean:.2f}") for method, shares in corlocs.items()]
    if scores is not None:
        facts.append((f"mean {metric_name(scores)}", f"{scores.mean:.2f}"))
    seconds = sum(float(e.get("seconds", 0)) for e in events if e.get("event") == "finished")
    if seconds:
        facts.append(("time", seconds_in_words(seconds)))
    return tuple(facts)
