"""`RunFolder`: what a run has left in its folder, for all who read it.

RUN/config.toml     the settings, with nothing left open    RUN/detector.npz    the detector
RUN/index.sqlite    photos, tags, keys, boxes, figures      RUN/events.jsonl    what was done, and its cost
RUN/arrays/         what was made of each photo             RUN/STAGE/KEY/      results of stages
RUN/card.md         what the detector is and is not         RUN/corrections.jsonl   what a person said
"""

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tag2box.config import Config
from tag2box.data.reading import read_images
from tag2box.data.remote import RemotePath
from tag2box.data.remote import place as address
from tag2box.description.record import Described
from tag2box.detection.detections import Detections
from tag2box.detection.detector import Detector
from tag2box.errors import Tag2BoxError
from tag2box.images import ImageSet, known_tags
from tag2box.pipeline import stored_detections
from tag2box.runtime.config import read_resolved
from tag2box.runtime.files import content_hash
from tag2box.runtime.stages import Run
from tag2box.runtime.store import BROKEN, existing
from tag2box.training.findings import Findings, best_windows

DETECTOR = "detector.npz"


class RunFolder:
    """A finished run; a part of one where it was stopped."""

    def __init__(self, folder: str | Path) -> None:
        self.store = existing(folder)
        self.folder, self.index = self.store.folder, self.store.index
        with self._expecting("index.sqlite", self._unfinished()):
            about = self.index.note("run")
            self.keys: dict[str, str] = dict(self.index.rows("keys"))
            self.images, self.contents = self._read_photos(tuple(about["classes"]))
            self.packages: dict[str, str] = about["packages"]
            self._made: dict[str, str] | None = about["detector"]
            self.config = read_resolved(Config(), about["config"])

    def _read_photos(self, classes: tuple[str, ...]) -> tuple[ImageSet, tuple[str, ...]]:
        """The photos, and the SHA-256 of each."""
        rows = self.index.rows("photos")
        tags = np.frombuffer(b"".join(row[5] for row in rows), np.int8).reshape(len(rows), len(classes))
        paths = tuple(read_path({"path": row[2], "relative": row[3]}, self.folder) for row in rows)
        images = ImageSet(tuple(row[1] for row in rows), paths, tags.copy(), classes)
        return images, tuple(row[4] for row in rows)

    def has(self, stage: str) -> bool:
        """Whether that stage is finished, with the settings of the last run."""
        if stage not in self.keys or stage == "described":
            return stage in self.keys
        key = self.keys[stage]
        return self.store.has(stage, key) or self.index.note(f"whole {stage}-{key[:12]}") is not None

    def result(self, stage: str) -> Any:
        """What that stage made."""
        if not self.has(stage):
            raise Tag2BoxError(f"{self.folder} has no {stage} yet: {self._unfinished()}")
        if stage == "described":
            return self._described()
        key = self.keys[stage]
        return self.store.load(stage, key) if self.store.has(stage, key) else self.store.load_rows(stage, key)

    def _described(self) -> Described:
        """The windows, vectors and maps that were learned from: with those of details, where they count."""
        if "detailed" in self.keys:
            described: Described = self.store.load_rows("detailed", self.keys["detailed"])
            return described
        photos = self.store.photos(self.keys["described"])
        if any(content not in photos for content in self.contents):
            raise Tag2BoxError(f"{self.folder} lacks the description of photos: {self._unfinished()}")
        return Described.of_rows(photos.load(self.contents))

    @property
    def has_boxes(self) -> bool:
        """Whether the boxes of its photos are there: those of its last settings, as the detector is."""
        return self._made is not None and self._made["key"] == self.keys.get("detector")

    @property
    def last_stage(self) -> str:
        """The stage whose findings are the run's."""
        return next((name for name in ("corrected", "extents") if name in self.keys), "findings")

    @property
    def findings(self) -> Findings:
        """What the run found in its own photos."""
        result = self.result(self.last_stage)
        findings: Findings = result.findings if self.last_stage == "corrected" else result
        return findings

    def _unfinished(self) -> str:
        return f"`tag2box run DATA --out {self.folder}` takes the run to its end"

    @property
    def detector_file(self) -> Path:
        """The file of the detector, all that is needed to detect elsewhere."""
        if not (self.folder / DETECTOR).is_file():
            raise Tag2BoxError(f"{self.folder} has no detector yet: {self._unfinished()}")
        return self.folder / DETECTOR

    @property
    def detector(self) -> Detector:
        """The detector."""
        return Detector.load(self.detector_file)

    @property
    def detector_sha256(self) -> str:
        """By which the detector is known; "" where there is none yet."""
        return content_hash(self.folder / DETECTOR) if (self.folder / DETECTOR).is_file() else ""

    @property
    def outdated(self) -> str | None:
        """What its users should know of a detector that was not learned with the settings of the last run."""
        if self._made == {"key": self.keys.get("detector", ""), "sha256": self.detector_sha256}:
            return None
        return f"{self.detector_file} is of earlier settings than those of the last run: {self._unfinished()}"

    def add_detections(self, key: str, images: ImageSet, hashes: Sequence[str]) -> None:
        """Remember that the present detector was run on these images. key: the kind of their arrays."""
        stored = json.dumps({"sha256": hashes, **write_images(images, self.folder)})
        with self.index.writing() as change:
            name = f"{key} {content_name(images.ids, hashes)}"
            change.remove("detections", key=name)
            change.put("detections", [(name, self.detector_sha256, stored)])

    def detected(self) -> list[tuple[str, ImageSet]]:
        """(key, images) of all that the present detector was run on, the newest last: see `detections`."""
        with self._expecting("index.sqlite", "detect again"):
            rows = self._detected()
            return [(key, read_stored_images(json.loads(stored), self.folder)) for key, _, stored in rows]

    def _detected(self) -> list[tuple[str, str, str]]:
        """(key, detector, photos) of each time that the present detector was run."""
        now = self.detector_sha256
        return [(key, by, stored) for key, by, stored in self.index.rows("detections") if by == now]

    def detections(self, key: str, images: ImageSet) -> Detections:
        """What was found in these images."""
        with self._expecting("index.sqlite", "detect again"):
            stored = json.loads(self.index.rows("detections", key=key)[0][2])
            rows = self.store.photos(key.split(maxsplit=1)[0]).load(stored["sha256"])
        return stored_detections(rows, images.ids, self.detector.classes)

    def keep(self, run: Run) -> None:
        """Remember further stages that were computed of this run: `clean` keeps their results."""
        more = {stage: key for stage, key in run.keys.items() if stage not in self.keys}
        with self.index.writing() as change:
            change.put("keys", more.items())
        self.keys |= more

    def set_truth(
        self, truth: Path, split: str | None, metric: str, figures: dict[str, Any] | None = None
    ) -> None:
        """Remember by which true boxes the run was evaluated, for the report, and what came of it."""
        place = write_path(truth, self.folder)
        stored = json.dumps(figures), self.detector_sha256
        row = (place["path"], split or "", metric, place["relative"], *stored)
        with self.index.writing() as change:
            change.remove("evaluations", path=place["path"], split=split or "")
            change.put("evaluations", [row])

    def figures(self) -> dict[str, Any] | None:
        """What the last evaluation found, where it was of the present detector; `truths` says by what."""
        if not (rows := self.index.rows("evaluations")):
            return None
        path, split, _, _, stored, detector = rows[-1]
        figures = json.loads(stored)
        if figures is None or detector != self.detector_sha256:
            return None
        return {**figures, "truth": f"{Path(path).name}{f', split {split}' if split else ''}"}

    def truths(self) -> list[tuple[ImageSet, str]]:
        """The images with true boxes that the run was evaluated by, and the metric; the newest last."""
        truths = []
        for path, split, metric, relative, _, _ in self.index.rows("evaluations"):
            place = read_path({"path": path, "relative": relative}, self.folder)
            truths.append((read_images(place, split=split or None), metric))
        return truths

    @contextmanager
    def _expecting(self, name: str, remedy: str) -> Iterator[None]:
        """Whatever reading a damaged file raises, in one line."""
        try:
            yield
        except BROKEN as error:
            raise Tag2BoxError(f"{self.folder / name} is damaged ({error}): {remedy}") from error

    def _repr_html_(self) -> str:
        return mined_windows(self).with_photos(self.images.paths)._repr_html_()

    def clean(self, *, remove: bool) -> list[Path]:
        """The results that the last settings do not use, removed where that is wanted.

        Then the room of photos that are gone is given back, too.
        """
        with self.store.lock():
            detected = self._detected()
            kinds = {f"{stage}-{key[:12]}" for stage, key in self.keys.items()}
            kinds |= {self.keys.get("described", ""), *(key.split()[0] for key, _, _ in detected)}
            unused = self.store.unused(self.keys.items(), kinds)
            if remove:
                self.store.remove(unused)
                if "described" in self.keys:
                    self.store.photos(self.keys["described"]).compact(self.contents)
        return unused


def mined_windows(run: RunFolder) -> Detections:
    """The box that training chose in each positive training image of each class, with its confidence."""
    if not run.has_boxes:
        raise Tag2BoxError(f"{run.folder} has no boxes yet: {run._unfinished()}")
    rows = run.index.rows("boxes")
    label = {name: c for c, name in enumerate(run.images.classes)}
    rows.sort(key=lambda row: (label[row[0]], row[2]))
    numbers = np.array([row[3:] for row in rows], float).reshape(-1, 5)
    return Detections(
        image=np.array([row[1] for row in rows], np.intp),
        xyxy=numbers[:, :4].astype(np.float32),
        score=numbers[:, 4],
        label=np.array([label[row[0]] for row in rows], np.intp),
        ids=run.images.ids,
        classes=run.images.classes,
    )


def first_boxes(run: RunFolder) -> Detections:
    """The first box of each positive image of each class, as detections of equal score.

    Of the paper's chain, the first covered window; else the best by the object maps.
    """
    described: Described = run.result("described")
    if "covers" in run.keys:
        rows = tuple(cover.first()[1] for cover in run.result("covers"))
    else:
        tags, objectness = known_tags(run.images.tags, run.config.unknown), run.result("competition")
        rows = best_windows(described.windows, tags, described.by_image(objectness.values)).rows
    return window_detections(rows, described, run.images)


def window_detections(
    rows: Sequence[NDArray[np.int64]], described: Described, images: ImageSet
) -> Detections:
    """Windows, given by their rows for each class, as detections of equal score."""
    row = np.concatenate([np.empty(0, np.int64), *rows])
    label = np.repeat(np.arange(len(rows)), [len(of_class) for of_class in rows])
    xyxy = described.windows.xyxy[row]
    return Detections(described.image_of(row), xyxy, np.ones(len(row)), label, images.ids, images.classes)


def content_name(ids: Sequence[str], hashes: Sequence[str]) -> str:
    """A short name of photos by what they are called and what is in them."""
    return hashlib.sha256("\n".join([*ids, *hashes]).encode("utf-8", "surrogatepass")).hexdigest()[:12]


def write_images(images: ImageSet, folder: Path) -> dict[str, Any]:
    """Images and tags for JSON; the true boxes are left out."""
    places = [write_path(path, folder) for path in images.paths]
    return {"ids": images.ids, "paths": places, "classes": images.classes, "tags": images.tags.tolist()}


def read_stored_images(stored: dict[str, Any], folder: Path) -> ImageSet:
    """What `write_images` was given."""
    paths = tuple(read_path(place, folder) for place in stored["paths"])
    classes = tuple(stored["classes"])
    tags = np.array(stored["tags"], dtype=np.int8).reshape(len(paths), len(classes))
    return ImageSet(tuple(stored["ids"]), paths, tags, classes)


def write_path(path: Path, folder: Path) -> dict[str, str]:
    """Where a file is, and the way to it from the run folder: that one holds if both are moved together.

    An address is written without its password, as it is shown.
    """
    if isinstance(path := address(path), RemotePath):
        return {"path": str(path), "relative": ""}
    full = os.path.abspath(path)
    return {"path": full, "relative": os.path.relpath(full, folder.absolute())}


def read_path(place: dict[str, str], folder: Path) -> Path:
    """Where that file is now."""
    if not place["relative"]:
        return address(place["path"])
    full = Path(place["path"])
    return full if full.exists() else Path(os.path.normpath(folder / place["relative"]))
