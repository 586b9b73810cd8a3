"""Run a network, whole or cut in two, on any engine; whatever it gives becomes a map with channels last.

Every stream runs on one thread and every batch has the same shape, so that a window's numbers depend neither
on its batch nor on the number of threads.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tag2box.errors import InputError
from tag2box.networks.engine import PRECISIONS, Engine, EngineOptions
from tag2box.networks.network import Network
from tag2box.runtime.checks import check_choice

__all__ = ["EngineOptions", "Part"]

Floats = NDArray[np.float32]


class Part:
    """A network, or the part of it before or behind a cut, compiled and ready to run.

    `start` and `end` name maps in the graph; None is the image, or the network's output. Images come as
    (n, h, w, 3) uint8 RGB, maps as (n, h, w, c) float32; so do results, and the tokens of a transformer are
    laid out as the map of its patches. With `grid=g` the resulting map is averaged over g x g parts,
    (n, g, g, c). `shape` is the (n, h, w) of the input: -1 leaves one open. A network of one size that takes
    one number of images has its own n.
    """

    def __init__(
        self,
        network: Network,
        shape: tuple[int, int, int],
        options: EngineOptions,
        *,
        start: str | None = None,
        end: str | None = None,
        grid: int | None = None,
    ) -> None:
        check_choice("precision", options.precision, PRECISIONS)
        self.network, self.grid = network, grid
        self.engine = _engine(options)(network, shape, options, start=start, end=end, grid=grid)
        self.batch, self.input = self.engine.batch, self.engine.input
        rank = len(self.engine.output)
        self.gives_map = rank in (3, 4)
        self.channels = self.engine.output[-1]
        if rank == 3 and network.patch is None:
            raise InputError(
                f"{network.path.name} gives tokens (n, tokens, c): set patch, class_tokens and "
                f"register_tokens in its TOML, which `tag2box network check {network.path.name}` writes"
            )
        if grid is not None and not self.gives_map and (rank != 2 or grid != 1):
            raise InputError(
                f"{network.path.name} has an output with {rank} dimensions: "
                f"a grid of {grid} needs a map (n, c, h, w) or tokens (n, tokens, c)"
            )

    def __call__(self, x: NDArray[Any]) -> Floats:
        """Run any number of images or maps, in batches of the compiled size; the last one is filled up."""
        batches = [_filled(x[i : i + self.batch], self.batch) for i in range(0, len(x), self.batch)]
        return np.concatenate(self.each(batches))[: len(x)]

    def each(self, batches: Iterable[NDArray[Any]]) -> list[Floats]:
        """Run every batch, as many at a time as there are threads; results in order.

        A batch may be made while the one before it runs: `batches` is read as threads become free.
        """
        sizes: list[tuple[int, int]] = []

        def noted() -> Iterator[NDArray[Any]]:
            for batch in batches:
                sizes.append((batch.shape[1], batch.shape[2]))
                yield batch

        results = self.engine.each(noted())
        return [self._finished(result, size) for result, size in zip(results, sizes, strict=True)]

    def _finished(self, result: Floats, size: tuple[int, int]) -> Floats:
        """Tokens as a map, and averages over the grid where the engine has not made them."""
        if result.ndim == 3:
            result = self._laid_out(result, size)
        if self.grid is None:
            return result
        if result.ndim == 2:  # the network pools by itself
            return result[:, None, None]
        return _averaged(result, self.grid)

    def _laid_out(self, tokens: Floats, size: tuple[int, int]) -> Floats:
        """Tokens (n, t, c) of images of `size` as the map of their patches, (n, h, w, c)."""
        network = self.network
        assert network.patch is not None  # checked above
        special = network.class_tokens + network.register_tokens
        h, w = size[0] // network.patch, size[1] // network.patch
        n, t, c = tokens.shape
        if t != special + h * w:
            raise InputError(
                f"{network.path.name} makes {t} tokens of {size[0]} x {size[1]} pixels, but {special} "
                f"special ones and patches of {network.patch} would be {special + h * w}: correct patch, "
                f"class_tokens or register_tokens in its TOML"
            )
        return np.ascontiguousarray(tokens[:, special:]).reshape(n, h, w, c)


def _engine(options: EngineOptions) -> Callable[..., Engine]:
    """The class of the engine; its package is loaded when it is needed."""
    if options.runtime == "onnxruntime":
        from tag2box.networks.onnxruntime_engine import OnnxRuntime

        return OnnxRuntime
    from tag2box.networks.openvino_engine import OpenVino

    return OpenVino


def _filled(x: NDArray[Any], n: int) -> NDArray[Any]:
    """`x` with zeros behind it up to `n` rows."""
    if len(x) == n:
        return np.ascontiguousarray(x)
    return np.concatenate([x, np.zeros((n - len(x), *x.shape[1:]), x.dtype)])


def _averaged(maps: Floats, grid: int) -> Floats:
    """Averages of maps (n, h, w, c) over grid x grid parts, which overlap where cells do not divide."""
    h, w = maps.shape[1:3]
    if (h, w) == (grid, grid):
        return maps
    out = np.empty((len(maps), grid, grid, maps.shape[3]), np.float32)
    for i in range(grid):
        for j in range(grid):
            rows = slice(i * h // grid, -(-(i + 1) * h // grid))
            columns = slice(j * w // grid, -(-(j + 1) * w // grid))
            out[:, i, j] = maps[:, rows, columns].mean(axis=(1, 2))
    return out
