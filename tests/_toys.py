"""A toy data set that a run learns from in seconds: small pictures, some with a striped thing in them."""

import json
import shutil
from pathlib import Path

import numpy as np
from PIL import Image

from tag2box.run.fitting import put_photos
from tag2box.runtime.index import NAME, Index

# Settings under which a run over the toys takes a second or two, once compiled.
FAST = (
    "windows.mode=single",
    "windows.max_windows=12",
    "features.levels=[96]",
    "features.crop=4",
    "features.grid=1",
    "features.dimensions=8",
    "maps.side=96",
    "maps.fine_side=192",
)


def make_toys(folder, n=12, seed=0):
    """n pictures of 96 x 96 in `folder`; every other one holds the thing. Returns the file of tags."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    lines = ["file,tags"]
    for i in range(n):
        ground = rng.integers(40, 200, 3) + rng.normal(0, 12, (96, 96, 3))
        if i % 2 == 0:
            side = int(rng.integers(30, 50))
            x, y = rng.integers(4, 92 - side, 2)
            stripes = np.where(np.arange(side) // 5 % 2, 230, 20)[:, None, None]
            ground[y : y + side, x : x + side] = stripes * np.array([1.0, 0.4, 0.2])
        Image.fromarray(ground.clip(0, 255).astype(np.uint8)).save(folder / f"toy-{i:02d}.png")
        lines.append(f"toy-{i:02d}.png,{'thing' if i % 2 == 0 else ''}")
    tags = folder / "tags.csv"
    tags.write_text("\n".join(lines) + "\n")
    return tags


def contents(folder):
    """What a run folder holds, but for its lock, its log, and where the photos lie."""
    folder = Path(folder)
    files = (p for p in folder.rglob("*") if p.is_file() and p.name not in {".lock", "events.jsonl", NAME})
    held = {str(p.relative_to(folder)): p.read_bytes() for p in files}
    for table in ("photos", "arrays", "spans", "boxes", "keys"):
        rows = Index(folder).rows(table)
        held[f"index {table}"] = [row[:2] + row[4:] for row in rows] if table == "photos" else rows
    return held


def rewrite(run, images):
    """Other names, classes or paths for the photos of a run (`RunFolder`)."""
    names = dict(zip(run.images.classes, images.classes, strict=True))
    boxes = [(names[name], *rest) for name, *rest in run.index.rows("boxes")]
    note = json.dumps({**run.index.note("run"), "classes": images.classes})
    with run.index.writing() as change:
        put_photos(change, run.folder, images, run.contents)
        change.remove("boxes")
        change.put("boxes", boxes)
        change.put("notes", [("run", note)])


def events(folder):
    """What the run in `folder` has noted."""
    return [json.loads(line) for line in (Path(folder) / "events.jsonl").read_text().splitlines()]


def make_truth(toys, folder, rename=""):
    """The toys in the layout of the VOC devkit, as its split "test", with the box of each thing."""
    for name in ("JPEGImages", "Annotations", "ImageSets/Main"):
        (folder / name).mkdir(parents=True)
    ids, tags = [], []
    for i, path in enumerate(sorted(toys.glob("*.png"))):
        picture = np.asarray(Image.open(path)).astype(int)
        ids.append(f"{rename}{path.stem}")
        tags.append(f"{ids[-1]} {-1 if i % 2 else 1}")
        shutil.copy(path, folder / "JPEGImages" / f"{ids[-1]}.jpg")
        box = ""
        if i % 2 == 0:
            y, x = np.nonzero(
                (picture[..., 0] > 2 * picture[..., 2]) & (picture[..., 0] > 2 * picture[..., 1])
            )
            sides = zip(("xmin", "ymin", "xmax", "ymax"), (x.min(), y.min(), x.max(), y.max()), strict=True)
            box = "".join(f"<{side}>{value + 1}</{side}>" for side, value in sides)
            box = f"<object><name>thing</name><bndbox>{box}</bndbox></object>"
        (folder / "Annotations" / f"{ids[-1]}.xml").write_text(f"<annotation>{box}</annotation>")
    (folder / "ImageSets/Main/test.txt").write_text("\n".join(ids) + "\n")
    (folder / "ImageSets/Main/thing_test.txt").write_text("\n".join(tags) + "\n")
    return folder
