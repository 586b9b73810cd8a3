"""Tables 2 and 3 for people and machines: Markdown, which reads well in a terminal too, and JSON."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tag2box.reproduce.voc_tables import CLASSES, PAPER, SIX, VocCell

__all__ = ["as_dict", "as_markdown"]

# What others have on the same classes: the paper's Table 3, and CorLoc of the windows its authors published.
RIVALS = {
    SIX: "CorLoc of the authors' own first windows: 39.4.",
    CLASSES: "CorLoc of the authors' own first windows: 29.3. Siva and Xiang (2011) have 13.9 mean AP.",
}


def as_dict(cells: Sequence[VocCell], classes: Sequence[str]) -> dict[str, Any]:
    """Per row the mean and spread over seeds of AP07 and CorLoc, per class and in the mean, in per cent."""
    rows: dict[str, Any] = {}
    for row in dict.fromkeys(cell.row for cell in cells):
        same = [cell for cell in cells if cell.row == row]
        rows[row] = {
            "ap": _figures(same, classes, lambda cell: cell.ap),
            "corloc": _figures(same, classes, lambda cell: cell.corloc),
            "song2014": {name: ap for name, ap in PAPER.get(row, {}).items() if name in classes},
        }
    costs: dict[str, Any] = {}
    for cell in cells:
        costs |= {stage: cost for stage, cost in cell.costs.items() if not cost["reused"]}
    return {
        "classes": list(classes),
        "protocol": "trained on trainval with tags, scored on test, AP07; CorLoc on trainval",
        "seeds": sorted({cell.seed for cell in cells}),
        "beside": RIVALS.get(tuple(classes), ""),
        "rows": rows,
        "costs": costs,
    }


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
    """The table, the paper's rows below ours."""
    classes = table["classes"]
    lines = [
        f"{table['protocol']}; {len(table['seeds'])} seed(s).",
        "",
        f"| | {' | '.join(classes)} | mean | spread | CorLoc |",
        "|---" * (len(classes) + 4) + "|",
    ]
    for row, content in table["rows"].items():
        ap, share = content["ap"], content["corloc"]
        figures = " | ".join(f"{ap['classes'][name]:.1f}" for name in classes)
        lines.append(
            f"| {row} | {figures} | {ap['mean']:.1f} | {ap['std_over_seeds']:.1f} | {share['mean']:.1f} |"
        )
        if theirs := content["song2014"]:
            known = [theirs.get(name) for name in classes]
            figures = " | ".join("-" if value is None else f"{value:.1f}" for value in known)
            mean = "-" if None in known else f"{np.mean(list(theirs.values())):.1f}"
            lines.append(f"| *Song et al. 2014* | {figures} | {mean} | | |")
    lines += ["", table["beside"], "", "| stage | seconds | peak MB |", "|---|---|---|"]
    lines += [
        f"| {stage} | {cost['seconds']:.0f} | {cost.get('peak_mb', 0) + cost.get('workers_peak_mb', 0):.0f} |"
        for stage, cost in table["costs"].items()
    ]
    return "\n".join(lines) + "\n"
