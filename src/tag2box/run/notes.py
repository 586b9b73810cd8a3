"""What a run writes down beside its results: its images and keys, and whose the detector is (`run.json`)."""

import json
import os
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from tag2box._version import __version__
from tag2box.data.remote import RemotePath
from tag2box.data.remote import place as address
from tag2box.errors import InputError
from tag2box.images import ImageSet
from tag2box.runtime.files import checked_json, content_hash, unchecked
from tag2box.runtime.parts import BROKEN
from tag2box.runtime.store import Store

# Other versions of them may give other numbers: pillow 13 resizes a part of a photo differently, for example.
RESULT_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "pillow", "openvino", "onnxruntime")
# Raised when older versions of tag2box could no longer read a run folder.
FORMAT = 1
STAGES = "stages.json"


class StageKeys:
    """The key of each stage's result, by its name: `stages.json`.

    A run notes each as it comes. As long as they are those of the run before, the folder stays that run's:
    killed there, it is as it was. From the first that differs on it is this run's: what comes later is not
    made yet, and `begin` writes what else a folder says of its run.
    """

    def __init__(self, store: Store, begin: Callable[[], None]) -> None:
        self._store, self._called, self._begin, self._begun = store, dict[str, str](), begin, False
        try:
            self._known = read_keys(store.folder)
        except BROKEN:  # there are none, or they are damaged
            self._known = {}

    def note(self, stage: str, key: str) -> None:
        """This stage begins, or is reused."""
        differs = self._known.get(stage) != key
        if differs:
            self._write(self._called)  # first: settings and images never stand beside the keys of others
            self.begin()
        self._called[stage] = key
        if differs:
            self._write(self._called)

    def begin(self) -> None:
        """From here on the folder is this run's."""
        if not self._begun:
            self._begun = True
            self._begin()

    def finish(self, keys: dict[str, str]) -> None:
        """The run ends: these are all."""
        self._write(keys)

    def _write(self, keys: dict[str, str]) -> None:
        if self._known != keys:
            self._known = dict(keys)
            self._store.write(STAGES, checked_json({"stages": self._known}))


def read_keys(folder: Path) -> dict[str, str]:
    """What `StageKeys` wrote."""
    return dict(unchecked(read_json(folder / STAGES))["stages"])


def write_run(
    store: Store, images: ImageSet, contents: Sequence[str], detector: dict[str, str] | None
) -> None:
    """Write down what a run is about, and which run made the detector that is there.

    contents: the SHA-256 of each photo, by which corrections know it.
    """
    content = {
        "tag2box": __version__,
        "format": FORMAT,
        "images": write_images(images, store.folder),
        "contents": contents,
        "detector": detector,
        "packages": _made_with(store.folder, detector),
    }
    store.write("run.json", checked_json(content))


def _made_with(folder: Path, detector: dict[str, str] | None) -> dict[str, str]:
    """The packages that the detector was made with: as noted when it was new, or those of today."""
    try:
        last = read_json(folder / "run.json")
        if detector is not None and last["detector"] == detector:
            noted: dict[str, str] = last["packages"]
            return noted
    except BROKEN:
        pass
    return result_packages()


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


def own_detector(keys: dict[str, str], detector: Path) -> dict[str, str]:
    """How a run says that the detector in its folder is its own."""
    return {"key": keys.get("detector", ""), "sha256": content_hash(detector)}


def detector_maker(folder: Path) -> dict[str, str] | None:
    """What the last run in `folder` says of its detector; None where it says nothing that can be read."""
    try:
        stored = read_json(folder / "run.json")
    except BROKEN:
        return None
    refuse_newer(stored, folder)
    try:
        maker: dict[str, str] | None = unchecked(stored)["detector"]
    except BROKEN:
        return None
    return maker


def read_json(file: Path) -> Any:
    """What is in a JSON file."""
    return json.loads(file.read_text(encoding="utf-8"))


def refuse_newer(stored: Any, folder: Path) -> None:
    """Refuse what a newer version wrote: read by this one, it could be misunderstood."""
    made = stored.get("format") if isinstance(stored, dict) else None
    if isinstance(made, int) and made > FORMAT:
        raise InputError(
            f"{folder} was made by tag2box {stored.get('tag2box')}, which is newer than this one, "
            f"{__version__}: update tag2box, or choose another folder"
        )


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
