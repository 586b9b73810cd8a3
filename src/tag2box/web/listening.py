"""A port of this machine, and uvicorn on it until Ctrl+C or SIGTERM."""

import asyncio
import ipaddress
import logging
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from tag2box.errors import InputError
from tag2box.runtime.processes import unwinds_on_sigterm
from tag2box.web.access import EVERYWHERE, Access, AccessMiddleware

# Connections at once: where there are more, the answer is 503. The system gives a process some 1000 files.
MOST_CONNECTIONS = 500
# Seconds for the answers under way when the server ends.
LAST_ANSWERS = 3
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
    with unwinds_on_sigterm(), socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as port_socket:
        try:
            port_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            port_socket.bind((host, port))
            port_socket.listen(WAITING)  # from here on callers wait, and are not refused
        except OSError as error:
            raise InputError(
                f"cannot listen at {host}, port {port}: {error.strerror or error}; choose another --port"
            ) from error
        yield port_socket


def address(access: Access) -> str:
    """What to type into a browser."""
    host = socket.gethostname() if access.host in EVERYWHERE else access.host
    return f"http://{f'[{host}]' if ':' in host else host}:{access.port}{access.start}"


def greeting(what: str, access: Access) -> str:
    """Where a server is, and who can use it."""
    lines = [f"{what} {address(access)}", "Ctrl+C ends it."]
    return "\n".join(lines if access.token or _only_here(access.host) else [*lines, OPEN])


def _only_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def server_of(app: AccessMiddleware) -> uvicorn.Server:
    """uvicorn's server, as all of ours are set up."""
    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="off",
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=LAST_ANSWERS,
    )
    logging.getLogger("uvicorn.error").addFilter(_is_no_cancellation)
    return uvicorn.Server(config)


def _is_no_cancellation(record: logging.LogRecord) -> bool:
    """Not that the last requests were cut off when the server ended."""
    kind = record.exc_info[0] if record.exc_info else None
    return kind is not asyncio.CancelledError and not record.getMessage().startswith("Cancel ")


def run(app: AccessMiddleware, port_socket: socket.socket) -> None:
    """Serve until Ctrl+C or SIGTERM."""
    server_of(app).run(sockets=[port_socket])
    raise KeyboardInterrupt  # uvicorn raises the signal again, and asyncio may lose that of Ctrl+C
