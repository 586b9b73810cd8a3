"""CVAT's XML, "CVAT for images 1.1": tags and shapes in, boxes out."""

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from tag2box.data.formats.annotations import Annotation, Box, Object, assemble, choose_split
from tag2box.data.formats.files import folder_with, place_inside
from tag2box.data.formats.parsing import expecting, read_xml
from tag2box.errors import InputError
from tag2box.images import ImageSet

# What an export is called, beside its folder of images.
FILE = "annotations.xml"
PLACES = ("images/{}", "images", "")

# An image: its file name, and (class, xyxy) of its boxes.
Labelled = tuple[str, list[tuple[str, Box]]]
SIDES = ("xtl", "ytl", "xbr", "ybr")


def read(root: Path, path: Path, split: str | None) -> ImageSet:
    """The images of the XML file `path`, looked for below `root`.

    An image is +1 for the labels of its tags and shapes and -1 for the others. Boxes, and the boxes around
    polygons, masks and ellipses, are the truth. A subset of a project is a split.
    """
    tree = read_xml(path)
    if tree.tag != "annotations" or tree.find("image") is None:
        kind = "CVAT for video" if tree.find("track") is not None else f"<{tree.tag}>"
        raise InputError(
            f'{path} is {kind}: expected an export of CVAT as "CVAT for images 1.1", with images'
        )
    with expecting("an export of CVAT", path):
        return _image_set(root, tree, split)


def _image_set(root: Path, tree: ElementTree.Element, split: str | None) -> ImageSet:
    images = sorted(tree.iter("image"), key=lambda image: image.attrib["name"])
    subsets = {image.get("subset", "") for image in images}
    if split is not None or len(subsets) > 1:
        split = choose_split(split, subsets - {""}, FILE)
        images = [image for image in images if image.get("subset") == split]
    places = [root / place.format(images[0].get("subset", "")) for place in PLACES]
    folder = folder_with(images[0].attrib["name"], places, root)
    annotations = []
    for image in images:
        shapes = [shape for shape in image if "label" in shape.attrib]
        tags = {shape.attrib["label"]: 1 for shape in shapes}
        boxes = [Object(each.attrib["label"], BOXES[each.tag](each)) for each in shapes if each.tag in BOXES]
        size = int(image.get("width", 0)), int(image.get("height", 0))
        name, file = place_inside(folder, image.attrib["name"], (root,))
        annotations.append(Annotation(name, file, tags, boxes or None, size=size if min(size) > 0 else None))
    declared = {name.text or "" for name in tree.iterfind("meta//label/name")}
    return assemble(annotations, sorted(declared.union(*(each.tags for each in annotations))))


def _numbers(shape: ElementTree.Element, *names: str) -> Iterator[float]:
    return (float(shape.attrib[name]) for name in names)


def _of_box(shape: ElementTree.Element) -> Box:
    x1, y1, x2, y2 = _numbers(shape, *SIDES)
    turn = math.radians(float(shape.get("rotation", 0)))
    if not turn:
        return x1, y1, x2, y2
    # Turned about its center; the upright box around that.
    cos, sin = abs(math.cos(turn)), abs(math.sin(turn))
    w, h = (x2 - x1) * cos + (y2 - y1) * sin, (x2 - x1) * sin + (y2 - y1) * cos
    cx, cy = (x1 + x2) / 2, (y1 + y2) / 2
    return cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2


def _of_polygon(shape: ElementTree.Element) -> Box:
    points = [point.split(",") for point in shape.attrib["points"].split(";")]
    xs, ys = [float(x) for x, _ in points], [float(y) for _, y in points]
    return min(xs), min(ys), max(xs), max(ys)


def _of_mask(shape: ElementTree.Element) -> Box:
    left, top, width, height = _numbers(shape, "left", "top", "width", "height")
    return left, top, left + width, top + height


def _of_ellipse(shape: ElementTree.Element) -> Box:
    cx, cy, rx, ry = _numbers(shape, "cx", "cy", "rx", "ry")
    return cx - rx, cy - ry, cx + rx, cy + ry


BOXES = {"box": _of_box, "polygon": _of_polygon, "mask": _of_mask, "ellipse": _of_ellipse}


def read_boxes(path: Path) -> list[Labelled]:
    """The images that the file names, with their boxes; other shapes are left out."""
    root = read_xml(path)
    with expecting("CVAT for images 1.1", path):
        if root.tag != "annotations":
            raise ValueError(f"the outermost element is {root.tag!r}")
        return [
            (image.attrib["name"], [(box.attrib["label"], _of_box(box)) for box in image.iter("box")])
            for image in root.iter("image")
        ]


def document(images: Iterable[tuple[str, tuple[int, int], Iterable[tuple[str, Any]]]]) -> bytes:
    """The XML of boxes that a person drew: images are (file name, (width, height), (class, xyxy) of each)."""
    scored = [(file, size, [(name, None, box) for name, box in boxes]) for file, size, boxes in images]
    return detected(sorted({name for _, _, boxes in scored for name, _, _ in boxes}), scored)


def detected(
    classes: Iterable[str],
    images: Iterable[tuple[str, tuple[int, int], Iterable[tuple[str, float | None, Any]]]],
) -> bytes:
    """The XML of detections: images are (file name, (width, height), (class, score, xyxy) of each)."""
    root = ElementTree.Element("annotations")
    ElementTree.SubElement(root, "version").text = "1.1"
    # Datumaro, which CVAT's imports are made of, refuses a file without a task.
    task = ElementTree.SubElement(ElementTree.SubElement(root, "meta"), "task")
    labels = ElementTree.SubElement(task, "labels")
    for name in classes:
        label = ElementTree.SubElement(labels, "label")
        ElementTree.SubElement(label, "name").text = name
        ElementTree.SubElement(label, "type").text = "rectangle"
        ElementTree.SubElement(label, "attributes")
    for number, (file, (width, height), boxes) in enumerate(images):
        size = {"width": str(width), "height": str(height)}
        image = ElementTree.SubElement(root, "image", {"id": str(number), "name": file, **size})
        for box in boxes:
            _add_box(image, *box)
    ElementTree.indent(root)
    return bytes(ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def _add_box(image: ElementTree.Element, name: str, score: float | None, xyxy: Any) -> None:
    source = "manual" if score is None else "auto"
    # str of a float32 is the shortest text that gives it back.
    sides = dict(zip(SIDES, map(str, xyxy), strict=True))
    more = {"source": source, "occluded": "0", **sides, "z_order": "0"}
    shape = ElementTree.SubElement(image, "box", {"label": name, **more})
    if score is not None:
        ElementTree.SubElement(shape, "attribute", {"name": "score"}).text = repr(float(score))
