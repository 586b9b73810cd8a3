"""`kernel`: numba's `njit` as this project uses it, with its types kept.

Kernels are compiled at their first call, never at import, and cached on disk, so that a machine compiles
each of them once; the log says so, as it takes some seconds. They release the GIL and keep IEEE arithmetic:
results do not depend on who compiled.
"""

import logging
from collections.abc import Callable
from functools import partial
from pickle import UnpicklingError
from typing import Any, TypeVar, cast

from numba import njit
from numba.core import config, event

F = TypeVar("F", bound=Callable[..., Any])

log = logging.getLogger("tag2box")

# numba takes settings from a `.numba_config.yaml` in the current folder, among them where compiled code is
# loaded from. That folder may hold a stranger's data: only variables of the environment count.
config._config_fname = ""
config.reload_config()  # type: ignore[no-untyped-call]


def kernel(function: F, **options: Any) -> F:
    """Compile `function` at its first call, for the argument types of that call."""
    compiled = njit(cache=True, nogil=True, error_model="numpy", **options)(function)
    if cache := getattr(getattr(compiled, "_cache", None), "_cache_file", None):
        cache._load_index = partial(_what_is_cached, cache._load_index)
    return cast("F", compiled)


def _what_is_cached(load: Callable[[], dict[Any, str]]) -> dict[Any, str]:
    """numba's list of what is compiled; empty where it is damaged, or names a record of an earlier version.

    numba itself looks at whether the list is up to date only after it has read all of it.
    """
    try:
        return load()
    except (AttributeError, ImportError, LookupError, TypeError, ValueError, EOFError, UnpicklingError):
        return {}


class _Announcer(event.Listener):
    """Says once per process that kernels are being compiled: numba tells it of true compilations only."""

    def on_start(self, compilation: Any) -> None:
        if compilation.data["dispatcher"].py_func.__module__.startswith("tag2box"):
            event.unregister("numba:compile", self)  # type: ignore[no-untyped-call]
            log.warning("compiling numerical kernels: some seconds, once per machine (cached on disk)")

    def on_end(self, compilation: Any) -> None:
        pass


event.register("numba:compile", _Announcer())  # type: ignore[no-untyped-call]
