"""Color spaces for segmentation: float32 images, every channel on the scale 0 to 255.

Uijlings et al. 2013 (section 3.2) diversify their search over spaces that forget shading and shadows to
different degrees: RGB, Lab, HSV, normalized rg with intensity, and hue alone.
"""

import numpy as np
from numpy.typing import NDArray

from tag2box.runtime.compiled import kernel

Image = NDArray[np.float32]

SPACES = ("hsv", "lab", "rgb", "rgi", "hue")

# D65 white and sRGB primaries (IEC 61966-2-1), rows for X, Y and Z, each divided by the white point.
XYZ = np.array(
    [[0.433953, 0.376219, 0.189828], [0.212671, 0.715160, 0.072169], [0.017758, 0.109477, 0.872765]],
    dtype=np.float32,
)


def convert(rgb: Image, space: str) -> Image:
    """`rgb` (h, w, 3) on the scale 0 to 255, in one of `SPACES`, as (3, h, w) on the same scale."""
    if space == "rgb":
        return np.ascontiguousarray(rgb.transpose(2, 0, 1))
    return np.asarray(_CONVERTERS[space](rgb))


@kernel
def blur(image: NDArray[np.uint8], sigma: float) -> Image:
    """`image` convolved with a Gaussian cut at three sigma; the border pixels are repeated outwards."""
    h, w, _ = image.shape
    radius = int(np.ceil(3 * sigma))
    weight = np.empty(2 * radius + 1, np.float32)
    for i in range(2 * radius + 1):
        weight[i] = np.exp(-0.5 * ((i - radius) / sigma) ** 2)
    weight /= weight.sum()
    padded = np.empty(3 * (w + 2 * radius), np.float32)
    across = np.zeros((h, 3 * w), np.float32)
    for y in range(h):
        for x in range(w + 2 * radius):
            for c in range(3):
                padded[3 * x + c] = image[y, min(max(x - radius, 0), w - 1), c]
        for i in range(2 * radius + 1):
            _add_scaled(across[y], padded[3 * i :], weight[i])
    out = np.zeros((h, 3 * w), np.float32)
    for y in range(h):
        for i in range(2 * radius + 1):
            _add_scaled(out[y], across[min(max(y + i - radius, 0), h - 1)], weight[i])
    return out.reshape(h, w, 3)


@kernel
def _add_scaled(out: Image, values: Image, scale: np.float32) -> None:
    for j in range(len(out)):
        out[j] += scale * values[j]


@kernel
def _hsv(rgb: Image) -> Image:
    out = np.empty((3, *rgb.shape[:2]), np.float32)
    for y in range(rgb.shape[0]):
        for x in range(rgb.shape[1]):
            r, g, b = rgb[y, x, 0], rgb[y, x, 1], rgb[y, x, 2]
            high, low = max(r, g, b), min(r, g, b)
            spread = high - low
            hue = np.float32(0)
            if spread > 0:
                if high == r:
                    hue = (g - b) / spread
                elif high == g:
                    hue = (b - r) / spread + np.float32(2)
                else:
                    hue = (r - g) / spread + np.float32(4)
                if hue < 0:
                    hue += np.float32(6)
            out[0, y, x] = hue * np.float32(255 / 6)
            out[1, y, x] = np.float32(255) * spread / high if high > 0 else np.float32(0)
            out[2, y, x] = high
    return out


@kernel
def _lab(rgb: Image) -> Image:
    # One table for the inverse gamma and one for the cube root: powers are slow, and pixels are many.
    linear = np.empty(1025, np.float32)
    root = np.empty(1025, np.float32)
    for i in range(1025):
        v = i / 1024
        linear[i] = v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4
        root[i] = np.cbrt(v) if v > 0.008856 else 7.787 * v + 16 / 116
    out = np.empty((3, *rgb.shape[:2]), np.float32)
    f = np.empty(3, np.float32)
    to_table = np.float32(1024 / 255)
    for y in range(rgb.shape[0]):
        for x in range(rgb.shape[1]):
            r = linear[int(rgb[y, x, 0] * to_table)]
            g = linear[int(rgb[y, x, 1] * to_table)]
            b = linear[int(rgb[y, x, 2] * to_table)]
            for i in range(3):
                v = (XYZ[i, 0] * r + XYZ[i, 1] * g + XYZ[i, 2] * b) * np.float32(1024)
                at = min(int(v), 1023)
                f[i] = root[at] + (v - at) * (root[at + 1] - root[at])
            out[0, y, x] = np.float32(255 / 100) * (np.float32(116) * f[1] - np.float32(16))
            out[1, y, x] = np.float32(500) * (f[0] - f[1]) + np.float32(128)
            out[2, y, x] = np.float32(200) * (f[1] - f[2]) + np.float32(128)
    return out


@kernel
def _rgi(rgb: Image) -> Image:
    out = np.empty((3, *rgb.shape[:2]), np.float32)
    for y in range(rgb.shape[0]):
        for x in range(rgb.shape[1]):
            total = rgb[y, x, 0] + rgb[y, x, 1] + rgb[y, x, 2]
            share = np.float32(255) / total if total > 0 else np.float32(0)
            out[0, y, x] = rgb[y, x, 0] * share if total > 0 else np.float32(85)
            out[1, y, x] = rgb[y, x, 1] * share if total > 0 else np.float32(85)
            out[2, y, x] = total / np.float32(3)
    return out


def _hue(rgb: Image) -> Image:
    return np.repeat(_hsv(rgb)[:1], 3, axis=0)


_CONVERTERS = {"hsv": _hsv, "lab": _lab, "rgi": _rgi, "hue": _hue}
