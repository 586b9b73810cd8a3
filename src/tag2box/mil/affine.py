"""`Affine`: scores Xw + β·v + s and their adjoint, with θ = (w, v), for dense and CSR alike.

The bias is a constant feature β, as in scikit-learn's `LinearSVC` (`intercept_scaling`): it is regularized
like every weight, and the intercept is β·v. β = 0 means that there is none, and θ = w. The shift s is what is
known of each row before anything is learned: a prior.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tag2box.runtime.blas import one_thread
from tag2box.runtime.compiled import kernel

Floats = NDArray[np.float64]

# Below so many numbers (256 MB of float32) threads gain little: NumPy's and SciPy's wait for each other (an
# iteration of L-BFGS took three times as long), and lose a hundredfold where another process wants the cores.
SMALL = 1 << 26
BLOCK = 1 << 18  # bytes of rows that stay in the second cache between their product and their adjoint
# Below this share of rows, taking them out is cheaper than a product with all.
FEW = 0.25


def is_sparse(X: Any) -> bool:
    """Whether X is a scipy sparse matrix or array."""
    return bool(sparse.issparse(X))


def as_csr(X: Any) -> Any:
    """A sparse X as CSR with 32-bit indices where they suffice: scikit-learn's SVMs take no others."""
    X = X.tocsr()
    if X.indices.dtype == np.int32 or max(*X.shape, X.nnz) > np.iinfo(np.int32).max:
        return X
    return type(X)((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape)


class Affine:
    """The map θ -> Xw + βv + s. X: (n, d) dense or CSR; θ: (d,) or, with a bias, (d + 1,).

    shift: s, (n,); zeros where it is left out. X is not copied, but for few rows at a time in `adjoint`.
    """

    def __init__(self, X: Any, bias: float, shift: Floats | None = None) -> None:
        self.X, self.bias = X, bias
        self.shift = np.zeros(X.shape[0]) if shift is None else shift
        self.n_weights = X.shape[1] + (bias > 0)

    def scores(self, theta: Floats) -> Floats:
        """(n,) scores, in float64 whatever the type of X."""
        if not theta.any():  # solvers start there, or measure their tolerance by it
            return self.shift.copy()
        return self.change(theta) + self.shift

    def change(self, theta: Floats) -> Floats:
        """(n,) Xw + βv, by which the scores change along θ."""
        d = self.X.shape[1]
        scores = np.asarray(self.X @ theta[:d].astype(self.X.dtype, copy=False), dtype=np.float64)
        return scores + self.bias * theta[d] if self.bias > 0 else scores

    def adjoint(self, r: Floats, *, by_rows: bool = False) -> Floats:
        """Σ_j r_j (x_j, β), the gradient of <r, scores> by θ.

        A smoothed maximum and a hinge leave few r_j that are not 0. `by_rows` reads only those rows of a
        dense X, each once and where it is; a product would read all, or a copy. The last bits differ.
        """
        if by_rows and self._has_rows:
            w, rows = np.zeros(self.X.shape[1]), np.flatnonzero(r)
            _add_blocks(self.X, rows, r[rows], np.empty(len(r), self.X.dtype), w)
        else:
            nonzero = np.flatnonzero(r)
            X, few = (self.X[nonzero], r[nonzero]) if len(nonzero) < FEW * len(r) else (self.X, r)
            w = np.asarray(X.T @ few.astype(X.dtype, copy=False), dtype=np.float64)
        return np.append(w, self.bias * r.sum()) if self.bias > 0 else w

    @property
    def in_one_pass(self) -> bool:
        """Whether a kernel that goes from row to row is the way to read X: dense, and one thread suffices."""
        return self._has_rows and self.X.size < SMALL

    @property
    def _has_rows(self) -> bool:
        return isinstance(self.X, np.ndarray) and self.X.flags.c_contiguous

    def curvature(self, cost: float) -> Floats:
        """About the second derivative of ½‖θ‖² and a squared hinge of this weight by each of θ."""
        some = self.X[:: max(self.X.shape[0] // 256, 1)]
        square = some.multiply(some).mean() if is_sparse(some) else np.mean(np.square(some, dtype=np.float64))
        h = np.full(self.n_weights, 1 + 2 * cost * float(square))
        if self.bias > 0:
            h[-1] = 1 + 2 * cost * self.bias**2
        return h

    def take(self, rows: NDArray[np.intp]) -> "Affine":
        """The same map for some rows."""
        return Affine(self.X[rows], self.bias, self.shift[rows])

    def gram(self) -> Floats:
        """(n, n) inner products of the rows with their bias feature."""
        K = self.X @ self.X.T
        return np.asarray(K.toarray() if is_sparse(K) else K, dtype=np.float64) + self.bias**2

    def few_threads(self) -> AbstractContextManager[Any]:
        """A context in which BLAS keeps to one thread if the products here are small."""
        return one_thread() if self.X.size < SMALL else nullcontext()


@kernel
def _add_blocks(X: NDArray[Any], rows: NDArray[np.intp], r: Floats, room: NDArray[Any], out: Floats) -> None:
    step, k = max(BLOCK // (X.itemsize * X.shape[1]), 1), 0
    for a in range(0, len(X), step):
        b, first = min(a + step, len(X)), k
        while k < len(rows) and rows[k] < b:
            k += 1
        add_rows(X, a, b, rows[first:k], r[first:k], room, out)


@kernel
def add_rows(
    X: NDArray[Any], a: int, b: int, rows: NDArray[np.intp], r: Floats, room: NDArray[Any], out: Floats
) -> None:
    """Add Σ_k r_k x_{rows_k} to `out`, (d,) in float64; rows: of X[a:b]. room: (n,) scratch of X's type.

    Four rows at a time, or, where most of them count, by a product with the block.
    """
    n = len(rows)
    if 2 * n > b - a:
        room[a:b] = 0
        for k in range(n):
            room[rows[k]] = r[k]
        out += np.dot(room[a:b], X[a:b])
        return
    whole = n - n % 4
    for k in range(0, whole, 4):
        x0, x1, x2, x3 = X[rows[k]], X[rows[k + 1]], X[rows[k + 2]], X[rows[k + 3]]
        r0, r1, r2, r3 = r[k], r[k + 1], r[k + 2], r[k + 3]
        for i in range(len(out)):
            out[i] += (r0 * x0[i] + r1 * x1[i]) + (r2 * x2[i] + r3 * x3[i])
    for k in range(whole, n):
        x0, r0 = X[rows[k]], r[k]
        for i in range(len(out)):
            out[i] += r0 * x0[i]
