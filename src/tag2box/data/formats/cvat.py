"""CVAT's XML "for images 1.1": boxes in, boxes out. Its coordinates are ours: pixels, with fractions."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from xml.etree import ElementTree

from tag2box.data.formats.parsing import expecting, read_xml

__all__ = ["Labelled", "document", "read_boxes"]

XYXY = tuple[float, float, float, float]
# An image: its file name, and (class, xyxy) of its boxes.
Labelled = tuple[str, list[tuple[str, XYXY]]]
SIDES = ("xtl", "ytl", "xbr", "ybr")


def read_boxes(path: Path) -> list[Labelled]:
    """The images that the file names, with their boxes; other shapes are left out."""
    root = read_xml(path)
    with expecting("CVAT for images 1.1", path):
        if root.tag != "annotations":
            raise ValueError(f"the outermost element is {root.tag!r}")
        return [
            (image.attrib["name"], [_box(box) for box in image.iter("box")]) for image in root.iter("image")
        ]


def _box(box: ElementTree.Element) -> tuple[str, XYXY]:
    x1, y1, x2, y2 = (float(box.attrib[side]) for side in SIDES)
    return box.attrib["label"], (x1, y1, x2, y2)


def document(images: Iterable[tuple[str, tuple[int, int], Sequence[tuple[str, Sequence[float]]]]]) -> bytes:
    """The XML of images, each (file name, (width, height), boxes)."""
    root = ElementTree.Element("annotations")
    ElementTree.SubElement(root, "version").text = "1.1"
    for number, (name, (width, height), boxes) in enumerate(images):
        size = {"width": str(width), "height": str(height)}
        image = ElementTree.SubElement(root, "image", {"id": str(number), "name": name, **size})
        for label, xyxy in boxes:
            sides = {side: f"{float(value):.2f}" for side, value in zip(SIDES, xyxy, strict=True)}
            more = {"occluded": "0", "source": "manual", "z_order": "0"}
            ElementTree.SubElement(image, "box", {"label": label, **more, **sides})
    ElementTree.indent(root)
    return bytes(ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"
