"""The names of `tag2box.mil`: loaded at first use, documented, with examples that run, in the reference."""

import ast
import doctest
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest
from numpydoc.validate import validate
from sklearn.base import BaseEstimator

from tag2box import mil

# As for the names at the top: summary, parameters, returns, examples.
WANTED = {"GL07", "GL08", "PR01", "PR02", "PR03", "PR04", "PR07", "RT01", "RT03", "SS01", "SS03", "SS05"}
HEAVY = ("numba", "sklearn", "scipy", "openvino", "onnxruntime", "matplotlib", "PIL")
DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(DOCS.glob("howto/mil*.md"))


def test_import_loads_nothing_heavy():
    code = f"import sys, tag2box.mil; print([m for m in {HEAVY} if m in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


def test_every_public_name_is_there():
    assert dir(mil) == sorted(mil.__all__) == sorted(mil._HOME)
    assert [name for name in mil.__all__ if getattr(mil, name).__name__ != name] == []
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        mil.nothing  # noqa: B018


def test_every_public_name_is_in_the_reference():
    text = (DOCS / "reference.md").read_text()
    assert [name for name in mil.__all__ if not re.search(rf"^   (mil\.)?{name}$", text, re.MULTILINE)] == []


@pytest.mark.parametrize("name", mil.__all__)
def test_every_name_is_documented_and_its_example_runs(name, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    thing = getattr(mil, name)
    assert [e for e in validate(f"tag2box.mil.{name}")["errors"] if e[0] in WANTED | {"EX01"}] == []
    own = [base for base in getattr(thing, "__mro__", ()) if base.__module__.startswith("tag2box")]
    for member in {key for base in own for key in vars(base) if not key.startswith("_")}:
        if callable(getattr(thing, member, None)):
            errors = validate(f"tag2box.mil.{name}.{member}")["errors"]
            assert [e for e in errors if e[0] in WANTED] == [], member
    for test in doctest.DocTestFinder(recurse=False).find(thing, name, globs={}):
        assert test.examples
        assert doctest.DocTestRunner().run(test).failed == 0


ESTIMATORS = [name for name in mil.__all__ if isinstance(getattr(mil, name), type) and name != "Bags"]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_parameters_are_documented_with_their_defaults(name):
    kind = getattr(mil, name)
    assert issubclass(kind, BaseEstimator)
    known = inspect.signature(kind).parameters
    told = re.findall(r"^(\w+) : .*?(?:default=(.*))?$", inspect.getdoc(kind).split("Attributes\n")[0], re.M)
    assert [each for each, _ in told] == list(known)
    for each, default in told:
        expected = known[each].default
        if expected is not inspect.Parameter.empty:
            assert ast.literal_eval(default) == expected, each


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_snippets_of_the_pages_run(page, tmp_path, monkeypatch):
    """All blocks of a page in a row, as a reader types them; what they assert holds."""
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert blocks
    exec(compile("\n".join(blocks), page.name, "exec"), {})
