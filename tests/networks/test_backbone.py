"""The network is right (a plain numpy forward, known photos), and runs the same however it is batched."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from tag2box.errors import InputError
from tag2box.networks import efficientnet, openvino_engine
from tag2box.networks.inference import EngineOptions, Part
from tag2box.networks.network import load_network, network_hash
from tag2box.networks.onnx_writer import Graph

LITE0 = "efficientnet-lite0"
F32 = EngineOptions("f32")
ESPRESSO, PALACE, DAISY, CATS = 967, 698, 985, {281, 282, 285}


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TAG2BOX_CACHE", str(tmp_path_factory.mktemp("cache")))
        return load_network(LITE0)


@pytest.fixture(scope="module")
def photos():
    return np.random.default_rng(0).integers(0, 256, (21, 64, 64, 3)).astype(np.uint8)


def convolution(x, weight, bias, stride, depthwise):
    """TensorFlow's SAME, one output pixel at a time. x: (h, w, c)."""
    k, size = weight.shape[2], -(-x.shape[0] // stride)
    total = max((size - 1) * stride + k - x.shape[0], 0)
    x = np.pad(x, ((total // 2, total - total // 2),) * 2 + ((0, 0),))
    out = np.empty((size, size, len(weight)))
    for i in range(size):
        for j in range(size):
            patch = x[i * stride : i * stride + k, j * stride : j * stride + k]
            formula = "hwc,cohw->c" if depthwise else "hwi,oihw->o"
            out[i, j] = np.einsum(formula, patch, weight) + bias
    return out


def forward(state, x, n_blocks, strides):
    """Stem and blocks in plain numpy, batch normalization as a step of its own."""

    def step(x, conv, norm, *, stride=1, depthwise=False, relu6=True):
        x = convolution(x, state[f"{conv}.weight"].astype(np.float64), 0, stride, depthwise)
        mean, var = state[f"{norm}.running_mean"], state[f"{norm}.running_var"]
        x = (x - mean) / np.sqrt(var + 1e-3) * state[f"{norm}.weight"] + state[f"{norm}.bias"]
        return np.clip(x, 0, 6) if relu6 else x

    x = step(x, "_conv_stem", "_bn0", stride=2)
    for i in range(n_blocks):
        path, h = f"_blocks.{i}.", x
        if i > 0:
            h = step(h, f"{path}_expand_conv", f"{path}_bn0")
        h = step(h, f"{path}_depthwise_conv", f"{path}_bn1", stride=strides[i], depthwise=True)
        h = step(h, f"{path}_project_conv", f"{path}_bn2", relu6=False)
        x = x + h if x.shape == h.shape else h
    return x


def test_first_blocks_equal_a_plain_numpy_forward(network, photos):
    variant = efficientnet.VARIANTS[LITE0]
    state = efficientnet.read_state_dict(efficientnet.weights_file(LITE0), variant.sha256)
    # Strides 2, 1, 2, 1, 2, 1, kernels 3 and 5, with and without expansion and residual; an odd map too.
    photo = photos[0, :36, :36]
    expected = forward(state, (photo.astype(np.float64) - 127) / 128, 5, variant.strides)
    found = Part(network, (1, 36, 36), F32, end="block4")(photo[None])[0]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("name", efficientnet.VARIANTS)
def test_known_photos_are_recognized(name, tmp_path, monkeypatch):
    data = pytest.importorskip("skimage.data")
    variant = efficientnet.VARIANTS[name]
    pytest.importorskip(variant.package)
    from sklearn.datasets import load_sample_image

    monkeypatch.setenv("TAG2BOX_CACHE", str(tmp_path))
    size = (variant.size, variant.size)
    logits = Part(replace(load_network(name), output="logits"), (1, *size), F32)

    def top5(photo):
        image = Image.fromarray(photo)
        side = 0.9 * min(image.size)
        box = [(n - side) / 2 for n in image.size] + [(n + side) / 2 for n in image.size]
        x = np.asarray(image.resize(size, Image.Resampling.BICUBIC, box=box))
        return np.argsort(-logits(x[None])[0])[:5].tolist()

    assert top5(data.coffee())[0] == ESPRESSO
    assert set(top5(data.chelsea())[:3]) == CATS
    assert PALACE in top5(load_sample_image("china.jpg"))
    if name == LITE0:  # the larger ones see the honeycomb of its petals
        assert DAISY in top5(load_sample_image("flower.jpg"))


@pytest.mark.parametrize("precision", ["f32", "bf16"])
def test_a_photo_has_the_same_numbers_in_any_batch_and_on_any_stream(network, photos, precision):
    one = Part(network, (8, 64, 64), EngineOptions(precision), grid=2)
    two = Part(network, (8, 64, 64), EngineOptions(precision, threads=2), grid=2)
    expected = one(photos)
    order = np.random.default_rng(1).permutation(len(photos))
    np.testing.assert_array_equal(two(photos[order]), expected[order])
    np.testing.assert_array_equal(one(photos[3:4]), expected[3:4])


def test_early_then_late_is_the_whole(network, photos):
    whole = Part(network, (1, 64, 64), F32, grid=1)
    early = Part(network, (1, -1, -1), F32, end="block4")
    late = Part(network, (1, 8, 8), F32, start="block4", grid=1)
    np.testing.assert_allclose(late(early(photos[:1])), whole(photos[:1]), rtol=1e-5, atol=1e-5)


def test_the_cache_is_written_once(tmp_path, monkeypatch):
    monkeypatch.setenv("TAG2BOX_CACHE", str(tmp_path / "new" / "folder"))
    network = load_network(LITE0)

    def written():
        return {path: path.stat().st_mtime_ns for path in network.path.parent.iterdir()}

    first = written()
    assert {network.path, network.int8} < first.keys()
    assert load_network(LITE0) == network
    assert written() == first


@pytest.mark.parametrize("name", ["path", "int8"])
@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: data[:-9] + b"x" + data[-8:]])
def test_a_damaged_file_in_the_cache_is_written_again(tmp_path, monkeypatch, name, damage):
    monkeypatch.setenv("TAG2BOX_CACHE", str(tmp_path))
    network, known = load_network(LITE0), network_hash(LITE0)
    file = getattr(network, name)
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    assert network_hash(network) != known  # what is run counts, also where nobody has looked at the cache
    assert load_network(LITE0) == network
    assert file.read_bytes() == whole
    assert network_hash(LITE0) == known
    file.with_suffix(".sha256").write_bytes(b"\xff of a killed process")
    assert load_network(LITE0).path.is_file()
    assert network_hash(LITE0) == known


def test_a_cache_that_cannot_be_written_says_so(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("TAG2BOX_CACHE", str(tmp_path / "file"))
    with pytest.raises(InputError, match="TAG2BOX_CACHE"):
        load_network(LITE0)


# A network of one's own: y = x * weight per channel, pooled by us.


def own(folder, toml, inputs=("x",), around=False):
    graph = Graph()
    weight = np.array([1, 10, 100], np.float32).reshape(1, 3, 1, 1)
    y = graph.add("Mul", [inputs[0], graph.constant("w", weight)], "middle")
    end = graph.add("Add", [y, inputs[-1] if around or len(inputs) > 1 else y], "y")
    graph.add("Flatten", [end], "flat", axis=1)
    shape = ("n", 3, "h", "w")
    file = folder / "own.onnx"
    outputs = {"y": shape, "flat": ("n", "m")}
    file.write_bytes(graph.serialize("own", dict.fromkeys(inputs, shape), outputs))
    if toml is not None:
        (folder / "own.toml").write_text(toml)
    return file


PREPARE = "mean = [10, 20, 30]\nstd = [1, 2, 4]\n"


@pytest.mark.parametrize(("channels", "weight"), [("rgb", [2, 20, 200]), ("bgr", [200, 20, 2])])
def test_own_network_gets_its_preprocessing(tmp_path, photos, channels, weight):
    network = load_network(own(tmp_path, f'{PREPARE}output = "y"\nchannels = "{channels}"\n'))
    found = Part(network, (1, 64, 64), F32, grid=1)(photos[:1])[0, 0, 0]
    order = slice(None, None, 1 if channels == "rgb" else -1)
    expected = (photos[0].mean((0, 1)) - [10, 20, 30]) / [1, 2, 4] * weight
    np.testing.assert_allclose(found, expected[order], rtol=1e-4)


def test_own_network_names_what_is_missing(tmp_path):
    def run(toml, **kwargs):
        network = load_network(own(tmp_path, PREPARE + toml, **kwargs))
        return Part(network, (1, 8, 8), F32, grid=1, start=network.cut)

    with pytest.raises(InputError, match="several outputs: name one of y, flat"):
        run("")
    with pytest.raises(InputError, match="no tensor 'z': its outputs are y, flat"):
        run('output = "z"\n')
    with pytest.raises(InputError, match="several inputs: name one of x, mask"):
        run('output = "y"\n', inputs=("x", "mask"))
    with pytest.raises(InputError, match="no input 'image': name one of x"):
        run('output = "y"\ninput = "image"\n')
    with pytest.raises(InputError, match="another way leads around it"):
        run('output = "y"\ncut = "middle"\n', around=True)


def test_a_gpu_is_taken_where_there_is_one():
    assert openvino_engine._settings(EngineOptions(), ["CPU"])[0] == "CPU"
    device, settings = openvino_engine._settings(EngineOptions(), ["CPU", "GPU.0"])
    assert device == "GPU.0"
    assert "INFERENCE_NUM_THREADS" not in settings
    with pytest.raises(InputError, match="no device 'GPU' here: OpenVINO finds CPU"):
        openvino_engine._settings(EngineOptions(device="GPU"), ["CPU"])


def test_no_such_network(tmp_path):
    with pytest.raises(InputError, match="efficientnet-lite0"):
        load_network("resnet50")
    with pytest.raises(InputError, match="no file"):
        load_network(tmp_path / "x.onnx")
    (tmp_path / "x.onnx").write_bytes(b"no network")
    (tmp_path / "x.toml").write_text(PREPARE)
    with pytest.raises(InputError, match="cannot be read as ONNX"):
        Part(load_network(tmp_path / "x.onnx"), (1, 8, 8), F32)
