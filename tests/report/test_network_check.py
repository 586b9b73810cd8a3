"""`tag2box network check`: what it understands of networks that nobody described, and what it writes."""

import json
import tomllib

import numpy as np
import onnx
import pytest
from onnx import version_converter
from PIL import Image
from tests._describing import vectors
from tests._networks import IMAGENET, Builder, write_cnn, write_odd, write_vit
from tests._schemas import check
from tests._toys import FAST
from tests.networks.test_networks import run_all
from typer.testing import CliRunner

from tag2box.cli.app import app
from tag2box.description.config import FeaturesConfig
from tag2box.errors import InputError
from tag2box.networks.inference import EngineOptions, Part
from tag2box.networks.inspection import necks, understand
from tag2box.networks.network import Network, load_network, network_toml
from tag2box.networks.openvino_engine import read_model

NAMES = ("output", "cut", "patch", "class_tokens", "register_tokens", "size")
CNN = ("map", "residual1", None, 0, 0, None)


@pytest.mark.parametrize(
    ("write", "how", "expected"),
    [
        (write_cnn, {}, CNN),
        (write_cnn, {"classes": 10}, CNN),  # a classifier: its map is inside
        (write_cnn, {"size": 64}, CNN),  # exported with one size, but takes any
        (write_vit, {}, ("tokens", None, 8, 1, 0, None)),
        (write_vit, {"patch": 14, "registers": 4}, ("tokens", None, 14, 1, 4, None)),
        (write_vit, {"patch": 16, "classes": 0}, ("tokens", None, 16, 0, 0, None)),
        (write_vit, {"head": 10}, ("tokens", None, 8, 1, 0, None)),
        (write_vit, {"size": 64}, ("tokens", None, 8, 1, 0, (64, 64))),
        (write_vit, {"patch": 16, "size": 224, "head": 3}, ("tokens", None, 16, 1, 0, (224, 224))),
    ],
)
def test_networks_are_understood_from_their_graphs(tmp_path, write, how, expected):
    found = understand(write(tmp_path / "x.onnx", toml=None, **how))
    assert tuple(getattr(found, name) for name in NAMES) == expected
    assert found.input == "image"


@pytest.mark.parametrize(
    ("kind", "output", "can_be_cut", "patch"),
    [
        ("channels last out", "stage3", True, None),
        ("several outputs", "stage3", True, None),
        ("boxes", "stage3", True, None),
        ("four at once", "stage3", True, None),
        ("stride 30", "map", False, 30),
        ("squares of seven", "map", False, 112),
        ("pixels in", "map", True, None),
        ("half", "map", True, None),
    ],
)
def test_odd_networks_give_the_same_vectors_on_both(tmp_path, photo, kind, output, can_be_cut, patch):
    path = write_odd(tmp_path / "odd.onnx", kind)
    found = understand(path)
    assert (found.output, found.patch, found.size) == (output, patch, None)
    assert (found.cut is not None) == can_be_cut
    assert (found.std == (1.0,) * 3) == (kind == "pixels in")  # it does the normalization itself
    path.with_suffix(".toml").write_text(network_toml(found))
    boxes = np.array([[0, 0, 120, 90], [10, 20, 60, 70]], np.float32)
    for mode in ("auto", "pool"):
        one, two = (
            vectors(photo, boxes, FeaturesConfig(str(path), mode, precision="f32", runtime=runtime))
            for runtime in ("openvino", "onnxruntime")
        )
        cosine = (one * two).sum(axis=1) / np.linalg.norm(one, axis=1) / np.linalg.norm(two, axis=1)
        assert cosine.min() > (0.999 if kind == "half" else 0.9999)


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("channels last in", "export it with channels first, as tf2onnx does with --inputs-as-nchw image"),
        ("no padding", "has a cell every 16 pixels, but no whole number of them"),
        ("more inputs", "needs more than an image, also scale"),
    ],
)
def test_odd_networks_that_cannot_be_used_are_one_line(tmp_path, kind, says):
    with pytest.raises(InputError, match=says):
        understand(write_odd(tmp_path / "odd.onnx", kind))


@pytest.mark.parametrize("version", [13, 15, 18, 19, 20, 21])
def test_every_usual_version_of_onnx_is_understood(tmp_path, version):
    path = (write_cnn if version < 17 else write_vit)(tmp_path / "x.onnx", toml=None)
    model = onnx.load(path)
    if version < 17:
        model.opset_import[0].version = version  # the operators of a CNN are the same
    else:
        model = version_converter.convert_version(model, version)
    path.write_bytes(model.SerializeToString())
    assert understand(path).output == ("map" if version < 17 else "tokens")


def test_the_default_network_is_understood_too():
    lite0 = load_network("efficientnet-lite0")
    found = understand(lite0.path)
    assert (found.output, found.size, found.patch) == ("map", None, None)
    assert found.cut == lite0.cut


def test_necks_are_where_everything_passes(tmp_path):
    """The slow twin: a tensor is a neck where the graph can be cut in two."""
    path = write_cnn(tmp_path / "c.onnx")
    found = {min(tensor.get_names()) for tensor in necks(read_model(path)) if tensor.get_names()}
    for name in ("residual0", "residual1", "branch0", "branch1", "map"):
        try:
            Part(load_network(path), (1, -1, -1), EngineOptions(), start=name)
            can_be_cut = True
        except InputError:
            can_be_cut = False
        assert (name in found) == (can_be_cut or name == "map"), name


def test_the_toml_says_all_of_it(tmp_path):
    path = write_vit(tmp_path / "v.onnx", registers=2, size=64, toml=None)
    network = understand(path)
    (tmp_path / "v.toml").write_text(network_toml(network))
    assert load_network(path) == network
    odd = Network(path, 'a "name"\\', "ü\x07", (0.5,) * 3, (1.0,) * 3, "bgr", "c", 16, 1, 2, (64, 32))
    (tmp_path / "v.toml").write_text(network_toml(odd), encoding="utf-8")
    assert load_network(path) == odd


def test_colors_come_from_hugging_face_where_they_are_told(tmp_path):
    told = {"image_mean": [0.5, 0.25, 0.5], "image_std": [0.5, 0.5, 0.25], "rescale_factor": 1 / 255}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(told))
    network = understand(write_cnn(tmp_path / "c.onnx", toml=None))
    assert (network.mean, network.std) == ((127.5, 63.75, 127.5), (127.5, 127.5, 63.75))
    for damaged in ("{", "[]", '{"image_mean": [1]}', '{"image_mean": 3, "image_std": 3}'):
        (tmp_path / "preprocessor_config.json").write_text(damaged)
        assert understand(tmp_path / "c.onnx").mean == (123.675, 116.28, 103.53)


@pytest.fixture
def photo(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 80, (96, 128, 3), np.uint8)
    pixels[30:60, 70:110] = [250, 120, 20]
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    return tmp_path / "photo.png"


@pytest.mark.parametrize("runtime", ["openvino", "onnxruntime"])
def test_check_writes_measures_and_draws(tmp_path, photo, runtime):
    path = write_vit(tmp_path / "v.onnx", registers=1, size=64, toml=None)
    arguments = ["network", "check", str(path), "--photo", str(photo), "--runtime", runtime]
    answer = CliRunner().invoke(app, [*arguments, "--json"])
    assert answer.exit_code == 0, answer.output
    told = json.loads(answer.stdout)
    check("network check", told)
    assert told["map"] == [8, 8, 16]
    assert (told["mode"], told["runtime"]) == ("pool", runtime)
    assert told["windows_per_second"] > 0
    assert told["written"] == [str(tmp_path / "v.toml"), str(tmp_path / "v.map.png")]
    assert tomllib.loads((tmp_path / "v.toml").read_text())["size"] == [64, 64]
    with Image.open(tmp_path / "v.map.png") as drawn:
        assert drawn.size == (256, 96)
    again = CliRunner().invoke(app, arguments)
    assert "v.toml" not in again.output
    assert "patches of 8 pixels, 1 class and 1 register tokens" in again.output
    assert "guess" not in again.output


def test_what_check_has_written_is_enough_for_a_run(tmp_path):
    path = write_cnn(tmp_path / "c.onnx", classes=10, toml=None)
    answer = CliRunner().invoke(app, ["network", "check", str(path)])
    assert "cut out of the map residual1" in answer.output
    assert "a guess" in answer.output
    assert "thing" in run_all(tmp_path, path, *FAST)


def test_a_cut_that_a_toml_leaves_out_is_told(tmp_path):
    answer = CliRunner().invoke(app, ["network", "check", str(write_cnn(tmp_path / "c.onnx"))])
    assert 'its TOML names no cut (cut = "residual1" would be one) (pool)' in answer.output


def test_what_cannot_be_understood_is_one_line(tmp_path):
    def refused(path):
        answer = CliRunner().invoke(app, ["network", "check", str(path)])
        assert isinstance(answer.exception, InputError)
        return str(answer.exception)

    assert "is not an ONNX file" in refused(tmp_path / "nothing.onnx")
    (tmp_path / "x.onnx").write_bytes(b"no network")
    assert "cannot be read as ONNX" in refused(tmp_path / "x.onnx")
    net = Builder()
    net.add("MatMul", net.add("Flatten", "image", axis=1), net.random(3 * 16 * 16, 5), out="y")
    net.save(tmp_path / "flat.onnx", [1, 3, 16, 16], {"y": [1, 5]})
    assert "export one of them as output" in refused(tmp_path / "flat.onnx")
    net = Builder()
    net.add("Relu", "image", out="y")
    net.save(tmp_path / "text.onnx", ["n", 7], {"y": ["n", 7]})
    assert "has no input for an image (n, 3, height, width), but image (-1, 7)" in refused(
        tmp_path / "text.onnx"
    )
    path = write_cnn(tmp_path / "c.onnx", toml=IMAGENET + "sizes = 3\n")
    assert "unknown key 'sizes'" in refused(path)
    assert "gives no map (n, c, h, w) or tokens" in refused(write_vit(tmp_path / "head.onnx", head=10))
    assert not (tmp_path / "flat.toml").exists()
