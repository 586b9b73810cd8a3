"""How detections look: a photo with its boxes, many or a table in a notebook; templates of pages."""

from collections.abc import Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup
from PIL import Image

from tag2box.data.decoding import Source, read_small
from tag2box.detection.drawing import as_picture, class_color, draw_boxes, fitted
from tag2box.errors import Tag2BoxError

if TYPE_CHECKING:
    from tag2box.detection.detections import Detections

# A notebook holds what it shows: so many photos, boxes in each, pixels of a long side, and rows of a table.
PHOTOS, BOXES, SIDE, ROWS = 12, 5, 240, 20
GRID = "display:flex;flex-wrap:wrap;gap:10px"
FIGURE = (
    '<figure style="margin:0"><img src="{}" width="{}" height="{}" alt="{}">'
    "<figcaption>{}</figcaption></figure>"
)
KEY = '<span style="color:{};-webkit-text-stroke:.4px #101418">&#9632;</span> {}'


def drawn(part: "Detections", photo: Source, side: int | None = None, *, named: bool = True) -> Image.Image:
    """One photo with its boxes, the best on top; no side of it longer than `side`."""
    pixels, size = read_small(photo, side)
    picture = Image.fromarray(pixels)
    if side is not None and max(picture.size) < SIDE:
        picture = fitted(picture, SIDE)
    part = part[np.argsort(part.score, kind="stable")]
    boxes = [(box, class_color(c)) for box, c in zip(part.xyxy, part.label.tolist(), strict=True)]
    texts = [text for _, text in captions(part)] if named else []
    draw_boxes(picture, boxes, picture.width / size[0], texts)
    return picture


def captions(part: "Detections") -> list[tuple[str, str]]:
    """The color, and the class and score, of each box."""
    scores = zip(part._class_names(), part.score.tolist(), part.label.tolist(), strict=True)
    return [(class_color(c), f"{name} {score:.2f}") for name, score, c in scores]


def as_html(detections: "Detections", photos: Sequence[Source] | None) -> str:
    """The page's part; names of images and classes are anyone's text, and escaped."""
    images = np.unique(detections.image)
    parts = [Markup("<p>{} boxes in {} images</p>").format(len(detections), len(images))]
    if photos is None:
        parts.append(_table(detections))
        return Markup("<div>{}</div>").format(Markup().join(parts))
    figures = (_figure(detections[detections.image == i], photos[i]) for i in images[:PHOTOS].tolist())
    parts.append(Markup('<div style="{}">{}</div>').format(GRID, Markup().join(figures)))
    if len(images) > PHOTOS:
        more = "<p>The first {} images; others: detections[detections.image == i]</p>"
        parts.append(Markup(more).format(PHOTOS))
    return Markup("<div>{}</div>").format(Markup().join(parts))


def _figure(part: "Detections", photo: Source) -> Markup:
    """One photo, its surest boxes in the colors of their classes, and what they are."""
    part = part[np.argsort(-part.score, kind="stable")]
    shown, name = part.above()[:BOXES], part._image_names()[0]
    told = Markup(", ").join(Markup(KEY).format(*each) for each in captions(shown))
    if not len(shown):
        told = Markup("nothing surer; best: {}").format(captions(part[:1])[0][1])
    try:
        alt = f"{name}: {', '.join(text for _, text in captions(shown))}"
        picture = as_picture(drawn(shown, photo, SIDE, named=False), alt)
    except (Tag2BoxError, OSError) as error:  # gone since, perhaps
        return Markup("<figure>{}: {}<br>{}</figure>").format(name, error, told)
    return Markup(FIGURE).format(picture.uri, picture.width, picture.height, picture.alt, told)


def _table(detections: "Detections") -> Markup:
    head = _row("th", ("image", "class", "score", "x1, y1, x2, y2"))
    rows = Markup().join(_row("td", row) for row in detections._rows(ROWS))
    more = Markup("<p>The surest {} of them.</p>").format(ROWS) if len(detections) > ROWS else Markup()
    return Markup("<table>{}{}</table>{}").format(head, rows, more)


def _row(tag: str, values: Sequence[str]) -> Markup:
    cell = f"<{tag}>{{}}</{tag}>"
    return Markup("<tr>{}</tr>").format(Markup().join(Markup(cell).format(value) for value in values))


def render_template(package: str, name: str, **values: Any) -> str:
    """A page made of a template in `package`; every text in it is escaped, since names are anyone's."""
    from jinja2 import Environment, StrictUndefined

    text = files(package).joinpath(name).read_text(encoding="utf-8")
    options: dict[str, Any] = {"trim_blocks": True, "lstrip_blocks": True, "undefined": StrictUndefined}
    return Environment(autoescape=True, **options).from_string(text).render(values)
