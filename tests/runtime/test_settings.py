"""Every setting has its range: a value is in it, or it is refused in one line that says what is allowed."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from tests._toys import make_toys
from typer.testing import CliRunner

from tag2box.cli.app import app
from tag2box.errors import InputError
from tag2box.pipeline import Config
from tag2box.runtime.checks import allowed
from tag2box.runtime.config import declarations, read_settings, settings, toml_value

DECLARED = dict(declarations(Config()))
BAD = [-1, 0, 1e20, math.nan, math.inf, -math.inf, "x", True, 10**400, [], [math.nan, math.nan]]


def by_set(name, value, _):
    return read_settings(Config(), None, [f"{name}={toml_value(value)}"])


def by_file(name, value, folder):
    stage, _, key = name.rpartition(".")
    file = folder / "config.toml"
    file.write_text(f"{f'[{stage}]' if stage else ''}\n{key} = {toml_value(value)}\n")
    return read_settings(Config(), file)


def by_python(name, value, _):
    stage, _, key = name.rpartition(".")
    config = Config()
    if not stage:
        return replace(config, **{key: value})
    return replace(config, **{stage: replace(getattr(config, stage), **{key: value})})


def in_range(value, words):
    """Whether `value` is what the words of a message allow: an oracle that knows nothing of declarations."""
    if isinstance(value, list):
        return False
    if isinstance(value, bool):
        return words == "true or false"
    if isinstance(value, str):
        return words.startswith("text")
    if "-inf" in words and value == -math.inf:
        return True
    numbers = re.search(r"(?<!each )a (whole )?number from (\S+) to (\S+)", words)
    if numbers is None or (numbers[1] and isinstance(value, float)):
        return False
    return float(numbers[2]) <= value <= float(numbers[3]) or (value == 0 and words.startswith("0, "))


@pytest.mark.parametrize("give", [by_set, by_file, by_python])
@pytest.mark.parametrize("name", DECLARED)
def test_a_value_is_in_its_range_or_refused_in_one_line(name, give, tmp_path):
    words = allowed(DECLARED[name])
    for value in BAD:
        if in_range(value, words):
            assert dict(settings(give(name, value, tmp_path)))[name] == value
            continue
        with pytest.raises(InputError) as error:
            give(name, value, tmp_path)
        line = str(error.value)
        setting = name.rpartition(".")[2] if give is by_python else name
        assert line.startswith(f"{setting} must be {words}, but it is "), line
        assert len(line) < 300


@pytest.mark.parametrize("name", DECLARED)
def test_every_setting_says_what_it_takes(name):
    words = allowed(DECLARED[name])
    assert "number" not in words or re.search(r"number from \S+ to \S+", words)
    assert "inf" not in words.replace("-inf", "")


def test_values_of_numpy_and_whole_numbers_become_those_of_the_file():
    config = read_settings(Config(), None, ["features.length=20"])
    features = replace(config.features, length=np.float32(20), grid=np.int64(2), levels=[1024, 512, 256])
    assert features == config.features == Config().features
    assert type(features.length) is float
    assert type(features.grid) is int


def test_a_stage_is_no_number():
    with pytest.raises(InputError, match=r"^windows must be a WindowsConfig, but it is 3$"):
        Config(windows=3)


@pytest.mark.parametrize("text", ["9" * 5000, "0x" + "f" * 5000, "[" * 5000, "1e999", '"\\u0000"'])
def test_what_python_itself_cannot_read_or_write_is_a_line(text, tmp_path):
    with pytest.raises(InputError, match=r"^windows.seed must be a whole number from 0 to 4294967295, but "):
        read_settings(Config(), None, [f"windows.seed={text}"])
    (tmp_path / "c.toml").write_text(f"[windows]\nseed = {text}\n")
    with pytest.raises(InputError, match=r"^(windows.seed must be|\S+ is not TOML)"):
        read_settings(Config(), tmp_path / "c.toml")


def test_the_command_says_it_before_any_work(tmp_path):
    make_toys(tmp_path / "toys", 4)
    data, out = str(tmp_path / "toys"), str(tmp_path / "run")
    answer = CliRunner().invoke(app, ["run", data, "--set", "windows.max_windows=-5", "--out", out])
    assert isinstance(answer.exception, InputError)
    assert str(answer.exception) == (
        "windows.max_windows must be a whole number from 1 to 10000, but it is -5"
    )
    assert not (tmp_path / "run").exists()
