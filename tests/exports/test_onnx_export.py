"""`tag2box export --format onnx`: the file, the lines that run it, the page; and what `detect` finds."""

import functools
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests._convnets import SMALL, check_same
from tests._toys import FAST, make_toys
from typer.testing import CliRunner

from tag2box import read_images
from tag2box.cli.app import app
from tag2box.config import Config
from tag2box.exports.onnx import python_lines
from tag2box.networks.openvino_engine import compiled_graph
from tag2box.run.fitting import fit_run
from tag2box.run.folder import RunFolder
from tag2box.runtime.config import read_settings

DOCS = Path(__file__).parents[2] / "docs" / "howto" / "onnx.md"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run over toys whose detector is a network, and exported."""
    folder = tmp_path_factory.mktemp("network")
    tags = make_toys(folder / "toys", n=16)
    config = read_settings(Config(), None, (*FAST, *SMALL))
    fit_run(read_images(folder / "toys", tags), config, folder / "run", workers=1)
    answer = call("export", folder / "run", "--format", "onnx", "--workers", "1", "--json")
    return folder, json.loads(answer)


def call(*words):
    answer = CliRunner().invoke(app, list(map(str, words)))
    assert answer.exit_code == 0, answer.output
    return answer.stdout


@pytest.fixture
def exported(made):
    return made[0] / "run" / "detector.onnx"


def read(path):
    return np.asarray(Image.open(path).convert("RGB"))


def test_the_answer(made, exported):
    assert made[1]["written"] == [str(exported), str(exported.with_suffix(".html"))]
    assert made[1]["bytes"] == exported.stat().st_size < 30e6
    assert made[1]["python"] == python_lines(str(exported))


def test_it_is_the_same_whoever_learned_it_and_again_after_a_kill(made, exported, tmp_path):
    """With two workers, and stopped after the first of two epochs: the same bytes."""
    toys, epochs = made[0] / "toys", []
    images = read_images(toys, toys / "tags.csv")

    def stop(label, done, _total):
        epochs.append(label)
        if label.startswith("learning, epoch 2") and done:
            raise KeyboardInterrupt

    config = read_settings(Config(), None, (*FAST, *SMALL, "detector.epochs=2", "detector.steps=0"))
    with pytest.raises(KeyboardInterrupt):
        fit_run(images, config, tmp_path / "killed", workers=1, progress=stop)
    costs = fit_run(images, config, tmp_path / "killed", workers=2).costs
    fit_run(images, config, tmp_path / "whole", workers=1)
    ours, theirs = ((tmp_path / name / "detector.npz").read_bytes() for name in ("killed", "whole"))
    assert ours == theirs
    assert costs["views"] == {"reused": True}  # of before the kill
    assert "start" not in costs
    for name in ("epoch", "start", "arrays/views*"):
        assert not list((tmp_path / "whole").glob(f"{name}/*"))
    call("export", made[0] / "run", "--format", "onnx", "--out", tmp_path / "again.onnx")
    assert (tmp_path / "again.onnx").read_bytes() == exported.read_bytes()


def test_it_finds_the_thing(made, exported):
    compiled = compiled_graph(exported)
    best = [compiled(read(path))[1].max(initial=0) for path in sorted((made[0] / "toys").glob("*.png"))]
    assert np.mean(best[::2]) > np.mean(best[1::2])  # every other toy has it


def test_detect_finds_what_the_file_finds(made, exported, tmp_path):
    toys, run = made[0] / "toys", shutil.copytree(made[0] / "run", tmp_path / "run")
    call("detect", toys, "--run", run, "--out", tmp_path / "boxes.csv", "--workers", "1", "--no-pictures")
    ((key, images),) = RunFolder(run).detected()
    detections = RunFolder(run).detections(key, images)
    compiled = compiled_graph(exported)
    for i, path in enumerate(images.paths):
        part = detections[detections.image == i]
        order = np.argsort(-part.score, kind="stable")
        result = compiled(read(path))
        boxes = part.xyxy[order], part.score[order], part.label[order]
        check_same(boxes, [result[k] for k in range(3)], pixels=0.096)


def test_every_setting_of_the_network_changes_the_detector(made, tmp_path):
    toys = made[0] / "toys"
    images = read_images(toys, toys / "tags.csv")
    keys = set()
    changes = (
        "detector.seed=1",
        "detector.side=192",
        "detector.epochs=2",
        "detector.steps=10",
        "detector.photos=9",
    )
    for i, change in enumerate(("detector.seed=0", *changes)):
        run = shutil.copytree(made[0] / "run", tmp_path / str(i))
        fit_run(
            images, read_settings(Config(), None, (*FAST, *SMALL, "detector.steps=0", change)), run, workers=1
        )
        keys.add(RunFolder(run).detector_sha256)
    assert len(keys) == 1 + len(changes)
    assert RunFolder(tmp_path / "5").detector.network is None  # 8 photos have a tag
    answer = CliRunner().invoke(app, ["export", str(tmp_path / "5"), "--format", "onnx"])
    assert "no network" in str(answer.exception)


def test_the_network_of_a_run_by_windows_is_learned_for_an_export(made, exported, tmp_path):
    """And from the photos that the run knows, or not at all."""
    toys = shutil.copytree(made[0] / "toys", tmp_path / "toys")
    sets = (*FAST, *SMALL, "detect.by=windows")
    fit_run(
        read_images(toys, toys / "tags.csv"), read_settings(Config(), None, sets), tmp_path / "run", workers=1
    )
    before = (tmp_path / "run" / "detector.npz").read_bytes()
    words = ("export", tmp_path / "run", "--format", "onnx", "--out", tmp_path / "a.onnx", "--workers", "1")
    call(*words)
    assert (tmp_path / "a.onnx").read_bytes() == exported.read_bytes()
    assert (tmp_path / "run" / "detector.npz").read_bytes() == before  # the detector is as it was
    assert RunFolder(tmp_path / "run").clean(remove=False) == []
    Image.new("RGB", (96, 96)).save(toys / "toy-00.png")
    answer = CliRunner().invoke(app, list(map(str, words)))
    assert "toy-00" in str(answer.exception)


# What stands in for an environment without them, in which nothing else could be imported.
FORBID = """
import sys
class Forbidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"tag2box", "openvino", "scipy", "sklearn", "onnx", "numba"}:
            raise ImportError(name)
sys.meta_path.insert(0, Forbidden())
"""


def test_the_printed_lines_run_with_onnxruntime_alone(made, exported):
    pytest.importorskip("onnxruntime")
    photo = made[0] / "toys" / "toy-00.png"
    lines = python_lines(str(exported), str(photo)).replace("score >= 0.3", "True")
    check_lines(subprocess.check_output([sys.executable, "-c", FORBID + lines], text=True), exported, photo)


def check_lines(printed, exported, photo):
    scores = compiled_graph(exported)(read(photo))[1]
    told = [line.split() for line in printed.splitlines() if line.startswith("thing")]
    assert [float(words[1]) for words in told] == pytest.approx(scores.tolist(), abs=1e-3)


@pytest.mark.slow
def test_the_printed_lines_run_in_a_clean_environment(made, exported, tmp_path):
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
    packages = [python, "-m", "pip", "install", "-q", "onnxruntime", "numpy", "pillow"]
    if subprocess.run(packages, capture_output=True, check=False).returncode:
        pytest.skip("onnxruntime, numpy and pillow cannot be installed here")
    photo = made[0] / "toys" / "toy-00.png"
    lines = python_lines(str(exported), str(photo)).replace("score >= 0.3", "True")
    check_lines(subprocess.check_output([python, "-c", lines], text=True), exported, photo)


def test_the_docs_hold_the_printed_lines():
    assert python_lines("detector.onnx") in DOCS.read_text()


def test_the_lines_of_the_docs_for_openvino_find_the_same(made, exported, monkeypatch):
    """On a processor that rounds to bf16 by default, too."""
    openvino = pytest.importorskip("openvino")
    onnxruntime = pytest.importorskip("onnxruntime")
    (lines,) = re.findall(r"^compiled = .*?(?=^```)", DOCS.read_text(), flags=re.MULTILINE | re.DOTALL)
    photo = read(made[0] / "toys" / "toy-00.png")
    space = {"openvino": openvino, "photo": photo}
    monkeypatch.chdir(exported.parent)
    exec(lines, space)
    session = onnxruntime.InferenceSession(exported)
    check_same(session.run(None, {"image": photo}), [space[name] for name in ("boxes", "scores", "labels")])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--reviewed"], "leave them out"),
        (["--out", "boxes.json"], "ends in .onnx"),
    ],
)
def test_refusals(made, words, said):
    answer = CliRunner().invoke(app, ["export", str(made[0] / "run"), "--format", "onnx", *words])
    assert said in str(answer.exception)


def test_the_page_finds_the_same_in_a_browser(made, exported, tmp_path):
    dist = Path(os.environ.get("TAG2BOX_ORT_WEB", Path("node_modules") / "onnxruntime-web" / "dist"))
    if not (dist / "ort.wasm.min.js").is_file():
        pytest.skip("no onnxruntime-web: npm install onnxruntime-web, or TAG2BOX_ORT_WEB=its dist folder")
    pytest.importorskip("selenium.webdriver")
    from tests._browser import BROWSER, DRIVER, MISSING, Page, started

    if not (BROWSER and DRIVER):
        pytest.skip(MISSING)
    site = tmp_path / "site"
    (site / "ort").mkdir(parents=True)
    for name in ("ort.wasm.min.js", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm"):
        shutil.copy(dist / name, site / "ort" / name)
    for file in (exported, exported.with_suffix(".html")):
        shutil.copy(file, site / file.name)
    photo = made[0] / "toys" / "toy-00.png"
    browser = started(tmp_path / "browser")
    try:
        with served(site) as address:
            page = Page(browser, None)
            browser.get(f"{address}/detector.html")
            page.until(lambda: page.find("body").get_attribute("data-state") == "ready")
            assert "thing" in page.text("#message")
            page.find("#photo").send_keys(str(photo))
            page.until(lambda: page.find("body").get_attribute("data-state") in {"done", "failed"})
            assert re.match(r"(1 box|\d+ boxes), \d+\.\d\d s$", page.text("#message"))
            found = browser.execute_script("return found")
            drawn = browser.execute_script(
                "const c = document.getElementById('canvas'); return [c.width, c.height]"
            )
            assert not page.problems()
    finally:
        browser.quit()
    theirs = [np.array([each[name] for each in found]) for name in ("box", "score", "label")]
    result = compiled_graph(exported)(read(photo))
    check_same([result[k] for k in range(3)], theirs)
    assert drawn == [96, 96]


class served:  # noqa: N801
    """The address of a folder's files."""

    def __init__(self, folder):
        handler = functools.partial(Quiet, directory=str(folder))
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{self.server.server_port}"

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Files, and no line for each of them; browsers take modules and wasm by their types alone."""

    extensions_map = http.server.SimpleHTTPRequestHandler.extensions_map | {
        ".mjs": "text/javascript",
        ".wasm": "application/wasm",
    }

    def log_message(self, *_):
        pass
