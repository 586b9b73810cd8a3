"""What a scene stands before: parts of photographs as walls, floors and framed pictures."""

from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from tag2box.errors import InputError, install_command

# Grounds: a photograph, the part of it taken (left, top, right, bottom), and for gray ones two tints.
Ground = tuple[str, str, tuple[int, int, int, int], tuple[str, str] | None]
WALLS: tuple[Ground, ...] = (
    ("sklearn", "datasets/images/china.jpg", (330, 0, 640, 230), None),
    ("sklearn", "datasets/images/china.jpg", (360, 130, 640, 330), None),
    ("sklearn", "datasets/images/china.jpg", (390, 270, 640, 427), None),
    ("sklearn", "datasets/images/flower.jpg", (0, 0, 240, 427), None),
    ("sklearn", "datasets/images/flower.jpg", (440, 0, 640, 427), None),
    ("skimage", "data/motorcycle_left.png", (590, 0, 741, 280), None),
    ("skimage", "data/motorcycle_left.png", (0, 0, 310, 135), None),
    ("skimage", "data/rocket.jpg", (0, 0, 640, 330), None),
    ("skimage", "data/astronaut.png", (0, 0, 110, 200), None),
    ("skimage", "data/camera.png", (330, 0, 512, 240), ("#2c3540", "#f4efe6")),
    ("skimage", "data/brick.png", (0, 0, 512, 512), ("#4a1f14", "#e0b094")),
    ("skimage", "data/brick.png", (0, 0, 512, 512), ("#2d3138", "#cfd2d0")),
    ("skimage", "data/hubble_deep_field.jpg", (0, 0, 1000, 872), None),
    ("skimage", "data/ihc.png", (0, 0, 512, 512), None),
    ("skimage", "data/page.png", (0, 0, 384, 191), ("#1d1d22", "#fbf6e8")),
    ("skimage", "data/text.png", (0, 0, 448, 172), ("#20283a", "#e9ecf5")),
    ("matplotlib", "mpl-data/sample_data/grace_hopper.jpg", (0, 0, 150, 380), None),
    ("matplotlib", "mpl-data/sample_data/grace_hopper.jpg", (380, 0, 512, 330), None),
)
FLOORS: tuple[Ground, ...] = (
    ("skimage", "data/grass.png", (0, 0, 512, 512), ("#16240c", "#b7cf6e")),
    ("skimage", "data/grass.png", (0, 0, 512, 512), ("#33240f", "#e3cb8a")),
    ("skimage", "data/gravel.png", (0, 0, 512, 512), ("#1e1c1b", "#dcd6cc")),
    ("skimage", "data/gravel.png", (0, 0, 512, 512), ("#3a1f14", "#e8b996")),
    ("skimage", "data/brick.png", (0, 0, 512, 512), ("#33261f", "#c9b7a2")),
    ("skimage", "data/moon.png", (0, 0, 512, 512), ("#15161c", "#d9d7d2")),
    ("skimage", "data/camera.png", (330, 300, 512, 512), ("#1c2a12", "#cfd9a4")),
    ("skimage", "data/coffee.png", (480, 0, 600, 400), None),
    ("skimage", "data/coffee.png", (0, 300, 100, 400), None),
    ("skimage", "data/motorcycle_left.png", (0, 310, 110, 500), None),
    ("sklearn", "datasets/images/china.jpg", (390, 300, 640, 427), None),
)
# Hung on walls and laid on floors: what makes every photograph different from every other.
POSTERS: tuple[Ground, ...] = (
    *WALLS,
    ("skimage", "data/coins.png", (0, 0, 384, 303), ("#201a12", "#efe3c8")),
    ("skimage", "data/retina.jpg", (150, 150, 1260, 1260), None),
    ("skimage", "data/cell.png", (0, 0, 550, 660), ("#0e1a2b", "#dff1ff")),
    ("skimage", "data/clock_motion.png", (0, 0, 400, 300), ("#101010", "#f5f0ff")),
    ("skimage", "data/color.png", (40, 40, 330, 330), None),
    ("skimage", "data/moon.png", (0, 0, 512, 512), ("#10131c", "#f3e6c8")),
    ("skimage", "data/logo.png", (0, 0, 500, 500), None),
    ("skimage", "data/camera.png", (100, 0, 420, 400), ("#1a1714", "#f2e9dc")),
    ("matplotlib", "mpl-data/sample_data/grace_hopper.jpg", (90, 20, 420, 420), None),
    ("matplotlib", "mpl-data/sample_data/logo2.png", (0, 0, 542, 130), None),
)
FRAMES = ("#f6f3ec", "#16181c", "#6b4a2b", "#b08d57", "#d9d9d9", "#8f2d23", "#24435c")


def ground(rng: np.random.Generator, size: tuple[int, int]) -> tuple[Image.Image, int]:
    """A wall or sky above a floor, or all over; and where the floor begins, 0 for none."""
    width, height = size
    wall = _colored(rng, _part(rng, WALLS[rng.integers(len(WALLS))], size), 7)
    if rng.random() < 0.2:
        return wall, 0
    horizon = round(height * rng.uniform(0.4, 0.7))
    floor = _part(rng, FLOORS[rng.integers(len(FLOORS))], (width, height - horizon))
    floor = _colored(rng, floor, 5)
    edge = np.clip((np.arange(height) - horizon + 2) / 4, 0, 1)[:, None] * np.ones(width)
    laid = wall.copy()
    laid.paste(floor, (0, horizon))
    return Image.composite(laid, wall, Image.fromarray(np.rint(edge * 255).astype(np.uint8))), horizon


def hang(rng: np.random.Generator, scene: Image.Image) -> Image.Image:
    """A framed picture somewhere on the scene."""
    side = max(scene.size) * rng.uniform(0.2, 0.5)
    aspect = np.exp(rng.normal(0, 0.3))
    w, h = round(side * min(1, aspect)), round(side * min(1, 1 / aspect))
    poster = _part(rng, POSTERS[rng.integers(len(POSTERS))], (w, h), zoom=3)
    poster = _colored(rng, poster.rotate(90 * int(rng.integers(4)), expand=True), 50)
    frame = ImageOps.expand(poster, int(rng.integers(1, 7)), FRAMES[rng.integers(len(FRAMES))])
    clear = ImageOps.expand(frame.convert("RGBA"), 1, (0, 0, 0, 0))
    turned = clear.rotate(rng.normal(0, 5), Image.Resampling.BICUBIC, expand=True)
    place = rng.uniform(-0.25, 0.85, 2) * scene.size
    hung = scene.copy()
    hung.paste(turned, (int(place[0]), int(place[1])), turned)
    return hung


def ball(rng: np.random.Generator, side: int = 200) -> Image.Image:
    """A ball printed with a part of a photograph: no two are alike."""
    print_ = _part(rng, POSTERS[rng.integers(len(POSTERS))], (side, side), zoom=3)
    pixels = np.asarray(_colored(rng, print_.rotate(90 * int(rng.integers(4))), 128), np.float64)
    y, x = np.mgrid[-1 : 1 : side * 1j, -1 : 1 : side * 1j]
    height = np.sqrt(np.clip(1 - x**2 - y**2, 0, 1))
    angle = rng.uniform(0, 2 * np.pi)
    light = 0.35 + 0.75 * np.clip(0.5 * np.cos(angle) * x - 0.5 * y + 0.8 * height, 0, 1)
    alpha = 255 * np.clip((1 - np.hypot(x, y)) * side / 4, 0, 1)
    shaded = np.clip(pixels * light[:, :, None], 0, 255)
    return Image.fromarray(np.rint(np.dstack([shaded, alpha])).astype(np.uint8))


def _colored(rng: np.random.Generator, photo: Image.Image, hues: float) -> Image.Image:
    """Another hue (of 256 in the circle), another saturation."""
    hsv = np.array(photo.convert("HSV"), np.int64)
    hsv[:, :, 0] = (hsv[:, :, 0] + rng.normal(0, hues)) % 256
    hsv[:, :, 1] = np.clip(hsv[:, :, 1] * rng.uniform(0.5, 1.2), 0, 255)
    return Image.fromarray(hsv.astype(np.uint8), "HSV").convert("RGB")


def _part(rng: np.random.Generator, ground: Ground, size: tuple[int, int], zoom: float = 1.7) -> Image.Image:
    """A random part of a ground, of the shape asked for, magnified by up to `zoom`."""
    package, file, frame, tints = ground
    photo = photograph(package, file).crop(frame)
    if tints:
        photo = _tinted(photo, tints)
    if rng.random() < 0.5:
        photo = photo.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    most = min(photo.width / size[0], photo.height / size[1])
    scale = most * rng.uniform(1 / zoom, 1)
    w, h = size[0] * scale, size[1] * scale
    x, y = rng.uniform(0, photo.width - w), rng.uniform(0, photo.height - h)
    return photo.resize(size, Image.Resampling.BICUBIC, box=(x, y, x + w, y + h))


def _tinted(photo: Image.Image, tints: tuple[str, str]) -> Image.Image:
    return ImageOps.colorize(photo.convert("L"), *tints)


@lru_cache(maxsize=32)
def photograph(package: str, file: str) -> Image.Image:
    """A photograph that an installed package carries."""
    spec = find_spec(package)
    path = Path(spec.origin).parent / file if spec and spec.origin else None
    if path is None or not path.is_file():
        raise InputError(
            f"the demo cuts its scenes out of photographs, and {package} has no {Path(file).name} here: "
            f"{install_command('demo', '--upgrade')}"
        )
    with Image.open(path) as photo:
        return photo.convert("RGB")
