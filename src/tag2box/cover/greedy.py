"""The cover of Song et al. 2014: few windows whose neighbors reach nearly every positive image.

The graph G = (V, U, E) joins each window v of a positive image to those of its k nearest images' windows
that lie in positive images. U is partitioned into the images' boxes B_I, Γ(S) are the neighbors of S, and

    cov_I(S) = g(min{t, |Γ(S) ∩ B_I|}),    F(S) = Σ_I cov_I(S),    min |S|  s.t.  F(S) ≥ α F(V)

with g nondecreasing and concave. F is monotone and submodular, so greedy is within
1 + log(k g(1) / (g(t) - g(t-1))) of the optimum (their Lemma 2).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tag2box.cover.graph import CoverGraph
from tag2box.cover.kernels import Edges, covered_by, greedy
from tag2box.errors import InputError
from tag2box.runtime.checks import check_choice, check_share
from tag2box.runtime.packing import stored

Concave = Callable[[NDArray[np.float64]], ArrayLike]
G: dict[str, Concave] = {"identity": np.asarray, "sqrt": np.sqrt, "log1p": np.log1p}


@stored
@dataclass(frozen=True)
class Cover:
    """The windows that were selected, and the windows that they cover.

    Parameters
    ----------
    selected : ndarray of int64 of shape (n_selected,)
        The selected windows, as rows of X, in order of selection.
    gains : ndarray of shape (n_selected,)
        How much each of them added to F.
    covered : ndarray of int64 of shape (n_covered,)
        The covered windows, as rows of X, in order of selection.
    image : ndarray of int32 of shape (n_covered,)
        The image of each covered window.
    by : ndarray of int64 of shape (n_covered,)
        Which of the selected windows covered it first.
    F_S : float
        The value of F that was reached.
    F_V : float
        The value of F for all windows.
    at_least : int
        The number of windows that every selection with this goal needs; 0 if there was nothing to do.
    message : str, default=""
        Why the cover is not what was asked for, if it is not.

    See Also
    --------
    greedy_cover : Makes it.

    Examples
    --------
    >>> import numpy as np
    >>> import tag2box as t2b
    >>> X = np.array([[0.0], [5.0], [1.0], [9.0], [0.5], [7.0]], np.float32)
    >>> neighbors = t2b.group_neighbors(X, [0, 2, 4, 6], queries=np.arange(6), k=3, workers=1)
    >>> cover = t2b.greedy_cover(t2b.cover_graph(neighbors, positive=[0, 2], k=2))
    >>> cover.F_S, cover.F_V, cover.bound
    (2.0, 2.0, 1.0)
    """

    selected: NDArray[np.int64]
    gains: NDArray[np.float64]
    covered: NDArray[np.int64]
    image: NDArray[np.int32]
    by: NDArray[np.int64]
    F_S: float
    F_V: float
    at_least: int
    message: str = ""

    @property
    def bound(self) -> float:
        """The selection is at most this many times as large as the smallest with the same goal."""
        return len(self.selected) / self.at_least if self.at_least else 1.0

    def first(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Find the first covered window of each image.

        Returns
        -------
        images : ndarray of shape (n_images,)
            The covered images, ascending.
        rows : ndarray of shape (n_images,)
            The first covered window of each, as a row of X.
        """
        images, at = np.unique(self.image, return_index=True)
        return images, self.covered[at]


def greedy_cover(
    graph: CoverGraph,
    t: int | None = 1,
    g: str | Concave = "identity",
    alpha: float = 0.95,
    method: str = "marginal",
) -> Cover:
    """Select few windows whose neighbors reach nearly every positive image.

    With Γ(S) the neighbors of the selection S and B_I the windows of image I, windows are selected greedily
    until::

        F(S) = Σ_I g(min{t, |Γ(S) ∩ B_I|}) ≥ alpha · F(V)

    or until nothing more can be gained (Song et al. 2014).

    Parameters
    ----------
    graph : CoverGraph
        The graph of the class, from `cover_graph`.
    t : int, default=1
        The number of windows that count in an image. None stands for all.
    g : {"identity", "sqrt", "log1p"} or callable, default="identity"
        What they count for: a concave, nondecreasing function of an array with g(0) = 0.
    alpha : float, default=0.95
        The share of F(V) to reach.
    method : {"marginal", "score"}, default="marginal"
        "marginal" is the paper's greedy. "score" is that of the authors' release: windows in the order of
        their share of positive images among the k nearest.

    Returns
    -------
    Cover
        The selection, its gains and the windows that it covers. Ties go to the smaller total distance, then
        to the smaller row.

    Notes
    -----
    Gains are counted in units of 2^-30 of the first step of g, so that equal sums are equal. Memory: about 30
    bytes per window beside the graph.

    Examples
    --------
    >>> import numpy as np
    >>> import tag2box as t2b
    >>> X = np.array([[0.0], [5.0], [1.0], [9.0], [0.5], [7.0]], np.float32)
    >>> neighbors = t2b.group_neighbors(X, [0, 2, 4, 6], queries=np.arange(6), k=3, workers=1)
    >>> cover = t2b.greedy_cover(t2b.cover_graph(neighbors, positive=[0, 2], k=2))
    >>> cover.selected.tolist()
    [0]
    >>> images, rows = cover.first()
    >>> images.tolist(), rows.tolist()
    ([0, 2], [0, 4])
    """
    check_share(alpha=alpha)
    check_choice("method", method, ("marginal", "score"))
    edges = Edges(graph.indptr, graph.box, graph.start, graph.user, *graph.parts())
    boxes = np.diff(edges.part)
    steps, unit = _steps(t, g, int(boxes.max(initial=1)))
    value = np.concatenate([[0], np.cumsum(steps)])
    F_V = int(value[np.minimum(boxes, len(steps))].sum())
    target = alpha * F_V * (1 - 1e-12)
    if method == "marginal":
        gain = graph.degree.astype(np.int32 if unit == 1 else np.int64) * steps[0]
        selected, gains = greedy(edges, graph.total, steps, gain, target)
        room = len(graph.U)
    else:
        order = np.lexsort((graph.total, -graph.degree))
        selected, gains = _in_order(edges, order, steps, target)
        room = len(steps)
    covered, by = covered_by(selected, edges, room)
    return Cover(
        selected=graph.V[selected],
        gains=gains * np.float64(unit),
        covered=graph.U[covered],
        image=graph.image[covered],
        by=by,
        F_S=float(gains.sum() * unit),
        F_V=F_V * unit,
        at_least=_at_least(gains if method == "marginal" else gains[:1], target),
        message=_message(graph),
    )


def _in_order(
    edges: Edges, order: NDArray[np.int64], steps: NDArray[np.int64], target: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """In the given order every window that still gains: (selected, gains). Full images are out."""
    covered, by = covered_by(order, edges, len(steps))
    image = edges.part_of[covered]
    by_image = np.argsort(image, kind="stable")
    before = np.empty(len(covered), np.int64)  # how many of its image were covered before
    before[by_image] = np.arange(len(covered)) - np.searchsorted(image[by_image], image[by_image])
    gain = np.zeros(len(order), np.int64)
    np.add.at(gain, by, steps[before])
    kept = (gain > 0) & (np.cumsum(gain) - gain < target)
    return order[kept], gain[kept]


def _at_least(gains: NDArray[np.int64], target: float) -> int:
    """How many windows any selection needs: F(S_i ∪ S*) ≥ target, and none gains more than greedy's pick."""
    reached = np.cumsum(gains) - gains
    return int(np.ceil(((target - reached) / gains).max(initial=0) - 1e-9))


def _message(graph: CoverGraph) -> str:
    if len(graph.box) == 0:
        return (
            f"nothing to cover: none of the {len(graph.V)} windows has one of the {graph.n_positive} "
            f"positive images among its {graph.k} nearest"
        )
    missed = graph.n_positive - len(np.unique(graph.image))
    return f"{missed} of {graph.n_positive} positive images are near to no window" if missed else ""


def _steps(t: int | None, g: str | Concave, most: int) -> tuple[NDArray[np.int64], float]:
    """Whole numbers g(c + 1) - g(c) for c < min(t, most), and the unit they are counted in."""
    if t is not None and t < 1:
        raise InputError(f"t must be at least 1, or None for no limit, but it is {t}")
    if isinstance(g, str) and g not in G:
        raise InputError(f"no g named {g!r} here: {', '.join(G)}, or any concave function")
    t = most if t is None else min(t, most)
    if g == "identity":
        return np.ones(t, np.int64), 1.0
    function = G[g] if isinstance(g, str) else g
    value = np.asarray(function(np.arange(t + 1, dtype=np.float64)), dtype=np.float64)
    if value.shape != (t + 1,) or not np.isfinite(value).all() or value[0] != 0 or value[1] <= 0:
        raise InputError("g must map an array of counts to finite numbers, with g(0) = 0 and g(1) > 0")
    step = np.diff(value)
    slack = 1e-12 * step[0]
    if (step < -slack).any() or (np.diff(step) > slack).any():
        raise InputError("g must be nondecreasing and concave, or greedy promises nothing")
    unit = 2.0 ** (np.floor(np.log2(step[0])) - 30)
    whole = np.maximum(np.rint(step / unit), 0).astype(np.int64)
    return np.minimum.accumulate(whole), unit
