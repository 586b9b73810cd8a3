"""`ReportContent` as one HTML page: no script, no other file, no request."""

from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING

from tag2box.report.content import ReportContent
from tag2box.report.thumbnails import AFTER, BEFORE, DETECTED, MINED

if TYPE_CHECKING:
    from jinja2 import Template


def render_page(content: ReportContent) -> str:
    """The page; every name in it is escaped, since tags and file names are anyone's text."""
    colors = {"before": BEFORE, "after": AFTER, "detected": DETECTED, "mined": MINED}
    return _template().render(report=content, colors=colors)


@lru_cache(maxsize=1)
def _template() -> "Template":
    from jinja2 import Environment, StrictUndefined

    text = files("tag2box.report").joinpath("page.html.j2").read_text(encoding="utf-8")
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(text)
