"""Text, JSON, YAML and XML of strangers: read, or refused in one line."""

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from tag2box.data.remote import open_file
from tag2box.errors import InputError

# The names of 20,000 classes fit.
MAX_YAML = 1_000_000
# A description of a data set is two or three levels deep.
MAX_DEPTH = 20


def read_text(path: Path) -> str:
    """The text of `path`, UTF-8 with or without a byte order mark."""
    try:
        with io.TextIOWrapper(open_file(path), encoding="utf-8-sig") as file:
            return file.read()
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text ({error.reason}): save it as UTF-8") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None


def read_json(path: Path) -> Any:
    """The content of the JSON file `path`."""
    return parse_json(read_text(path), f"{path} is not JSON")


def parse_json(text: str, otherwise: str) -> Any:
    """The content of `text`; an error that begins with `otherwise` where it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:  # a number of 5000 digits is a ValueError too
        raise InputError(f"{otherwise}: {error}") from None


def parse_yaml(text: str, path: Path) -> dict[str, Any]:
    """The mapping that the YAML file `path` holds; every scalar is a string, as it is written there."""
    import yaml

    if len(text) > MAX_YAML:
        raise InputError(f"{path} is longer than {MAX_YAML} letters: expected the description of a data set")
    # Text only, so that a class may be called `no` or 007. In C where that was built, 20 times as fast.
    loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        depth = 0
        for event in yaml.parse(text, loader):  # does not recurse, as loading does
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:
                raise InputError(f"{path} is nested more than {MAX_DEPTH} deep: expected names, train, val")
        content = yaml.load(text, loader)
    except (yaml.YAMLError, ValueError) as error:
        raise error if isinstance(error, InputError) else InputError(f"{path} is not YAML: {error}") from None
    if not isinstance(content, dict):
        raise InputError(f"{path} is not the description of a data set: expected names, train, val")
    return content


class _WithoutDoctype(ElementTree.TreeBuilder):
    """Entities, which can make a small file huge or read another one, need a DOCTYPE; nobody else does."""

    def doctype(self, *_: Any) -> None:
        raise InputError("a DOCTYPE, which annotations do not have")


def read_xml(path: Path) -> ElementTree.Element:
    """The root of the XML file `path`."""
    try:
        with open_file(path) as file:
            return ElementTree.parse(file, ElementTree.XMLParser(target=_WithoutDoctype())).getroot()
    except InputError as error:
        raise error if str(path) in str(error) else InputError(f"{path}: {error}") from None
    except (ElementTree.ParseError, ValueError, LookupError) as error:  # LookupError: an unknown encoding
        raise InputError(f"{path} is not an annotation: {error}; repair the file or remove it") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None


def parse_xml(text: str, otherwise: str) -> ElementTree.Element:
    """The root of `text`; an error that begins with `otherwise` where it is not XML."""
    try:
        return ElementTree.fromstring(text, ElementTree.XMLParser(target=_WithoutDoctype()))
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise InputError(f"{otherwise}: {error}") from None


@contextmanager
def expecting(what: str, path: Path) -> Iterator[None]:
    """Content that is not `what` it should be fails in one line, wherever it was that a value did not fit."""
    try:
        yield
    except InputError as error:
        raise error if str(path) in str(error) else InputError(f"{path}: {error}") from None
    except KeyError as wrong:
        raise InputError(f"{path} is not {what}: {wrong} is missing or unknown") from wrong
    except (TypeError, ValueError, AttributeError, IndexError, OverflowError, OSError) as wrong:
        raise InputError(f"{path} is not {what}: {' '.join(str(wrong).split())}") from wrong
