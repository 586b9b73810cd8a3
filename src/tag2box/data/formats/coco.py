"""COCO's JSON: objects collapsed to tags, with the boxes as truth; and detections as results or instances."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tag2box.data.formats.building import Object, choose_split, tags_of_objects, truth_of_objects
from tag2box.data.formats.files import folder_with, place_inside, unique_ids
from tag2box.data.formats.parsing import expecting, read_json
from tag2box.errors import InputError
from tag2box.images import ImageSet, Numbers

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
        if split is not None:
            raise InputError(f"{files['']} is not divided into splits: leave out the split {split!r}")
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
    files = [_text(image["file_name"]) for image in content["images"]]
    places = [*(root / place.format(split) for place in PLACES), path.parent]
    folder = folder_with(files[0], places, root) if files else root
    named = [place_inside(folder, file, (root,)) for file in files]
    names = [name for name, _ in named]
    if len(set(names)) < len(names):
        raise InputError(f"{path} names a file twice among its images: keep one record per file")
    place = _numbered("images", content["images"], range(len(names)))
    categories = sorted(content["categories"], key=lambda category: _number(category["id"]))
    classes = tuple(dict.fromkeys(_text(category["name"]) for category in categories))
    index = {name: c for c, name in enumerate(classes)}
    label = _numbered("categories", categories, [index[category["name"]] for category in categories])
    first = {c: number for number, c in reversed(label.items())}
    objects = [_object(path, item, place, label) for item in content["annotations"]]
    return ImageSet(
        ids=unique_ids(names),
        paths=tuple(place for _, place in named),
        tags=tags_of_objects(objects, len(names), len(classes)),
        classes=classes,
        truth=truth_of_objects(objects),
        numbers=Numbers(tuple(place), tuple(first[c] for c in range(len(classes)))),
    )


def _numbered(what: str, records: Sequence[Any], values: Sequence[int]) -> dict[int, int]:
    """The number that the file gives each record -> its value; refused where two have one number."""
    numbers = [_number(record["id"]) for record in records]
    out = dict(zip(numbers, values, strict=True))
    if len(out) < len(numbers):
        twice = next(number for number, count in Counter(numbers).items() if count > 1)
        raise InputError(f"two of the {what} have the number {twice}: give each its own")
    return out


def _number(value: Any) -> int:
    number = int(value)
    if isinstance(value, float) and number != value:
        raise ValueError(f"{value} is no whole number")
    return number


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"a name must be text, found {value!r}")
    return value


def _object(path: Path, item: Any, place: Mapping[int, int], label: Mapping[int, int]) -> Object:
    image, category = _number(item["image_id"]), _number(item["category_id"])
    if image not in place or category not in label:
        raise InputError(f"{path}: an annotation of image {image}, category {category}: one does not exist")
    x, y, w, h = (float(value) for value in item["bbox"])
    return Object(place[image], (x, y, x + w, y + h), label[category], bool(item.get("iscrowd", 0)))
