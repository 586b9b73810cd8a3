"""Objects cut out of photographs, seen in many ways: scaled, mirrored, turned, bent, lit and shaded."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter

from tag2box.demo.scenes.grounds import photograph
from tag2box.demo.scenes.outlines import OUTLINES


@dataclass(frozen=True)
class Layer:
    """An object on a clear scene: the pixels it would have uncut, and the height of its lowest one."""

    picture: Image.Image
    pixels: float
    bottom: float


def place(
    rng: np.random.Generator,
    cut: Image.Image,
    size: tuple[int, int],
    share: tuple[float, float],
    horizon: int,
) -> Layer:
    """The object somewhere on the floor, or anywhere where there is none, changed in view and light."""
    scale = np.sqrt(rng.uniform(*share) * np.prod(size) / np.prod(cut.size))
    w, h = np.maximum(np.rint(np.array(cut.size) * scale * rng.uniform(0.85, 1.15, 2)), 8)
    small = cut.resize((int(w), int(h)), Image.Resampling.LANCZOS)
    if rng.random() < 0.5:
        small = small.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    small = _lit(rng, small)
    bottom = rng.uniform(max(horizon + 0.08 * size[1], 0.45 * h), 1.1 * size[1])
    center = rng.uniform(0.08, 0.92) * size[0], bottom - h / 2
    angle = np.radians(rng.normal(0, 12))
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    corners = np.array([[-w, -h], [w, -h], [w, h], [-w, h]]) / 2 @ turn.T + center
    corners += rng.normal(0, 0.06, (4, 2)) * (w, h)
    inverse = _homography(corners, small.size)
    picture = small.transform(size, Image.Transform.PERSPECTIVE, inverse, Image.Resampling.BICUBIC)
    return Layer(picture, float(np.asarray(small.getchannel("A"), np.float64).sum() / 255), bottom)


def _homography(corners: NDArray[np.float64], size: tuple[int, int]) -> list[float]:
    """Pillow's eight numbers that map `corners` of the scene to those of a picture of this size."""
    w, h = size
    rows, right = [], []
    for (x, y), (u, v) in zip(corners, ((0, 0), (w, 0), (w, h), (0, h)), strict=True):
        rows += [[x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]]
        right += [u, v]
    return [float(a) for a in np.linalg.solve(np.array(rows), np.array(right))]


def _lit(rng: np.random.Generator, cut: Image.Image) -> Image.Image:
    """Light from one side, brighter or darker, warmer or colder, sometimes out of focus."""
    pixels = np.asarray(cut, np.float64) / 255
    h, w, _ = pixels.shape
    x, y = np.meshgrid(np.linspace(-1, 1, w), np.linspace(-1, 1, h))
    angle = rng.uniform(0, 2 * np.pi)
    light = 1 + rng.uniform(0, 0.5) * (np.cos(angle) * x + np.sin(angle) * y)
    tint = np.exp(rng.normal(0, 0.14, 3)) * np.exp(rng.normal(0, 0.2))
    color = np.clip(pixels[:, :, :3] ** np.exp(rng.normal(0, 0.25)) * light[:, :, None] * tint, 0, 1)
    lit = Image.fromarray(np.rint(np.dstack([color, pixels[:, :, 3]]) * 255).astype(np.uint8))
    return lit.filter(ImageFilter.GaussianBlur(rng.uniform(0.6, 1.2))) if rng.random() < 0.2 else lit


@lru_cache(maxsize=16)
def cutout(name: str) -> Image.Image:
    """The object, clear around it, with a soft edge."""
    package, file, outline = OUTLINES[name]
    photo = photograph(package, file)
    rings = [
        [(float(x), float(y)) for x, y in (point.split(",") for point in ring.split())]
        for ring in outline.split(";")
    ]
    mask = Image.new("L", photo.size)
    pen = ImageDraw.Draw(mask)
    for i, ring in enumerate(rings):
        pen.polygon(ring, fill=0 if i else 255)
    mask = mask.filter(ImageFilter.MinFilter(3)).filter(ImageFilter.GaussianBlur(1))
    cut = photo.copy()
    cut.putalpha(mask)
    box = mask.getbbox()
    return cut.crop(box)


def visible(layers: Sequence[Layer]) -> list[NDArray[np.float64]]:
    """What is seen of each layer, as a share per pixel; the last is in front."""
    clear, seen = np.ones(layers[0].picture.size[::-1]), []
    for layer in reversed(layers):
        alpha = np.asarray(layer.picture.getchannel("A")) / 255
        seen.append(alpha * clear)
        clear = clear * (1 - alpha)
    return seen[::-1]


def box_of(seen: NDArray[np.float64]) -> tuple[float, float, float, float]:
    """The box of what is more seen than not."""
    y, x = np.nonzero(seen > 0.5)
    return float(x.min()), float(y.min()), float(x.max() + 1), float(y.max() + 1)


def set_on(scene: Image.Image, layer: Layer) -> Image.Image:
    """The layer on the scene, with a soft shadow around its foot."""
    alpha = layer.picture.getchannel("A")
    box = alpha.getbbox()
    if box is None:  # wholly outside
        return scene
    shadow = Image.new("L", scene.size)
    left, right, thick = box[0], box[2], 0.09 * (box[2] - box[0])
    foot = [left, layer.bottom - 2 * thick, right, layer.bottom + thick]
    ImageDraw.Draw(shadow).ellipse(foot, fill=150)
    shadow = shadow.filter(ImageFilter.GaussianBlur(1 + 0.5 * thick))
    scene = Image.composite(Image.new("RGB", scene.size, "#080a10"), scene, shadow)
    scene.paste(layer.picture, (0, 0), alpha)
    return scene
