"""EfficientNet with 8-bit convolutions: ranges by weights alone, which real photos keep to."""

import numpy as np
import pytest

from tag2box.errors import InputError
from tag2box.networks import efficientnet, precision
from tag2box.networks.inference import EngineOptions, Part
from tag2box.networks.network import Network, load_network
from tag2box.networks.onnx_writer import Graph

NAME = "efficientnet-lite0"


def test_weights_are_within_half_a_step_of_the_real_ones():
    """By the zero point of 127 and the step of 1 / 128 every pixel is exact."""
    onnx = pytest.importorskip("onnx")
    state = efficientnet.read_state_dict(efficientnet.weights_file(NAME), efficientnet.VARIANTS[NAME].sha256)
    weight, _ = efficientnet.folded(state, "_conv_stem", "_bn0")
    graph = onnx.load(load_network(NAME).int8).graph
    constants = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
    step = constants["stem.weight.scale"][:, None, None, None]
    assert (np.abs(constants["stem.weight.int8"] * step - weight) <= step / 2 + 1e-6).all()
    assert (np.abs(constants["stem.weight.int8"]).max(axis=(1, 2, 3)) == 127).all()
    assert (constants["image.zero"], constants["image.step"]) == (127, 1 / 128)


def test_real_photos_stay_in_the_ranges():
    """Found from the weights alone, they hold what the network makes of a photo it never saw."""
    data = pytest.importorskip("skimage.data")
    network = load_network(NAME)
    builder = efficientnet.Builder(
        efficientnet.read_state_dict(efficientnet.weights_file(NAME), efficientnet.VARIANTS[NAME].sha256),
        Graph(),
    )
    builder.trunk("image", efficientnet.VARIANTS[NAME].strides)
    photo = np.ascontiguousarray(data.chelsea()[None, :256, :256])
    for name in ("block2", "block7", "block12"):
        step, _ = builder.step(name)
        maps = np.abs(Part(network, (1, 256, 256), EngineOptions("f32"), end=name)(photo))
        assert (maps <= 127 * step).mean() > 0.9999
        assert maps.max() > 0.2 * 127 * step  # and they are not far too wide


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
