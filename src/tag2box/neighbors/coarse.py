"""The best score of each image, roughly and fast: products of 8 bits where the processor has them.

OpenVINO multiplies codes of 8 bits by whole numbers: exactly, and on AVX-512 with VNNI some six times as fast
as float32. Which of both is used is measured once per process. No answer depends on it: what a score may be
wrong by goes with it.
"""

import time
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tag2box.errors import InputError
from tag2box.neighbors.kernels import Tables, encode, keep_best
from tag2box.runtime.executor import map_threads, n_workers
from tag2box.runtime.halves import as_float32

Floats = NDArray[np.float32]
Codes = NDArray[np.int8]
Product = Callable[[int, int], Floats]

ROWS, TILE = 512, 1024  # of X, and of queries, in a product: it stays in the cache
SAMPLE = 256  # rows that the center is found from
LONGEST = 1e18  # its square, and the sum of two, fit float32


class CodedRows(NamedTuple):
    """Rows w = x - center: size, |w|², and codes with the step and the error of each row (`encode`).

    size, step, error: (n,); codes: (n or more, 64 or more), None where float32 is as fast.
    """

    center: Floats
    size: Floats
    step: Floats
    error: Floats
    codes: Codes | None

    @classmethod
    def of(cls, X: NDArray[Any], center: Floats, coded: bool, workers: int | None = 1) -> "CodedRows":
        """Those of X."""
        n, d = X.shape
        codes = np.zeros((-(-n // TILE) * TILE, 1 << max(d - 1, 63).bit_length()), np.int8) if coded else None
        rows = cls(center, np.empty(n, np.float32), np.ones(n, np.float32), np.zeros(n, np.float32), codes)
        for _ in map_threads(partial(rows._enter, X), range(0, n, TILE), workers=workers):
            pass
        return rows

    def _enter(self, X: NDArray[Any], a: int) -> None:
        part = slice(a, a + TILE)
        w = _centered(X[part], self.center)
        size = np.einsum("ij,ij->i", w, w, out=self.size[part])
        if not (size < LONGEST**2).all():
            row = a + int(np.argmin(size < LONGEST**2))
            raise InputError(f"X must be finite, its rows shorter than {LONGEST:g}, but row {row} is not")
        if self.codes is not None:
            encode(w, self.codes[part], self.step[part], self.error[part])


def center_of(X: NDArray[Any]) -> Floats:
    """The median of some rows, which a few that are far out do not move."""
    rows = X[np.linspace(0, len(X) - 1, min(len(X), SAMPLE)).astype(np.intp)]
    with np.errstate(all="ignore"):
        center = np.median(rows.astype(np.float64), axis=0).astype(np.float32)
    return np.nan_to_num(center, posinf=0, neginf=0)


def best_scores(
    X: NDArray[Any],
    offsets: NDArray[np.int64],
    rows: CodedRows,
    Q: NDArray[Any],
    queries: CodedRows,
    slack: Floats,
) -> Tables:
    """The best score of each image for each query, and which groups of its windows may have it.

    slack: (n_images, n_queries), what a score may be wrong by. Without windows: minus infinity.
    """
    tables = Tables(slack, np.full_like(slack, -np.inf), np.zeros(slack.shape, np.uint64))
    if rows.codes is None or queries.codes is None:
        product = _of_floats(X, rows.center, Q)
    else:
        product = _of_codes(rows.codes, queries.codes)
    for a in range(0, len(X), ROWS):
        part = slice(a, a + ROWS)
        for t in range(0, len(Q), TILE):
            step = queries.step[t : t + TILE]
            keep_best(product(a, t), rows.step[part], rows.size[part], step, a, t, offsets, tables)
    return tables


def _of_floats(X: NDArray[Any], center: Floats, Q: NDArray[Any]) -> Product:
    """w·q of `ROWS` rows from a on and `TILE` queries from t on, as a function of (a, t)."""
    columns = np.ascontiguousarray(_centered(Q, center).T)
    return lambda a, t: _centered(X[a : a + ROWS], center) @ columns[:, t : t + TILE]


def _of_codes(W: Codes, Q: Codes) -> Product:
    """The same of codes. Its results share one array."""
    import openvino as ov

    request, out = _graph(W.shape[1]).create_infer_request(), np.empty((ROWS, TILE), np.float32)
    request.set_output_tensor(0, ov.Tensor(out, shared_memory=True))

    def product(a: int, t: int) -> Floats:
        request.set_input_tensor(0, ov.Tensor(W[a : a + ROWS], shared_memory=True))
        request.set_input_tensor(1, ov.Tensor(Q[t : t + TILE], shared_memory=True))
        request.infer()
        return out

    return product


@cache
def _graph(d: int) -> Any:
    """W Qᵀ as an OpenVINO graph. The quantizers change nothing: by them it knows that inputs are codes."""
    import openvino as ov
    from openvino import opset13 as ops

    inputs = [ops.parameter([n, d], np.int8) for n in (ROWS, TILE)]
    ends = [ops.constant(np.float32(end)) for end in (-128, 127, -128, 127)]
    W, Q = (ops.fake_quantize(ops.convert(codes, np.float32), *ends, 256) for codes in inputs)
    threads = {"NUM_STREAMS": n_workers(None), "INFERENCE_NUM_THREADS": n_workers(None)}
    graph = ov.Model([ops.matmul(W, Q, False, True)], inputs)
    return ov.Core().compile_model(graph, "CPU", {**threads, "INFERENCE_PRECISION_HINT": "f32"})


@cache
def codes_are_faster() -> bool:
    """Whether products of codes are exact here, and take half the time of float32's at most."""
    rng = np.random.default_rng(0)
    W, Q = (rng.integers(-127, 128, (n, 256)).astype(np.int8) for n in (ROWS, TILE))
    W[0], Q[0] = 127, 127  # the largest sum: some processors cut it off
    zero = np.zeros(256, np.float32)
    coded, floats = _of_codes(W, Q), _of_floats(W.astype(np.float32), zero, Q.astype(np.float32))
    return bool((coded(0, 0) == floats(0, 0)).all()) and 2 * _seconds(coded) < _seconds(floats)


def _seconds(product: Product) -> float:
    times = []
    for _ in range(5):
        start = time.perf_counter()
        product(0, 0)
        times.append(time.perf_counter() - start)
    return min(times)


def _centered(X: NDArray[Any], center: Floats) -> Floats:
    """Rows less the center."""
    with np.errstate(over="ignore", invalid="ignore"):
        rows = as_float32(X)
        rows -= center
        return rows
