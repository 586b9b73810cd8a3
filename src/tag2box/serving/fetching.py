"""Photos that Label Studio holds, from its own address and from nowhere else."""

import json
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urljoin, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from tag2box.errors import InputError

__all__ = ["Source"]


class _Stay(HTTPRedirectHandler):
    """No redirect is followed: the key of one server is not for another."""

    def redirect_request(self, *_: object) -> None:
        """Follow nothing."""


class Source:
    """The Label Studio at `address`. key: an access token of one of its users; seconds: to wait for it."""

    def __init__(self, address: str, key: str, seconds: float = 30.0) -> None:
        parts = urlsplit(address)
        if parts.scheme not in {"http", "https"} or not parts.netloc:
            raise InputError(f"--label-studio must be like http://localhost:8080, but it is {address!r}")
        self._address, self._key, self._seconds = address.rstrip("/") + "/", key, seconds
        self._opener = build_opener(_Stay)

    def fetch(self, photo: str, target: Path, most_bytes: int) -> None:
        """Write the photo that a task names to `target`."""
        url = urljoin(self._address, photo)
        if urlsplit(url)[:2] != urlsplit(self._address)[:2]:
            raise InputError("the photo is not kept by this Label Studio: only its own are fetched")
        try:
            with self._open(url, self._headers()) as answer:
                content = answer.read(most_bytes + 1)
        except (URLError, OSError, ValueError) as error:
            raise InputError(f"Label Studio does not give the photo: {error}") from None
        if len(content) > most_bytes:
            raise InputError(f"the photo has more than {most_bytes} bytes")
        target.write_bytes(content)

    def _headers(self) -> dict[str, str]:
        """How the key is shown: a personal one is first exchanged for one that lasts minutes."""
        if self._key.count(".") != 2:
            return {"Authorization": f"Token {self._key}"} if self._key else {}
        body = json.dumps({"refresh": self._key}).encode()
        url = urljoin(self._address, "api/token/refresh/")
        with self._open(url, {"Content-Type": "application/json"}, body) as answer:
            return {"Authorization": f"Bearer {json.load(answer)['access']}"}

    def _open(self, url: str, headers: dict[str, str], body: bytes | None = None) -> Any:
        return self._opener.open(Request(url, body, headers), timeout=self._seconds)
