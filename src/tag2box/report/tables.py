"""The tables of a report: classes, stages, settings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from tag2box.evaluation.scores import CorLoc, Scores
from tag2box.images import ImageSet
from tag2box.run.suspects import Suspects
from tag2box.runtime.units import seconds_in_words

# So many suspect tags are listed.
SUSPECTS = 20


@dataclass(frozen=True)
class Table:
    """A table with its heading; the first cell of each row names the row."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def summary_table(images: ImageSet, scores: Scores | None, corlocs: Mapping[str, CorLoc]) -> Table:
    """What each class is tagged with and, where true boxes are known, how good its boxes are."""
    columns = (
        {"with": 1, "without": -1, "unknown": 0} if (images.tags == 0).any() else {"with": 1, "without": -1}
    )
    head = ["class", *columns, *(f"CorLoc, {method}" for method in corlocs)]
    head += [metric_name(scores), "objects", "detections"] if scores else []
    rows = []
    for c, name in enumerate(images.classes):
        tags = images.tags[:, c]
        row = [name, *(str(int((tags == value).sum())) for value in columns.values())]
        row += [f"{shares[name]:.3f}" for shares in corlocs.values()]
        if scores and name in scores.classes:
            at = scores.classes.index(name)
            row += [f"{scores.ap[at]:.3f}", str(scores.n_truth[at]), str(scores.n_detections[at])]
        rows.append(tuple(row))
    mean = ["mean", *("" for _ in columns), *(f"{shares.mean:.3f}" for shares in corlocs.values())]
    mean += [f"{scores.mean:.3f}", "", ""] if scores else []
    if corlocs or scores:
        rows.append(tuple(mean))
    return Table(
        "Images tagged, and boxes found" if corlocs or scores else "Images tagged", tuple(head), tuple(rows)
    )


def suspects_table(images: ImageSet, suspects: Suspects) -> Table | None:
    """The tags that are most likely wrong; None where there is none."""
    rows = []
    for i, c, tag, doubt in islice(suspects, SUSPECTS):
        name = images.classes[c]
        odd = f"tagged {name}, does not look like it" if tag == 1 else f"not tagged {name}, looks like it"
        rows.append((images.ids[i], odd, f"{doubt:.0%}"))
    return Table("Tags to check first", ("photo", "what is odd", "how sure"), tuple(rows)) if rows else None


def timing_table(events: Sequence[Mapping[str, Any]]) -> Table | None:
    """Seconds and memory of each stage, in the order they first ended; a stage that was resumed adds up."""
    seconds: dict[str, float] = {}
    memory: dict[str, float] = {}
    for event in events:
        if event.get("event") == "finished" and "stage" in event:
            stage = str(event["stage"])
            seconds[stage] = seconds.get(stage, 0) + float(event.get("seconds", 0))
            held = float(event.get("peak_mb", 0)) + float(event.get("workers_peak_mb", 0))
            memory[stage] = max(memory.get(stage, 0), held)
    if not seconds:
        return None
    whole = max(sum(seconds.values()), 1e-9)
    rows = [
        (stage, seconds_in_words(s), f"{s / whole:.0%}", f"{memory[stage]:,.0f} MB" if memory[stage] else "")
        for stage, s in seconds.items()
    ]
    rows.append(("all", seconds_in_words(whole), "100%", f"{max(memory.values()):,.0f} MB"))
    return Table("Time and memory", ("stage", "time", "share", "peak memory so far"), tuple(rows))


def settings_table(config: Mapping[str, Any] | None) -> Table | None:
    """Every setting and its value."""
    if not config:
        return None
    rows = tuple((name, "none" if value is None else str(value)) for name, value in config.items())
    return Table("Settings", ("setting", "value"), rows)


def metric_name(scores: Scores) -> str:
    """The metric as people call it."""
    return {"voc07": "AP (VOC 2007)", "voc10": "AP (VOC 2010)", "coco": "AP (COCO)"}[scores.metric]
