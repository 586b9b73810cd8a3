"""Tables 2 and 3 for people and machines: Markdown, which reads well in a terminal too, and JSON."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from tag2box.reproduce.printed import CLASSES, OTHERS, PAPER, SIX, Other
from tag2box.reproduce.voc_tables import VocCell

# CorLoc of the windows that the paper's authors published; and what they learned from and tested on.
BESIDE = {
    SIX: "The paper is on all of VOC 2007. CorLoc of its authors' own first windows: 39.4.",
    CLASSES: "The paper is on all of VOC 2007. CorLoc of its authors' own first windows: 29.3.",
}


def as_dict(cells: Sequence[VocCell], classes: Sequence[str]) -> dict[str, Any]:
    """Per row the mean and spread over seeds of AP07 and CorLoc, per class and in the mean, in per cent."""
    rows: dict[str, Any] = {}
    for row in dict.fromkeys(cell.row for cell in cells):
        same = [cell for cell in cells if cell.row == row]
        rows[row] = {
            "ap": _figures(same, classes, lambda cell: cell.ap),
            "corloc": _figures(same, classes, lambda cell: cell.corloc),
            "first_windows": _figures(same, classes, lambda cell: cell.first),
            "song2014": {name: ap for name, ap in PAPER.get(row, {}).items() if name in classes},
        }
    costs: dict[str, Any] = {}
    for cell in cells:
        costs |= {stage: cost for stage, cost in cell.costs.items() if not cost["reused"]}
    return {
        "classes": list(classes),
        "protocol": "trained on trainval with tags, scored on test, AP07; CorLoc on trainval",
        "seeds": sorted({cell.seed for cell in cells}),
        "beside": BESIDE.get(tuple(classes), ""),
        "others": [_other(other) for other in OTHERS.get(tuple(classes), ())],
        "rows": rows,
        "costs": costs,
    }


def _other(row: Other) -> dict[str, Any]:
    """A row of others; left and right are a list."""
    ap = [list(each) if isinstance(each, tuple) else each for each in row.ap]
    return {"name": row.name, "mean": row.mean, "ap": ap}


def _figures(
    cells: Sequence[VocCell], classes: Sequence[str], figure: Callable[[VocCell], dict[str, float]]
) -> dict[str, Any]:
    values = 100 * np.array([[figure(cell)[name] for name in classes] for cell in cells])  # (seeds, classes)
    means = values.mean(axis=1)
    return {
        "classes": {name: round(float(v), 1) for name, v in zip(classes, values.mean(axis=0), strict=True)},
        "mean": round(float(means.mean()), 1),
        "std_over_seeds": round(float(means.std()), 1),
    }


def as_markdown(table: dict[str, Any]) -> str:
    """The table, the paper's rows below ours, and those of others below all."""
    classes = table["classes"]
    lines = [
        f"{table['protocol']}; {len(table['seeds'])} seed(s).",
        "",
        f"| | {' | '.join(classes)} | mean | spread | CorLoc | CorLoc of the first windows |",
        "|---" * (len(classes) + 5) + "|",
    ]
    for row, content in table["rows"].items():
        ap, after, first = (content[name] for name in ("ap", "corloc", "first_windows"))
        lines.append(
            f"| {row} | {_line(ap['classes'][name] for name in classes)} | {ap['mean']:.1f} "
            f"| {ap['std_over_seeds']:.1f} | {after['mean']:.1f} | {first['mean']:.1f} |"
        )
        if theirs := content["song2014"]:
            known = [theirs.get(name) for name in classes]
            mean = None if None in known else float(np.mean(list(theirs.values())))
            lines.append(f"| *Song et al. 2014* | {_line([*known, mean])} | | | |")
    for other in table["others"]:
        known = other["ap"] or [None] * len(classes)
        lines.append(f"| *{other['name']}* | {_line([*known, other['mean']])} | | | |")
    lines += ["", table["beside"], "", "| stage | seconds | peak MB |", "|---|---|---|"]
    lines += [
        f"| {stage} | {cost['seconds']:.0f} | {cost.get('peak_mb', 0) + cost.get('workers_peak_mb', 0):.0f} |"
        for stage, cost in table["costs"].items()
    ]
    return "\n".join(lines) + "\n"


def _line(values: Iterable[float | Sequence[float] | None]) -> str:
    """The cells of a row; what is not known is a dash, and left and right stand side by side."""
    cells = []
    for value in values:
        sides = value if isinstance(value, Sequence) else [value]
        cells.append(", ".join("-" if side is None else f"{side:.1f}" for side in sides))
    return " | ".join(cells)
