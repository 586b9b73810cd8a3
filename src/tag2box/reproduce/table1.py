"""Table 1: latent SVM and smoothed latent SVM, without and with a bias, on 12 multiple-instance sets; and,
where other `columns` are asked for, other machines (`machines`) by the same protocols.

*Paper protocol*: C and μ are chosen by the same 10-fold cross-validation that is reported. *Honest*: in each
of the 10 folds they are chosen by cross-validation inside its training part.

The unit of work is a fold of one set, seed and column. A cell (all its folds) is saved when it is complete,
so a run that was stopped goes on with the next cell. What is stacked is made of the cells of its machines.
"""

import json
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import ParameterGrid, StratifiedKFold

from tag2box.mil.bags import Bags
from tag2box.mil.scaling import mostly_zeros
from tag2box.mil.search import Fold, Point, cross_validate, fit_sigmoids, log_odds
from tag2box.mil.stacking import Choice, fit_stack
from tag2box.reproduce.machines import ALL, COLUMNS, STACKED, machines
from tag2box.reproduce.mil_sets import load_set
from tag2box.runtime.executor import map_ordered
from tag2box.runtime.files import write_whole
from tag2box.runtime.progress import Progress, silent

PROTOCOLS = ("paper", "honest")
# The paper's Table 1, in the order of COLUMNS.
PAPER = {
    "musk1": (70.8, 80.3, 81.7, 79.2),
    "musk2": (51.0, 79.5, 80.5, 84.3),
    "fox": (51.5, 63.0, 57.0, 61.0),
    "elephant": (81.5, 88.0, 81.5, 87.0),
    "tiger": (79.5, 85.5, 86.0, 87.5),
    "trec1": (94.3, 95.5, 95.3, 95.3),
    "trec2": (69.0, 83.0, 86.5, 83.8),
    "trec3": (77.5, 90.0, 85.5, 86.0),
    "trec4": (77.3, 85.0, 85.3, 86.3),
    "trec7": (74.5, 83.8, 82.5, 81.5),
    "trec9": (66.8, 70.3, 68.8, 71.5),
    "trec10": (71.0, 84.3, 80.8, 82.8),
}
FOLDS, INNER_FOLDS = 10, 3


@dataclass(frozen=True)
class Cell:
    """What one set, seed and column gave: `fold_accuracy` of each fold at each grid point, (10, n_grid).

    For the honest protocol, `inner_accuracy` is that of the cross-validation inside each training part, and
    the log odds are those at the setting which it chose: of the bags of each fold, and of its training part
    by the folds inside.
    """

    name: str
    seed: int
    column: str
    grid: list[Point]
    fold_accuracy: list[list[float]]
    inner_accuracy: list[list[float]] | None
    odds: list[list[float]] | None = None
    inner_odds: list[list[float]] | None = None
    seconds: float = field(default=0.0, compare=False)  # of a processor, ten outer folds, all settings

    def accuracy(self, protocol: str) -> float:
        """The cell's figure in per cent."""
        folds = np.array(self.fold_accuracy)
        if protocol == "paper":
            return float(100 * folds.mean(axis=0).max())
        if self.inner_accuracy is None:
            raise ValueError("this cell was computed without the honest protocol")
        chosen = np.array(self.inner_accuracy).argmax(axis=1)
        return float(100 * folds[np.arange(len(folds)), chosen].mean())


class _Task(NamedTuple):
    folder: str
    name: str
    seed: int
    column: str
    machine: Any  # the estimator, and its points
    fold: int
    honest: bool


class _Fold(NamedTuple):
    """What a fold adds to a cell; seconds: of the outer fits."""

    accuracy: list[float]
    inner_accuracy: list[float]
    odds: list[float]
    inner_odds: list[float]
    seconds: float


def run_table1(
    folder: Path,
    sets: Sequence[str],
    seeds: Sequence[int],
    out: Path,
    *,
    columns: Sequence[str] = COLUMNS,
    honest: bool = True,
    workers: int | None = None,
    progress: Progress = silent,
) -> list[Cell]:
    """All cells of the table, those saved in `out` read and the others computed and saved there."""
    text = {name: mostly_zeros(load_set(folder, name)[0].X) for name in sets}  # what is missing is said now
    known = {name: _settled(machines(text=each)) for name, each in text.items()}
    keys = list(product(sets, seeds, columns))
    saved = {key: _saved(out, *key, known[key[0]][key[2]][1], honest) for key in keys}
    done = {key: cell for key, cell in saved.items() if cell is not None}
    tasks = [
        _Task(str(folder), *key, known[key[0]][key[2]], fold, honest)
        for key, fold in product(keys, range(FOLDS))
        if key not in done
    ]
    results = map_ordered(_run_fold, tasks, workers=workers, progress=progress, label="Table 1, folds")
    for key, group in zip((key for key in keys if key not in done), _groups(results), strict=True):
        accuracy, inner, odds, inner_odds, seconds = (list(part) for part in zip(*group, strict=True))
        cell = Cell(*key, known[key[0]][key[2]][1], accuracy, None, seconds=round(sum(seconds), 2))
        if honest:
            cell = replace(cell, inner_accuracy=inner, odds=odds, inner_odds=inner_odds)
        done[key] = cell
        write_whole(_path(out, *key), json.dumps(asdict(done[key])))
    return [done[key] for key in keys]


def stacked(cells: Sequence[Cell], folder: Path) -> list[Cell]:
    """The cells of `BagStackingCV`, made of those of its machines: one setting, so both protocols agree."""
    known = {(cell.name, cell.seed, cell.column): cell for cell in cells}
    places = dict.fromkeys((cell.name, cell.seed) for cell in cells)
    return [
        _stack(column, [known[*place, member] for member in members], folder)
        for place, (column, members) in product(places, STACKED.items())
        if all((*place, member) in known and known[*place, member].odds for member in members)
    ]


def _stack(column: str, cells: Sequence[Cell], folder: Path) -> Cell:
    name, seed = cells[0].name, cells[0].seed
    _, y = _load(str(folder), name)
    accuracy = []
    for fold, (train, test) in enumerate(_splits(y, FOLDS, seed)):
        inside, outside = (
            [np.array(part[fold])[:, None] for part in parts]
            for parts in ([cell.inner_odds or [] for cell in cells], [cell.odds or [] for cell in cells])
        )
        predicted = fit_stack(inside, y[train]).predict(np.hstack(outside))
        accuracy.append([float(np.mean(predicted == y[test]))])
    seconds = sum(cell.seconds for cell in cells)
    return Cell(name, seed, column, [{}], accuracy, accuracy, seconds=round(seconds, 2))


def _settled(choices: dict[str, Choice]) -> dict[str, tuple[Any, list[Point]]]:
    """Each machine with its settings, one by one."""
    return {name: (estimator, list(ParameterGrid(grid))) for name, (estimator, grid) in choices.items()}


def _groups(results: Iterator[Any]) -> Iterator[list[Any]]:
    while group := [result for _, result in zip(range(FOLDS), results, strict=False)]:
        yield group


def _path(out: Path, name: str, seed: int, column: str) -> Path:
    kind = column.replace("w/o", "no").replace("w/", "with").replace(" ", "-").replace("ö", "oe").lower()
    if column in ALL:
        kind = f"{ALL.index(column)}-{kind}"  # mi-SVM and MI-SVM are one name to some file systems
    return out / "cells" / f"{name}-seed{seed}-{kind}.json"


def _saved(out: Path, name: str, seed: int, column: str, grid: list[Point], honest: bool) -> Cell | None:
    path = _path(out, name, seed, column)
    if not path.is_file():
        return None
    try:
        cell = Cell(**json.loads(path.read_text()) | {"grid": grid})
        same = json.loads(path.read_text())["grid"] == json.loads(json.dumps(grid))
    except (ValueError, TypeError, LookupError, RecursionError):
        return None  # damaged
    return cell if same and not (honest and cell.odds is None) else None  # made with other settings


@cache
def _load(folder: str, name: str) -> tuple[Bags, NDArray[np.int8]]:
    return load_set(Path(folder), name)


def _run_fold(task: _Task) -> _Fold:
    bags, y = _load(task.folder, task.name)
    estimator, points = task.machine
    train, test = _splits(y, FOLDS, task.seed)[task.fold]
    with warnings.catch_warnings():
        # A grid's corner that does not converge is one that does not get chosen.
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "n_components > n_samples")  # of Nyström, on musk1
        started = time.process_time()
        outer = cross_validate(estimator, points, bags, y, [(train, test)])
        seconds = time.process_time() - started
        if not task.honest:
            return _Fold(outer.scores[0].tolist(), [], [], [], seconds)
        inside = _splits(y[train], INNER_FOLDS, task.seed)
        inner = cross_validate(estimator, points, bags[train], y[train], inside)
    sigmoids = fit_sigmoids(inner.best_decisions, y[train], np.unique(y))
    odds, inner_odds = (
        log_odds(decisions, sigmoids)[:, 0].round(5).tolist()
        for decisions in (outer.decisions[inner.best][test], inner.best_decisions)
    )
    return _Fold(outer.scores[0].tolist(), inner.scores.mean(axis=0).tolist(), odds, inner_odds, seconds)


def _splits(y: NDArray[np.int8], n: int, seed: int) -> list[Fold]:
    return list(StratifiedKFold(n, shuffle=True, random_state=seed).split(np.zeros(len(y)), y))
