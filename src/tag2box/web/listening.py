"""A port of this machine, and a server on it until Ctrl+C or SIGTERM. No client keeps it, or others, waiting.

A connection is ended where its client takes too long to ask, or to take the answer; how long a body may take
is the `Guard`'s. Where there are too many connections, the one that has waited longest for its client makes
room for the next.
"""

import asyncio
import ipaddress
import logging
import secrets
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from tag2box.errors import InputError
from tag2box.runtime.processes import unwinds_on_sigterm
from tag2box.web.guard import EVERYWHERE, Door, Guard

# Connections at once, whatever they do: the system gives a process some thousand files.
MOST_CONNECTIONS = 500
# What a client may be waited for, and the seconds: uvicorn waits for ever. A body has those of its `Door`.
SECONDS = {"head": 10.0, "delivery": 60.0}
# Seconds for the answers under way when the server ends.
LAST_ANSWERS = 10.0
_BODY = b'{"error":"too many connections: ask again in 10 s"}'
CROWDED = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 10\r\n"
    b"content-length: %d\r\nconnection: close\r\n\r\n%s" % (len(_BODY), _BODY)
)
# Connections that wait to be accepted.
WAITING = 128
OPEN = "Whoever reaches this port can use it: --token WORD lets in only those who know the word."


def new_token() -> str:
    """A word that nobody guesses."""
    return secrets.token_urlsafe(24)


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """A socket at that address; port 0 takes a free one. SIGTERM ends what is done with it as Ctrl+C does."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # By its name, or asyncio does not know that it is TCP, and answers wait 40 ms for an acknowledgement.
    with unwinds_on_sigterm(), socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as place:
        try:
            place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            place.bind((host, port))
            place.listen(WAITING)  # from here on callers wait, and are not refused
        except OSError as error:
            raise InputError(
                f"cannot listen at {host}, port {port}: {error.strerror or error}; choose another --port"
            ) from error
        yield place


def address(door: Door) -> str:
    """What to type into a browser."""
    host = socket.gethostname() if door.host in EVERYWHERE else door.host
    return f"http://{f'[{host}]' if ':' in host else host}:{door.port}{door.start}"


def greeting(what: str, door: Door) -> str:
    """Where a server is, and who can use it."""
    lines = [f"{what} {address(door)}", "Ctrl+C ends it."]
    return "\n".join(lines if door.token or _only_here(door.host) else [*lines, OPEN])


def _only_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Impatient(H11Protocol):
    """uvicorn's connection, which does not wait for its client for ever."""

    _awaited, _since = "", 0.0
    _clock: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Take one more, where there is room."""
        super().connection_made(transport)
        if self._has_room():
            self._watch()
        else:
            transport.write(CROWDED)
            transport.close()

    def _has_room(self) -> bool:
        """Whether there is room; where all is taken, the client that is slowest makes it."""
        present: list[Any] = [each for each in self.connections if not each.transport.is_closing()]
        slow = [each for each in present if each._awaited]  # not this one: nothing is awaited yet
        if len(present) <= MOST_CONNECTIONS:
            return True
        if slow:
            min(slow, key=lambda each: each._since).transport.abort()
        return bool(slow)

    def data_received(self, data: bytes) -> None:
        """More of a request."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """An answer is on its way."""
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        """The client does not take what it is sent."""
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        """It does again."""
        super().resume_writing()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """The end of it."""
        self._stop_clock()
        super().connection_lost(exc)

    def _watch(self) -> None:
        """Start the clock where something else is awaited than before."""
        if (awaited := self._awaits()) != self._awaited:
            self._stop_clock()
            self._awaited, self._since = awaited, self.loop.time()
            if awaited in SECONDS:
                self._clock = self.loop.call_later(SECONDS[awaited], self.transport.abort)

    def _awaits(self) -> str:
        """What the client is to do; "" where the server is at work."""
        if self.flow.write_paused:
            return "delivery"
        if self.cycle is None or self.cycle.response_complete:
            return "head"
        return "body" if self.cycle.more_body else ""

    def _stop_clock(self) -> None:
        if self._clock is not None:
            self._clock.cancel()


class Server(uvicorn.Server):
    """uvicorn's server, as all of ours are set up; when it ends it waits for nobody who keeps it waiting."""

    ended_by = 0

    def __init__(self, app: Guard) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=Impatient,
                log_level="error",
                access_log=False,
                server_header=False,
                lifespan="off",
                ws="none",
            )
        )

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Remember which signal ends it: uvicorn raises it again, and asyncio may lose it there."""
        self.ended_by = sig
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Finish what was asked, for a while."""
        for connection in self._connections():
            if connection._awaited == "body":
                connection.transport.abort()
        asyncio.get_running_loop().call_later(LAST_ANSWERS, self._force)
        await super().shutdown(sockets)

    def _force(self) -> None:
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # of each answer that is cut off
        self.force_exit = True
        for connection in self._connections():
            connection.transport.abort()

    def _connections(self) -> list[Any]:
        return list(self.server_state.connections)


def run(app: Guard, place: socket.socket) -> None:
    """Serve until Ctrl+C or SIGTERM."""
    server = Server(app)
    server.run(sockets=[place])
    if server.ended_by == signal.SIGINT:
        raise KeyboardInterrupt
