"""A small file of every kind that is read here, and what reads it."""

import json
from functools import partial

import numpy as np
from PIL import Image

from tag2box import Detections, ImageSet, Tag2BoxError, read_detections, read_images, write_detections
from tag2box.data.decoding import image_size, read_image, read_small

NAMES = ("cat", "hot dog")


def _photo(path, mode="RGB", size=(24, 16), **options):
    y, x = np.mgrid[: size[1], : size[0]]
    bands = np.stack([9 * x, 11 * y, 5 * (x + y), 255 - x], axis=2).astype(np.uint8)
    grey = bands[:, :, 2]
    picture = {
        "I;16": lambda: Image.fromarray(grey.astype(np.uint16) * 257),
        "F": lambda: Image.fromarray(grey.astype(np.float32) / 255),
        "RGBA": lambda: Image.fromarray(bands),
    }.get(mode, lambda: Image.fromarray(bands[:, :, :3]).convert(mode))()
    path.parent.mkdir(parents=True, exist_ok=True)
    picture.save(path, **options)
    return path


def _turned():
    exif = Image.Exif()
    exif[0x0112] = 6
    return exif


# Name of the file -> how it is made.
PHOTOS = {
    "plain.jpg": {},
    "turned.jpg": {"exif": _turned()},
    "progressive.jpg": {"progressive": True, "size": (70, 50)},
    "cmyk.jpg": {"mode": "CMYK"},
    "rgb.png": {"exif": _turned()},
    "alpha.png": {"mode": "RGBA"},
    "grey16.png": {"mode": "I;16"},
    "palette.png": {"mode": "P", "transparency": 3},
    "bit.png": {"mode": "1"},
    "lossy.webp": {"exif": _turned()},
    "lossless.webp": {"mode": "RGBA", "lossless": True},
    "palette.gif": {"mode": "P"},
    "raw.tif": {"exif": _turned()},
    "lzw.tif": {"compression": "tiff_lzw"},
    "deflate.tif": {"mode": "RGBA", "compression": "tiff_adobe_deflate"},
    "jpeg.tif": {"compression": "jpeg"},
    "grey16.tif": {"mode": "I;16", "compression": "tiff_lzw"},
    "float.tif": {"mode": "F"},
    "rgb.bmp": {},
    "rgb.ppm": {},
}


def _write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


COCO = {
    "images": [{"id": 1, "file_name": "a.jpg", "width": 24, "height": 16}, {"id": 2, "file_name": "b.jpg"}],
    "categories": [{"id": 1, "name": "cat"}, {"id": 2, "name": "hot dog"}],
    "annotations": [{"id": 1, "image_id": 1, "category_id": 2, "bbox": [1, 2, 3.5, 4], "iscrowd": 0}],
}
BOX = {"x": 10, "y": 20, "width": 50, "height": 30, "rectanglelabels": ["cat"]}
RESULTS = [{"value": {"choices": ["dog"]}}, {"original_width": 24, "original_height": 16, "value": BOX}]
TASKS = [{"data": {"image": "/data/upload/1a2b3c4d-a.jpg"}, "annotations": [{"result": RESULTS}]}]
CVAT = """<?xml version="1.0" encoding="utf-8"?>
<annotations><version>1.1</version><meta><task><labels><label><name>cow</name></label></labels></task></meta>
<image id="0" name="a.jpg" subset="s" width="24" height="16"><tag label="cat"/><box label="dog" xtl="1.5"
ytl="2" xbr="9" ybr="8" rotation="30"/><polygon label="cat" points="1,2;3,9;7,4"/></image></annotations>"""
TAGS = {
    "tags.csv": "file,tags\na.jpg,cat;hot dog\nb.jpg,\n",
    "columns.csv": "file;cat;hot dog\na.jpg;1;0\nb.jpg;;?\n",
    "tags.jsonl": '{"file": "a.jpg", "tags": ["cat"]}\n{"file": "b.jpg", "tags": {"cat": null}, "not": []}',
    "tags.json": '[{"file": "a.jpg", "tags": ["cat"], "split": "train"}]',
    "instances.json": COCO,
    "export.json": TASKS,
    "metadata.jsonl": '{"file_name": "a.jpg", "objects": {"bbox": [[1, 2, 3, 4]], "categories": ["cat"]}}',
    "annotations.xml": CVAT,
}


def _tags(root):
    """Kinds of files of tags: (name, file, what reads it)."""
    for name, content in TAGS.items():
        yield name, _write(root / name, content), partial(read_images, root, root / name, on_error="skip")


def _data_sets(root):
    """Kinds of files of data sets with boxes."""
    voc, yolo, listed = root / "voc", root / "yolo", root / "listed"
    _write(voc / "Annotations/b.xml", "<annotation/>")
    objects = "".join(
        f"<object><name>{name}</name><difficult>0</difficult><bndbox><xmin>1</xmin><ymin>2</ymin><xmax>9</xmax>"
        "<ymax>8</ymax></bndbox></object>"
        for name in NAMES
    )
    for name, text in {
        "Annotations/a.xml": f"<?xml version='1.0' encoding='utf-8'?>\n<annotation>{objects}</annotation>",
        "ImageSets/Main/train.txt": "a\nb\n",
        "ImageSets/Main/cat_train.txt": "a  1\nb -1\n",
    }.items():
        yield f"voc {name}", _write(voc / name, text), partial(read_images, voc)
    for folder in (yolo, listed):
        _photo(folder / "images/a.jpg")
        _photo(folder / "images/b.jpg")
        _write(folder / "labels/a.txt", "1 0.5 0.5 0.2 0.4\n0 0.1 0.2 0.3 0.2 0.3 0.6\n")
        _write(folder / "data.yaml", "path: .\ntrain: images\nval:\nnames:\n  0: cat\n  1: 'hot dog'  # so\n")
    for name in ("data.yaml", "labels/a.txt"):
        yield f"yolo {name}", yolo / name, partial(read_images, yolo)
    _write(listed / "data.yaml", "train: train.txt\nnames: [cat, hot dog]\n")
    yield (
        "yolo list",
        _write(listed / "train.txt", "./images/a.jpg\nimages/b.jpg\n"),
        partial(read_images, listed),
    )


def _detections(root):
    """Kinds of files of detections."""
    paths = (root / "a.jpg", root / "b.jpg")
    images = ImageSet(("a", "b"), paths, np.zeros((2, 2), np.int8), NAMES)
    found = Detections([0, 1, 1], [[1, 2, 9, 8]] * 3, [0.5, -1.25, 3], [0, 1, 0], images.ids, NAMES)
    for kind, name in {
        "csv": "found.csv",
        "coco-results": "results.json",
        "coco": "boxes.json",
        "comp4": "comp4",
    }.items():
        file = write_detections(found, images, root / name, kind)[0]
        yield f"detections {kind}", file, partial(_both, root / name, images)
    for name in ("found.npz", "found.json"):
        found.save(root / name)
        yield f"detections {name}", root / name, partial(_both, root / name, images)


def _both(path, images):
    for known in (None, images):
        try:
            read_detections(path, known)
        except Tag2BoxError as error:
            last = error
        else:
            last = None
    if last is not None:
        raise last


def _decode(path):
    read_small(path, 12)
    read_image(path)
    image_size(path)


def kinds(root):
    """All kinds of files in a fresh folder: (name, file, what reads it)."""
    for name in ("a.jpg", "b.jpg"):
        _photo(root / name)
    yield from _tags(root)
    yield from _data_sets(root)
    yield from _detections(root)
    for name, options in PHOTOS.items():
        file = _photo(root / "photos" / name, **options)
        yield f"photo {name}", file, partial(_decode, file)
