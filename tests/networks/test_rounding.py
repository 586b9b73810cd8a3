"""EfficientNet with 8-bit convolutions: ranges by weights alone, which real photos keep to."""

import numpy as np
import pytest

from tag2box.errors import InputError
from tag2box.networks import efficientnet, precision
from tag2box.networks.inference import EngineOptions, Part
from tag2box.networks.network import Network, load_network
from tag2box.networks.onnx_writer import Graph
from tag2box.networks.rounding import Rounded

NAME = "efficientnet-lite0"


def test_weights_are_within_half_a_step_of_the_real_ones():
    weight = np.random.default_rng(0).normal(size=(5, 4, 3, 3)).astype(np.float32)
    weight[2] = 0
    onnx = pytest.importorskip("onnx")
    graph = Graph()
    inputs = Rounded().inputs(graph, "relu", weight, "w")
    assert inputs == ["relu.rounded", "w"]
    constants = {
        tensor.name: onnx.numpy_helper.to_array(tensor)
        for tensor in onnx.load_from_string(graph.serialize("g", {}, {})).graph.initializer
    }
    step = constants["w.scale"][:, None, None, None]
    assert constants["w.int8"].dtype == np.int8
    assert (np.abs(constants["w.int8"] * step - weight) <= step / 2 + 1e-6).all()
    assert np.abs(constants["w.int8"]).max(axis=(1, 2, 3)).tolist() == [127, 127, 0, 127, 127]


def test_every_pixel_is_exact():
    step, zero = Rounded()._steps("image")
    pixels = np.arange(256)
    whole = np.rint((pixels - 127) / 128 / step) + int(zero)
    np.testing.assert_array_equal(whole, pixels)


def test_a_sum_has_the_moments_of_its_parts():
    rng = np.random.default_rng(0)
    state = {f"{norm}.{part}": rng.normal(size=3) for norm in "ab" for part in ("weight", "bias")}
    rounded = Rounded()
    rounded.note_sum("x", state, "a", None)
    rounded.note_sum("y", state, "b", "x")
    drawn = sum(
        state[f"{norm}.bias"] + state[f"{norm}.weight"] * rng.normal(size=(200_000, 3)) for norm in "ab"
    )
    np.testing.assert_allclose(rounded.moments["y"][0], drawn.mean(axis=0), atol=0.02)
    np.testing.assert_allclose(rounded.moments["y"][1], drawn.var(axis=0), rtol=0.02)


def test_real_photos_stay_in_the_ranges():
    """Found from the weights alone, they hold what the network makes of a photo it never saw."""
    data = pytest.importorskip("skimage.data")
    network, rounded = load_network(NAME), Rounded()
    variant = efficientnet.VARIANTS[NAME]
    builder = efficientnet._Builder(
        efficientnet.read_state_dict(efficientnet.weights_file(NAME), variant.sha256), rounded
    )
    x = builder.convolution("image", "_conv_stem", "_bn0", "stem", stride=2)
    for i, stride in enumerate(variant.strides):
        x = builder.block(x, i, stride)
    photo = np.ascontiguousarray(data.chelsea()[None, :256, :256])
    for name in ("block2", "block7", "block12"):
        step, _ = rounded._steps(name)
        found = Part(network, (1, 256, 256), EngineOptions("f32"), end=name)(photo)
        inside = np.abs(found) <= 127 * step
        assert inside.mean() > 0.9999
        assert np.abs(found).max() > 0.2 * 127 * step  # and they are not far too wide


def test_the_checker_of_onnx_takes_it():
    onnx = pytest.importorskip("onnx")
    model = onnx.load(load_network(NAME).int8)
    onnx.checker.check_model(model)
    kinds = [node.op_type for node in model.graph.node]
    assert kinds.count("DequantizeLinear") > kinds.count("QuantizeLinear") > 30


def test_a_network_without_an_eight_bit_form_says_so(tmp_path):
    with pytest.raises(InputError, match=r'no 8-bit form of n.onnx: set features.precision to "auto"'):
        Network(tmp_path / "n.onnx").rounded()


@pytest.mark.parametrize(("noise", "faithful"), [(0.01, True), (0.5, False)])
def test_what_saturates_is_not_chosen(noise, faithful):
    class Fake:
        input = (4, 2, 2, 8), np.dtype(np.float32)

        def __init__(self, noise):
            self.noise = noise

        def __call__(self, x):
            return x + self.noise * 6 * np.random.default_rng(1).normal(size=x.shape).astype(np.float32)

    assert precision._is_faithful(Fake(noise), Fake(0)) is faithful
