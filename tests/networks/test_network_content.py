"""A network is known by all its weights and by how it is fed: swapped, nothing old is taken for its own."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests._describing import vectors

from tag2box.config import Config
from tag2box.description.config import FeaturesConfig
from tag2box.errors import InputError
from tag2box.networks.content import external_files, network_hash
from tag2box.pipeline import description_settings
from tag2box.runtime.keys import call_key

TOML = 'mean = [10, 20, 30]\nstd = [1, 2, 4]\noutput = "y"\n'


def write_network(folder, weight=1.0, toml=TOML, external="weights.bin"):
    """y = x * weight, the weight in a file of its own where `external` names one."""
    w = numpy_helper.from_array(np.full((1, 3, 1, 1), weight, np.float32), "w")
    image = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, "h", "w"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3, "h", "w"])
    graph = helper.make_graph([helper.make_node("Mul", ["x", "w"], ["y"])], "own", [image], [y], [w])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    (folder / (external or "none")).unlink(missing_ok=True)
    how = {"save_as_external_data": True, "location": external, "size_threshold": 0} if external else {}
    onnx.save_model(model, folder / "own.onnx", **how)
    (folder / "own.toml").write_text(toml)
    return str(folder / "own.onnx")


def test_weights_in_another_file_count(tmp_path):
    name = write_network(tmp_path)
    onnx_bytes, first = (tmp_path / "own.onnx").read_bytes(), network_hash(name)
    write_network(tmp_path, weight=2.0)
    assert (tmp_path / "own.onnx").read_bytes() == onnx_bytes  # only the other file has changed
    assert network_hash(name) != first
    write_network(tmp_path)
    assert network_hash(name) == first
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(InputError, match=r"keeps weights in .*weights.bin, which is not there"):
        network_hash(name)


@pytest.mark.parametrize(
    "toml",
    [TOML.replace("10", "11"), TOML.replace("4", "5"), TOML + 'cut = "y"\n', TOML + 'channels = "bgr"\n'],
)
def test_every_setting_of_the_toml_counts(tmp_path, toml):
    first = network_hash(write_network(tmp_path))
    assert network_hash(write_network(tmp_path, toml=toml)) != first


def test_tensors_are_found_wherever_they_are():
    def tensor(location):
        made = helper.make_tensor("t", TensorProto.FLOAT, [1], [1.0])
        made.data_location = TensorProto.EXTERNAL
        made.external_data.add(key="offset", value="0")
        made.external_data.add(key="location", value=location)
        return made

    constant = helper.make_node("Constant", [], ["c"], value=tensor("in a node"))
    inner = helper.make_graph([constant], "inner", [], [], [tensor("in a branch")])
    branch = helper.make_node("If", ["i"], ["o"], then_branch=inner, else_branch=inner)
    sparse = helper.make_sparse_tensor(tensor("values"), tensor("indices"), [1])
    graph = helper.make_graph([branch], "g", [], [], [tensor("ü/initializer")], sparse_initializer=[sparse])
    function = helper.make_function("d", "f", [], ["c"], [constant], [helper.make_opsetid("", 13)])
    data = helper.make_model(graph, functions=[function]).SerializeToString()
    expected = ("in a branch", "in a node", "indices", "values", "ü/initializer")
    assert external_files(data) == expected
    for damaged in (b"", b"\xff" * 99, data[:-3], data[7:], b"\x3a\x7f" + data):
        assert isinstance(external_files(damaged), tuple)


def test_a_network_without_other_files_needs_none(tmp_path):
    write_network(tmp_path, external=None)
    assert external_files((tmp_path / "own.onnx").read_bytes()) == ()


def test_swapped_weights_make_another_description(tmp_path):
    def key(folder="a", **how):
        (tmp_path / folder).mkdir(exist_ok=True)
        features = FeaturesConfig(network=write_network(tmp_path / folder, **how), precision="f32")
        return call_key("description", 1, [description_settings(Config(features=features))])

    keys = [key(), key(weight=2.0), key(toml=TOML + 'cut = "y"\n')]  # in two steps: in bf16 other bits
    assert len(set(keys)) == 3
    assert key() == key("elsewhere") == keys[0]  # it is what is in the file, wherever that is


def test_swapped_weights_are_compiled_anew(tmp_path):
    photo = np.full((64, 64, 3), 200, np.uint8)
    boxes = np.array([[0, 0, 64, 64]], np.float32)
    config = FeaturesConfig(network=write_network(tmp_path), mode="warp", size=32, grid=1, precision="f32")
    one = vectors(photo, boxes, config)
    write_network(tmp_path, weight=2.0)
    np.testing.assert_allclose(vectors(photo, boxes, config), 2 * one)
