"""YOLO's layout: `data.yaml`, `images/`, and `labels/` with a text file per image: class cx cy w h."""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from tag2box.data.formats.annotations import (
    Annotation,
    Box,
    Object,
    assemble,
    choose_split,
    size_if_known,
)
from tag2box.data.formats.files import list_images, place_inside
from tag2box.data.formats.parsing import expecting, parse_yaml, read_text
from tag2box.errors import InputError
from tag2box.images import ImageSet

# A YAML file without this is not about classes, and need not even be read.
NAMES = re.compile(r"""^[{\s]*["']?names["']?\s*:""", re.MULTILINE)
# How YAML writes that there is nothing.
NOTHING = frozenset({"", "~", "null", "Null", "NULL"})


def find_yaml(root: Path) -> Path | None:
    """The data set's YAML file in `root`, where there is one."""
    files = sorted([*root.glob("*.yaml"), *root.glob("*.yml")])
    texts = {path: read_text(path) for path in files}
    yamls = [path for path, text in texts.items() if NAMES.search(text) and _names(path, text)]
    if len(yamls) > 1:
        raise InputError(f"{root} holds {', '.join(path.name for path in yamls)}: give the one to read")
    return yamls[0] if yamls else None


def read(path: Path, split: str | None, root: Path | None = None) -> ImageSet:
    """The data set of the YAML file `path`. An image is +1 for what its labels hold and -1 for the rest.

    An image without a label file has none of the classes. The size of each image is read from its header.
    root: the folder that nothing may lead out of. None where the YAML file itself was given: then what it
        says is followed, and only lists of images are held to the folders that it names.
    """
    text = read_text(path)
    classes = _names(path, text)
    if not classes:
        raise InputError(f"{path} names no classes: expected names: [cat, dog]")
    content = parse_yaml(text, path)
    parts = {name: places for name in ("train", "val", "test") if (places := _places(path, content, name))}
    split = choose_split(split, parts, path)
    with expecting("a YOLO data set", path):
        images, skipped = _images(path, content, parts[split], split, root)
        rows = [
            Annotation(name, file, boxes=list(_objects(file, classes)))
            for name, file in sorted(images.items())
        ]
        return assemble(rows, classes, skipped=skipped)


def _names(path: Path, text: str) -> list[str]:
    names = parse_yaml(text, path).get("names")
    if isinstance(names, dict):
        try:
            ordered = sorted(names, key=int)
        except ValueError:
            raise InputError(
                f"{path}: the classes must be numbered, as in names: {{0: cat, 1: dog}}"
            ) from None
        if [int(key) for key in ordered] != list(range(len(ordered))):
            raise InputError(f"{path}: the numbers of the classes must be 0, 1, 2, ... without a gap")
        names = [names[key] for key in ordered]
    return _texts(path, "names", names) if isinstance(names, list) else []


def _places(path: Path, content: dict[str, Any], split: str) -> list[str]:
    """What the YAML file says of where a split is: one place or several, none where it says nothing."""
    value = content.get(split, "")
    places = _texts(path, split, value if isinstance(value, list) else [value])
    return [place for place in places if place not in NOTHING]


def _texts(path: Path, key: str, values: list[Any]) -> list[str]:
    if not all(isinstance(value, str) for value in values):
        raise InputError(f"{path}: under {key!r} expected plain text")
    return values


def _images(
    path: Path, content: dict[str, Any], values: list[str], split: str, root: Path | None
) -> tuple[dict[str, Path], tuple[str, ...]]:
    """Name -> file of the split's images, and what was skipped."""
    (declared,) = _texts(path, "path", [content.get("path", "")])
    base = path.parent / ("" if declared in NOTHING else declared)
    places = [_place(path.parent, base, value, split, root) for value in values]
    if os.path.isfile(places[0]):
        roots = [path.parent, *([base] if root is None else [])]
        lines = [(place, line.strip()) for place in places for line in read_text(place).split("\n")]
        return dict(place_inside(place.parent, line, roots) for place, line in lines if line), ()
    top = os.path.commonpath([os.path.abspath(place) for place in places])
    listings = [list_images(place) for place in places]
    images = {
        os.path.relpath(each.root / name, top).replace(os.sep, "/"): each.root / name
        for each in listings
        for name in each.names
    }
    if not images:
        raise InputError(f"{path}: no images below {', '.join(map(str, places))}")
    return images, tuple(line for each in listings for line in each.lines())


def _place(folder: Path, base: Path, value: str, split: str, root: Path | None) -> Path:
    """Where a split is: a folder of images, or a list. `folder` is the YAML's, `base` the set's own."""
    # Roboflow writes ../train/images where ./train/images is meant; other tools a root of another machine.
    plain = re.sub(r"^(\.\./)+", "", value)
    guesses = (
        base / value,
        folder / value,
        folder / plain,
        folder / "images" / split,
        folder / split / "images",
    )
    there = [Path(os.path.normpath(guess)) for guess in guesses if os.path.exists(guess)]
    if inside := [guess for guess in there if root is None or _is_inside(guess, root)]:
        return inside[0]
    if there:
        raise InputError(
            f"{value!r} leads out of {root} to {there[0]}: give the YAML file itself, and it is followed"
        )
    raise InputError(f"{folder}: no folder {value!r} of images for the split {split!r}")


def _is_inside(path: Path, root: Path) -> bool:
    return Path(os.path.abspath(path)).is_relative_to(os.path.abspath(root))


def _objects(image: Path, classes: Sequence[str]) -> Iterator[Object]:
    path = _label_file(image)
    lines = read_text(path).splitlines() if os.path.isfile(path) else []
    size: tuple[int, int] | None = None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            label, *values = (float(field) for field in line.split())
            x1, y1, x2, y2 = _shares(values)
        except ValueError:
            raise InputError(f"{path}, line {number}: expected class cx cy w h, found {line!r}") from None
        if not (label.is_integer() and 0 <= label < len(classes)):
            raise InputError(f"{path}, line {number}: class {label:g}, but there are {len(classes)} classes")
        w, h = size = size or size_if_known(image)
        yield Object(classes[int(label)], (x1 * w, y1 * h, x2 * w, y2 * h))


def _shares(values: list[float]) -> Box:
    """Shares x1, y1, x2, y2 of cx cy w h (and a confidence, which is dropped), or of a polygon around."""
    if len(values) in {4, 5}:
        cx, cy, w, h = values[:4]
        return cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2
    if len(values) < 6 or len(values) % 2:
        raise ValueError
    xs, ys = values[::2], values[1::2]
    return min(xs), min(ys), max(xs), max(ys)


def _label_file(image: Path) -> Path:
    """Where Ultralytics looks for it, or beside the image: some tools keep both in one folder."""
    path, adjacent = Path(label_name(image.as_posix())), image.with_suffix(".txt")
    return path if "images" in image.parent.parts and os.path.isfile(path) else adjacent


def label_line(label: int, box: Any, size: tuple[int, int], score: float | None = None) -> str:
    """A line of a label file, the box cut to the image; a sixth column for the score where it is given."""
    x1, x2 = (min(max(float(x) / size[0], 0.0), 1.0) for x in (box[0], box[2]))
    y1, y2 = (min(max(float(y) / size[1], 0.0), 1.0) for y in (box[1], box[3]))
    shares = ((x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1)
    fields = [str(label), *(f"{share:.8f}" for share in shares)]
    return " ".join([*fields, repr(float(score))] if score is not None else fields) + "\n"


def label_name(image: str) -> str:
    """Where Ultralytics looks for the labels of `image`, such as images/a.jpg: in labels/a.txt."""
    folder, _, name = f"/{image}".rpartition("/images/")
    return f"{folder}/labels/{PurePosixPath(name).with_suffix('.txt')}".removeprefix("/")


def divide(ids: Sequence[str], kinds: Sequence[int], share: float) -> list[str]:
    """The folder of each image: "" without a share, or "val/" for that share of them and "train/".

    kinds: a number for each image; of each kind about the same share is taken. Within a kind a hash of the
        ids decides.
    """
    if not share:
        return [""] * len(ids)
    if not 0 < share < 1 or len(ids) < 2:
        raise InputError(
            f"val must be a share between 0 and 1 of at least 2 images, but it is {share} of {len(ids)}"
        )
    order = sorted(range(len(ids)), key=lambda i: (kinds[i], hashlib.sha256(ids[i].encode()).digest()))
    steps = [int(rank * share) for rank in range(len(ids) + 1)]
    chosen = {i for i, before, after in zip(order, steps, steps[1:], strict=False) if after > before}
    return ["val/" if i in (chosen or {order[-1]}) else "train/" for i in range(len(ids))]


def data_yaml(classes: tuple[str, ...], *, divided: bool = False) -> str:
    """The YAML file of a data set with its images in images/ and its labels in labels/, both beside it.

    divided: there are images/train and images/val, and not one folder for both.

    Without a `path`, which Ultralytics would look for in its own folder of data sets unless it is absolute.
    """
    names = "".join(f"  {c}: {json.dumps(name, ensure_ascii=False)}\n" for c, name in enumerate(classes))
    train, val = ("images/train", "images/val") if divided else ("images", "images")
    return f"train: {train}\nval: {val}\nnames:\n{names}"
