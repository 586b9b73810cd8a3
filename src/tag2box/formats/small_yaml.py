"""The part of YAML that data sets are described in: enough to need no YAML library."""

import json
from typing import Any

__all__ = ["parse_yaml"]


def parse_yaml(text: str) -> dict[str, Any]:
    """Top-level keys with a scalar, a list of scalars or a mapping of scalars; every scalar is a string.

    Lists and mappings may be written in brackets, over several lines, or as an indented block. Comments and
    both kinds of quotes are known. What is nested deeper is not kept.
    """
    out: dict[str, Any] = {}
    key, unfinished = "", ""
    for raw in text.splitlines():
        line = unfinished + _cut(raw, "#")[0].rstrip()
        unfinished = ""
        if not line.strip() or line.startswith(("---", "%")):
            continue
        if _depth(line) > 0:
            unfinished = line + " "
        elif line[0] not in " \t-":
            key, value = _pair(line)
            out[key] = _value(value)
        else:
            out[key] = _with_item(out.get(key), line.strip())
    return out


def _with_item(block: Any, line: str) -> Any:
    if line.startswith("-"):
        return [*(block if isinstance(block, list) else []), _scalar(line[1:])]
    key, value = _pair(line)
    return (block if isinstance(block, dict) else {}) | {key: _scalar(value)}


def _value(text: str) -> Any:
    items = [item for item in _cut(text[1:-1], ",") if item.strip()]
    if text.startswith("["):
        return [_scalar(item) for item in items]
    if text.startswith("{"):
        return {key: _scalar(value) for key, value in map(_pair, items)}
    return _scalar(text)


def _pair(text: str) -> tuple[str, str]:
    key, *rest = _cut(text, ":")
    return _scalar(key), text[len(key) + 1 :].strip() if rest else ""


def _scalar(text: str) -> str:
    text = text.strip()
    if len(text) >= 2 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    if len(text) >= 2 and text[0] == text[-1] == '"':
        try:
            return str(json.loads(text))  # the escapes of JSON are escapes of YAML too
        except json.JSONDecodeError:
            return text[1:-1]
    return text


def _cut(text: str, mark: str) -> list[str]:
    """`text` cut at each unquoted `mark`; a colon must end its word, and a comment's # must begin one."""
    pieces, start = [], 0
    for i, plain in enumerate(_unquoted(text)):
        ends = mark != ":" or text[i + 1 : i + 2] in {"", " ", "\t"}
        begins = mark != "#" or text[max(i - 1, 0) : i] in {"", " ", "\t"}
        if plain and text[i] == mark and ends and begins:
            pieces.append(text[start:i])
            start = i + 1
    return [*pieces, text[start:]]


def _depth(text: str) -> int:
    """How many brackets are still open at the end."""
    signs = {"[": 1, "{": 1, "]": -1, "}": -1}
    return sum(signs.get(letter, 0) for letter, plain in zip(text, _unquoted(text), strict=True) if plain)


def _unquoted(text: str) -> list[bool]:
    """Which letters stand outside of quotes. A quote within a word, as in it's, is none."""
    out, quote, before, escaped = [], "", ":", False
    for letter in text:
        if quote:
            out.append(False)
            quote = "" if letter == quote and not escaped else quote
            escaped = letter == "\\" and quote == '"' and not escaped
        else:
            # A quote right after its like goes on: '' is how a quoted text writes a '.
            quote = letter if letter in "'\"" and before in {":", ",", "[", "{", "-", letter} else ""
            out.append(not quote)
        before = before if letter in " \t" else letter
    return out
