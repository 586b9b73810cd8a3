"""`fit_run` and `detect_run`: what fills a run folder, going on where it stopped."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from tag2box._version import __version__
from tag2box.config import Config
from tag2box.corrections import read_state
from tag2box.data.first_look import Look
from tag2box.detection.detections import Detections
from tag2box.images import ImageSet
from tag2box.pipeline import Outcome, detect, learn
from tag2box.run.card import write_card
from tag2box.run.folder import DETECTOR, RunFolder, write_path
from tag2box.run.settings import Start, prepare
from tag2box.runtime.config import to_toml
from tag2box.runtime.files import content_hash
from tag2box.runtime.index import Change, DamagedError
from tag2box.runtime.progress import Progress, silent
from tag2box.runtime.stages import Run
from tag2box.runtime.store import Store
from tag2box.training.tag_scores import judge_tags

# Other versions of them may give other numbers: pillow 13 resizes a part of a photo differently, for example.
RESULT_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "pillow", "openvino", "onnxruntime")


@dataclass(frozen=True)
class FitResult:
    """costs: what each stage cost; look: what is odd about the photos; images: those learned from."""

    costs: dict[str, dict[str, Any]]
    look: Look
    images: ImageSet


def fit_run(
    images: ImageSet,
    config: Config,
    folder: str | Path,
    *,
    on_error: str = "skip",
    workers: int | None = None,
    progress: Progress = silent,
) -> FitResult:
    """Learn from `images` in the run folder, going on where it stopped.

    Classes that no image has are left out.
    """
    start = prepare(images, config, folder)
    return fit_prepared(start, folder, on_error=on_error, workers=workers, progress=progress)


def fit_prepared(
    start: Start,
    folder: str | Path,
    *,
    on_error: str = "skip",
    workers: int | None = None,
    progress: Progress = silent,
) -> FitResult:
    """The same, from what `prepare` has decided."""
    images, config, store = start.images, start.config, Store(folder)
    with store.lock():
        folder_of = _FolderState(store, config, images)
        run = Run(store, workers=workers, progress=progress, note_key=folder_of.note)
        run.note(
            "run started",
            images=len(images),
            classes=len(images.classes),
            workers=run.workers,
            precision=config.features.precision,
        )
        outcome = learn(images, config, run, read_state(store.folder), on_error)
        if outcome.known.described.maps is not None:
            run(judge_tags, outcome.known.described, outcome.tags)
        run.keys["detector"] = run.key_of(outcome.detector)
        folder_of.finish(run, outcome)
        write_card(RunFolder(store.folder))
        run.note("run finished")
    return FitResult(run.costs, outcome.look, outcome.images)


def detect_run(
    folder: RunFolder,
    images: ImageSet,
    *,
    on_error: str = "skip",
    workers: int | None = None,
    progress: Progress = silent,
) -> tuple[Detections, ImageSet, Look]:
    """What the run's detector finds in `images`, and those that can be decoded; kept in the run folder."""
    with folder.store.lock():
        run = Run(folder.store, workers=workers, progress=progress)
        detector = folder.detector
        detector.description.settings.check_network()
        found, images, hashes, look = detect(detector, folder.detector_sha256, images, run, on_error)
        folder.add_detections(run.kinds["detections"], images, hashes)
        return found, images, look


class _FolderState:
    """What a folder says of its run: it stays that of the run before until a stage's key differs.

    Killed before that, the folder is as it was. From there on it is the new run's.
    """

    def __init__(self, store: Store, config: Config, images: ImageSet) -> None:
        self._store, self._config, self._images = store, config, images
        self._called: dict[str, str] = {}
        self._begun = False
        try:
            self._keys = dict(store.index.rows("keys"))
            self._detector = (store.index.note("run") or {}).get("detector")
        except DamagedError:
            store.index.file.unlink()  # what is in it is made anew
            self._keys, self._detector = {}, None
        if not self._keys:
            self._begin()

    def note(self, stage: str, key: str) -> None:
        """This stage begins, or is reused."""
        if not self._begun and self._keys.get(stage) != key:
            self._begin()
        self._called[stage] = key
        if self._begun:
            with self._store.index.writing() as change:
                change.put("keys", [(stage, key)])

    def _begin(self) -> None:
        self._begun = True
        about = self._about(self._images, self._detector)
        with self._store.index.writing() as change:
            change.remove("keys")
            change.remove("boxes")
            change.put("keys", self._called.items())
            put_photos(change, self._store.folder, self._images, [""] * len(self._images))
            change.put("notes", [("run", about)])
        self._store.write("config.toml", to_toml(self._config))  # for people, and for other runs

    def finish(self, run: Run, outcome: Outcome) -> None:
        """The run ends: its detector, its photos, its boxes."""
        file = self._store.folder / DETECTOR
        self.note("detector", run.keys["detector"])
        outcome.detector.save(file)
        made = {"key": run.keys["detector"], "sha256": content_hash(file)}
        keys, about = run.keys | run.kinds, self._about(outcome.images, made)
        with self._store.index.writing() as change:
            change.remove("keys")
            change.put("keys", [(stage, key) for stage, key in keys.items() if stage != "detections"])
            change.put("notes", [("run", about)])
            put_photos(change, self._store.folder, outcome.images, outcome.hashes)
            change.remove("boxes")
            change.put("boxes", _boxes(outcome))

    def _about(self, images: ImageSet, detector: dict[str, str] | None) -> str:
        """What else is said of a run. packages: those that its detector was made with."""
        noted = self._store.index.note("run")
        same = detector is not None and noted is not None and noted["detector"] == detector
        packages = noted["packages"] if same else result_packages()
        about = {"tag2box": __version__, "classes": images.classes, "packages": packages}
        return json.dumps({**about, "detector": detector, "config": to_toml(self._config)})


def put_photos(change: Change, folder: Path, images: ImageSet, hashes: Sequence[str]) -> None:
    """The photos of a run in its index, in place of those before; hashes: the SHA-256 of each."""
    change.remove("photos")
    for i, (name, path, sha256) in enumerate(zip(images.ids, images.paths, hashes, strict=True)):
        place, tags = write_path(path, folder), images.tags[i].astype(np.int8).tobytes()
        change.put("photos", [(i, name, place["path"], place["relative"], sha256, tags)])


def _boxes(outcome: Outcome) -> list[tuple[Any, ...]]:
    """The box of each tag of each photo."""
    findings, described = outcome.learned.findings, outcome.learned.known.described
    return [
        (name, int(image), int(row), *map(float, xyxy), float(confidence))
        for c, name in enumerate(outcome.images.classes)
        for image, row, xyxy, confidence in zip(
            described.image_of(findings.rows[c]),
            findings.rows[c],
            findings.boxes[c],
            findings.confidence[c],
            strict=True,
        )
    ]


def result_packages() -> dict[str, str]:
    """The packages that results depend on, as far as they are installed, and their versions."""
    versions = {name: package_version(name) for name in RESULT_PACKAGES}
    return {name: number for name, number in versions.items() if number is not None}


def package_version(name: str) -> str | None:
    """The version of a package; None where it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None
