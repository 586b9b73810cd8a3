"""The late blocks of the built-in network, with their gradients.

Rows of several maps are stacked: a 1 x 1 convolution is one product for all of them. Batch normalization is
folded into the weights.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tag2box.detector.depthwise import convolve, gradients, padded, unpadded
from tag2box.detector.record import HEAD
from tag2box.networks.efficientnet import VARIANTS, folded, weights_file
from tag2box.networks.torch_reader import read_state_dict

Floats = NDArray[np.float32]
Weights = dict[str, Floats]
Sizes = list[tuple[int, int]]
# From the gradient by the output of a layer to that by its input; those by weights are added to a dict.
Backward = Callable[[Floats, Weights], Floats]

NETWORK, FIRST, LAST = "efficientnet-lite0", 11, 15
CUT_STRIDE, CUT_CHANNELS = 16, 112
# The convolution and the normalization of each layer, as the built-in network calls them.
LAYERS = {
    f"{i}.{part}": (f"_blocks.{i}._{part}_conv", f"_blocks.{i}._bn{k}")
    for i in range(FIRST, LAST + 1)
    for k, part in enumerate(("expand", "depthwise", "project"))
} | {"head": ("_conv_head", "_bn1")}


def network_weights() -> Weights:
    """The weights of the late blocks and of the last convolution, as they come with the package."""
    state = read_state_dict(weights_file(NETWORK), VARIANTS[NETWORK].sha256)
    weights: Weights = {}
    for name, (convolution, norm) in LAYERS.items():
        weight, bias = folded(state, convolution, norm)
        W = weight[:, 0].transpose(1, 2, 0) if name.endswith("depthwise") else weight[:, :, 0, 0].T
        weights |= {f"{name}.W": np.ascontiguousarray(W), f"{name}.b": bias}
    return weights


def identity_head() -> Weights:
    """A projection that keeps every channel of the last map."""
    return {"mapped.W": np.eye(HEAD, dtype=np.float32), "mapped.b": np.zeros(HEAD, np.float32)}


def linear(x: Floats, weights: Weights, name: str, top: float | None = None) -> tuple[Floats, Backward]:
    """x W + b; with `top`, cut off below 0 and above it."""
    W = weights[f"{name}.W"]
    y = x @ W
    y += weights[f"{name}.b"]
    if top is not None:
        np.clip(y, 0, top, out=y)

    def backward(slope: Floats, to: Weights) -> Floats:
        if top is not None:
            slope = slope * ((y > 0) & (y < top))
        add(to, f"{name}.W", x.T @ slope)
        add(to, f"{name}.b", slope.sum(axis=0))
        return np.asarray(slope @ W.T)

    return y, backward


def add(to: Weights, name: str, slope: Floats) -> None:
    """Add a gradient to those of before."""
    if name in to:
        to[name] += slope
    else:
        to[name] = np.array(slope, np.float32)


def depthwise(
    x: Floats, sizes: Sizes, weights: Weights, name: str, stride: int
) -> tuple[Floats, Sizes, Backward]:
    """A depthwise convolution of maps that follow each other as rows of x, and ReLU6."""
    W, b = weights[f"{name}.W"], weights[f"{name}.b"]
    k, c = W.shape[0], W.shape[2]
    wider, outs = zip(*(padded(m, k, stride) for m in split(x, sizes)), strict=True)
    y = np.concatenate(
        [convolve(m, W, b, out, stride).reshape(-1, c) for m, out in zip(wider, outs, strict=True)]
    )
    np.clip(y, 0, 6, out=y)

    def backward(slope: Floats, to: Weights) -> Floats:
        slope = slope * ((y > 0) & (y < 6))
        parts = []
        for m, size, d in zip(wider, sizes, split(slope, list(outs)), strict=True):
            by_x, by_weight = gradients(m, W, d, stride)
            add(to, f"{name}.W", by_weight)
            parts.append(unpadded(by_x, k, stride, size).reshape(-1, c))
        add(to, f"{name}.b", slope.sum(axis=0))
        return np.concatenate(parts)

    return y, list(outs), backward


def split(x: Floats, sizes: Sizes) -> list[Floats]:
    """Rows of maps as the maps (h, w, c)."""
    ends = np.cumsum([h * w for h, w in sizes])
    return [part.reshape(*size, -1) for part, size in zip(np.split(x, ends[:-1]), sizes, strict=True)]


def trunk(x: Floats, sizes: Sizes, weights: Weights) -> tuple[Floats, Sizes, Backward]:
    """From the rows of maps at the cut to those of maps that were learned; sizes: of each map."""
    steps: list[Backward] = []
    for i in range(FIRST, LAST + 1):
        y, back = linear(x, weights, f"{i}.expand", 6.0)
        own = [back]
        y, sizes, back = depthwise(y, sizes, weights, f"{i}.depthwise", 2 if i == FIRST else 1)
        own.append(back)
        y, back = linear(y, weights, f"{i}.project")
        own.append(back)
        residual = x.shape == y.shape
        if residual:
            y += x
        steps.append(_block(own, residual=residual))
        x = y
    x, back = linear(x, weights, "head", 6.0)
    steps.append(back)
    x, back = linear(x, weights, "mapped")
    steps.append(back)
    return x, sizes, chain(steps)


def _block(steps: list[Backward], *, residual: bool) -> Backward:
    inner = chain(steps)

    def backward(slope: Floats, to: Weights) -> Floats:
        out = inner(slope, to)
        return out + slope if residual else out

    return backward


def chain(steps: list[Backward]) -> Backward:
    """One backward step of several."""

    def backward(slope: Floats, to: Weights) -> Floats:
        for step in reversed(steps):
            slope = step(slope, to)
        return slope

    return backward
