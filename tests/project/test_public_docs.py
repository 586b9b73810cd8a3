"""Every public name is documented as numpydoc has it, with an example that runs."""

import doctest
import inspect
import re
from dataclasses import fields
from pathlib import Path

import pytest
from numpydoc.validate import validate

import tag2box

NAMES = sorted(set(tag2box.__all__) - {"__version__"})
# Which of numpydoc's objections are taken: summary (SS), parameters (PR), returns (RT) and order of sections.
WANTED = {"GL07", "GL08", "PR01", "PR02", "PR03", "PR04", "PR07", "RT01", "RT03", "SS01", "SS03", "SS05"}


def objections(name, *more):
    return [error for error in validate(name)["errors"] if error[0] in WANTED | set(more)]


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_has_its_sections(name):
    assert objections(f"tag2box.{name}", "EX01") == []
    if inspect.isclass(thing := getattr(tag2box, name)):
        own = [base for base in thing.__mro__ if base.__module__.startswith("tag2box")]
        members = {key for base in own for key in vars(base) if not key.startswith("_")}
        for member in members:
            if callable(getattr(thing, member)):
                assert objections(f"tag2box.{name}.{member}") == [], member


STAGES = [each.name for each in fields(tag2box.Config) if each.name not in ("method", "unknown")]


@pytest.mark.parametrize("stage", ["", *STAGES])
def test_every_setting_is_exported_and_documented_with_its_default(stage):
    config = getattr(tag2box.Config(), stage) if stage else tag2box.Config()
    assert type(config).__name__ in tag2box.__all__
    told = re.findall(r"^(\w+) : .*default=(.*)$", inspect.getdoc(type(config)), flags=re.MULTILINE)
    known = {each.name: getattr(config, each.name) for each in fields(config) if each.name not in STAGES}
    assert {name: repr(value).replace("'", '"') for name, value in known.items()} == dict(told)


@pytest.mark.parametrize("name", NAMES)
def test_every_example_runs(name, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    thing = getattr(tag2box, name)
    for test in doctest.DocTestFinder(recurse=False).find(thing, name, globs={}):
        assert test.examples
        assert doctest.DocTestRunner().run(test).failed == 0


def test_every_promise_names_a_test_that_is_there():
    """docs/threats.md: a test of that name in that file, or a file of tests."""
    tests = Path(__file__).parents[1]
    page = tests.parent / "docs" / "threats.md"
    if not page.is_file():
        pytest.skip("the package is installed, without its pages")
    promises = [line for line in page.read_text().splitlines() if re.match(r"\| (?!promise)\w", line)]
    assert len(promises) > 20
    for line in promises:
        named = re.findall(r"`(test_\w+\.py)(?:::(\w+))?`", line)
        assert named, line
        for file, name in named:
            assert (f"def {name}(" if name else "def test_") in next(tests.rglob(file)).read_text(), file
