"""Cut windows out of maps and images: bilinear samples on a regular grid of each box, edges repeated."""

import numpy as np
from numpy.typing import NDArray

from tag2box.runtime.compiled import kernel

__all__ = ["crop_map"]

Map = NDArray[np.float32]


@kernel
def crop_map(source: Map, boxes: NDArray[np.float32], size: int, samples: int, out: Map) -> None:
    """Fill `out` (n, size, size, c) with the `boxes` (n, 4) of `source` (h, w, c), in cells.

    Cell i covers [i, i + 1). Each of the size x size bins of a box is the mean of samples x samples bilinear
    samples in it (RoIAlign, He et al. 2017); outside of the map its border is repeated.
    """
    h, w, c = source.shape
    share = np.float32(1.0 / (samples * samples))
    steps = size * samples
    out[:] = 0
    for n in range(len(boxes)):
        x1, y1 = boxes[n, 0], boxes[n, 1]
        dx, dy = (boxes[n, 2] - x1) / steps, (boxes[n, 3] - y1) / steps
        for i in range(steps):
            y = min(max(y1 + (i + 0.5) * dy - 0.5, 0.0), h - 1.0)
            top = min(int(y), h - 2) if h > 1 else 0
            bottom = min(top + 1, h - 1)
            fy = np.float32(y - top)
            for j in range(steps):
                x = min(max(x1 + (j + 0.5) * dx - 0.5, 0.0), w - 1.0)
                left = min(int(x), w - 2) if w > 1 else 0
                right = min(left + 1, w - 1)
                fx = np.float32(x - left)
                a, b = (1 - fy) * (1 - fx) * share, (1 - fy) * fx * share
                d, e = fy * (1 - fx) * share, fy * fx * share
                bin_ = out[n, i // samples, j // samples]
                p, q = source[top, left], source[top, right]
                r, s = source[bottom, left], source[bottom, right]
                for k in range(c):
                    bin_[k] += a * p[k] + b * q[k] + d * r[k] + e * s[k]
