"""The documentation site: Sphinx, MyST, numpydoc, pydata-sphinx-theme. `make docs` builds it."""

import sys
from functools import cached_property
from pathlib import Path

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent / "src"))

import tag2box  # noqa: E402  found above
from tag2box import mil  # noqa: E402

DESCRIPTORS = (property, cached_property, classmethod, staticmethod)

project = "tag2box"
author = "The tag2box developers"
copyright = "2026, the tag2box developers"  # noqa: A001  Sphinx's name
version = release = tag2box.__version__

extensions = ["myst_parser", "numpydoc", "sphinx.ext.autodoc", "sphinx.ext.autosummary"]
exclude_patterns = ["_build"]
templates_path = ["_templates"]

myst_heading_anchors = 3
default_role = "py:obj"  # `nms` in a docstring is a link
autodoc_typehints = "none"  # numpydoc has the types
numpydoc_show_class_members = False  # the template lists them
autosummary_generate = True


def own_members(kind):
    """The public methods and properties of a class that tag2box defines: not scikit-learn's."""
    found = {}
    for base in kind.__mro__:
        if base.__module__.startswith("tag2box"):
            found |= {name: None for name, value in vars(base).items() if documented(name, value)}
    return list(found)


def documented(name, value):
    return not name.startswith("_") and (callable(value) or isinstance(value, DESCRIPTORS))


public = {name: getattr(tag2box, name) for name in tag2box.__all__}
public |= {f"mil.{name}": getattr(mil, name) for name in mil.__all__}
classes = {f"tag2box.{name}": kind for name, kind in public.items() if isinstance(kind, type)}
autosummary_context = {"own_members": {name: own_members(kind) for name, kind in classes.items()}}

html_theme = "pydata_sphinx_theme"
html_title = "tag2box"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "tag2box"},
    "show_prev_next": False,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
