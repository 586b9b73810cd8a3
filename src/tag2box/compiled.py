"""`kernel`: numba's `njit` as this project uses it, with its types kept.

Kernels are compiled at their first call, never at import, and cached on disk, so that a machine compiles
each of them once. They release the GIL and keep IEEE arithmetic: results do not depend on who compiled.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

__all__ = ["kernel"]

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile `function` at its first call, for the argument types of that call."""
    return cast("F", njit(cache=True, nogil=True, error_model="numpy")(function))
