"""Answers as JSON, errors as one line of it, and what is read out of a request."""

import json
import math
from collections.abc import Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from tag2box.errors import InputError, Tag2BoxError

NOT_KEPT = {"cache-control": "no-store"}
# Digits of a whole number in JSON: what is longer is no number of ours, and no float can hold 400.
MOST_DIGITS = 30


def as_json(content: Any, status: int = 200, headers: Mapping[str, str] = NOT_KEPT) -> Response:
    """An answer that nobody keeps."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Response(text, status, media_type="application/json", headers=headers)


def error(reason: str, status: int) -> Response:
    """An error as its one line."""
    return as_json({"error": reason}, status)


async def body_as_json(request: Request) -> Any:
    """What was sent, where that is JSON and is called so."""
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise InputError("expected JSON")
    try:
        body = await request.body()
        return json.loads(body, parse_int=_whole_number, parse_float=_number, parse_constant=_number)
    except (ValueError, RecursionError):
        raise InputError("expected JSON, with numbers that are finite and not too long") from None


def _whole_number(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError("too long")
    return int(digits)


def _number(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError("not finite")
    return number


def number_in(query: Mapping[str, str], name: str, default: float) -> float:
    """The number of that name in the query of an address; `InputError` where it is none."""
    try:
        number = float(query.get(name, default))
    except ValueError:
        number = math.nan
    if math.isnan(number):
        raise InputError(f"{name} must be a number, but it is {query[name][:40]!r}")
    return number


def index_in(path: Mapping[str, str], name: str, n: int) -> int:
    """The number of that name in a path, from 0 to n - 1; 404 where it is none."""
    text = path[name]
    if not (text.isdecimal() and text.isascii() and len(text) < 10 and int(text) < n):
        raise HTTPException(404, f"there is none here: expected a number from 0 to {n - 1}")
    return int(text)


async def _failed(_request: Request, wrong: Exception) -> Response:
    """Where a photo is and how it is called stays here. An error may have a `status`, and `headers`."""
    reason = str(wrong) if isinstance(wrong, Tag2BoxError) else "the file cannot be read"
    status = getattr(wrong, "status", 400 if isinstance(wrong, InputError) else 500)
    return as_json({"error": reason}, status, NOT_KEPT | getattr(wrong, "headers", {}))


async def _http(_request: Request, wrong: Exception) -> Response:
    assert isinstance(wrong, HTTPException)
    return as_json({"error": wrong.detail}, wrong.status_code, NOT_KEPT | dict(wrong.headers or {}))


async def _gone(_request: Request, _error: Exception) -> Response:
    return error("the client has left", 400)  # nobody hears it


# For Starlette: which errors are answered how.
ERRORS: dict[Any, Any] = {
    Tag2BoxError: _failed,
    OSError: _failed,
    ClientDisconnect: _gone,
    HTTPException: _http,
}
