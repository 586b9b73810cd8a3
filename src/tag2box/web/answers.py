"""Answers as JSON, and errors as one line of it."""

import json
from collections.abc import Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from tag2box.errors import InputError, Tag2BoxError

NOT_KEPT = {"cache-control": "no-store"}


def as_json(content: Any, status: int = 200, headers: Mapping[str, str] = NOT_KEPT) -> Response:
    """An answer that nobody keeps."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Response(text, status, media_type="application/json", headers=headers)


def error(reason: str, status: int, **headers: str) -> Response:
    """An error as its one line; `retry_after` is the header Retry-After."""
    more = {name.replace("_", "-"): value for name, value in headers.items()}
    return as_json({"error": reason}, status, NOT_KEPT | more)


async def body_as_json(request: Request) -> Any:
    """What was sent, where that is JSON and is called so."""
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise InputError("expected JSON")
    try:
        return json.loads(await request.body())
    except (ValueError, RecursionError):
        raise InputError("expected JSON") from None


async def _failed(_request: Request, wrong: Exception) -> Response:
    """Where a photo is and how it is called stays here."""
    reason = str(wrong) if isinstance(wrong, Tag2BoxError) else "the file cannot be read"
    return error(reason, 400 if isinstance(wrong, InputError) else 500)


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
