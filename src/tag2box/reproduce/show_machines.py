"""`reproduce table1 --all` for people and machines: every machine, both protocols, and published figures."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from rich.table import Table

from tag2box.reproduce.machines import STACKED
from tag2box.reproduce.mil_sets import SETS
from tag2box.reproduce.table1 import FOLDS, INNER_FOLDS, PAPER, PROTOCOLS, Cell

CHOSEN = "chosen"
TITLE = "Machines on the 12 multiple-instance sets: accuracy in per cent, 10-fold"
# As their authors report them, each by a protocol of its own; in the order of SETS.
PUBLISHED = {
    # Andrews, Tsochantaridis and Hofmann 2003; linear on all but musk.
    "MI-SVM (2003)": (77.9, 84.3, 57.8, 81.4, 84.0, 93.9, 84.5, 82.2, 82.4, 78.0, 60.2, 79.5),
    "mi-SVM (2003)": (87.4, 83.6, 58.2, 82.2, 78.4, 93.6, 78.2, 87.0, 82.8, 81.3, 67.5, 79.6),
    # Zhou, Sun and Li 2009.
    "mi-Graph (2009)": (88.9, 90.3, 61.6, 86.8, 86.0),
    # Ilse, Tomczak and Welling 2018.
    "attention (2018)": (89.2, 85.8, 61.5, 86.8, 83.9),
    # The paper's best of four.
    "song2014, best of four": tuple(max(PAPER[name]) for name in SETS),
}


def chosen_accuracy(cells: Sequence[Cell], protocol: str) -> float:
    """One set and seed: the machine, too, is chosen as its settings are. In per cent.

    Honest: in each fold the machine and setting with the best accuracy inside the training part.
    """
    folds = np.hstack([np.array(cell.fold_accuracy) for cell in cells])
    if protocol == "paper":
        return float(100 * folds.mean(axis=0).max())
    inner = np.hstack([np.array(cell.inner_accuracy) for cell in cells])
    return float(100 * folds[np.arange(len(folds)), inner.argmax(axis=1)].mean())


def as_dict(cells: Sequence[Cell], honest: bool) -> dict[str, Any]:
    """Per set and machine mean and spread over seeds by each protocol, and CPU seconds; published figures."""
    protocols = PROTOCOLS if honest else PROTOCOLS[:1]
    seeds = sorted({cell.seed for cell in cells})
    names = list(dict.fromkeys(cell.name for cell in cells))
    sets = {name: _row([cell for cell in cells if cell.name == name], seeds, protocols) for name in names}
    published = {
        source: {name: figures[SETS.index(name)] for name in names if SETS.index(name) < len(figures)}
        for source, figures in PUBLISHED.items()
    }
    return {
        "table": 1,
        "seeds": seeds,
        "folds": FOLDS,
        "protocols": list(protocols),
        "machines": sets,
        "published": {source: row for source, row in published.items() if row},
        "mean_over_sets": {
            protocol: {
                machine: round(float(np.mean([row[machine][protocol]["mean"] for row in sets.values()])), 2)
                for machine in next(iter(sets.values()))
            }
            for protocol in protocols
        },
    }


def _row(cells: Sequence[Cell], seeds: Sequence[int], protocols: Sequence[str]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for machine in dict.fromkeys(cell.column for cell in cells):
        same = [cell for cell in cells if cell.column == machine]
        row[machine] = {p: _figure([cell.accuracy(p) for cell in same]) for p in protocols}
        row[machine]["seconds"] = round(float(np.mean([cell.seconds for cell in same])), 2)
    single = [cell for cell in cells if cell.column not in STACKED]
    by_seed = [[cell for cell in single if cell.seed == seed] for seed in seeds]
    chosen: dict[str, Any] = {p: _figure([chosen_accuracy(each, p) for each in by_seed]) for p in protocols}
    chosen["seconds"] = round(sum(row[machine]["seconds"] for machine in row if machine not in STACKED), 2)
    stacked = {machine: row.pop(machine) for machine in STACKED if machine in row}
    return row | {CHOSEN: chosen} | stacked


def _figure(values: Sequence[float]) -> dict[str, float]:
    return {"mean": round(float(np.mean(values)), 2), "std_over_seeds": round(float(np.std(values)), 2)}


def _legend(protocol: str, table: dict[str, Any]) -> str:
    how = "settings chosen by the cross-validation that is reported"
    if protocol == "honest":
        how = f"settings chosen by {INNER_FOLDS}-fold cross-validation inside each training part"
    spread = f"± is the spread over {len(table['seeds'])} seed(s)"
    return (
        f"{protocol.capitalize()} protocol: {how}. {spread}; in `{CHOSEN}` the machine is chosen, too. "
        "CPU seconds are those of ten folds, all settings. Rows with a year are published figures, each by a "
        "protocol of its own."
    )


def _rows(table: dict[str, Any], protocol: str, sets: Sequence[str]) -> list[list[str]]:
    """A row per machine, then one per source: the figures of these sets, their mean, and seconds."""
    rows = []
    for machine in next(iter(table["machines"].values())):
        cells = [table["machines"][name][machine] for name in sets]
        mean = np.mean([cell[protocol]["mean"] for cell in cells])
        seconds = sum(cell["seconds"] for cell in cells)
        rows.append([machine, *(_text(cell[protocol]) for cell in cells), f"{mean:.1f}", f"{seconds:.0f}"])
    for source, figures in table["published"].items():
        known = [figures[name] for name in sets if name in figures]
        shown = (f"{figures[name]:.1f}" if name in figures else "" for name in sets)
        if known:
            rows.append([source, *shown, f"{np.mean(known):.1f}" if len(known) == len(sets) else "", ""])
    return rows


def _head(sets: Sequence[str]) -> list[str]:
    return ["", *sets, "mean", "CPU s"]


def _text(figure: dict[str, float]) -> str:
    return f"{figure['mean']:.1f}±{figure['std_over_seeds']:.1f}"


def _parts(table: dict[str, Any]) -> list[list[str]]:
    """Sets that are printed together: those that are not text, and text. All of them are too wide."""
    both = ([name for name in table["machines"] if name.startswith("trec") == text] for text in (False, True))
    return [part for part in both if part]


def as_rich(table: dict[str, Any]) -> list[Table]:
    """For a terminal: tables for each protocol."""
    views, parts = [], _parts(table)
    for protocol, sets in product(table["protocols"], parts):
        view = Table(box=None, padding=(0, 1, 0, 0), title=f"{TITLE}; {protocol} protocol")
        for column in _head(sets):
            view.add_column(column, no_wrap=True, justify="right" if column else "left")
        for row in _rows(table, protocol, sets):
            view.add_row(*row, style="dim" if row[0] in table["published"] else None)
        view.caption = _legend(protocol, table) if sets is parts[-1] else None
        views.append(view)
    return views


def as_markdown(table: dict[str, Any]) -> str:
    """For a page."""
    lines = [f"# {TITLE}"]
    sets = list(table["machines"])
    for protocol in table["protocols"]:
        lines += ["", _legend(protocol, table), ""]
        rows = (_head(sets), ["---"] * (len(sets) + 3), *_rows(table, protocol, sets))
        lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines) + "\n"
