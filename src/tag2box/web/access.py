"""`AccessMiddleware`: which requests reach a server.

The address may hold a token; Host and Origin must be the server's own, so that no other site's page and no
name that was pointed at this machine gets an answer; bodies are limited in size and time; the browser is told
to load and run nothing but what comes from here.
"""

import asyncio
import ipaddress
import secrets
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException

from tag2box.web.answers import error

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

# Hosts that stand for all addresses of this machine.
EVERYWHERE = frozenset({"0.0.0.0", "::"})
# Bytes of a request's body to a page: 200 events take less than a fifth.
MOST_BYTES = 256 * 1024
REASONS = {
    403: "asked by the page of another site",
    404: "not here: is the token of the address right?",
    413: "the body is too long",
    421: "not the name of this server: use the address that it printed; some commands take --allow-host",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    b"content-security-policy": POLICY.encode(),
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-resource-policy": b"same-origin",
    b"cross-origin-opener-policy": b"same-origin",
    b"permissions-policy": b"camera=(), geolocation=(), microphone=()",
}


@dataclass(frozen=True)
class Access:
    """Where a server listens, and which requests it takes.

    token: what every path begins with; "" for none. names: further hosts that it may be asked as.
    most_bytes, seconds: of the body of a request. for_pages: only its own page changes anything; programs,
    which send no Origin, do not.
    """

    host: str
    port: int
    token: str = ""
    names: tuple[str, ...] = ()
    most_bytes: int = MOST_BYTES
    seconds: float = 30.0
    for_pages: bool = False

    @property
    def start(self) -> str:
        """What every path begins with."""
        return f"/{self.token}/" if self.token else "/"

    def is_own(self, host: str) -> bool:
        """Whether a Host header names this server: a name that somebody else's DNS pointed here does not.

        Starlette's TrustedHostMiddleware looks at no port, and has no word for any address of this machine.
        """
        name, _, port = host.lower().rpartition(":")
        if {host.lower(), name} & {known.lower() for known in self.names}:
            return True
        if port != str(self.port):
            return False
        if name in {"127.0.0.1", "localhost", "[::1]", self.host.lower()}:
            return True
        return self.host in EVERYWHERE and (name == socket.gethostname().lower() or _is_address(name))


class AccessMiddleware:
    """An ASGI application around another: requests that may pass reach it without the token in their path."""

    def __init__(self, app: Any, access: Access) -> None:
        self.app, self.access = app, access

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":  # no web sockets here
            return
        if status := self._objection(scope, Headers(scope=scope)):
            await error(REASONS[status], status)(scope, receive, _with_headers(send))
            return
        path = scope["path"][len(self.access.start) - 1 :]
        inside = {**scope, "path": path, "raw_path": path.encode()}
        await self.app(inside, _limited(receive, self.access), _with_headers(send))

    def _objection(self, scope: MutableMapping[str, Any], headers: Headers) -> int | None:
        """The status to refuse with; None where the request may pass."""
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self.access.is_own(host):
            return 421
        reads = scope["method"] in {"GET", "HEAD"}
        if origin != f"http://{host}" and (origin is not None or (self.access.for_pages and not reads)):
            return 403
        navigates = reads and headers.get("sec-fetch-mode") == "navigate"
        if headers.get("sec-fetch-site", "none") not in {"none", "same-origin"} and not navigates:
            return 403
        length = headers.get("content-length", "0")
        if not (length.isdecimal() and len(length) < 20 and int(length) <= self.access.most_bytes):
            return 413
        start = self.access.start
        given = scope["path"][: len(start)]
        return None if secrets.compare_digest(given.encode(), start.encode()) else 404


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def _limited(receive: Receive, access: Access) -> Receive:
    """`receive` that ends a body which is longer than it said, or does not come."""
    n_bytes, deadline = 0, asyncio.get_running_loop().time() + access.seconds
    coming = True

    async def limited() -> Message:
        nonlocal n_bytes, coming
        try:
            async with asyncio.timeout_at(deadline if coming else None):
                message = await receive()
        except TimeoutError:
            raise HTTPException(408, f"the request took more than {access.seconds:g} s to arrive") from None
        n_bytes += len(message.get("body", b""))
        coming = message.get("more_body", False)
        if n_bytes > access.most_bytes:
            raise HTTPException(413, REASONS[413])
        return message

    return limited


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", []), *HEADERS.items()]
        await send(message)

    return sending
