"""Label Studio's JSON: exported choices (and rectangles) in, predictions out."""

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

from tag2box.data.decoding import image_size
from tag2box.data.formats.annotations import Annotation, Box, Object, assemble
from tag2box.data.formats.files import SUFFIXES, list_images
from tag2box.data.formats.parsing import expecting
from tag2box.errors import InputError
from tag2box.images import ImageSet
from tag2box.names import first_few

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
    tasks_of, missing = _find_images(root, path, tasks)
    if missing and not skip:
        raise InputError(
            f"{len(missing)} of the images named in {path} are not below {root} ({first_few(missing)}): "
            "give the folder that holds them, or skip them"
        )
    annotations = [_annotation(name, root / name, tasks_of[name]) for name in sorted(tasks_of)]
    if not any(each.tags for each in annotations):
        raise InputError(f"{path} holds no choices and no rectangles: expected annotated tasks")
    return assemble(
        annotations, skipped=[f"{root / name}: named in the tasks, but no image here" for name in missing]
    )


def _annotation(name: str, file: Path, tasks: list[Any]) -> Annotation:
    made = [each for task in tasks for each in task.get("annotations") or [] if not each.get("was_cancelled")]
    results = [result for each in made for result in each.get("result") or []]
    kinds = [
        str(kind)
        for result in results
        for key in ("choices", "rectanglelabels")
        for kind in result["value"].get(key) or []
    ]
    boxes = [Object(kind, box) for _, kind, box in rectangles(results, file)]
    return Annotation(name, file, dict.fromkeys(kinds, 1), boxes or None, rest=-1 if made else 0)


def _find_images(root: Path, path: Path, tasks: Any) -> tuple[dict[str, list[Any]], list[str]]:
    """File -> its tasks, and the names that are not there."""
    listing = list_images(root)
    tasks_of: dict[str, list[Any]] = {}
    missing = []
    for number, task in enumerate(tasks, start=1):
        address = address_of(task)
        if address is None:
            raise InputError(f"{path}, task {number}: no image in its data")
        files = guesses(address)
        name = next((name for guess in files if (name := listing.find(guess))), None)
        if name is None:
            missing.append(files[0])
        else:
            tasks_of.setdefault(name, []).append(task)
    return tasks_of, missing


def address_of(task: Any) -> str | None:
    """The image of a task: a path below the server, below its local files, or a URL."""
    data = task.get("data") if isinstance(task, dict) else None
    for value in data.values() if isinstance(data, dict) else ():
        if isinstance(value, str) and PurePosixPath(_file(value)).suffix.lower() in SUFFIXES:
            return value
    return None


def guesses(address: str) -> tuple[str, ...]:
    """What the file of an image may be called, the likeliest first."""
    file = _file(address)
    bare = PurePosixPath(file).name
    # Uploaded files get eight hex digits and a dash before their name.
    return file, bare, bare[9:] if bare[8:9] == "-" else bare


def _file(address: str) -> str:
    try:
        parts = urlsplit(address)
    except ValueError:  # such as http://[
        return ""
    return parse_qs(parts.query).get("d", [unquote(parts.path)])[0].lstrip("/")


def rectangles(results: Iterable[dict[str, Any]], image: Path) -> Iterator[tuple[str, str, Box]]:
    """(id, label, xyxy) of the rectangles among the results; the size of `image` where they do not say it."""
    for item in results:
        value = item["value"]
        for kind in value.get("rectanglelabels") or []:
            sides: Sequence[Any] = item.get("original_width"), item.get("original_height")
            width, height = (float(side) for side in (sides if all(sides) else image_size(image)))
            yield str(item.get("id", "")), str(kind), _upright(value, width / 100, height / 100)


def _upright(value: dict[str, Any], w: float, h: float) -> Box:
    """The upright box around a rectangle, which may be turned about its upper left corner."""
    x, y = float(value["x"]) * w, float(value["y"]) * h
    width, height = float(value["width"]) * w, float(value["height"]) * h
    turn = math.radians(float(value.get("rotation") or 0))
    if not turn:
        return x, y, x + width, y + height
    cos, sin = math.cos(turn), math.sin(turn)
    xs = (0.0, width * cos, -height * sin, width * cos - height * sin)
    ys = (0.0, width * sin, height * cos, width * sin + height * cos)
    return x + min(xs), y + min(ys), x + max(xs), y + max(ys)


def prediction(file: str, size: tuple[int, int], objects: Iterable[tuple[str, float, Any]]) -> dict[str, Any]:
    """A task with predictions; `objects` are (class, score, xyxy), with places in per cent of the image."""
    results = [result(f"box{number}", size, *item) for number, item in enumerate(objects)]
    one = {"model_version": "tag2box", "result": results}
    if results:
        one["score"] = max(result["score"] for result in results)
    return {"data": {"image": LOCAL_FILES + quote(file)}, "predictions": [one]}


def result(
    key: str,
    size: tuple[int, int],
    name: str,
    score: float,
    box: Any,
    controls: tuple[str, str] = ("label", "image"),
) -> dict[str, Any]:
    """A rectangle of a prediction. controls: what the labels and the image are called in the project."""
    w, h = size
    x1, y1, x2, y2 = (float(side) for side in box)
    place = {
        "x": 100 * x1 / w,
        "y": 100 * y1 / h,
        "width": 100 * (x2 - x1) / w,
        "height": 100 * (y2 - y1) / h,
    }
    return {
        "id": key,
        "type": "rectanglelabels",
        "from_name": controls[0],
        "to_name": controls[1],
        "original_width": w,
        "original_height": h,
        "image_rotation": 0,
        "score": float(score),
        "value": {**place, "rotation": 0, "rectanglelabels": [name]},
    }
