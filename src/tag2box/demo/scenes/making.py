"""Make the scenes and write them: photographs, tags, and the true boxes for the evaluator."""

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image, ImageFilter

from tag2box.demo.scenes.grounds import ball, ground, hang
from tag2box.demo.scenes.objects import box_of, cutout, place, set_on, visible
from tag2box.detection.detections import Detections
from tag2box.errors import InputError
from tag2box.exports.writing import write_detections
from tag2box.images import ImageSet, Truth
from tag2box.runtime.files import write_whole
from tag2box.runtime.progress import Progress, silent

CLASSES = ("astronaut", "motorbike", "pagoda")
BYSTANDERS = ("cat", "cup", "flower", "shuttle")

SIZES = ((400, 300), (400, 300), (300, 400), (360, 360))
# The area of an object's box, of the scene's: alone, beside another, of no class.
ALONE, TOGETHER, BYSTANDER = (0.18, 0.5), (0.12, 0.3), (0.04, 0.18)
VISIBLE = 0.65  # at least so much of an object of a class is neither covered nor cut off


@dataclass(frozen=True)
class Scenes:
    """The scenes to learn from and those to detect in; both with true boxes, for evaluation only."""

    train: ImageSet
    test: ImageSet


def make_scenes(
    folder: str | Path,
    *,
    seed: int = 0,
    n_train: int = 60,
    n_test: int = 24,
    progress: Progress = silent,
) -> Scenes:
    """Write `n_train` and `n_test` scenes below `folder` (`train/`, `test/`) and return them.

    One scene in five shows no class, one in five shows two, the others one. Equal arguments give equal
    bytes where Pillow and the photographs are the same. Needs scikit-image for its photographs. Memory:
    below 100 MB.
    """
    for name, n in (("n_train", n_train), ("n_test", n_test)):
        if n < 5:
            raise InputError(f"{name} must be at least 5, or classes are missing, but it is {n}")
    root = Path(folder)
    counted = partial(_counted, progress, n_train + n_test)
    return Scenes(
        train=_split(root / "train", [seed, 0], n_train, partial(counted, 0)),
        test=_split(root / "test", [seed, 1], n_test, partial(counted, n_train)),
    )


def _counted(progress: Progress, total: int, before: int, done: int) -> None:
    progress("scenes", before + done, total)


def _split(folder: Path, seed: list[int], n: int, tell: Callable[[int], None]) -> ImageSet:
    order = np.random.default_rng(seed).permutation(n)
    ids, tags, truth = [], np.full((n, len(CLASSES)), -1, np.int8), []
    for i in range(n):
        labels = _labels(int(order[i]))
        scene, boxes = _scene(np.random.default_rng([*seed, i]), [CLASSES[c] for c in labels])
        ids.append(f"{folder.name}_{i:03d}")
        buffer = io.BytesIO()
        scene.save(buffer, "JPEG", quality=90)
        write_whole(folder / f"{ids[-1]}.jpg", buffer.getvalue())
        tags[i, labels] = 1
        truth += [(i, c, box) for c, box in zip(labels, boxes, strict=True)]
        tell(i + 1)
    images = ImageSet(
        ids=tuple(ids),
        paths=tuple(folder / f"{name}.jpg" for name in ids),
        tags=tags,
        classes=CLASSES,
        truth=Truth(
            image=np.array([i for i, _, _ in truth], np.intp),
            xyxy=np.array([box for _, _, box in truth], np.float32),
            label=np.array([c for _, c, _ in truth], np.intp),
            difficult=np.zeros(len(truth), np.bool_),
        ),
    )
    _write_tags(folder / "tags.csv", images)
    _write_truth(folder / "truth.json", images)
    return images


def _labels(i: int) -> list[int]:
    """The classes of scene i: in each five of them none, two, and one of each."""
    turn, kind = divmod(i, 5)
    if kind < 2:
        return [turn % 3, (turn + 1) % 3] if kind else []
    return [kind - 2]


def _scene(
    rng: np.random.Generator, names: Sequence[str]
) -> tuple[Image.Image, list[tuple[float, float, float, float]]]:
    """A scene with the objects `names`, and the box of what is seen of each."""
    size = SIZES[rng.integers(len(SIZES))]
    scene, horizon = ground(rng, size)
    for _ in range(rng.integers(1, 4)):
        scene = hang(rng, scene)
    others = rng.choice(BYSTANDERS, rng.integers(1, 3), replace=False).tolist()
    cuts = [cutout(name) for name in (*names, *others)] + [ball(rng) for _ in range(rng.integers(0, 3))]
    shares = [TOGETHER if len(names) > 1 else ALONE] * len(names) + [BYSTANDER] * len(cuts)
    while True:  # draw again until enough is seen of each object
        layers = [place(rng, cut, size, share, horizon) for cut, share in zip(cuts, shares, strict=False)]
        order = sorted(range(len(layers)), key=lambda i: layers[i].bottom)  # the lowest stands in front
        seen = dict(zip(order, visible([layers[i] for i in order]), strict=True))
        if all(seen[i].sum() >= VISIBLE * layers[i].pixels for i in range(len(names))):
            break
    for i in order:
        scene = set_on(scene, layers[i])
    return _develop(rng, scene), [box_of(seen[i]) for i in range(len(names))]


def _develop(rng: np.random.Generator, scene: Image.Image) -> Image.Image:
    """How the whole photograph was taken: focus, exposure, color of the light, color or not, grain."""
    scene = scene.filter(ImageFilter.GaussianBlur(rng.uniform(0, 0.9)))
    pixels = (np.asarray(scene, np.float64) / 255) ** np.exp(rng.normal(0, 0.18))
    pixels *= np.exp(rng.normal(0, 0.08, 3)) * np.exp(rng.normal(0, 0.14))
    gray = pixels.mean(axis=2, keepdims=True)
    pixels = gray + (pixels - gray) * (rng.uniform(0, 0.1) if rng.random() < 0.12 else rng.uniform(0.6, 1.15))
    pixels += rng.normal(0, rng.uniform(0.004, 0.03), pixels.shape[:2])[:, :, None]
    return Image.fromarray(np.rint(np.clip(pixels, 0, 1) * 255).astype(np.uint8))


def _write_tags(path: Path, images: ImageSet) -> None:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["file", "tags"])
    for file, row in zip(images.paths, images.tags, strict=True):
        rows.writerow([file.name, ";".join(images.classes[c] for c in np.flatnonzero(row == 1))])
    write_whole(path, text.getvalue())


def _write_truth(path: Path, images: ImageSet) -> None:
    truth = images.truth
    assert truth is not None
    sure = np.ones(len(truth.image))
    boxes = Detections(truth.image, truth.xyxy, sure, truth.label, images.ids, images.classes)
    write_detections(boxes, images, path, "coco")
