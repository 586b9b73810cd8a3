"""What settings declare is true: a run with each end of each range, and with every choice, ends well."""

import itertools
from typing import Annotated, get_args, get_origin

import pytest
from tests._toys import FAST, make_toys

import tag2box as t2b
from tag2box.config import Config
from tag2box.errors import InputError
from tag2box.run.fitting import detect_run, fit_run
from tag2box.run.folder import RunFolder
from tag2box.runtime.checks import Choice
from tag2box.runtime.config import declarations, read_settings, toml_value

# Settings that only some runs read, and what makes a run read them.
PAPER = ("method=song2014",)
READ_BY = {
    "cover": PAPER,
    "initial": PAPER,
    "refine": PAPER,
    "features.size": ("features.mode=warp",),
    "retrain.near": ("retrain.positive_iou=1",),
    "retrain.positive_iou": ("retrain.near=[0, 0]",),
}


def ends(kind):
    """Values of a declared kind: the ends of its ranges, and its choices."""
    if get_origin(kind) is Annotated:
        plain, rule = get_args(kind)
        if isinstance(rule, Choice):
            return list(rule.values)
        if get_origin(plain) is tuple:
            items = ends(get_args(plain)[0])
            return [[item] * int(n) for n in (rule.low, rule.high) for item in items]
        return [rule.low, rule.high]
    if get_args(kind):
        return list(itertools.chain.from_iterable(map(ends, get_args(kind))))
    return {bool: [True, False], str: ["x", "", "\0", "../x"]}.get(kind, [None])


TRIALS = [(name, value) for name, kind in declarations(Config()) for value in ends(kind)]


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "toys"
    return t2b.read_images(folder, make_toys(folder, 6))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs") / "run"  # one for all: what a setting leaves alone is kept


@pytest.mark.torture
@pytest.mark.parametrize(("name", "value"), TRIALS)
def test_a_run_with_it_ends_well(name, value, images, folder):
    needed = READ_BY.get(name) or READ_BY.get(name.partition(".")[0], ())
    config = read_settings(Config(), None, [*FAST, *needed, f"{name}={toml_value(value)}"])
    try:
        fit_run(images, config, folder, workers=1)
        boxes = detect_run(RunFolder(folder), images, workers=1)
    except InputError:  # one line; only of texts, which name things that are or are not there
        assert isinstance(value, str)
    else:
        assert boxes.image.max(initial=0) < len(images)
