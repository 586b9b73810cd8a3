"""The student's ONNX graph: what it says is what its arrays say, in every runtime."""

import io

import numpy as np
import pytest
from PIL import Image
from tests._students import check_same, random_student

from tag2box.boxes import nms
from tag2box.exports.onnx import metadata
from tag2box.networks.openvino_engine import compiled_graph
from tag2box.student import detecting
from tag2box.student.graph import _resizing, map_graph, student_graph
from tag2box.student.looking import fuse, moved, perceptron, proposals, regions
from tag2box.student.operators import Operators
from tag2box.student.record import CELL, LEAST


@pytest.fixture(scope="module")
def student():
    return random_student()


@pytest.fixture(scope="module")
def content(student):
    return student_graph(student, metadata(student))


def photo(h, w, seed=0):
    """Blobs of color: noise would be gray at the size of the trunk."""
    rng = np.random.default_rng(seed)
    small = rng.integers(0, 256, (7, 9, 3), np.uint8)
    return np.asarray(Image.fromarray(small).resize((w, h), Image.Resampling.BICUBIC))


def by_arrays(student, image):
    """The slow twin: the trunk's maps through `looking`, and suppression class by class."""
    maps = compiled_graph(map_graph(student.side))(image)
    early, last = (maps[k][0].transpose(1, 2, 0) for k in range(2))
    fused = fuse(early, last, (student.early, student.last))
    n, (h, w) = len(student.classes), fused.shape[:2]
    _, boxes = proposals(fused, student.dense, n)
    said = perceptron(regions(fused, boxes), student.regions)
    boxes = moved(boxes, said[:, n:], (w * CELL, h * CELL))
    boxes *= np.tile(np.array(image.shape[1::-1]) / (w * CELL, h * CELL), 2).astype(np.float32)
    scores = said[:, :n]
    rows = []
    for c in range(n):
        sure = student.calibration(scores[:, c].astype(float), np.full(len(scores), c))
        rows += [(sure[k], c, *boxes[k]) for k in nms(boxes, sure, student.overlap)[: student.most]]
    rows = [row for row in rows if row[0] > LEAST]
    return np.array(sorted(rows, reverse=True))


@pytest.mark.parametrize("size", [(120, 160), (333, 190), (600, 900)])
def test_the_graph_says_what_the_arrays_say(student, content, size):
    image = photo(*size)
    result = compiled_graph(content)(image)
    boxes, scores, labels = (result[k] for k in range(3))
    expected = by_arrays(student, image)
    assert len(boxes) == len(expected) > 10
    check_same((boxes, scores, labels), (expected[:, 2:], expected[:, 0], expected[:, 1]))


def test_every_runtime_finds_the_same_boxes(content):
    onnxruntime = pytest.importorskip("onnxruntime")
    session, compiled = onnxruntime.InferenceSession(content), compiled_graph(content)
    for seed in range(3):
        image = photo(240, 320, seed)
        result = compiled(image)
        check_same(session.run(None, {"image": image}), [result[k] for k in range(3)])


def test_a_photo_goes_through_the_graph_once(student, content, monkeypatch):
    compiled, calls = compiled_graph(content), []

    def counted(image):
        calls.append(image.shape)
        return compiled(image)

    monkeypatch.setattr(detecting, "_compiled", lambda *_: counted)
    detections = detecting.student_detector(content, student.classes)(photo(120, 160))
    assert calls == [(120, 160, 3)]
    assert len(detections) > 0


def test_the_file_is_right_and_says_what_it_is(content):
    onnx = pytest.importorskip("onnx")
    model = onnx.load(io.BytesIO(content))
    onnx.checker.check_model(model, full_check=True)
    texts = {entry.key: entry.value for entry in model.metadata_props}
    assert texts["classes"] == '["class 0", "class 1", "class 2"]'
    assert "Apache-2.0" in texts["license"]
    assert "[0, 1]" in texts["scores"]
    assert "192 pixels" in texts["input"]


@pytest.mark.parametrize(("old", "new"), [(40, 64), (64, 64), (200, 64), (131, 96)])
def test_resizing_is_that_of_pillow(old, new):
    op = Operators()
    column = np.random.default_rng(0).integers(0, 256, (old, 1), np.uint8)
    sizes = [np.array([n, n], np.float32) for n in (old, new)]
    op("MatMul", _resizing(op, *(op("Identity", n) for n in sizes), 0), "column", name="resized")
    graph = op.graph.serialize("resizing", {"column": (old, 1)}, {"resized": (new, 1)})
    ours = compiled_graph(graph)(column.astype(np.float32))[0]
    theirs = np.asarray(Image.fromarray(column).resize((1, new), Image.Resampling.BILINEAR))
    assert np.abs(ours - theirs).max() < 0.51  # Pillow rounds
