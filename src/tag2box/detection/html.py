"""How detections look in a notebook: photos with their boxes, or a table where the photos are not known."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup
from PIL import Image

from tag2box.data.decoding import Source, read_small
from tag2box.detection.drawing import Picture, as_picture, draw_boxes, fitted
from tag2box.errors import Tag2BoxError

if TYPE_CHECKING:
    from tag2box.detection.detections import Detections

# A notebook holds what it shows: so many photos, boxes in each, pixels of a long side, and rows of a table.
PHOTOS, BOXES, SIDE, ROWS = 12, 5, 240, 20
# Less sure boxes are not drawn, where scores are confidences.
SURE = 0.5
# One for each class, told apart by people with any color vision (Okabe and Ito 2008).
COLORS = ("#56b4e9", "#e69f00", "#009e73", "#f0e442", "#cc79a7", "#d55e00", "#0072b2")
ROOM = "display:flex;flex-wrap:wrap;gap:10px"
FIGURE = (
    '<figure style="margin:0"><img src="{}" width="{}" height="{}" alt="{}">'
    "<figcaption>{}</figcaption></figure>"
)
KEY = '<span style="color:{};-webkit-text-stroke:.4px #101418">&#9632;</span> {}'
CELL, HEAD = "<td>{}</td>", "<th>{}</th>"


def as_html(detections: "Detections", photos: Sequence[Source] | None) -> str:
    """The page's part; names of images and classes are anyone's text, and escaped."""
    images = np.unique(detections.image)
    parts = [Markup("<p>{} boxes in {} images</p>").format(len(detections), len(images))]
    if photos is None:
        parts.append(_table(detections))
        return Markup("<div>{}</div>").format(Markup().join(parts))
    confidences = detections.score.min(initial=0) >= 0 and detections.score.max(initial=0) <= 1
    least = SURE if confidences else -np.inf
    shown = images[:PHOTOS].tolist()
    figures = (_figure(detections[detections.image == i], photos[i], i, least) for i in shown)
    parts.append(Markup('<div style="{}">{}</div>').format(ROOM, Markup().join(figures)))
    if len(images) > PHOTOS:
        parts.append(
            Markup("<p>The first {} images; others: detections[detections.image == i]</p>").format(PHOTOS)
        )
    return Markup("<div>{}</div>").format(Markup().join(parts))


def _figure(part: "Detections", photo: Source, image: int, least: float) -> Markup:
    """One photo, its surest boxes in the colors of their classes, and what they are."""
    order = np.argsort(-part.score, kind="stable")
    best, part = part[order[:1]], part[order]
    part = part[part.score >= least][:BOXES]
    name = part.ids[image] if part.ids else f"image {image}"
    told = Markup(", ").join(
        Markup(KEY).format(_color(label), _said(part, n)) for n, label in enumerate(part.label.tolist())
    )
    if not len(part):
        told = Markup("nothing surer than {}; best: {}").format(least, _said(best, 0))
    try:
        picture = _drawn(part, photo, f"{name}: {', '.join(_said(part, n) for n in range(len(part)))}")
    except (Tag2BoxError, OSError) as error:  # gone since, perhaps
        return Markup("<figure>{}: {}<br>{}</figure>").format(name, error, told)
    return Markup(FIGURE).format(picture.uri, picture.width, picture.height, picture.alt, told)


def _drawn(part: "Detections", photo: Source, alt: str) -> Picture:
    pixels, size = read_small(photo, SIDE)
    small = fitted(Image.fromarray(pixels), SIDE)
    boxes = [(box, _color(label)) for box, label in zip(part.xyxy, part.label.tolist(), strict=True)]
    draw_boxes(small, boxes[::-1], small.width / size[0])
    return as_picture(small, alt)


def _table(detections: "Detections") -> Markup:
    order = np.argsort(-detections.score, kind="stable")[:ROWS]
    head = _row(HEAD, ("image", "class and score", "x1, y1, x2, y2"))
    names = detections.ids
    rows = (
        _row(
            CELL,
            (
                names[detections.image[n]] if names else str(detections.image[n]),
                _said(detections, n),
                ", ".join(f"{side:.0f}" for side in detections.xyxy[n]),
            ),
        )
        for n in order.tolist()
    )
    more = Markup("<p>The surest {} of them.</p>").format(ROWS) if len(detections) > ROWS else Markup()
    return Markup("<table>{}{}</table>{}").format(head, Markup().join(rows), more)


def _row(cell: str, values: Iterable[str]) -> Markup:
    return Markup("<tr>{}</tr>").format(Markup().join(Markup(cell).format(value) for value in values))


def _said(detections: "Detections", n: int) -> str:
    label = int(detections.label[n])
    name = detections.classes[label] if detections.classes else f"class {label}"
    return f"{name} {detections.score[n]:.2f}"


def _color(label: int) -> str:
    return COLORS[label % len(COLORS)]
