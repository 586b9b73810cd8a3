"""Any network: maps or tokens, of any size or of one, on either runtime; and what is wrong in one line."""

import builtins
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from PIL import Image
from tests._describing import described_by, map_at, vectors
from tests._networks import IMAGENET, vit_toml, write_cnn, write_vit
from tests._toys import FAST, make_toys
from typer.testing import CliRunner

from tag2box.cli.app import app
from tag2box.data.reading import read_images
from tag2box.demo import demo
from tag2box.description.config import FeaturesConfig, MapsConfig
from tag2box.description.crops import pool_map
from tag2box.description.describe import describe
from tag2box.description.record import Described
from tag2box.description.resolving import resolved
from tag2box.errors import InputError
from tag2box.networks.inference import EngineOptions, Part
from tag2box.networks.network import load_network
from tag2box.runtime.executor import map_ordered

RUNTIMES = ("openvino", "onnxruntime")
# What docs/features.md states of the vectors of the two runtimes on a CPU, in f32.
COSINE = 0.9999


@pytest.fixture(scope="module")
def photo():
    coarse = np.random.default_rng(0).integers(0, 256, (9, 12, 3)).astype(np.uint8)
    return np.asarray(Image.fromarray(coarse).resize((120, 90)))


def settings(path, **more):
    return FeaturesConfig(network=str(path), **{"precision": "f32", "levels": (96,), **more})


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize(("classes", "registers"), [(0, 0), (1, 0), (1, 4)])
def test_the_token_of_a_patch_is_its_cell(tmp_path, runtime, classes, registers):
    """Without attention a token knows its own patch alone: changing one changes one cell."""
    toml = vit_toml(8, classes, registers)
    path = write_vit(tmp_path / "v.onnx", depth=0, classes=classes, registers=registers, toml=toml)
    part = Part(load_network(path), (1, -1, -1), EngineOptions(runtime=runtime))
    pixels = np.random.default_rng(1).integers(0, 256, (1, 24, 40, 3)).astype(np.uint8)
    before = part(pixels)
    assert before.shape == (1, 3, 5, 16)
    pixels[0, 8:16, 24:32] = 7
    changed = (part(pixels) != before).any(axis=-1)[0]
    assert np.argwhere(changed).tolist() == [[1, 3]]


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_tokens_in_batches_and_threads_are_the_same(tmp_path, runtime):
    network = load_network(write_vit(tmp_path / "v.onnx", toml=vit_toml()))
    pixels = np.random.default_rng(1).integers(0, 256, (11, 32, 32, 3)).astype(np.uint8)
    one, two = (Part(network, (4, 32, 32), EngineOptions("f32", n, runtime=runtime), grid=2) for n in (1, 2))
    expected = one(pixels)
    assert expected.shape == (11, 2, 2, 16)
    np.testing.assert_array_equal(two(pixels), expected)
    whole = Part(network, (4, 32, 32), EngineOptions("f32", runtime=runtime))(pixels)
    means = whole.reshape(11, 2, 2, 2, 2, 16).mean(axis=(2, 4))
    np.testing.assert_allclose(expected, means, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_tokens_that_do_not_add_up_are_refused(tmp_path, photo, runtime):
    path = write_vit(tmp_path / "v.onnx", registers=4, toml=vit_toml(8, 1, 0))
    with pytest.raises(InputError, match=r"makes 17 tokens of 24 x 32 pixels, but 1 special .* be 13"):
        map_at(photo, 96, settings(path, runtime=runtime))
    (tmp_path / "v.toml").write_text(IMAGENET)
    with pytest.raises(InputError, match=r"gives tokens .*: set patch, .* `tag2box network check v.onnx`"):
        map_at(photo, 96, settings(path, runtime=runtime))


@pytest.mark.parametrize(
    ("toml", "says"),
    [
        ("patch = 0\n", "patch must be"),
        ("class_tokens = -1\n", "class_tokens must be"),
        ("register_tokens = true\n", "register_tokens must be"),
        ("size = [224]\n", "size must be"),
        ("size = 9999\n", "from 16 to 4096"),
        ("cut = 3\n", "cut must be"),
        ("sizes = 3\n", "unknown key 'sizes'"),
        ('channels = "gray"\n', "channels must be"),
        ("mean = [", "not TOML"),
    ],
)
def test_a_wrong_toml_is_one_line(tmp_path, toml, says):
    path = write_cnn(tmp_path / "c.onnx", toml=IMAGENET + toml)
    with pytest.raises(InputError, match=says):
        load_network(path)


@pytest.mark.parametrize("mean", ["", "mean = 3\n", "mean = [0, inf, 0]\n", "mean = [1, 2]\n"])
def test_colors_are_three_numbers(tmp_path, mean):
    path = write_cnn(tmp_path / "c.onnx", toml=mean + "std = [1, 1, 1]\n")
    with pytest.raises(InputError, match="mean"):
        load_network(path)
    (tmp_path / "c.toml").write_text("mean = [0, 0, 0]\nstd = [1, 0, 1]\n")
    with pytest.raises(InputError, match="std"):
        load_network(path)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_network_of_one_size_has_photos_resized_to_it(tmp_path, photo, runtime):
    path = write_vit(tmp_path / "v.onnx", size=64, toml=vit_toml(size=64))
    config = settings(path, runtime=runtime)
    assert map_at(photo, 512, config).shape == (8, 8, 16)
    small = np.asarray(Image.fromarray(photo).resize((64, 64), Image.Resampling.BILINEAR))
    np.testing.assert_allclose(map_at(photo, 512, config), map_at(small, 512, config), atol=0.02)
    boxes = np.array([[0, 0, 120, 90], [30, 0, 60, 45]], np.float32)
    assert vectors(photo, boxes, replace(config, mode="warp")).shape == (
        2,
        64,
    )  # its batches are of one image
    assert vectors(photo, boxes, config).shape == (2, 64)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_size_that_is_not_taken_is_said(tmp_path, photo, runtime):
    path = write_vit(tmp_path / "v.onnx", size=64, toml=vit_toml())
    with pytest.raises(
        InputError, match=r"does not take .*: give the size that it takes as size in its TOML"
    ):
        map_at(photo, 96, settings(path, runtime=runtime))


def test_the_mode_is_what_the_network_allows(tmp_path):
    def mode(toml="", **more):
        return resolved(settings(write_cnn(tmp_path / "c.onnx", toml=IMAGENET + toml), **more)).mode

    assert mode() == "pool"
    assert mode('cut = "residual0"\n') == mode(cut="residual0") == "shared"
    assert mode('cut = "residual0"\nsize = 64\n') == "pool"
    assert mode('cut = "residual0"\n', mode="warp") == mode(mode="warp") == "warp"
    assert resolved(FeaturesConfig(precision="f32")).mode == "shared"


def test_pooling_against_fine_samples():
    """The slow twin: many points of the box, each with the value of its cell."""
    rng = np.random.default_rng(3)
    source = rng.normal(size=(5, 7, 2)).astype(np.float32)
    corner = rng.uniform(0, 0.5, (20, 2))
    boxes = np.hstack([corner, corner + rng.uniform(0.05, 0.5, (20, 2))])
    at = (np.arange(800) + 0.5) / 800
    for box, found in zip(boxes, pool_map(source, boxes, 1)[:, 0, 0], strict=True):
        x, y = box[0] + at * (box[2] - box[0]), box[1] + at * (box[3] - box[1])
        slow = source[(y * 5).astype(int)[:, None], (x * 7).astype(int)].mean(axis=(0, 1))
        np.testing.assert_allclose(found, slow, atol=0.02)


CASES = [
    ("cnn", {"mode": "shared", "cut": "residual0", "crop": 4}),
    ("cnn", {"mode": "warp", "size": 64}),
    ("cnn", {"mode": "pool"}),
    ("vit", {"mode": "pool"}),
    ("vit", {"mode": "warp", "size": 64}),
    ("efficientnet-lite0", {"mode": "shared", "levels": (128, 64)}),
]


@pytest.mark.parametrize(("network", "how"), CASES)
def test_both_runtimes_give_the_same_vectors(tmp_path, photo, network, how):
    if network == "cnn":
        network = write_cnn(tmp_path / "c.onnx", toml=f'{IMAGENET}channels = "bgr"\n')
    elif network == "vit":
        network = write_vit(tmp_path / "v.onnx", registers=2, toml=vit_toml(registers=2))
    boxes = np.array([[0, 0, 120, 90], [10, 20, 60, 70], [50, 5, 110, 40]], np.float32)
    one, two = (vectors(photo, boxes, settings(network, runtime=runtime, **how)) for runtime in RUNTIMES)
    cosine = (one * two).sum(axis=1) / np.linalg.norm(one, axis=1) / np.linalg.norm(two, axis=1)
    assert cosine.min() > COSINE
    np.testing.assert_allclose(np.linalg.norm(one, axis=1), np.linalg.norm(two, axis=1), rtol=1e-3)


def test_photos_by_onnxruntime_do_not_depend_on_workers_or_threads(tmp_path, photo):
    (tmp_path / "thing").mkdir()
    for i in range(3):
        Image.fromarray(np.roll(photo, 10 * i, axis=1)).save(tmp_path / "thing" / f"{i}.png")
    paths = read_images(tmp_path).paths
    config = settings(write_cnn(tmp_path / "c.onnx"), runtime="onnxruntime")
    description = described_by(config, MapsConfig(side=96))
    job = partial(describe, description=description)
    one, two = (Described.concatenate(list(map_ordered(job, paths, workers=n))) for n in (1, 2))
    alone = [describe(path, description, threads=2) for path in paths]
    assert len(one.maps.X) > 0
    for other in (two, Described.concatenate(alone)):
        np.testing.assert_array_equal(other.maps.X, one.maps.X)
        np.testing.assert_array_equal(other.X, one.X)


def test_onnxruntime_computes_in_f32():
    assert resolved(FeaturesConfig(runtime="onnxruntime")).precision == "f32"
    with pytest.raises(InputError, match="precision must be auto or f32 with onnxruntime"):
        FeaturesConfig(runtime="onnxruntime", precision="bf16")
    with pytest.raises(InputError, match="runtime must be"):
        FeaturesConfig(runtime="torch")


def test_without_the_package_the_command_is_named(tmp_path, photo, monkeypatch):
    real = builtins.__import__

    def missing(name, *rest):
        if name == "onnxruntime":
            raise ImportError(name)
        return real(name, *rest)

    config = settings(write_cnn(tmp_path / "c.onnx"), runtime="onnxruntime")
    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(InputError, match=r'pip install "tag2box\[onnxruntime\]"'):
        map_at(photo, 96, config)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_what_cannot_be_run_is_one_line(tmp_path, photo, runtime):
    def refused(toml, **how):
        path = write_cnn(tmp_path / "c.onnx", toml=IMAGENET + toml)
        with pytest.raises(InputError) as error:
            vectors(photo, np.array([[0, 0, 50, 50]], np.float32), settings(path, runtime=runtime, **how))
        return str(error.value)

    assert "has no tensor 'z': its outputs are map" in refused('output = "z"\n')
    assert "has no input 'x': name one of image" in refused('input = "x"\n')
    assert "c.onnx" in refused("", cut="branch0")  # another way leads around it
    assert "names no cut" in refused("", mode="shared")
    (tmp_path / "c.onnx").write_bytes(b"no network")
    with pytest.raises(InputError, match="cannot be read as ONNX"):
        map_at(photo, 96, settings(tmp_path / "c.onnx", runtime=runtime))


def run_all(folder, network, *sets, data=None):
    """`run`, `detect` and `report`, as on the command line; returns the page."""
    data = data or (folder / "toys", "--tags", make_toys(folder / "toys"))
    sets = [word for one in (f"features.network={network}", *sets) for word in ("--set", one)]
    photos = [str(path) for path in sorted(data[0].glob("*.*g"))[:4]]
    for command in (
        ["run", *map(str, data), "--out", str(folder / "run"), *sets],
        ["detect", *photos, "--run", str(folder / "run")],
        ["report", str(folder / "run")],
    ):
        answer = CliRunner().invoke(app, [*command, *(() if command[0] == "report" else ("--workers", "1"))])
        assert answer.exit_code == 0, answer.output + repr(answer.exception)
    return (folder / "run" / "report.html").read_text()


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("size", [None, 64])
def test_a_transformer_goes_through_run_detect_and_report(tmp_path, runtime, size):
    path = write_vit(tmp_path / "v.onnx", registers=2, size=size, toml=vit_toml(registers=2, size=size))
    assert "thing" in run_all(tmp_path, path, *FAST, f"features.runtime={runtime}")


@pytest.mark.slow
def test_a_random_vit_s_14_goes_through_the_demo(tmp_path, monkeypatch):
    """Of the true size: 12 layers of width 384, 22 million weights. What it finds is chance."""
    pytest.importorskip("skimage")
    path = write_vit(tmp_path / "vits14.onnx", patch=14, width=384, depth=12, heads=6, toml=None)
    answer = CliRunner().invoke(app, ["network", "check", str(path)])
    assert "patches of 14 pixels, 1 class and 0 register tokens" in answer.output, answer.output
    monkeypatch.setattr(demo, "CONFIG", replace(demo.CONFIG, features=FeaturesConfig(network=str(path))))
    found = demo.run_demo(tmp_path / "demo")
    assert "pagoda" in found.report.read_text()
    assert np.isfinite([found.learned.mean, found.scores.mean]).all()
