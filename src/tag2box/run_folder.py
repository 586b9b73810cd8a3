"""A run in its folder: `fit_run` and `detect_run` fill it, `RunFolder` is what others read in it.

RUN/config.toml      the resolved settings        RUN/run.json      the images, and the keys of the results
RUN/detector.npz     the detector                 RUN/events.jsonl  what was done when, and what it cost
RUN/STAGE/KEY/       results (`runtime.store`)
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tag2box.corrections import collect, read_state
from tag2box.data.reading import read_images
from tag2box.detection.detections import Detections
from tag2box.detection.detector import Detector
from tag2box.errors import Tag2BoxError
from tag2box.images import ImageSet
from tag2box.pipeline import Config, detect, learn
from tag2box.run_notes import (
    detector_maker,
    is_old,
    own_detector,
    read_json,
    read_path,
    read_stored_images,
    refuse_newer,
    write_images,
    write_path,
    write_run,
)
from tag2box.run_settings import learnable, with_precision
from tag2box.runtime.config import read_resolved, to_toml
from tag2box.runtime.files import checked_json, content_hash, unchecked
from tag2box.runtime.parts import BROKEN
from tag2box.runtime.progress import Progress, silent
from tag2box.runtime.runner import Runner
from tag2box.runtime.store import Store, existing
from tag2box.stages import detections_key, retrains, stage_keys

__all__ = ["RunFolder", "detect_run", "fit_run", "learnable", "mined_windows", "with_precision"]

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
            run = stored if is_old(stored) else unchecked(stored)
            self.keys: dict[str, str] = run["stages"]
            self.images = read_stored_images(run["images"], self.folder)
            self._made: dict[str, str] | None = run.get("detector")
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
        """The stage whose weights are the detector's: with corrections there is one more."""
        if "corrected" in self.keys:
            return "corrected"
        return "findings" if retrains(self.config) else "refine"

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
    def outdated(self) -> str | None:
        """What its users should know of a detector that was not learned with the settings of the last run."""
        if self._made == own_detector(self.keys, self.detector_file):
            return None
        return f"{self.detector_file} is of earlier settings than those of the last run: {self._unfinished()}"

    def add_detections(self, key: str, images: ImageSet) -> None:
        """Remember that the present detector is run on these images, under this key."""
        mine = {"key": key, "detector": content_hash(self.detector_file), **write_images(images, self.folder)}
        try:
            known = [entry for entry in self._entries() if entry["key"] != key]
        except Tag2BoxError:  # damaged: the list starts anew
            known = []
        self.store.write("detections.json", checked_json({"detections": [*known, mine]}))

    def detected(self) -> list[tuple[str, ImageSet]]:
        """(key, images) of all that the present detector was run on, the newest last.

        `store.load("detections", key)` are the detections.
        """
        return [entry for entry in self._looked_at() if self.store.has("detections", entry[0])]

    def _looked_at(self) -> list[tuple[str, ImageSet]]:
        """The same, with those that are not finished."""
        if not (self.folder / DETECTOR).is_file():
            return []
        now = content_hash(self.detector_file)
        entries = [entry for entry in self._entries() if entry["detector"] == now]
        return [(entry["key"], read_stored_images(entry, self.folder)) for entry in entries]

    def _entries(self) -> list[dict[str, Any]]:
        if not (file := self.folder / "detections.json").is_file():
            return []
        with self._expecting(file.name, "remove it, and detect again"):
            stored = read_json(file)
            entries = stored if isinstance(stored, list) else unchecked(stored)["detections"]
            return [{**entry, "key": str(entry["key"])} for entry in entries]

    def set_truth(self, truth: Path, split: str | None, metric: str) -> None:
        """Remember by which true boxes the run was evaluated last, for the report."""
        content = {**write_path(truth, self.folder), "split": split, "metric": metric}
        self.store.write("evaluation.json", checked_json(content))

    def truth(self) -> tuple[ImageSet, str] | None:
        """The images with true boxes that the run was evaluated by last, and the metric; None before."""
        if not (file := self.folder / "evaluation.json").is_file():
            return None
        with self._expecting(file.name, "evaluate again"):
            stored = unchecked(read_json(file))
        return read_images(read_path(stored, self.folder), split=stored["split"]), stored["metric"]

    @contextmanager
    def _expecting(self, name: str, remedy: str) -> Iterator[None]:
        """Whatever reading a damaged file raises, in one line."""
        try:
            yield
        except BROKEN as error:
            raise Tag2BoxError(f"{self.folder / name} is damaged ({error}): {remedy}") from error

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
    images, _ = learnable(images, config)
    store = Store(folder)
    with store.lock():
        runner = Runner(store, workers=workers, progress=progress)
        maker = detector_maker(store.folder)
        config, _ = with_precision(config, folder)
        corrections = collect(read_state(store.folder), images)
        runner.keys = stage_keys(images, config, runner, corrections)
        store.write("config.toml", to_toml(config))
        write_run(store, runner.keys, images, maker)  # its detector stays until there is a new one
        runner.note(
            "run started",
            images=len(images),
            classes=len(images.classes),
            workers=runner.workers,
            precision=config.features.precision,
        )
        detector = learn(images, config, runner, corrections)
        detector.save(store.folder / DETECTOR)
        write_run(store, runner.keys, images, own_detector(runner.keys, store.folder / DETECTOR))
        runner.note("run finished")
    return runner.costs


def detect_run(
    folder: RunFolder, images: ImageSet, *, workers: int | None = None, progress: Progress = silent
) -> Detections:
    """What the run's detector finds in `images`, kept in the run folder, going on where it stopped."""
    with folder.store.lock():
        runner = Runner(folder.store, workers=workers, progress=progress)
        runner.keys = detections_key(content_hash(folder.detector_file), images, runner)
        folder.add_detections(runner.keys["detections"], images)  # first: `clean` keeps what is unfinished
        return detect(folder.detector, images, runner)


def mined_windows(run: RunFolder) -> Detections:
    """The box that training chose in each positive training image of each class, with its score."""
    windows = run.result("windows")
    refined = run.result(run.last_stage)
    row = np.concatenate([np.empty(0, np.int64), *refined.mined])
    voted = np.concatenate([np.empty((0, 4), np.float32), *refined.boxes])
    best = np.concatenate([np.empty(0), *refined.best])
    return Detections(
        image=windows.image_of(row),
        # Older runs have no voted boxes, and the oldest no scores.
        xyxy=voted if refined.boxes else windows.xyxy[row],
        score=best if refined.best else np.ones(len(row)),
        label=np.repeat(np.arange(len(refined.mined)), [len(rows) for rows in refined.mined]),
        ids=run.images.ids,
        classes=run.images.classes,
    )
