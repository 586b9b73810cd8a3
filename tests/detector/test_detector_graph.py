"""The ONNX graph of the detector: what it says is what its arrays say, in every runtime."""

import io

import numpy as np
import pytest
from PIL import Image
from tests._convnets import check_same, random_convnet

from tag2box.detector import inference
from tag2box.detector.early import _resizing, views_graph
from tag2box.detector.graph import detector_graph
from tag2box.detector.inference import boxes_of, photo_boxes
from tag2box.detector.looks import view_size
from tag2box.detector.operators import Operators
from tag2box.exports.onnx import metadata
from tag2box.networks.openvino_engine import compiled_graph

OVERLAP, MOST = 0.4, 50


@pytest.fixture(scope="module")
def net():
    return random_convnet()


@pytest.fixture(scope="module")
def content(net):
    return detector_graph(net, OVERLAP, MOST, metadata(net))


def photo(h, w, seed=0):
    """Blobs of color: noise would be gray at the size of the trunk."""
    rng = np.random.default_rng(seed)
    small = rng.integers(0, 256, (7, 9, 3), np.uint8)
    return np.asarray(Image.fromarray(small).resize((w, h), Image.Resampling.BICUBIC))


@pytest.mark.parametrize("size", [(120, 160), (333, 190), (600, 900)])
def test_the_graph_says_what_the_arrays_say(net, content, size):
    image = photo(*size)
    early = compiled_graph(views_graph(net.side))(image)
    maps = [np.asarray(early[k])[0].transpose(1, 2, 0) for k in range(2)]
    sizes = [m.shape[:2] for m in maps]
    rows = np.concatenate([m.reshape(-1, m.shape[2]) for m in maps])
    boxes, scores, labels = boxes_of(rows, sizes, net, OVERLAP, MOST)
    boxes = boxes * np.tile(np.array(image.shape[1::-1]) / view_size(sizes), 2)
    assert len(boxes) > 10
    result = compiled_graph(content)(image)
    check_same([result[k] for k in range(3)], (boxes, scores, labels), pixels=image.shape[1] / 1000)


def test_every_runtime_finds_the_same_boxes(content):
    onnxruntime = pytest.importorskip("onnxruntime")
    session, compiled = onnxruntime.InferenceSession(content), compiled_graph(content)
    for seed in range(3):
        image = photo(240, 320, seed)
        result = compiled(image)
        check_same(session.run(None, {"image": image}), [result[k] for k in range(3)], pixels=0.32)


def test_a_photo_goes_through_the_graph_once(net, monkeypatch):
    compiled, calls = inference._compiled(net, OVERLAP, MOST, 1), []

    def counted(image):
        calls.append(image.shape)
        return compiled(image)

    monkeypatch.setattr(inference, "_compiled", lambda *_: counted)
    assert len(photo_boxes(net, photo(120, 160), OVERLAP, MOST)[0]) > 0
    assert calls == [(120, 160, 3)]


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
