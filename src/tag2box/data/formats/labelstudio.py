"""Label Studio's JSON: exported choices (and rectangles) in, predictions out."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

from tag2box.data.decoding import image_size
from tag2box.data.formats.building import Object, tag_matrix, truth_of_objects
from tag2box.data.formats.files import SUFFIXES, first_few, list_images, unique_ids
from tag2box.data.formats.parsing import expecting
from tag2box.errors import InputError
from tag2box.images import ImageSet

__all__ = ["is_export", "prediction", "read"]

# Where Label Studio serves files of its own machine from, below LOCAL_FILES_DOCUMENT_ROOT.
LOCAL_FILES = "/data/local-files/?d="


def is_export(content: Any) -> bool:
    """Whether the JSON is a list of Label Studio's tasks."""
    first = content[0] if isinstance(content, list) and content else None
    return isinstance(first, dict) and "data" in first


def read(root: Path, path: Path, tasks: Any, *, skip: bool) -> ImageSet:
    """The `tasks` that were exported as JSON to `path`; their images are looked for below `root`.

    +1 for the choices and rectangle labels of a task's annotations, -1 for the others; 0 for all of a task
    that nobody has annotated. Rectangles also are the truth.
    """
    with expecting("an export of Label Studio", path):
        return _image_set(root, path, tasks, skip)


def _image_set(root: Path, path: Path, tasks: Any, skip: bool) -> ImageSet:
    found, missing = _find_images(root, path, tasks)
    if missing and not skip:
        raise InputError(
            f"{len(missing)} of the images named in {path} are not below {root} ({first_few(missing)}): "
            "give the folder that holds them, or skip them"
        )
    names = sorted(found)
    results = [list(_results(found[name])) for name in names]
    said = [{kind: 1 for result in task for kind in _kinds(result)} for task in results]
    classes = sorted({kind for row in said for kind in row})
    if not classes:
        raise InputError(f"{path} holds no choices and no rectangles: expected annotated tasks")
    objects = [item for i, task in enumerate(results) for item in _objects(i, root / names[i], task, classes)]
    return ImageSet(
        ids=unique_ids(names),
        paths=tuple(root / name for name in names),
        tags=tag_matrix(said, [-1 if _annotations(found[name]) else 0 for name in names], classes),
        classes=tuple(classes),
        truth=truth_of_objects(objects) if objects else None,
        skipped=tuple(f"{root / name}: named in the tasks, but no image here" for name in missing),
    )


def _find_images(root: Path, path: Path, tasks: Any) -> tuple[dict[str, list[Any]], list[str]]:
    """File -> its tasks, and the names that are not there."""
    listing = list_images(root)
    found: dict[str, list[Any]] = {}
    missing = []
    for number, task in enumerate(tasks, start=1):
        file = _file(task)
        if file is None:
            raise InputError(f"{path}, task {number}: no image in its data")
        # Uploaded files get eight hex digits and a dash before their name.
        bare = PurePosixPath(file).name
        guesses = (file, bare, bare[9:] if bare[8:9] == "-" else bare)
        name = next((name for guess in guesses if (name := listing.find(guess))), None)
        if name is None:
            missing.append(file)
        else:
            found.setdefault(name, []).append(task)
    return found, missing


def _file(task: Any) -> str | None:
    """The image of a task: a path below the server, below its local files, or a URL."""
    data = task.get("data", {}) if isinstance(task, dict) else {}
    for value in data.values():
        if isinstance(value, str):
            parts = urlsplit(value)
            file = parse_qs(parts.query).get("d", [unquote(parts.path)])[0]
            if PurePosixPath(file).suffix.lower() in SUFFIXES:
                return file.lstrip("/")
    return None


def _annotations(tasks: list[Any]) -> list[Any]:
    each = (annotation for task in tasks for annotation in task.get("annotations") or [])
    return [annotation for annotation in each if not annotation.get("was_cancelled")]


def _results(tasks: list[Any]) -> Iterator[dict[str, Any]]:
    for annotation in _annotations(tasks):
        yield from annotation.get("result") or []


def _kinds(result: dict[str, Any]) -> list[str]:
    return [str(kind) for key in ("choices", "rectanglelabels") for kind in result["value"].get(key) or []]


def _objects(i: int, image: Path, task: list[dict[str, Any]], classes: list[str]) -> Iterator[Object]:
    for result in task:
        value = result["value"]
        for kind in value.get("rectanglelabels") or []:
            sides: Sequence[Any] = result.get("original_width"), result.get("original_height")
            w, h = (float(side) / 100 for side in (sides if all(sides) else image_size(image)))
            x, y = float(value["x"]) * w, float(value["y"]) * h
            box = (x, y, x + float(value["width"]) * w, y + float(value["height"]) * h)
            yield Object(i, box, classes.index(str(kind)))


def prediction(file: str, size: tuple[int, int], objects: Iterable[tuple[str, float, Any]]) -> dict[str, Any]:
    """A task with predictions; `objects` are (class, score, xyxy), with places in per cent of the image."""
    results = [_result(number, size, *item) for number, item in enumerate(objects)]
    one = {"model_version": "tag2box", "result": results}
    if results:
        one["score"] = max(result["score"] for result in results)
    return {"data": {"image": LOCAL_FILES + quote(file)}, "predictions": [one]}


def _result(number: int, size: tuple[int, int], name: str, score: float, box: Any) -> dict[str, Any]:
    w, h = size
    x1, y1, x2, y2 = (float(side) for side in box)
    place = {
        "x": 100 * x1 / w,
        "y": 100 * y1 / h,
        "width": 100 * (x2 - x1) / w,
        "height": 100 * (y2 - y1) / h,
    }
    return {
        "id": f"box{number}",
        "type": "rectanglelabels",
        "from_name": "label",
        "to_name": "image",
        "original_width": w,
        "original_height": h,
        "image_rotation": 0,
        "score": float(score),
        "value": {**place, "rotation": 0, "rectanglelabels": [name]},
    }
