"""What a report says, apart from how it looks: plain records of pictures, charts and tables.

`build_content` makes them from the records of the stages; `render_page` lays them out in `page.html.j2`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tag2box._version import __version__
from tag2box.cover.greedy import Cover
from tag2box.detection.detections import Detections
from tag2box.detection.drawing import Picture, class_color
from tag2box.detection.html import render_template
from tag2box.evaluation.reliability import Reliability
from tag2box.evaluation.scores import CorLoc, Scores
from tag2box.images import ImageSet
from tag2box.neighbors.search import Neighbors
from tag2box.report.charts import gain_chart, histogram, recall_chart, reliability_chart
from tag2box.report.pictures import (
    AFTER,
    BEFORE,
    Boxes,
    Sizes,
    before_and_after,
    best_and_worst,
    heat_maps,
    learned_boxes,
    picks_and_neighbors,
)
from tag2box.report.tables import Table, metric_name, settings_table, summary_table, timing_table
from tag2box.run.card import Card
from tag2box.run.heat_maps import Heat
from tag2box.run.verdict import Verdict
from tag2box.runtime.units import seconds_in_words
from tag2box.windows.search import Windows


@dataclass(frozen=True)
class ClassRecords:
    """What the stages made for one class; what is None is left out of the report.

    heat: of an image's number, its map of the class; before, after: the first window of each positive image,
    and its box after learning, with its confidence.
    """

    cover: Cover | None = None
    heat: Callable[[int], Heat] | None = None
    before: Boxes = field(default_factory=dict)
    after: Boxes = field(default_factory=dict)
    confidence: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class ClassContent:
    """The part of one class. Charts are SVG; picks are rows: the window selected, then its neighbors."""

    name: str
    color: str
    facts: tuple[tuple[str, str], ...]
    learned: tuple[Picture, ...] = ()
    best: tuple[Picture, ...] = ()
    worst: tuple[Picture, ...] = ()
    heat: tuple[Picture, ...] = ()
    boxes: tuple[Picture, ...] = ()
    picks: tuple[tuple[Picture, ...], ...] = ()
    gains: str = ""
    curve: str = ""
    note: str = ""

    @property
    def typical(self) -> Picture | None:
        """The photo whose box is in the middle by confidence."""
        return self.learned[len(self.learned) // 2] if self.learned else None


@dataclass(frozen=True)
class ReportContent:
    """Everything a report says. facts: (what, value) of the whole; judged: true boxes were given.

    sheet: all photos learned from, the most doubtful first. notes: what concerns all classes; missing: which
    photos could not be shown. review: the command that opens the review page.
    """

    title: str
    facts: tuple[tuple[str, str], ...]
    summary: Table
    classes: tuple[ClassContent, ...]
    judged: bool
    lead: str = "Learned from image tags alone: nobody drew a box."
    verdict: Verdict | None = None
    confidences: tuple[str, ...] = ()
    reliability: str = ""
    sheet: tuple[Picture, ...] = ()
    n_photos: int = 0
    missing: str = ""
    review: str = ""
    suspects: Table | None = None
    timing: Table | None = None
    config: Table | None = None
    card: Card | None = None
    version: str = __version__

    def of(self, name: str) -> ClassContent | None:
        """The part of that class."""
        return next((part for part in self.classes if part.name == name), None)


def render_page(content: ReportContent) -> str:
    """The page: no script, no other file, no request; every name in it is escaped."""
    colors = {"before": BEFORE, "after": AFTER}
    return render_template("tag2box.report", "page.html.j2", report=content, colors=colors)


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

    detections: boxes in the images of `test`. scores: their AP. sure: how often they are right at each
    confidence. corlocs: the CorLoc of each stage or method, by the name it is shown under. events: those of
    `events.jsonl`. Photos are read only where shown. Memory: one photo, and the pictures made.
    """
    corlocs, sizes = corlocs or {}, Sizes.for_classes(len(images.classes))
    parts = []
    for name in images.classes:
        records = classes.get(name, ClassRecords())
        best, worst = best_and_worst(test or images, detections, name, sizes)
        part = ClassContent(
            name=name,
            color=class_color(images.classes.index(name)),
            facts=_facts(images, name, scores, corlocs),
            learned=learned_boxes(images, records.after, records.confidence, name, sizes),
            best=best,
            worst=worst,
            heat=heat_maps(images, records.heat, records.after or records.before, name, sizes),
            boxes=before_and_after(images, records.before, records.after, name, sizes),
            picks=picks_and_neighbors(images, windows, neighbors, records.cover, name, sizes),
            gains=_gains(records.cover, name),
            curve=_curve(scores, name),
            note=records.cover.message if records.cover else "",
        )
        parts.append(part)
    return ReportContent(
        title=title,
        facts=_whole(images, test, scores, corlocs, events),
        summary=summary_table(images, scores, corlocs),
        classes=tuple(parts),
        judged=scores is not None or bool(corlocs),
        confidences=_confidences(classes, detections, test),
        reliability=_reliability(sure),
        timing=timing_table(events),
        config=settings_table(config),
        n_photos=len(images),
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


def _confidences(
    classes: Mapping[str, ClassRecords], detections: Detections | None, test: ImageSet | None
) -> tuple[str, ...]:
    """How many boxes there are of each confidence: in the photos learned from, and in new ones."""
    own = [value for records in classes.values() for value in records.confidence.values()]
    charts = [histogram(own, "boxes in the photos learned from")] if own else []
    if detections is not None and test is not None and detections.score.min(initial=0) >= 0:
        shown = detections.score[detections.score >= 0.1]  # below are nearly all, and hardly any is right
        charts += [histogram(shown, "boxes in new photos, from 0.1 on")] if shown.max(initial=0) <= 1 else []
    return tuple(charts)


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
    test: ImageSet | None,
    scores: Scores | None,
    corlocs: Mapping[str, CorLoc],
    events: Sequence[Mapping[str, Any]],
) -> tuple[tuple[str, str], ...]:
    facts = [("photos learned from", f"{len(images):,}"), ("classes", f"{len(images.classes):,}")]
    if test is not None:
        facts.append(("new photos", f"{len(test):,}"))
    facts += [(f"mean CorLoc, {method}", f"{shares.mean:.2f}") for method, shares in corlocs.items()]
    if scores is not None:
        facts.append((f"mean {metric_name(scores)}", f"{scores.mean:.2f}"))
    seconds = sum(float(e.get("seconds", 0)) for e in events if e.get("event") == "finished")
    if seconds:
        facts.append(("time", seconds_in_words(seconds)))
    return tuple(facts)
