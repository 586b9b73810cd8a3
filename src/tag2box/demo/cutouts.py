"""What the demo's scenes are made of: objects cut out of photographs, and parts of photographs as grounds.

The photographs are those that scikit-image and scikit-learn install; none is copied into this package.
Outlines are corners `x,y` in pixels of the photograph, drawn by hand and pulled to the edges by GrabCut.
"""

from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageOps

from tag2box.errors import InputError, install_command

# name: (package, file in it, outline)
OUTLINES = {
    "cat": (
        "skimage",
        "data/chelsea.png",
        "77,47 48,81 34,117 39,137 60,161 85,210 102,216 142,253 163,253 189,266 236,276 273,272 307,246 "
        "340,189 344,167 359,147 361,127 344,81 315,47 270,19 215,5 138,13",
    ),
    "cup": (
        "skimage",
        "data/coffee.png",
        "262,19 218,35 184,67 147,86 112,117 81,174 75,239 107,306 133,334 169,360 207,377 276,390 "
        "332,386 364,373 422,341 462,293 479,237 477,203 456,151 417,103 420,71 393,69 364,41 325,23",
    ),
    "flower": (
        "sklearn",
        "datasets/images/flower.jpg",
        "322,88 296,100 275,101 266,95 247,113 237,110 227,120 216,120 210,136 189,147 192,166 176,177 "
        "185,191 170,201 169,213 174,218 171,252 179,276 207,321 239,339 250,350 259,346 290,359 335,357 "
        "370,344 406,320 419,294 416,289 429,280 441,248 445,216 431,183 431,162 407,122 374,103 363,105 "
        "349,94 335,98",
    ),
    "motorbike": (
        "skimage",
        "data/motorcycle_left.png",
        "684,407 677,363 639,309 643,301 574,259 544,184 560,142 576,141 581,124 570,118 559,131 539,124 "
        "522,96 543,99 521,94 505,80 514,36 506,39 503,46 509,38 513,47 495,80 496,114 477,121 459,140 "
        "422,118 407,128 375,124 371,109 331,126 334,140 375,126 399,130 385,140 389,149 358,165 362,175 "
        "388,153 400,158 383,182 361,194 350,188 287,194 249,169 199,168 170,159 161,145 142,149 141,188 "
        "149,209 129,196 109,195 94,201 92,210 93,217 111,222 100,254 119,251 124,240 148,231 154,246 "
        "126,282 122,326 140,365 162,385 179,394 230,398 268,376 282,357 321,372 334,415 336,395 345,395 "
        "342,372 427,377 455,355 478,301 469,275 482,252 501,252 501,277 512,294 505,328 515,309 518,354 "
        "555,412 648,449 672,435",
    ),
    "pagoda": (
        "sklearn",
        "datasets/images/china.jpg",
        "199,30 193,63 180,76 143,97 128,102 122,98 116,107 96,110 94,130 118,141 119,160 85,171 85,184 "
        "98,191 98,228 92,232 93,245 70,253 64,263 63,273 81,280 74,333 145,334 175,346 229,341 264,355 "
        "298,352 348,317 348,308 340,304 339,266 351,257 350,249 332,241 326,244 319,236 318,186 329,178 "
        "328,172 293,159 294,139 318,126 318,118 299,115 295,107 286,109 239,84 218,66 211,46 214,34",
    ),
    "astronaut": (
        "skimage",
        "data/astronaut.png",
        "251,19 227,16 205,21 157,57 155,98 181,133 183,144 139,159 114,192 116,200 62,250 44,283 26,343 "
        "19,394 26,476 52,502 63,509 71,503 90,503 105,511 273,511 278,449 296,394 329,362 363,349 "
        "356,302 341,264 303,232 289,203 255,171 266,139 294,111 300,81 286,40",
    ),
}
# Grounds: a photograph, the part of it taken (left, top, right, bottom), and for gray ones two tints.
Ground = tuple[str, str, tuple[int, int, int, int], tuple[str, str] | None]
WALLS: tuple[Ground, ...] = (
    ("sklearn", "datasets/images/china.jpg", (360, 130, 640, 330), None),
    ("sklearn", "datasets/images/flower.jpg", (440, 0, 640, 427), None),
    ("skimage", "data/rocket.jpg", (0, 0, 640, 330), None),
    ("skimage", "data/camera.png", (330, 0, 512, 240), ("#2c3540", "#f4efe6")),
    ("skimage", "data/brick.png", (0, 0, 512, 512), ("#4a1f14", "#e0b094")),
    ("skimage", "data/hubble_deep_field.jpg", (0, 0, 1000, 872), None),
    ("skimage", "data/page.png", (0, 0, 384, 191), ("#1d1d22", "#fbf6e8")),
    ("skimage", "data/coins.png", (0, 0, 384, 303), ("#201a12", "#efe3c8")),
)
FLOORS: tuple[Ground, ...] = (
    ("skimage", "data/grass.png", (0, 0, 512, 512), ("#16240c", "#b7cf6e")),
    ("skimage", "data/gravel.png", (0, 0, 512, 512), ("#3a1f14", "#e8b996")),
    ("skimage", "data/moon.png", (0, 0, 512, 512), ("#15161c", "#d9d7d2")),
    ("skimage", "data/coffee.png", (480, 0, 600, 400), None),
)


def ground(rng: np.random.Generator, size: tuple[int, int]) -> tuple[Image.Image, int]:
    """A wall above a floor, with a picture on the wall; and where the floor begins."""
    width, height = size
    horizon = round(height * rng.uniform(0.4, 0.7))
    scene = _part(rng, WALLS[rng.integers(len(WALLS))], size)
    scene.paste(_part(rng, FLOORS[rng.integers(len(FLOORS))], (width, height - horizon)), (0, horizon))
    side = int(max(size) * rng.uniform(0.2, 0.4))
    poster = ImageOps.expand(_part(rng, WALLS[rng.integers(len(WALLS))], (side, side)), 4, "#f6f3ec")
    scene.paste(poster, (int(rng.uniform(-0.2, 0.8) * width), int(rng.uniform(-0.2, 0.3) * height)))
    return scene, horizon


def _part(rng: np.random.Generator, ground: Ground, size: tuple[int, int]) -> Image.Image:
    """A random part of a ground, of the shape asked for."""
    package, file, frame, tints = ground
    photo = photograph(package, file).crop(frame)
    if tints:
        photo = ImageOps.colorize(photo.convert("L"), *tints)
    scale = min(photo.width / size[0], photo.height / size[1]) * rng.uniform(0.6, 1)
    w, h = size[0] * scale, size[1] * scale
    x, y = rng.uniform(0, photo.width - w), rng.uniform(0, photo.height - h)
    return photo.resize(size, Image.Resampling.BICUBIC, box=(x, y, x + w, y + h))


@lru_cache(maxsize=16)
def cutout(name: str) -> Image.Image:
    """The object, clear around it, with a soft edge."""
    package, file, outline = OUTLINES[name]
    photo = photograph(package, file).copy()
    mask = Image.new("L", photo.size)
    corners = [tuple(map(float, point.split(","))) for point in outline.split()]
    ImageDraw.Draw(mask).polygon(corners, fill=255)
    mask = mask.filter(ImageFilter.MinFilter(3)).filter(ImageFilter.GaussianBlur(1))
    photo.putalpha(mask)
    return photo.crop(mask.getbbox())


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
