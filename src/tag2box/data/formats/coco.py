"""COCO's JSON: objects collapsed to tags, with the boxes as truth."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tag2box.data.formats.annotations import Annotation, Object, Size, assemble, choose_split, refuse_split
from tag2box.data.formats.files import folder_with, place_inside
from tag2box.data.formats.parsing import expecting, read_json
from tag2box.errors import InputError
from tag2box.images import ImageSet, Numbers
from tag2box.names import plain_name

# Names of annotation files that hold all there is, where others are named after their split.
WHOLE = frozenset({"instances", "annotations", "_annotations.coco", "coco", "result"})
SPLITS = re.compile(r"(train|val|valid|test|trainval)\d*")
# Where a folder keeps the images of the split {}, beside the annotations or in Roboflow's and CVAT's ways.
PLACES = ("{}", "images/{}", "images", "", "{}/images", "train", "JPEGImages")


def find_files(root: Path) -> dict[str, Path]:
    """Annotation files of a COCO data set in `root`, by split; "" is the split of a file without one."""
    files: dict[str, Path] = {}
    for path in sorted([*root.glob("annotations/*.json"), *root.glob("*.json")]):
        name = path.stem.removeprefix("instances_")
        if name != path.stem or SPLITS.fullmatch(name):
            files.setdefault(name, path)
        elif name in WHOLE:
            files.setdefault("", path)
    for path in sorted(root.glob("*/_annotations.coco.json")):
        files.setdefault(path.parent.name, path)
    return files


def read_folder(root: Path, files: Mapping[str, Path], split: str | None) -> ImageSet:
    """The data set whose annotation files `find_files` found."""
    if set(files) == {""}:
        refuse_split(split, files[""])
        return read(root, files[""], read_json(files[""]))
    split = choose_split(split, (name for name in files if name), root)
    return read(root, files[split], read_json(files[split]), split)


def is_instances(content: Any) -> bool:
    """Whether the JSON is COCO's: images, annotations, categories."""
    return isinstance(content, dict) and {"images", "annotations", "categories"} <= content.keys()


def read(root: Path, path: Path, content: Any, split: str = "") -> ImageSet:
    """The images of `content`, the JSON of `path`; their files are looked for below `root`.

    An image is +1 for the classes it has objects of, 0 where these are only crowds, -1 for the others.
    """
    if not is_instances(content):
        raise InputError(f"{path} is not COCO: expected an object with images, annotations and categories")
    with expecting("COCO as it should be", path):
        return _image_set(root, path, content, split)


def _image_set(root: Path, path: Path, content: Any, split: str) -> ImageSet:
    images = content["images"]
    categories = sorted(content["categories"], key=lambda category: _number(category["id"]))
    files = [_text(image["file_name"]) for image in images]
    places = [*(root / place.format(split) for place in PLACES), path.parent]
    folder = folder_with(files[0], places, root) if files else root
    named = [place_inside(folder, file, (root,)) for file in files]
    if len({name for name, _ in named}) < len(named):
        raise InputError(f"{path} names a file twice among its images: keep one record per file")
    kind = dict(
        zip(_ids("categories", categories), [_text(item["name"]) for item in categories], strict=True)
    )
    objects: dict[int, list[Object]] = {number: [] for number in _ids("images", images)}
    for item in content["annotations"]:
        image, category = _number(item["image_id"]), _number(item["category_id"])
        if image not in objects or category not in kind:
            raise InputError(f"an annotation of image {image}, category {category}: one does not exist")
        x, y, w, h = (float(value) for value in item["bbox"])
        objects[image].append(Object(kind[category], (x, y, x + w, y + h), bool(item.get("iscrowd", 0))))
    first = {plain_name(name): number for number, name in reversed(kind.items())}
    classes = tuple(dict.fromkeys(map(plain_name, kind.values())))
    return assemble(
        (
            Annotation(name, file, boxes=boxes, size=_size(image))
            for (name, file), boxes, image in zip(named, objects.values(), images, strict=True)
        ),
        classes,
        numbers=Numbers(tuple(objects), tuple(first[name] for name in classes)),
    )


def _ids(what: str, records: Sequence[Any]) -> list[int]:
    """The number that the file gives each record; refused where two have one number."""
    numbers = [_number(record["id"]) for record in records]
    if len(set(numbers)) < len(numbers):
        twice = Counter(numbers).most_common(1)[0][0]
        raise InputError(f"two of the {what} have the number {twice}: give each its own")
    return numbers


def _size(image: Any) -> Size | None:
    """Its width and height, where the file has them."""
    width, height = image.get("width"), image.get("height")
    return (width, height) if type(width) is type(height) is int and min(width, height) > 0 else None


def _number(value: Any) -> int:
    number = int(value)
    if isinstance(value, float) and number != value:
        raise ValueError(f"{value} is no whole number")
    return number


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"a name must be text, found {value!r}")
    return value
