"""Table 1: latent SVM and smoothed latent SVM, without and with a bias, on 12 multiple-instance sets; and,
where other `columns` are asked for, other machines (`machines`) by the same protocols.

*Paper protocol*: C and μ are chosen by the same 10-fold cross-validation that is reported. *Honest*: in each
of the 10 folds they are chosen by cross-validation inside its training part.

The unit of work is a fold of one set, seed and column. A cell (all its folds) is saved when it is complete,
so a run that was stopped goes on with the next cell.
"""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold

from tag2box.mil.bags import Bags
from tag2box.reproduce.machines import ALL, COLUMNS, MACHINES
from tag2box.reproduce.mil_sets import load_set
from tag2box.runtime.executor import map_ordered
from tag2box.runtime.files import write_whole
from tag2box.runtime.progress import Progress, silent

__all__ = ["PAPER", "PROTOCOLS", "Cell", "run_table1"]

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

    `inner_accuracy`, for the honest protocol, is that of the cross-validation inside each training part.
    """

    name: str
    seed: int
    column: str
    grid: list[dict[str, Any]]
    fold_accuracy: list[list[float]]
    inner_accuracy: list[list[float]] | None
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


@dataclass(frozen=True)
class _Fold:
    folder: str
    name: str
    seed: int
    column: str
    settings: tuple[tuple[Any, ...], tuple[Any, ...]]  # the machine's fronts and backs
    fold: int
    honest: bool


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
    for name in sets:
        load_set(folder, name)  # what is missing is said before work starts
    keys = list(product(sets, seeds, columns))
    done = {key: cell for key in keys if (cell := _saved(out, *key, honest)) is not None}
    settings = {column: (MACHINES[column].fronts, MACHINES[column].backs) for column in columns}
    folds = [
        _Fold(str(folder), *key, settings[key[2]], fold, honest)
        for key, fold in product(keys, range(FOLDS))
        if key not in done
    ]
    results = map_ordered(_run_fold, folds, workers=workers, progress=progress, label="Table 1, folds")
    for key, group in zip((key for key in keys if key not in done), _groups(results), strict=True):
        outer, inner, seconds = (list(part) for part in zip(*group, strict=True))
        grid = MACHINES[key[2]].grid
        done[key] = Cell(*key, grid, outer, inner if honest else None, seconds=round(sum(seconds), 2))
        write_whole(_path(out, *key), json.dumps(asdict(done[key])))
    return [done[key] for key in keys]


def _groups(results: Iterator[Any]) -> Iterator[list[Any]]:
    while group := [result for _, result in zip(range(FOLDS), results, strict=False)]:
        yield group


def _path(out: Path, name: str, seed: int, column: str) -> Path:
    kind = column.replace("w/o", "no").replace("w/", "with").replace(" ", "-").replace("ö", "oe").lower()
    if column in ALL:
        kind = f"{ALL.index(column)}-{kind}"  # mi-SVM and MI-SVM are one name to some file systems
    return out / "cells" / f"{name}-seed{seed}-{kind}.json"


def _saved(out: Path, name: str, seed: int, column: str, honest: bool) -> Cell | None:
    path = _path(out, name, seed, column)
    if not path.is_file():
        return None
    try:
        cell = Cell(**json.loads(path.read_text()))
    except (ValueError, TypeError, RecursionError):
        return None  # damaged
    if cell.grid != MACHINES[column].grid or (honest and cell.inner_accuracy is None):
        return None  # made with other settings
    return cell


@cache
def _load(folder: str, name: str) -> tuple[Bags, NDArray[np.int8]]:
    return load_set(Path(folder), name)


def _run_fold(task: _Fold) -> tuple[list[float], list[float], float]:
    """Accuracies of the fold and inside its training part at each setting; CPU seconds of the former."""
    bags, y = _load(task.folder, task.name)
    fronts, backs = task.settings
    accuracies = replace(MACHINES[task.column], fronts=fronts, backs=backs).accuracies
    train, test = _splits(y, FOLDS, task.seed)[task.fold]
    started = time.process_time()
    outer = accuracies(bags[train], y[train], bags[test], y[test])
    seconds = time.process_time() - started
    if not task.honest:
        return outer, [], seconds
    inner = [
        accuracies(bags[train[a]], y[train[a]], bags[train[b]], y[train[b]])
        for a, b in _splits(y[train], INNER_FOLDS, task.seed)
    ]
    return outer, np.mean(inner, axis=0).tolist(), seconds


def _splits(y: NDArray[np.int8], n: int, seed: int) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    return list(StratifiedKFold(n, shuffle=True, random_state=seed).split(np.zeros(len(y)), y))
