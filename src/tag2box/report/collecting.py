"""`write_report`: what a run folder holds, gathered into one page beside it."""

import json
import shlex
import warnings
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tag2box.cover.greedy import Cover
from tag2box.detection.detections import Detections
from tag2box.evaluation.reliability import Reliability, reliability
from tag2box.evaluation.scores import CorLoc, corloc, evaluate
from tag2box.images import ImageSet
from tag2box.names import first_few
from tag2box.neighbors.search import Neighbors, group_neighbors
from tag2box.report.content import ClassRecords, ReportContent, build_content, render_page
from tag2box.report.pictures import Sizes, contact_sheet
from tag2box.report.tables import suspects_table
from tag2box.run.card import card_of
from tag2box.run.corrections import CorrectedBoxes, corrected_boxes
from tag2box.run.folder import RunFolder, first_boxes
from tag2box.run.heat_maps import heat_maps_of
from tag2box.run.same_photos import called_as, changed_since
from tag2box.run.suspects import read_suspects
from tag2box.run.verdict import judge_run
from tag2box.runtime.config import settings
from tag2box.runtime.files import refuse_link, unchecked, write_whole

REPORT = "report.html"


def write_report(
    folder: str | Path,
    *,
    truths: Sequence[ImageSet] = (),
    corlocs: Mapping[str, CorLoc] | None = None,
    title: str | None = None,
) -> Path:
    """Write `report.html` into the run folder and return its path.

    Shown are the detections that the run's detector made last, or else what the run found in its own images.
    truths: image sets with true boxes, by which windows and detections are judged wherever one holds all of
        the images in question, by name; by default those that the run was evaluated by.
    corlocs: further columns of CorLoc, by their name. Memory: the run's windows, and one photo at a time.
    """
    run = RunFolder(folder)
    metric = "voc07"
    if not truths and (known := run.truths()):
        truths, metric = [images for images, _ in reversed(known)], known[-1][1]
    classes = run.images.classes
    images = _judged(_named(run.images, truths, run.contents), classes, truths)
    changed, missing = changed_since(run.images, run.contents)
    corrected = corrected_boxes(run)
    mined = replace(corrected.detections, ids=images.ids)
    first = replace(first_boxes(run), ids=images.ids)
    detections, test = None, None
    if detected := run.detected():
        key, photos = detected[-1]
        photos = _named(photos, truths)
        detections, test = run.detections(key, photos), _judged(photos, classes, truths)
    covers = run.result("covers") if "covers" in run.keys else None
    content = build_content(
        images,
        run.result("described").windows,
        _classes(run, covers, first, mined, changed),
        title=title or f"tag2box: {', '.join(_first(images.classes, 5))}",
        neighbors=None if covers is None or changed else _neighbors(run, covers),
        detections=detections,
        test=test,
        scores=evaluate(detections, _whole(test, classes, truths), metric)
        if detections is not None and test and test.truth
        else None,
        sure=_sure(detections, test),
        corlocs=_corlocs(images, first, mined) | dict(corlocs or {}),
        events=_events(run.folder / "events.jsonl"),
        config=dict(settings(run.config)),
    )
    shown = mined[[i not in changed for i in mined.image.tolist()]]
    content = replace(
        _with_facts_of_the_run(content, run, corrected), sheet=contact_sheet(images, shown), missing=missing
    )
    path = run.folder / REPORT
    write_whole(path, render_page(content))
    return path


def _with_facts_of_the_run(
    content: ReportContent, run: RunFolder, corrected: CorrectedBoxes
) -> ReportContent:
    """What a report says of the run as a whole, beside its records."""
    if corrected.reviewed.any() or corrected.photos:
        reviews = (
            ("boxes reviewed", f"{corrected.reviewed.sum():,}"),
            ("photos reviewed", str(corrected.photos)),
        )
        lead = "Learned from image tags, and from what people said of its boxes."
        content = replace(content, facts=(*content.facts, *reviews), lead=lead)
    return replace(
        content,
        verdict=judge_run(run),
        suspects=suspects_table(run.images, read_suspects(run)),
        review=f"tag2box review {shlex.quote(str(run.folder))}",
        card=card_of(run) if run.detector_sha256 else None,
    )


def _named(images: ImageSet, truths: Sequence[ImageSet], contents: Sequence[str] = ()) -> ImageSet:
    """The images by the names that the first truth of all of them has for them."""
    for truth in truths:
        named = called_as(images, truth, contents)
        if truth.truth is not None and set(named.ids) <= set(truth.ids):
            return named
    return images


def _judged(images: ImageSet, classes: tuple[str, ...], truths: Sequence[ImageSet]) -> ImageSet:
    """The images with these classes, and the true boxes of the first of `truths` that holds them all."""
    tags = np.zeros((len(images), len(classes)), np.int8)
    for c, name in enumerate(classes):
        if name in images.classes:
            tags[:, c] = images.tags[:, images.classes.index(name)]
    boxes = None
    for truth in truths:
        place = {name: i for i, name in enumerate(truth.ids)}
        if boxes is None and truth.truth is not None and all(name in place for name in images.ids):
            shared = [name for name in classes if name in truth.classes]
            boxes = truth.take([place[name] for name in images.ids]).only(shared).truth
            assert boxes is not None
            label = np.array([classes.index(name) for name in shared], np.intp)
            boxes = replace(boxes, label=label[boxes.label])
    return replace(images, classes=classes, tags=tags, truth=boxes, numbers=None)


def _whole(test: ImageSet, classes: tuple[str, ...], truths: Sequence[ImageSet]) -> ImageSet:
    """All images of the truth that `test` is of: objects in those that could not be read are missed."""
    whole = next(each for each in truths if each.truth is not None and set(test.ids) <= set(each.ids))
    return _judged(whole, classes, (whole,))


def _classes(
    run: RunFolder,
    covers: tuple[Cover, ...] | None,
    first: Detections,
    mined: Detections,
    changed: Container[int],
) -> dict[str, ClassRecords]:
    """What there is of each class in the photos that are as they were."""
    heat = heat_maps_of(run)
    records = {}
    for c, name in enumerate(run.images.classes):
        before, after = (_of_class(boxes, c, changed) for boxes in (first, mined))
        part = mined[mined.label == c]
        confidence = dict(zip(part.image.tolist()[::-1], part.score.tolist()[::-1], strict=True))
        cover = covers[c] if covers else None
        records[name] = ClassRecords(cover, partial(heat, c), before, after, confidence)
    return records


def _of_class(boxes: Detections, c: int, changed: Container[int]) -> dict[int, NDArray[np.float32]]:
    """The first box of each image, where there is one of the class."""
    part = boxes[boxes.label == c][::-1]
    pairs = zip(part.image.tolist(), part.xyxy, strict=True)
    return {i: box for i, box in pairs if i not in changed}


def _neighbors(run: RunFolder, covers: tuple[Cover, ...]) -> Neighbors:
    """The table of the windows that the report shows, and of no others: it is not kept by the run."""
    compared, windows = run.result("compared"), run.result("described").windows
    rows = Sizes.for_classes(len(covers)).rows
    shown = np.unique(np.concatenate([np.empty(0, np.int64), *(cover.selected[:rows] for cover in covers)]))
    image = windows.image_of(shown)
    queries = compared.offsets[image] + shown - windows.offsets[image]
    n_images = int(np.count_nonzero(compared.counts))
    table = group_neighbors(compared.X, compared.offsets, queries, n_images, workers=1)
    nearest = compared.among(windows, table.window.ravel()).reshape(table.window.shape)
    return replace(table, window=nearest.astype(np.int32), queries=shown)


def _corlocs(images: ImageSet, first: Detections, mined: Detections) -> dict[str, CorLoc]:
    if images.truth is None:
        return {}
    return {"first windows": corloc(first, images), "learned": corloc(mined, images)}


def _sure(detections: Detections | None, test: ImageSet | None) -> Reliability | None:
    """How far confidences can be trusted, where there are any and the true boxes are known."""
    if detections is None:
        return None
    confidences = detections.score.min(initial=0) >= 0 and detections.score.max(initial=0) <= 1
    return reliability(detections, test) if test and test.truth and confidences else None


def _events(path: Path) -> list[dict[str, Any]]:
    """What the run noted; a line that is damaged, or was cut short by a kill, is left out and named."""
    refuse_link(path)
    events, damaged = [], []
    for n, line in enumerate(path.read_bytes().splitlines() if path.is_file() else [], start=1):
        try:
            events.append(_event(line))
        except (ValueError, TypeError, RecursionError):
            damaged.append(str(n))
    if damaged:
        which = f"{len(damaged)} lines are damaged and left out ({first_few(damaged, 20)})"
        warnings.warn(f"{path}: {which}: the report counts no time for them", stacklevel=3)
    return events


def _event(line: bytes) -> dict[str, Any]:
    event = unchecked(json.loads(line))
    for name in ("seconds", "peak_mb", "workers_peak_mb"):
        if type(value := event.get(name, 0)) not in (int, float) or not 0 <= value < 1e12:
            raise ValueError(f"{name} is no number")
    return event


def _first(names: tuple[str, ...], n: int) -> list[str]:
    return [*names[:n], *(["..."] if len(names) > n else [])]
