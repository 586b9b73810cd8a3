"""A run in its folder: `fit_run` and `detect_run` fill it, `RunFolder` is what others read in it.

RUN/config.toml     the settings, with nothing left open    RUN/run.json        the images
RUN/detector.npz    the detector                            RUN/events.jsonl    what was done, and its cost
RUN/STAGE/KEY/      results (`runtime.store`)               RUN/stages.json     their keys
RUN/card.md         what the detector is and is not
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tag2box.config import Config
from tag2box.corrections import collect, read_state
from tag2box.data.reading import read_images
from tag2box.description.photos import hash_photos
from tag2box.detection.detections import Detections
from tag2box.detection.detector import Detector
from tag2box.errors import Tag2BoxError
from tag2box.images import ImageSet
from tag2box.pipeline import detect, learn
from tag2box.run.card import write_card
from tag2box.run.notes import (
    STAGES,
    StageKeys,
    detector_maker,
    own_detector,
    read_json,
    read_keys,
    read_path,
    read_stored_images,
    refuse_newer,
    write_images,
    write_path,
    write_run,
)
from tag2box.run.settings import Start, prepare
from tag2box.runtime.config import read_resolved, to_toml
from tag2box.runtime.files import checked_json, content_hash, unchecked
from tag2box.runtime.parts import BROKEN
from tag2box.runtime.progress import Progress, silent
from tag2box.runtime.stages import Run
from tag2box.runtime.store import Store, existing
from tag2box.training.findings import Findings

DETECTOR = "detector.npz"


class RunFolder:
    """A finished run; a part of one where it was stopped."""

    def __init__(self, folder: str | Path) -> None:
        self.store = existing(folder)
        self.folder = self.store.folder
        with self._expecting("run.json", self._unfinished()):
            stored = read_json(self.folder / "run.json")
        refuse_newer(stored, self.folder)
        with self._expecting("run.json", self._unfinished()):
            run = unchecked(stored)
            self.images = read_stored_images(run["images"], self.folder)
            self.contents = tuple(str(content) for content in run["contents"])  # SHA-256 of each photo
            self._made: dict[str, str] | None = run["detector"]
        self.keys: dict[str, str] = {}
        if (self.folder / STAGES).is_file():
            with self._expecting(STAGES, self._unfinished()):
                self.keys = read_keys(self.folder)
        with self._expecting("config.toml", self._unfinished()):
            self.config = read_resolved(Config(), self.folder / "config.toml")

    def has(self, stage: str) -> bool:
        """Whether that stage is finished, with the settings of the last run."""
        return stage in self.keys and self.store.has(stage, self.keys[stage])

    def result(self, stage: str) -> Any:
        """What that stage made."""
        if not self.has(stage):
            raise Tag2BoxError(f"{self.folder} has no {stage} yet: {self._unfinished()}")
        return self.store.load(stage, self.keys[stage])

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
        if self._made == own_detector(self.keys, self.detector_file):
            return None
        return f"{self.detector_file} is of earlier settings than those of the last run: {self._unfinished()}"

    def add_detections(self, key: str, images: ImageSet) -> None:
        """Remember that the present detector is run on these images, under this key."""
        own = {"key": key, "detector": self.detector_sha256, **write_images(images, self.folder)}
        try:
            known = [entry for entry in self._entries() if entry["key"] != key]
        except Tag2BoxError:  # damaged: the list starts anew
            known = []
        self.store.write("detections.json", checked_json({"detections": [*known, own]}))

    def detected(self) -> list[tuple[str, ImageSet]]:
        """(key, images) of all that the present detector was run on, the newest last: see `detections`."""
        return [entry for entry in self._looked_at() if self.store.has("detections", entry[0])]

    def detections(self, key: str, images: ImageSet) -> Detections:
        """What was found in these images."""
        detections: Detections = self.store.load("detections", key)
        return replace(detections, ids=images.ids)

    def _looked_at(self) -> list[tuple[str, ImageSet]]:
        """The same, with those that are not finished."""
        if not (now := self.detector_sha256):
            return []
        own = [entry for entry in self._entries() if entry.get("detector") == now]
        return [(entry["key"], read_stored_images(entry, self.folder)) for entry in own]

    def _entries(self) -> list[dict[str, Any]]:
        if not (file := self.folder / "detections.json").is_file():
            return []
        with self._expecting(file.name, "remove it, and detect again"):
            entries = unchecked(read_json(file))["detections"]
            return [{**entry, "key": str(entry["key"])} for entry in entries]

    def set_truth(
        self, truth: Path, split: str | None, metric: str, figures: dict[str, Any] | None = None
    ) -> None:
        """Remember by which true boxes the run was evaluated, for the report, and what came of it."""
        own: dict[str, Any] = {**write_path(truth, self.folder), "split": split, "metric": metric}
        own |= {"figures": figures, "detector": self.detector_sha256}
        try:
            known = [e for e in self._evaluations() if (e["path"], e["split"]) != (own["path"], split)]
        except Tag2BoxError:  # damaged: the list starts anew
            known = []
        self.store.write("evaluation.json", checked_json({"truths": [*known, own]}))

    def figures(self) -> dict[str, Any] | None:
        """What the last evaluation found, where it was of the present detector; `truths` says by what."""
        if not (evaluations := self._evaluations()):
            return None
        with self._expecting("evaluation.json", "evaluate again"):
            stored = evaluations[-1]
            if stored["figures"] is None or stored["detector"] != self.detector_sha256:
                return None
            split = f", split {stored['split']}" if stored["split"] else ""
            return {**stored["figures"], "truth": f"{Path(stored['path']).name}{split}"}

    def truths(self) -> list[tuple[ImageSet, str]]:
        """The images with true boxes that the run was evaluated by, and the metric; the newest last."""
        stored = self._evaluations()
        return [
            (read_images(read_path(each, self.folder), split=each["split"]), each["metric"])
            for each in stored
        ]

    def _evaluations(self) -> list[dict[str, Any]]:
        if not (file := self.folder / "evaluation.json").is_file():
            return []
        with self._expecting(file.name, "evaluate again"):
            return [{**each, "path": str(each["path"])} for each in unchecked(read_json(file))["truths"]]

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
        """The results that the last settings do not use, removed where that is wanted."""
        with self.store.lock():
            kept = [*self.keys.items(), *(("detections", key) for key, _ in self._looked_at())]
            unused = self.store.unused(kept)
            if remove:
                self.store.remove(unused)
        return unused


def fit_run(
    images: ImageSet,
    config: Config,
    folder: str | Path,
    *,
    workers: int | None = None,
    progress: Progress = silent,
) -> dict[str, dict[str, Any]]:
    """Learn from `images` in the run folder, going on where it stopped; returns what each stage cost.

    Classes that no image has are left out.
    """
    return fit_prepared(prepare(images, config, folder), folder, workers=workers, progress=progress)


def fit_prepared(
    start: Start, folder: str | Path, *, workers: int | None = None, progress: Progress = silent
) -> dict[str, dict[str, Any]]:
    """The same, from what `prepare` has decided."""
    images, config, store = start.images, start.config, Store(folder)
    with store.lock():
        maker = detector_maker(store.folder)
        photos = hash_photos(images, progress=progress)

        def begin() -> None:
            store.write("config.toml", to_toml(config))
            write_run(store, images, photos.hashes, maker)  # its detector stays until there is a new one

        keys = StageKeys(store, begin)
        run = Run(store, workers=workers, progress=progress, note_key=keys.note)
        corrections = collect(read_state(store.folder), images, photos.hashes)
        run.note(
            "run started",
            images=len(images),
            classes=len(images.classes),
            workers=run.workers,
            precision=config.features.precision,
        )
        detector = learn(images, photos, config, run, corrections)
        run.keys["detector"] = run.key_of(detector)
        keys.note("detector", run.keys["detector"])
        keys.begin()
        detector.save(store.folder / DETECTOR)
        keys.finish(run.keys)
        write_run(store, images, photos.hashes, own_detector(run.keys, store.folder / DETECTOR))
        write_card(RunFolder(store.folder))
        run.note("run finished")
    return run.costs


def detect_run(
    folder: RunFolder, images: ImageSet, *, workers: int | None = None, progress: Progress = silent
) -> Detections:
    """What the run's detector finds in `images`, kept in the run folder, going on where it stopped."""
    with folder.store.lock():

        def remember(_name: str, key: str) -> None:
            folder.add_detections(key, images)  # first: `clean` keeps what is unfinished

        run = Run(folder.store, workers=workers, progress=progress, note_key=remember)
        return detect(folder.detector, images, run)


def mined_windows(run: RunFolder) -> Detections:
    """The box that training chose in each positive training image of each class, with its confidence."""
    findings, described = run.findings, run.result("described")
    row = np.concatenate([np.empty(0, np.int64), *findings.rows])
    return Detections(
        image=described.image_of(row),
        xyxy=np.concatenate([np.empty((0, 4), np.float32), *findings.boxes]),
        score=np.concatenate([np.empty(0), *findings.confidence]),
        label=np.repeat(np.arange(len(findings.rows)), [len(rows) for rows in findings.rows]),
        ids=run.images.ids,
        classes=run.images.classes,
    )
