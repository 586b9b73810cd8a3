"""`load_mil`: bags and labels from the files of the field.

| file | what |
|---|---|
| `.mat` | Andrews' MATLAB: `features`, `bag_ids`, `labels`; or a data set `x` of PRTools' MIL toolbox |
| `.svm` | Andrews' text: `instance:bag:label index:value ...` |
| `.data` | C4.5, as musk comes: name of the bag, name of the instance, features, label and a full stop |
| `.arff` | Weka's: a relational attribute that holds the bag; or one row per instance |
| `.csv` | one row per instance |
| `.npz` | `offsets`, `y`, and `X` or the parts `data, indices, indptr, shape` of a CSR matrix |

Nothing is unpickled and nothing is downloaded.
"""

import csv
import warnings
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from tag2box.errors import InputError
from tag2box.mil.bags import Bags, is_sparse
from tag2box.mil.validation import bag_labels, finite_bags

BagsAndLabels = tuple[Bags, NDArray[Any]]
FORMATS = (".mat", ".svm", ".data", ".arff", ".csv", ".npz")
# What NumPy's, SciPy's and Python's readers raise for a damaged file.
DAMAGED = (ValueError, TypeError, LookupError, OSError, EOFError, NotImplementedError, BadZipFile, csv.Error)


def load_mil(path: Any, *, bag: Any = "bag", label: Any = "label") -> BagsAndLabels:
    """Load bags and their labels from a file in one of the formats of the field.

    Parameters
    ----------
    path : str or path-like
        A `.mat`, `.svm`, `.data`, `.arff`, `.csv` or `.npz` file.
    bag : str or int, default="bag"
        In `.csv` and flat `.arff` files, the column with the bag of each row: its name, or its number in a
        `.csv` file without names.
    label : str or int, default="label"
        The column with the label, in the same way.

    Returns
    -------
    bags : Bags
        The bags in order of first appearance; sparse if the file is.
    y : ndarray of shape (n_bags,)
        The label of each bag: whole numbers if all of them are, else as they stand.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from tag2box.mil import load_mil
    >>> file = Path(tempfile.mkdtemp()) / "toy.csv"
    >>> rows = ["bag,x,y,label", "a,1,2,1", "a,3,4,1", "b,5,6,0"]
    >>> _ = file.write_text(chr(10).join(rows))
    >>> bags, y = load_mil(file)
    >>> bags, y.tolist()
    (Bags(2 bags, 3 instances, 2 features, dense), [1, 0])
    """
    path = Path(path)
    kind = path.suffix.lower()
    if kind not in FORMATS:
        raise InputError(f"{path.name} is none of {', '.join(FORMATS)}: give a file in one of these formats")
    if not path.is_file():
        raise InputError(f"{path} is missing: nothing is downloaded, so give the file")
    try:
        bags, y = _read(path, kind, bag, label)
        return finite_bags(bags), y
    except InputError as error:
        raise InputError(f"{path.name}: {error}") from None
    except DAMAGED as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{path.name} cannot be read as {path.suffix}: {reason}") from error


def _read(path: Path, kind: str, bag: Any, label: Any) -> BagsAndLabels:
    if kind == ".mat":
        return _mat(path)
    if kind == ".svm":
        return _svm(path)
    if kind == ".npz":
        return _npz(path)
    if kind == ".arff":
        return _arff(path, bag, label)
    with path.open(newline="", encoding="utf-8-sig") as lines:
        rows = [row for row in csv.reader(lines, skipinitialspace=True) if row]
    if kind == ".data":
        return _table([[*row[:-1], row[-1].strip(" .")] for row in rows], 0, len(rows[0]) - 1, [1])
    if isinstance(bag, int) and isinstance(label, int):
        return _table(rows, bag, label)
    return _table(rows[1:], _column(rows[0], bag), _column(rows[0], label))


def _mat(path: Path) -> BagsAndLabels:
    from scipy.io.matlab import MatReadError, loadmat

    try:
        with warnings.catch_warnings():
            # SciPy 1.18 says that sparse matrices will be sparse arrays: both are read here.
            warnings.filterwarnings("ignore", message=".*`spmatrix`", category=DeprecationWarning)
            parts = loadmat(path, variable_names=["features", "bag_ids", "labels", "x"])
    except MatReadError as error:
        raise ValueError(str(error)) from error
    if {"features", "bag_ids", "labels"} <= parts.keys():
        labels = parts["labels"]
        labels = labels.toarray() if is_sparse(labels) else labels
        return _grouped(_dense_if_full(parts["features"]), np.ravel(parts["bag_ids"]), np.ravel(labels))
    if "x" not in parts:
        raise InputError("neither features, bag_ids and labels nor a data set x are in it")
    x = parts["x"][0, 0]
    ids = np.ravel(x["ident"][0, 0]["milbag"])
    if ids.dtype == object:  # names, each an array of its own
        ids = np.array([str(np.ravel(name)[0]) for name in ids])
    return _grouped(x["data"], ids, np.ravel(x["nlab"]))


def _svm(path: Path) -> BagsAndLabels:
    ids, labels, indptr = [], [], [0]
    columns: list[int] = []
    values: list[float] = []
    for line in path.read_text().splitlines():
        head, *pairs = line.split("#")[0].split() or [""]
        if not head:
            continue
        _, bag, label = head.split(":")
        ids.append(bag)
        labels.append(label)
        for pair in pairs:
            column, value = pair.split(":")
            columns.append(int(column) - 1)
            values.append(float(value))
        indptr.append(len(values))
    if min(columns, default=0) < 0:
        raise InputError("an index below 1: features are counted from 1")
    return _grouped(_dense_if_full(sparse.csr_array((values, columns, indptr))), ids, labels)


def _npz(path: Path) -> BagsAndLabels:
    with np.load(path, allow_pickle=False) as parts:
        if "X" in parts:
            X: Any = parts["X"]
        else:
            csr = (parts["data"], parts["indices"], parts["indptr"])
            X = sparse.csr_array(csr, shape=tuple(parts["shape"]))
        bags = Bags(X, parts["offsets"])
        return bags, bag_labels(parts["y"], len(bags))


def _arff(path: Path, bag: Any, label: Any) -> BagsAndLabels:
    from scipy.io import arff

    rows, meta = arff.loadarff(path)
    names = meta.names()
    relational = [name for name, kind in zip(names, meta.types(), strict=True) if kind == "relational"]
    if relational:
        matrices = [np.array(row[relational[0]].tolist(), dtype=np.float64) for row in rows]
        return Bags.from_list(matrices), _whole(np.array([_text(item) for item in rows[names[-1]]]))
    table = [[_text(item) for item in row] for row in rows.tolist()]
    return _table(table, _column(names, bag), _column(names, label))


def _text(item: Any) -> Any:
    return item.decode() if isinstance(item, bytes) else item


def _column(names: list[Any], name: Any) -> int:
    if name not in names:
        first = ", ".join(map(str, names[:6]))
        raise InputError(f"no column {name!r}: name those of the bag and the label; there are {first}")
    return names.index(name)


def _table(rows: list[Any], bag: int, label: int, others: ArrayLike = ()) -> BagsAndLabels:
    """Rows of text; others: columns that are neither features nor the bag nor the label."""
    taken = {bag, label, *np.asarray(others, dtype=int).tolist()}
    X = np.array([[v for i, v in enumerate(row) if i not in taken] for row in rows], dtype=np.float64)
    return _grouped(X, [row[bag] for row in rows], [row[label] for row in rows])


def _grouped(X: Any, bag_ids: ArrayLike, labels: ArrayLike) -> BagsAndLabels:
    """Bags from rows, and one label per bag: rows of a bag must agree about it."""
    ids, by_row = np.asarray(bag_ids), _whole(np.asarray(labels))
    if not len(ids) == len(by_row) == X.shape[0]:
        raise InputError(f"{X.shape[0]} instances have {len(ids)} bags and {len(by_row)} labels")
    bags = Bags.from_instances(X, ids)
    rows = Bags.from_instances(np.arange(len(ids))[:, None], ids)  # the place of each row before grouping
    order = rows.X[:, 0].astype(np.intp)
    y = by_row[order[rows.offsets[:-1]]]
    wrong = by_row[order] != np.repeat(y, rows.sizes)
    if wrong.any():
        raise InputError(f"bag {ids[order[wrong.argmax()]]} has rows of more than one label: give it one")
    return bags, y


def _whole(labels: NDArray[Any]) -> NDArray[Any]:
    """Labels as whole numbers if all of them are."""
    try:
        numbers = labels.astype(np.float64)
    except ValueError:
        return labels.astype(str)
    return numbers.astype(np.int64) if (numbers == np.round(numbers)).all() else labels


def _dense_if_full(X: Any) -> Any:
    """MATLAB keeps musk as a sparse matrix without zeros."""
    if not is_sparse(X):
        return X
    return X.toarray() if X.nnz > 0.3 * X.shape[0] * X.shape[1] else sparse.csr_array(X)
