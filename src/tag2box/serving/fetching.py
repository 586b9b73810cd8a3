"""Photos that Label Studio holds, from its own address and from nowhere else."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import quote, urljoin, urlsplit
from urllib.request import HTTPErrorProcessor, Request, build_opener

from tag2box.errors import InputError

PIECE = 1 << 16
# What stays as it is in an address: all else, such as a space or an umlaut, is written as %20.
URL_LETTERS = "%/:?#[]@!$&'()*+,;=~"
# An address that is none, a server that does not answer, or answers something else.
UNREADABLE = (OSError, HTTPException, ValueError, KeyError, TypeError)


class _AsItComes(HTTPErrorProcessor):
    """No redirect is followed: the key of one server is not for another. No answer is an exception."""

    def http_response(self, request: Request, response: Any) -> Any:  # noqa: ARG002
        """The answer itself."""
        return response

    https_response = http_response


class Source:
    """The Label Studio at `address`. key: an access token of one of its users; seconds: to wait for it."""

    def __init__(self, address: str, key: str, seconds: float = 30.0) -> None:
        parts = urlsplit(address)
        if parts.scheme not in {"http", "https"} or not parts.netloc:
            raise InputError(f"--label-studio must be like http://localhost:8080, but it is {address!r}")
        self._address, self._key, self._seconds = address.rstrip("/") + "/", key, seconds
        self._opener = build_opener(_AsItComes)

    def fetch(self, photo: str, target: Path, most_bytes: int) -> None:
        """Write the photo that a task names to `target`."""
        try:
            target.write_bytes(self._content(photo, most_bytes))
        except InputError:
            raise
        except UNREADABLE as error:
            raise InputError(f"Label Studio does not give the photo: {error}") from None

    def _content(self, photo: str, most_bytes: int) -> bytearray:
        url = quote(urljoin(self._address, photo), safe=URL_LETTERS)
        if urlsplit(url)[:2] != urlsplit(self._address)[:2]:
            raise InputError("the photo is not kept by this Label Studio: only its own are fetched")
        content, deadline = bytearray(), time.monotonic() + self._seconds
        with self._open(url, self._headers()) as answer:
            while piece := answer.read1(PIECE):
                content += piece
                if len(content) > most_bytes:
                    raise InputError(f"the photo has more than {most_bytes} bytes")
                if time.monotonic() > deadline:
                    raise InputError(f"Label Studio takes more than {self._seconds:g} s to give the photo")
        return content

    def _headers(self) -> dict[str, str]:
        """How the key is shown: a personal one is first exchanged for one that lasts minutes."""
        if self._key.count(".") != 2:
            return {"Authorization": f"Token {self._key}"} if self._key else {}
        body = json.dumps({"refresh": self._key}).encode()
        url = urljoin(self._address, "api/token/refresh/")
        with self._open(url, {"Content-Type": "application/json"}, body) as answer:
            return {"Authorization": f"Bearer {json.load(answer)['access']}"}

    @contextmanager
    def _open(self, url: str, headers: dict[str, str], body: bytes | None = None) -> Iterator[Any]:
        with self._opener.open(Request(url, body, headers), timeout=self._seconds) as answer:
            if answer.status != HTTPStatus.OK:
                raise InputError(f"Label Studio does not give the photo: {answer.status} {answer.reason}")
            yield answer
