"""`one_thread`: BLAS on one thread for a while, cheaply.

The last bit of a product depends on the number of threads, and small products only wait for them.
"""

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

import scipy.linalg  # noqa: F401  the controller finds the libraries that are loaded: NumPy's and SciPy's
from threadpoolctl import ThreadpoolController


def one_thread() -> AbstractContextManager[Any]:
    """A context in which NumPy's and SciPy's BLAS keep to one thread."""
    limit: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return limit


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()  # finding the libraries takes milliseconds: once is enough
