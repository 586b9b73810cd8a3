"""`kernel`: numba's `njit` as it is used here, with the types of the function kept."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile `function` at its first call and cache the code on disk; the GIL is released."""
    return cast("F", njit(cache=True, nogil=True, error_model="numpy")(function))
