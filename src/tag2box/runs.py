"""A run in its folder: `fit_run` and `detect_run` fill it, `RunFolder` is what others read in it.

RUN/config.toml      the resolved settings        RUN/run.json      the images, and the keys of the results
RUN/detector.npz     the detector                 RUN/events.jsonl  what was done when, and what it cost
RUN/STAGE/KEY/       results (`runtime.store`)
"""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import tag2box
from tag2box.detections import Detections
from tag2box.detector import Detector
from tag2box.errors import InputError, Tag2BoxError
from tag2box.features import FeaturesConfig, measure_precision
from tag2box.first_windows import known_tags
from tag2box.images import ImageSet, read_images
from tag2box.pipeline import Config, detect, detections_key, learn, stage_keys
from tag2box.runtime.config import read_settings, to_toml
from tag2box.runtime.files import content_hash
from tag2box.runtime.progress import Progress, silent
from tag2box.runtime.run import Run
from tag2box.runtime.store import Store, existing

__all__ = ["RunFolder", "detect_run", "fit_run", "learnable", "mined_windows", "with_precision"]

DETECTOR = "detector.npz"


class RunFolder:
    """A finished run; a part of one where it was stopped."""

    def __init__(self, folder: str | Path) -> None:
        self.store = existing(folder)
        self.folder = self.store.folder
        self.config = read_settings(Config(), self.folder / "config.toml")
        try:
            run = json.loads((self.folder / "run.json").read_text(encoding="utf-8"))
            self.keys: dict[str, str] = run["stages"]
            self.images = _read_images(run["images"], self.folder)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise Tag2BoxError(f"{self.folder / 'run.json'} is damaged: {self._unfinished()}") from error

    def has(self, stage: str) -> bool:
        """Whether that stage is finished, with the settings of the last run."""
        return stage in self.keys and self.store.has(stage, self.keys[stage])

    def result(self, stage: str) -> Any:
        """What that stage made."""
        if not self.has(stage):
            raise Tag2BoxError(f"{self.folder} has no {stage} yet: {self._unfinished()}")
        return self.store.load(stage, self.keys[stage])

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

    def add_detections(self, key: str, images: ImageSet) -> None:
        """Remember that the detector of now has found the detections of this key in these images."""
        mine = {
            "key": key,
            "detector": content_hash(self.detector_file),
            **_write_images(images, self.folder),
        }
        known = [entry for entry in self._read("detections.json", []) if entry["key"] != key]
        self.store.write("detections.json", json.dumps([*known, mine], ensure_ascii=False) + "\n")

    def detected(self) -> list[tuple[str, ImageSet]]:
        """(key, images) of all that the detector of now has looked at, the newest last.

        `store.load("detections", key)` are the detections.
        """
        if not (self.folder / DETECTOR).is_file():
            return []
        now = content_hash(self.detector_file)
        entries = [entry for entry in self._read("detections.json", []) if entry["detector"] == now]
        return [
            (entry["key"], _read_images(entry, self.folder))
            for entry in entries
            if self.store.has("detections", entry["key"])
        ]

    def set_truth(self, truth: Path, split: str | None, metric: str) -> None:
        """Remember by which true boxes the run was evaluated last, for the report."""
        content = {**_write_path(truth, self.folder), "split": split, "metric": metric}
        self.store.write("evaluation.json", json.dumps(content, ensure_ascii=False) + "\n")

    def truth(self) -> tuple[ImageSet, str] | None:
        """The images with true boxes that the run was evaluated by last, and the metric; None before."""
        if not (stored := self._read("evaluation.json", {})):
            return None
        return read_images(_read_path(stored, self.folder), split=stored["split"]), stored["metric"]

    def _read(self, name: str, otherwise: Any) -> Any:
        file = self.folder / name
        return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else otherwise

    def clean(self, *, remove: bool) -> list[Path]:
        """The results that the last settings do not use, removed where that is wanted."""
        with self.store.lock():
            kept = [*self.keys.items(), *(("detections", key) for key, _ in self.detected())]
            unused = self.store.unused(kept)
            if remove:
                self.store.remove(unused)
        return unused


def learnable(images: ImageSet, config: Config) -> tuple[ImageSet, tuple[str, ...]]:
    """`images` with the classes that some image has, and the names of the others; refused where none has."""
    positive = (known_tags(images.tags, config.cover.unknown) == 1).any(axis=0)
    kept = [name for name, some in zip(images.classes, positive, strict=True) if some]
    if not kept:
        names = " or ".join(images.classes) or "any class"
        raise InputError(f"no image is tagged with {names}: there is nothing to learn from")
    return images.only(kept), tuple(name for name in images.classes if name not in kept)


def with_precision(config: Config, folder: str | Path) -> tuple[Config, str]:
    """`config` with the precision that "auto" means for this run folder, and in words why that one.

    A run keeps to the precision that it began with, whatever is fastest where it is continued.
    """
    asked = config.features
    if asked.precision != "auto":
        return config, f"{asked.precision}, as set"
    if precision := _began_with(Path(folder), asked):
        reason = f"{precision}, as this run began"
    else:
        speeds = measure_precision(asked)
        precision, reason = speeds.precision, str(speeds)
    return replace(config, features=replace(asked, precision=precision)), reason


def _began_with(folder: Path, asked: FeaturesConfig) -> str | None:
    """The precision of the run in `folder`, where there is one with the same network and device."""
    try:
        before = read_settings(Config(), folder / "config.toml").features
    except InputError:  # there is none, or none that can be read
        return None
    same = (before.network, before.device) == (asked.network, asked.device)
    return before.precision if same and before.precision != "auto" else None


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
        run = Run(store, workers=workers, progress=progress)
        config, _ = with_precision(config, folder)
        run.keys = stage_keys(images, config, run)
        _begin(run, images, config)
        run.note(
            "run started",
            images=len(images),
            classes=len(images.classes),
            workers=run.workers,
            precision=config.features.precision,
        )
        detector = learn(images, config, run)
        detector.save(store.folder / DETECTOR)
        run.note("run finished")
    return run.costs


def detect_run(
    folder: RunFolder, images: ImageSet, *, workers: int | None = None, progress: Progress = silent
) -> Detections:
    """What the run's detector finds in `images`, kept in the run folder, going on where it stopped."""
    with folder.store.lock():
        run = Run(folder.store, workers=workers, progress=progress)
        run.keys = detections_key(content_hash(folder.detector_file), images, run)
        found = detect(folder.detector, images, run)
        folder.add_detections(run.keys["detections"], images)
    return found


def mined_windows(run: RunFolder) -> Detections:
    """The box that refinement chose in each positive training image of each class, with its score."""
    windows, features, refined = (run.result(stage) for stage in ("windows", "features", "refine"))
    label = np.repeat(np.arange(len(refined.mined)), [len(rows) for rows in refined.mined])
    row = np.concatenate([np.empty(0, np.int64), *refined.mined])
    X = np.asarray(features.X[row], np.float64)
    score = np.einsum("nd,nd->n", X, refined.W[label]) + refined.b[label]
    if weight := run.config.refine.objectness:
        score += weight * run.result("objectness").share[row, label]
    return Detections(
        image=np.searchsorted(windows.offsets, row, side="right") - 1,
        xyxy=windows.xyxy[row],
        score=score,
        label=label,
        ids=run.images.ids,
        classes=run.images.classes,
    )


def _begin(run: Run, images: ImageSet, config: Config) -> None:
    """Write down what a run is about to do; a detector of other settings must not be taken for its own."""
    before = run.store.folder / "run.json"
    if before.is_file() and json.loads(before.read_text(encoding="utf-8"))["stages"] != run.keys:
        (run.store.folder / DETECTOR).unlink(missing_ok=True)
    run.store.write("config.toml", to_toml(config))
    written = _write_images(images, run.store.folder)
    content = {"tag2box": tag2box.__version__, "stages": run.keys, "images": written}
    run.store.write("run.json", json.dumps(content, ensure_ascii=False) + "\n")


def _write_images(images: ImageSet, folder: Path) -> dict[str, Any]:
    places = [_write_path(path, folder) for path in images.paths]
    return {"ids": images.ids, "paths": places, "classes": images.classes, "tags": images.tags.tolist()}


def _read_images(stored: dict[str, Any], folder: Path) -> ImageSet:
    paths = tuple(_read_path(place, folder) for place in stored["paths"])
    classes = tuple(stored["classes"])
    tags = np.array(stored["tags"], dtype=np.int8).reshape(len(paths), len(classes))
    return ImageSet(tuple(stored["ids"]), paths, tags, classes)


def _write_path(path: Path, folder: Path) -> dict[str, str]:
    """Where a file is, and the way to it from the run folder: that one holds if both are moved together."""
    full = os.path.abspath(path)
    return {"path": full, "relative": os.path.relpath(full, folder.absolute())}


def _read_path(place: dict[str, str], folder: Path) -> Path:
    full = Path(place["path"])
    return full if full.exists() else Path(os.path.normpath(folder / place["relative"]))
