"""A port of this machine, its address, and a server on it until Ctrl+C."""

import asyncio
import secrets
import socket
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from tag2box.errors import InputError

__all__ = ["address", "listening", "new_token", "run", "server_config"]

EVERYWHERE = frozenset({"0.0.0.0", "::"})
# Connections at once, whatever they do: the system gives a process some thousand files.
MOST_CONNECTIONS = 500
# Seconds for the head of a request to arrive. uvicorn waits for ever.
PATIENCE = 10.0
_BODY = b'{"error":"too many connections: ask again in 10 s"}'
CROWDED = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 10\r\n"
    b"content-length: %d\r\nconnection: close\r\n\r\n%s" % (len(_BODY), _BODY)
)
# Connections that wait to be accepted.
WAITING = 128


def new_token() -> str:
    """A word that nobody guesses."""
    return secrets.token_urlsafe(24)


def listening(host: str, port: int) -> socket.socket:
    """A socket at that address; port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # By its name, or asyncio does not know that it is TCP, and answers wait 40 ms for an acknowledgement.
    door = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind((host, port))
        door.listen(WAITING)  # from here on callers wait, and are not refused
    except OSError as error:
        door.close()
        raise InputError(
            f"cannot listen at {host}, port {port}: {error.strerror or error}; choose another --port"
        ) from error
    return door


def address(host: str, port: int, token: str = "") -> str:
    """What to type into a browser."""
    shown = socket.gethostname() if host in EVERYWHERE else f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}/{token}/" if token else f"http://{shown}:{port}/"


class Impatient(H11Protocol):
    """uvicorn's connection, which is closed where a request does not begin, or its head does not end.

    Without that, a few hundred clients that say nothing keep out all others.
    """

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Take one more, unless there are too many."""
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.write(CROWDED)
            transport.close()
        else:
            self._watch()

    def data_received(self, data: bytes) -> None:
        """More of a request."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """The end of it."""
        self._stop_watching()
        super().connection_lost(exc)

    def _watch(self) -> None:
        """Time is limited while no request is under way; who answers it limits its body."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_watching()
        elif self._deadline is None and not self.transport.is_closing():
            self._deadline = self.loop.call_later(PATIENCE, self.transport.close)

    def _stop_watching(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def run(app: Any, door: socket.socket) -> None:
    """Serve until Ctrl+C."""
    uvicorn.Server(server_config(app)).run(sockets=[door])


def server_config(app: Any) -> uvicorn.Config:
    """How uvicorn is to serve."""
    return uvicorn.Config(
        app,
        http=Impatient,
        log_level="error",
        access_log=False,
        server_header=False,
        lifespan="off",
        ws="none",
    )
