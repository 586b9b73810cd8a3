"""A network is known by all its weights and by how it is fed: swapped, nothing old is taken for its own."""

import os

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests._describing import vectors

from tag2box.config import Config
from tag2box.description.config import FeaturesConfig
from tag2box.errors import InputError
from tag2box.networks.inference import EngineOptions, Part
from tag2box.networks.inspection import understand
from tag2box.networks.network import external_files, load_network, network_hash
from tag2box.networks.trust import trust_network, trusted_network
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


def test_tensors_are_found_wherever_they_are(tmp_path):
    def tensor(location):
        made = helper.make_tensor("t", TensorProto.FLOAT, [1], [1.0])
        made.data_location = TensorProto.EXTERNAL
        made.external_data.add(key="offset", value="0")
        made.external_data.add(key="location", value=location)
        (tmp_path / location).touch()
        return made

    names = ["in a branch", "in a node", "indices", "v" * 200, "ü-initializer"]
    constant = helper.make_node("Constant", [], ["c"], value=tensor(names[1]))
    inner = helper.make_graph([constant], "inner", [], [], [tensor(names[0])])
    branch = helper.make_node("If", ["i"], ["o"], then_branch=inner, else_branch=inner)
    sparse = helper.make_sparse_tensor(tensor(names[3]), tensor(names[2]), [1])
    graph = helper.make_graph([branch], "g", [], [], [tensor(names[4])], sparse_initializer=[sparse])
    file = tmp_path / "x.onnx"
    file.write_bytes(helper.make_model(graph).SerializeToString())
    assert [path.name for path in external_files(file)] == names


@pytest.mark.parametrize("location", ["../secret", "/etc/hostname", "link"])
@pytest.mark.parametrize("runtime", ["openvino", "onnxruntime"])
def test_no_weights_are_read_outside_of_the_folder(tmp_path, runtime, location):
    """Before any runtime opens the network."""
    folder = tmp_path / "net"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(bytes(12))
    (folder / "link").symlink_to(tmp_path / "secret")
    file = write_network(folder, external="w" * len(location))
    data = (folder / "own.onnx").read_bytes()
    (folder / "own.onnx").write_bytes(data.replace(b"w" * len(location), location.encode()))
    with pytest.raises(InputError, match="outside"):
        Part(load_network(file), (1, 32, 32), EngineOptions(runtime=runtime))
    with pytest.raises(InputError, match="outside"):
        understand(folder / "own.onnx")


def test_a_network_with_a_loop_is_refused_before_it_runs(tmp_path):
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Relu", ["a"], ["b"])],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("a", TensorProto.FLOAT, ["n", 3, "h", "w"]),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("b", TensorProto.FLOAT, ["n", 3, "h", "w"]),
        ],
    )
    times = numpy_helper.from_array(np.array(2**62), "times")
    go = numpy_helper.from_array(np.array(True), "forever")
    image, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3, "h", "w"]) for name in "xy")
    loop = helper.make_node("Loop", ["times", "forever", "x"], ["y"], body=body)
    graph = helper.make_graph([loop], "g", [image], [y], [times, go])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save_model(model, tmp_path / "own.onnx")
    (tmp_path / "own.toml").write_text(TOML)
    for runtime in ("openvino", "onnxruntime"):
        with pytest.raises(InputError, match="loop"):
            Part(load_network(tmp_path / "own.onnx"), (1, 32, 32), EngineOptions(runtime=runtime))


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


def test_a_detector_has_no_network_opened_that_nobody_here_has_named(tmp_path, monkeypatch):
    monkeypatch.setenv("TAG2BOX_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("TAG2BOX_NETWORKS", raising=False)
    assert trusted_network("efficientnet-lite0").cut == "block10"
    name = write_network(tmp_path)
    with pytest.raises(InputError, match="never used"):
        trusted_network(name)
    trust_network(name)
    assert trusted_network(name) == load_network(name)
    write_network(tmp_path, weight=2.0)  # another network under its name
    with pytest.raises(InputError, match="never used"):
        trusted_network(name)
    monkeypatch.setenv("TAG2BOX_NETWORKS", os.pathsep.join([str(tmp_path / "a"), str(tmp_path)]))
    assert trusted_network(name).path == tmp_path / "own.onnx"
