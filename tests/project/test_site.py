"""The documentation site: it builds without a warning, and no page needs the network to be read."""

import ast
import inspect
import re
import subprocess
import sys
import textwrap
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path

import pytest

import tag2box

ROOT = Path(__file__).parents[2]
PAGES = [
    page
    for folder in (ROOT, ROOT / "docs", ROOT / "docs/howto", ROOT / "docs/experiments")
    for page in folder.glob("*.md")
]
# Attributes by which a browser loads something when it opens a page; `a href` waits for a click.
LOADED = {("script", "src"), ("link", "href"), ("img", "src"), ("iframe", "src"), ("source", "src")}


class Loaded(HTMLParser):
    """What a page loads."""

    def __init__(self):
        super().__init__()
        self.urls = []

    def handle_starttag(self, tag, attrs):
        self.urls += [value for name, value in attrs if (tag, name) in LOADED and value]


def test_every_public_name_is_in_the_reference():
    listed = re.findall(r"^   (\w+)$", (ROOT / "docs/reference.md").read_text(), flags=re.MULTILINE)
    assert sorted(listed) == sorted(set(tag2box.__all__) - {"__version__"})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_to_a_file_leads_somewhere(page):
    for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
        if "://" not in link:
            assert (page.parent / link).is_file(), link


def code_in(page):
    """The syntax tree of every block of Python in a page."""
    blocks = re.findall(r"^( *)```python\n(.*?)^ *```", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return [ast.parse(textwrap.dedent(code)) for _, code in blocks]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_in_the_pages_names_what_there_is(page):
    """What it imports of ours, every `t2b.name`, and the keywords of its calls; the code is not run."""
    for tree in code_in(page):
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] == "tag2box":
                module = import_module(node.module)
                assert [alias.name for alias in node.names if not hasattr(module, alias.name)] == []
            if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "t2b":
                assert hasattr(tag2box, node.attr), node.attr
            if isinstance(node, ast.Call) and getattr(getattr(node.func, "value", None), "id", "") == "t2b":
                known = inspect.signature(getattr(tag2box, node.func.attr)).parameters
                assert {keyword.arg for keyword in node.keywords} <= known.keys(), ast.unparse(node)


def test_the_pages_have_python():
    assert sum(len(code_in(page)) for page in PAGES) > 20


def test_pictures_are_small():
    for picture in (ROOT / "docs/pictures").iterdir():
        assert picture.stat().st_size < 300_000, picture


@pytest.mark.slow
def test_the_site_builds_without_warnings_and_needs_no_network(tmp_path):
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    built = subprocess.run([*command, ROOT / "docs", tmp_path], capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > len(tag2box.__all__)
    for page in pages:
        parser = Loaded()
        parser.feed(page.read_text())
        assert not [url for url in parser.urls if url.startswith(("http:", "https:", "//"))], page
    for style in tmp_path.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*[\"']?(https?:)?//", style.read_text()), style
