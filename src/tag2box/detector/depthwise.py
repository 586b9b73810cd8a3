"""Depthwise convolution of a map (h, w, c) by weights (k, k, c), padded like TensorFlow's, and gradients."""

import numpy as np
from numpy.typing import NDArray

from tag2box.runtime.compiled import kernel

Floats = NDArray[np.float32]


def padded(x: Floats, k: int, stride: int) -> tuple[Floats, tuple[int, int]]:
    """The map with zeros around it, and the height and width of what the convolution makes of it."""
    h, w, c = x.shape
    out = -(-h // stride), -(-w // stride)
    totals = [max((n - 1) * stride + k - size, 0) for n, size in zip(out, (h, w), strict=True)]
    wider = np.zeros((h + totals[0], w + totals[1], c), np.float32)
    wider[totals[0] // 2 : totals[0] // 2 + h, totals[1] // 2 : totals[1] // 2 + w] = x
    return wider, out


def unpadded(x: Floats, k: int, stride: int, size: tuple[int, int]) -> Floats:
    """The map (h, w, c) of that size inside of a padded one."""
    starts = [max((-(-n // stride) - 1) * stride + k - n, 0) // 2 for n in size]
    return x[starts[0] : starts[0] + size[0], starts[1] : starts[1] + size[1]]


@kernel
def convolve(x: Floats, weight: Floats, bias: Floats, size: tuple[int, int], stride: int) -> Floats:
    """The convolution of a padded map, (*size, c)."""
    h, w = size
    k, c = weight.shape[0], weight.shape[2]
    out = np.empty((h, w, c), np.float32)
    for y in range(h):
        for z in range(w):
            to = out[y, z]
            to[:] = bias
            for i in range(k):
                for j in range(k):
                    a, b = x[y * stride + i, z * stride + j], weight[i, j]
                    for m in range(c):
                        to[m] += a[m] * b[m]
    return out


@kernel
def gradients(x: Floats, weight: Floats, slope: Floats, stride: int) -> tuple[Floats, Floats]:
    """The gradients by the padded map and by the weights, from the one by the convolution, (h, w, c)."""
    k, c = weight.shape[0], weight.shape[2]
    by_x, by_weight = np.zeros_like(x), np.zeros_like(weight)
    for y in range(slope.shape[0]):
        for z in range(slope.shape[1]):
            d = slope[y, z]
            for i in range(k):
                for j in range(k):
                    a, b = x[y * stride + i, z * stride + j], weight[i, j]
                    to_x, to_weight = by_x[y * stride + i, z * stride + j], by_weight[i, j]
                    for m in range(c):
                        to_x[m] += d[m] * b[m]
                        to_weight[m] += d[m] * a[m]
    return by_x, by_weight
