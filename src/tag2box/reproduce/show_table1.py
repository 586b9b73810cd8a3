"""Table 1 for people and machines: a rich table, Markdown, JSON."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from rich.table import Table

from tag2box.reproduce.machines import COLUMNS
from tag2box.reproduce.table1 import FOLDS, INNER_FOLDS, PAPER, PROTOCOLS, Cell

TITLE = "Table 1: accuracy in per cent, 10-fold, multiple-instance sets"


def as_dict(cells: Sequence[Cell], honest: bool) -> dict[str, Any]:
    """Per set and column the mean and spread over seeds under each protocol, the paper's, and who is best."""
    protocols = PROTOCOLS if honest else PROTOCOLS[:1]
    seeds = sorted({cell.seed for cell in cells})
    rows: dict[str, Any] = {}
    for name, (k, column) in product(dict.fromkeys(cell.name for cell in cells), enumerate(COLUMNS)):
        same = [cell for cell in cells if (cell.name, cell.column) == (name, column)]
        figures: dict[str, Any] = {protocol: _figure(same, protocol) for protocol in protocols}
        rows.setdefault(name, {})[column] = figures | {"song2014": PAPER[name][k]}
    return {"table": 1, "seeds": seeds, "folds": FOLDS, "protocols": list(protocols), "sets": rows} | {
        "summary": _summary(rows, protocols[0])
    }


def _figure(cells: Sequence[Cell], protocol: str) -> dict[str, float]:
    values = [cell.accuracy(protocol) for cell in cells]
    return {"mean": round(float(np.mean(values)), 2), "std_over_seeds": round(float(np.std(values)), 2)}


def _summary(rows: dict[str, Any], protocol: str) -> dict[str, Any]:
    mean = {
        column: round(float(np.mean([row[column][protocol]["mean"] for row in rows.values()])), 2)
        for column in COLUMNS
    }
    best = {name: max(row[column][protocol]["mean"] for column in COLUMNS) for name, row in rows.items()}
    met = [name for name in rows if best[name] >= max(PAPER[name])]
    return {
        "mean_over_sets": mean,
        "best_of_four": best,
        "paper_best_of_four": {name: max(PAPER[name]) for name in rows},
        "at_least_the_paper": met,
        "missed": [name for name in rows if name not in met],
    }


def _cell_text(figures: dict[str, Any], protocols: Sequence[str]) -> str:
    ours = " / ".join(f"{figures[p]['mean']:.1f}±{figures[p]['std_over_seeds']:.1f}" for p in protocols)
    return f"{ours} ({figures['song2014']:.1f})"


def _legend(table: dict[str, Any]) -> str:
    what = "ours by the paper's protocol (settings chosen by the cross-validation that is reported)"
    if "honest" in table["protocols"]:
        what += f" / honest (chosen by {INNER_FOLDS}-fold cross-validation inside each training part)"
    return f"Each cell: {what} (the paper's). ± is the spread over {len(table['seeds'])} seed(s)."


def _verdict(table: dict[str, Any]) -> str:
    summary = table["summary"]
    met = len(summary["at_least_the_paper"])
    text = f"Best of four at least the paper's on {met} of {len(table['sets'])} sets"
    if summary["missed"]:
        pairs = (
            f"{name} {summary['best_of_four'][name]:.1f} against {summary['paper_best_of_four'][name]:.1f}"
            for name in summary["missed"]
        )
        text += f"; missed: {', '.join(pairs)}"
    return text + "."


def _rows(table: dict[str, Any]) -> list[list[str]]:
    body = [
        [name, *(_cell_text(row[column], table["protocols"]) for column in COLUMNS)]
        for name, row in table["sets"].items()
    ]
    return [*body, ["mean", *(f"{table['summary']['mean_over_sets'][column]:.1f}" for column in COLUMNS)]]


def as_rich(table: dict[str, Any]) -> list[Table]:
    """For a terminal."""
    view = Table("set", *COLUMNS, title=TITLE, caption=f"{_legend(table)} {_verdict(table)}")
    for row in _rows(table):
        view.add_row(*row, end_section=row[0] in ("musk2", "tiger", "trec10"))
    return [view]


def as_markdown(table: dict[str, Any]) -> str:
    """For a page."""
    lines = [f"# {TITLE}", "", _legend(table), "", _verdict(table), ""]
    lines += ["| " + " | ".join(["set", *COLUMNS]) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in _rows(table)]
    return "\n".join(lines) + "\n"
