"""Small line charts as inline SVG: they scale, print, follow the page's colors and need no script."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

WIDTH, HEIGHT = 360, 240
LEFT, RIGHT, TOP, BOTTOM = 54, 12, 12, 40  # room for the numbers and names of the axes
QUARTERS = (0, 0.25, 0.5, 0.75, 1)
MOST_DOTS = 40
MOST_POINTS = 400  # of a curve: more would not be seen, and each costs bytes


class _Axis(NamedTuple):
    """An axis from 0 to `end`, its name and where its numbers stand."""

    name: str
    end: float
    ticks: Sequence[float]


def gain_chart(gains: ArrayLike, F_V: float, title: str) -> str:
    """F(S) after each pick as a share of F(V): it rises ever less, as F is submodular."""
    reached = np.cumsum(np.append(0.0, np.asarray(gains, dtype=np.float64))) / max(F_V, 1e-12)
    n = max(len(reached) - 1, 1)
    across = _Axis("windows selected", n, _whole_ticks(n))
    dots = len(reached) <= MOST_DOTS
    return _chart(
        title, across, _Axis("F(S) / F(V)", 1, QUARTERS), np.arange(len(reached)), reached, dots=dots
    )


def recall_chart(recall: ArrayLike, precision: ArrayLike, title: str) -> str:
    """Precision against recall; the faint line is its envelope, of which AP is made."""
    r, p = np.asarray(recall, dtype=np.float64), np.asarray(precision, dtype=np.float64)
    envelope = np.maximum.accumulate(p[::-1])[::-1]
    # Between two hits precision only falls: the ends of each fall say all.
    rises = np.diff(r, prepend=0) > 0
    ends = rises | np.append(rises[1:], True)[: len(r)]
    r, p, envelope = r[ends], p[ends], envelope[ends]
    return _chart(title, _Axis("recall", 1, QUARTERS), _Axis("precision", 1, QUARTERS), r, p, envelope)


def reliability_chart(confidence: ArrayLike, right: ArrayLike, title: str) -> str:
    """The share of right boxes against their confidence; on the faint line both are equal."""
    across, up = _Axis("confidence", 1, QUARTERS), _Axis("share of right boxes", 1, QUARTERS)
    x = np.asarray(confidence, dtype=np.float64)
    return _chart(title, across, up, x, right, faint=x, dots=True)


def histogram(values: ArrayLike, name: str) -> str:
    """How many values there are in each tenth from 0 to 1."""
    counts, _ = np.histogram(np.asarray(values, dtype=np.float64), bins=10, range=(0, 1))
    most = max(int(counts.max()), 1)
    across, up = _Axis(f"confidence of {name}", 1, QUARTERS), _Axis("boxes", most, _whole_ticks(most))
    bars = []
    for i, count in enumerate(counts.tolist()):
        x, y = _px(i / 10, across) + 1, _py(count, up)
        size = f'width="{(WIDTH - LEFT - RIGHT) / 10 - 2:.1f}" height="{HEIGHT - BOTTOM - y:.1f}"'
        bars.append(f'<rect x="{x:.1f}" y="{y:.1f}" {size}/>')
    plain = _chart(f"{name}, by their confidence: {counts.tolist()}", across, up, [], [])
    return plain.replace("</svg>", "".join([*bars, "</svg>"]))


def _chart(
    title: str,
    across: _Axis,
    up: _Axis,
    x: ArrayLike,
    y: ArrayLike,
    faint: ArrayLike | None = None,
    dots: bool = False,
) -> str:
    from markupsafe import escape

    middle = (TOP + HEIGHT - BOTTOM) / 2
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">',
        *(_gridline(_px(t, across), TOP, _px(t, across), HEIGHT - BOTTOM) for t in across.ticks),
        *(_gridline(LEFT, _py(t, up), WIDTH - RIGHT, _py(t, up)) for t in up.ticks),
        *(_text(_px(t, across), HEIGHT - BOTTOM + 16, f"{t:g}") for t in across.ticks),
        *(_text(LEFT - 6, _py(t, up) + 4, f"{t:g}", "end") for t in up.ticks),
        _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, across.name),
        f'<g transform="translate(11 {middle:.0f}) rotate(-90)">{_text(0, 0, up.name)}</g>',
    ]
    if faint is not None:
        parts.append(_line(across, up, x, faint, "faint"))
    parts.append(_line(across, up, x, y, "curve"))
    if dots:
        pairs = zip(np.asarray(x), np.asarray(y), strict=True)
        parts += [f'<circle cx="{_px(a, across):.1f}" cy="{_py(b, up):.1f}" r="3.5"/>' for a, b in pairs]
    return "".join([*parts, "</svg>"])


def _line(across: _Axis, up: _Axis, x: ArrayLike, y: ArrayLike, kind: str) -> str:
    xs, ys = (np.asarray(v, dtype=np.float64) for v in (x, y))
    kept = np.unique(np.linspace(0, len(xs) - 1, MOST_POINTS).astype(int)) if len(xs) else np.empty(0, int)
    points = " ".join(
        f"{_px(a, across):.1f},{_py(b, up):.1f}" for a, b in zip(xs[kept], ys[kept], strict=True)
    )
    return f'<polyline class="{kind}" points="{points}"/>'


def _px(value: float, axis: _Axis) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * value / axis.end


def _py(value: float, axis: _Axis) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / axis.end


def _gridline(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="grid" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, content: str, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{content}</text>'


def _whole_ticks(n: int) -> Sequence[float]:
    """At most six whole numbers from 0 on, in steps of 1, 2 or 5 times a power of ten."""
    step = next(s * 10**e for e in range(12) for s in (1, 2, 5) if n / (s * 10**e) <= 5)
    return range(0, n + 1, step)
