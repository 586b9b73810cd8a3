"""Pictures for the README, of the demo's scenes: tags in, boxes out, and the report.

    tag2box demo --out runs/demo
    python docs/make_pictures.py runs/demo docs/pictures

The report is drawn by Chromium.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont, ImageOps

from tag2box.boxes import iou_matrix
from tag2box.data.reading import read_images
from tag2box.detection.drawing import fitted
from tag2box.run.folder import RunFolder, mined_windows

SCENES, HEIGHT, GAP, LINE = 4, 240, 12, 30
INK, PAPER = "#1b1f24", "white"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def tags_to_boxes(run, truth):
    """Two rows: photos with their tags, and the same photos with the boxes that the run found."""
    images, found = run.images, mined_windows(run)
    photos = {i: Image.open(images.paths[i]).convert("RGB") for i in chosen(images, found, truth)}
    scales = {i: HEIGHT / photo.height for i, photo in photos.items()}
    small = {i: photo.resize((round(photo.width * scales[i]), HEIGHT)) for i, photo in photos.items()}
    lower = 2 * LINE + HEIGHT + GAP
    width = sum(photo.width + GAP for photo in small.values()) - GAP
    sheet = Image.new("RGB", (width, lower + LINE + HEIGHT), PAPER)
    pen, x = ImageDraw.Draw(sheet), 0
    write(pen, 0, 0, "Photos and tags go in", 22)
    write(pen, 0, lower, "Boxes come out", 22)
    for i, photo in small.items():
        tags = ", ".join(name for name, tag in zip(images.classes, images.tags[i], strict=True) if tag == 1)
        sheet.paste(photo, (x, LINE))
        write(pen, x, LINE + HEIGHT + 4, tags, 18)
        part = found[found.image == i]
        drawn = fitted(part.plot(images.paths[i], min_score=0), max(photo.size))
        sheet.paste(drawn, (x, lower + LINE))
        x += photo.width + GAP
    return ImageOps.expand(sheet, GAP, PAPER)


def chosen(images, found, truth):
    """The first photo of each class, then the first that are left, if all boxes are right."""
    hit = np.array([is_right(found[k : k + 1], truth) for k in range(len(found))])
    wrong = set(found.image[~hit].tolist())
    first = [next(int(i) for i in images.positives(name) if i not in wrong) for name in images.classes]
    tagged = [int(i) for i in (images.tags == 1).any(axis=1).nonzero()[0] if i not in wrong]
    return list(dict.fromkeys(first + tagged))[:SCENES]


def is_right(box, truth):
    same = (truth.image == box.image[0]) & (truth.label == box.label[0])
    return bool((iou_matrix(box.xyxy, truth.xyxy[same]) >= 0.5).any())


def write(pen, x, y, text, size):
    pen.text((x, y), text, fill=INK, font=ImageFont.load_default(size))


def screenshot(page, width=1000, height=895):
    """The top of a page as Chromium shows it."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        sys.exit("no Chromium here: install it to draw the report")
    with tempfile.TemporaryDirectory() as folder:
        source, picture = Path(folder, "page.html"), Path(folder, "page.png")
        source.write_text(page)
        options = ["--headless", "--no-sandbox", "--hide-scrollbars", f"--window-size={width},{height}"]
        command = [browser, *options, f"--screenshot={picture}", source.as_uri()]
        subprocess.run(command, check=True, capture_output=True)
        return Image.open(picture).convert("RGB")


def main(demo, out):
    truth = read_images(demo / "scenes/train", demo / "scenes/train/truth.json").truth
    tags_to_boxes(RunFolder(demo / "run"), truth).save(out / "tags-to-boxes.jpg", quality=85, optimize=True)
    report = screenshot((demo / "run/report.html").read_text(encoding="utf-8"))
    report.save(out / "report.jpg", quality=80, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
