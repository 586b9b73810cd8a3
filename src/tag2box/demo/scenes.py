"""Scenes to try the method on, made of photographs that installed packages already carry.

Objects of three classes are scaled, mirrored, turned and lit, and set before grounds cut from other
photographs, together with objects of no class, which stand in positive and negative scenes alike.
Tags go to `tags.csv`, true boxes to `truth.json` (COCO), which only an evaluation should open.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter

from tag2box.demo.cutouts import cutout, ground
from tag2box.detection.detections import Detections
from tag2box.errors import InputError
from tag2box.exports.writing import write_detections
from tag2box.images import ImageSet, Truth
from tag2box.runtime.files import write_whole
from tag2box.runtime.progress import Progress, silent

CLASSES = ("astronaut", "motorbike", "pagoda")
OTHERS = ("cat", "cup", "flower")
SIZES = ((400, 300), (300, 400), (360, 360))
# The area of an object, of the scene's: alone, beside another, of no class.
ALONE, TOGETHER, OTHER = (0.18, 0.5), (0.12, 0.3), (0.04, 0.18)
VISIBLE = 0.65  # at least so much of an object of a class is neither covered nor cut off


@dataclass(frozen=True)
class Scenes:
    """The scenes to learn from and those to detect in; both with true boxes, for evaluation only."""

    train: ImageSet
    test: ImageSet


def make_scenes(
    folder: str | Path, *, n_train: int = 60, n_test: int = 24, seed: int = 0, progress: Progress = silent
) -> Scenes:
    """Write `n_train` and `n_test` scenes below `folder` (`train/`, `test/`) and return them.

    One scene in five shows no class, one in five shows two, the others one. Equal arguments give equal bytes
    where Pillow and the photographs are the same. Needs scikit-image for its photographs.
    """
    for name, n in (("n_train", n_train), ("n_test", n_test)):
        if n < 5:
            raise InputError(f"{name} must be at least 5, or classes are missing, but it is {n}")
    root, total = Path(folder), n_train + n_test

    def split(name: str, part: int, n: int, before: int) -> ImageSet:
        order, scenes = np.random.default_rng([seed, part]).permutation(n), []
        for i in range(n):
            labels = _labels(int(order[i]))
            scenes.append((labels, *_scene(np.random.default_rng([seed, part, i]), labels)))
            progress("making scenes", before + i + 1, total)
        return _write(root / name, scenes)

    return Scenes(split("train", 0, n_train, 0), split("test", 1, n_test, n_train))


def _labels(i: int) -> list[int]:
    """The classes of scene i: in each five of them none, two, and one of each."""
    turn, kind = divmod(i, 5)
    if kind < 2:
        return [turn % 3, (turn + 1) % 3] if kind else []
    return [kind - 2]


def _scene(rng: np.random.Generator, labels: Sequence[int]) -> tuple[Image.Image, list[list[float]]]:
    """A scene with objects of these classes, and the box of what is seen of each."""
    size = SIZES[rng.integers(len(SIZES))]
    scene, horizon = ground(rng, size)
    others = rng.choice(OTHERS, rng.integers(1, 3), replace=False).tolist()
    cuts = [cutout(name) for name in (*(CLASSES[c] for c in labels), *others)]
    shares = [TOGETHER if len(labels) > 1 else ALONE] * len(labels) + [OTHER] * len(others)
    while True:  # draw again until enough is seen of each object
        layers = [_placed(rng, cut, size, share, horizon) for cut, share in zip(cuts, shares, strict=True)]
        order = sorted(range(len(layers)), key=lambda i: layers[i][1])  # the lowest stands in front
        seen = dict(zip(order, visible([layers[i][0] for i in order]), strict=True))
        if all(seen[i].sum() >= VISIBLE * layers[i][2] for i in range(len(labels))):
            break
    for i in order:
        scene.paste(layers[i][0], (0, 0), layers[i][0])
    return _developed(rng, scene), [box_of(seen[i]) for i in range(len(labels))]


def _placed(
    rng: np.random.Generator,
    cut: Image.Image,
    size: tuple[int, int],
    share: tuple[float, float],
    horizon: int,
) -> tuple[Image.Image, float, float]:
    """The object on a clear scene, changed in view and light; its lowest pixel, and how many it has."""
    scale = np.sqrt(rng.uniform(*share) * np.prod(size) / np.prod(cut.size))
    w, h = (max(8, round(s * scale * rng.uniform(0.85, 1.15))) for s in cut.size)
    small = cut.resize((w, h), Image.Resampling.LANCZOS)
    if rng.random() < 0.5:
        small = small.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    pixels = np.asarray(small, np.float64)
    pixels[:, :, :3] *= np.exp(rng.normal(0, 0.14, 3)) * np.exp(rng.normal(0, 0.2))
    small = Image.fromarray(np.clip(np.rint(pixels), 0, 255).astype(np.uint8))
    small = small.rotate(rng.normal(0, 12), Image.Resampling.BICUBIC, expand=True)
    bottom = rng.uniform(max(horizon + 0.08 * size[1], 0.45 * h), 1.1 * size[1])
    layer = Image.new("RGBA", size)
    layer.paste(small, (round(rng.uniform(0.08, 0.92) * size[0] - w / 2), round(bottom - small.height)))
    return layer, bottom, float(np.asarray(small.getchannel("A"), np.float64).sum() / 255)


def visible(layers: Sequence[Image.Image]) -> list[NDArray[np.float64]]:
    """What is seen of each layer, as a share per pixel; the last is in front."""
    clear, seen = np.ones(layers[0].size[::-1]), []
    for layer in reversed(layers):
        alpha = np.asarray(layer.getchannel("A")) / 255
        seen.append(alpha * clear)
        clear = clear * (1 - alpha)
    return seen[::-1]


def box_of(seen: NDArray[np.float64]) -> list[float]:
    """The box of what is more seen than not."""
    y, x = np.nonzero(seen > 0.5)
    return [float(x.min()), float(y.min()), float(x.max() + 1), float(y.max() + 1)]


def _developed(rng: np.random.Generator, scene: Image.Image) -> Image.Image:
    """How the photograph was taken: focus, exposure, color of the light, color or not, grain."""
    pixels = np.asarray(scene.filter(ImageFilter.GaussianBlur(rng.uniform(0, 0.9))), np.float64) / 255
    pixels = pixels ** np.exp(rng.normal(0, 0.18)) * np.exp(rng.normal(0, 0.08, 3) + rng.normal(0, 0.14))
    gray = pixels.mean(axis=2, keepdims=True)
    pixels = gray + (pixels - gray) * (rng.uniform(0, 0.1) if rng.random() < 0.12 else rng.uniform(0.6, 1.15))
    pixels += rng.normal(0, rng.uniform(0.004, 0.03), pixels.shape[:2])[:, :, None]
    return Image.fromarray(np.rint(np.clip(pixels, 0, 1) * 255).astype(np.uint8))


def _write(folder: Path, scenes: Sequence[tuple[list[int], Image.Image, list[list[float]]]]) -> ImageSet:
    """The scenes as photos, `tags.csv` and `truth.json`."""
    ids = tuple(f"{folder.name}_{i:03d}" for i in range(len(scenes)))
    tags, lines = np.full((len(scenes), len(CLASSES)), -1, np.int8), ["file,tags"]
    for i, (labels, scene, _) in enumerate(scenes):
        buffer = io.BytesIO()
        scene.save(buffer, "JPEG", quality=90)
        write_whole(folder / f"{ids[i]}.jpg", buffer.getvalue())
        tags[i, labels] = 1
        lines.append(f"{ids[i]}.jpg,{';'.join(CLASSES[c] for c in sorted(labels))}")
    write_whole(folder / "tags.csv", "\n".join(lines) + "\n")
    image = np.repeat(np.arange(len(scenes)), [len(labels) for labels, _, _ in scenes])
    xyxy = np.array([box for _, _, boxes in scenes for box in boxes], np.float32)
    label = np.array([c for labels, _, _ in scenes for c in labels])
    truth = Truth(image, xyxy, label, np.zeros(len(image), np.bool_))
    paths = tuple(folder / f"{name}.jpg" for name in ids)
    images = ImageSet(ids=ids, paths=paths, tags=tags, classes=CLASSES, truth=truth)
    boxes = Detections(image, truth.xyxy, np.ones(len(image)), label, ids, CLASSES)
    write_detections(boxes, images, folder / "truth.json", "coco")
    return images
