"""`write_onnx`: the detector of a run as one ONNX file, with a page that runs it in a browser."""

import json
from pathlib import Path

from tag2box._version import __version__
from tag2box.detection.detector import Detector
from tag2box.detector.graph import detector_graph
from tag2box.detector.record import LEAST, Convnet
from tag2box.detector.trunk import NETWORK
from tag2box.errors import InputError
from tag2box.exports.writing import check_file
from tag2box.runtime.files import write_whole

FORMAT = "onnx"
PAGE = Path(__file__).with_name("page.html")

LINES = """\
import json, onnxruntime, numpy as np
from PIL import Image, ImageOps

session = onnxruntime.InferenceSession("{file}")
classes = json.loads(session.get_modelmeta().custom_metadata_map["classes"])
photo = np.asarray(ImageOps.exif_transpose(Image.open("{photo}")).convert("RGB"))
boxes, scores, labels = session.run(None, {{"image": photo}})
for box, score, label in zip(boxes, scores, labels):
    if score >= 0.3:
        print(classes[label], score, box)  # x1, y1, x2, y2 in pixels
"""


def python_lines(file: str, photo: str = "photo.jpg") -> str:
    """The lines of Python that run the file, with onnxruntime, numpy and pillow alone."""
    return LINES.format(file=file, photo=photo)


def metadata(network: Convnet) -> dict[str, str]:
    """What the file says of itself, to whoever asks its runtime."""
    return {
        "classes": json.dumps(list(network.classes), ensure_ascii=False),
        "input": "image: (height, width, 3) uint8, RGB, upright, of any size; it is seen with a long side of "
        f"about {network.side} pixels",
        "outputs": "boxes: (n, 4) float32, x1 y1 x2 y2 in pixels of the image; scores: (n,) float32; labels: "
        "(n,) int64, places in classes; best first, after non-maximum suppression class by class",
        "scores": "confidences in [0, 1]: how likely a box is right, learned from image tags, and from "
        f"corrections where there are any; those below {LEAST} are left out",
        "license": f"weights of {NETWORK}: Apache-2.0; its late layers were learned "
        "from their owner's photos",
        "made_by": f"tag2box {__version__}",
    }


def write_onnx(detector: Detector, path: Path, photos: tuple[Path, ...] = ()) -> list[Path]:
    """Write the detector, and beside it the page that runs it in a browser; returns both files.

    photos: those of the run, which are never overwritten.
    """
    page = path.with_suffix(".html")
    check_place(path, photos)
    network, settings = detector.network, detector.settings
    if network is None:
        raise InputError(
            "there is no network to export: a run has one by the method two_stream, and of at least as many "
            "photos with a tag as detector.photos says"
        )
    write_whole(
        path, detector_graph(network, settings.iou_threshold, settings.max_detections, metadata(network))
    )
    name = json.dumps(path.name).replace("<", "\\u003c")  # no name ends the script
    write_whole(page, PAGE.read_text(encoding="utf-8").replace("{{file}}", name))
    return [path, page]


def check_place(path: Path, photos: tuple[Path, ...]) -> None:
    """Refuse, before any work, a place where the files cannot be written, or where a photo is."""
    if path.suffix != ".onnx":
        raise InputError(f"{path} must be a file whose name ends in .onnx")
    for file in (path, path.with_suffix(".html")):
        check_file(file, FORMAT, photos)
