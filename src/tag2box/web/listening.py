"""A port of this machine, its address, and a server on it until Ctrl+C."""

import secrets
import socket
from typing import Any

import uvicorn

from tag2box.errors import InputError

__all__ = ["address", "listening", "new_token", "run"]

EVERYWHERE = frozenset({"0.0.0.0", "::"})
# Connections at once, whatever they do: the system gives a process some thousand files.
MOST_CONNECTIONS = 500
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


def run(app: Any, door: socket.socket) -> None:
    """Serve until Ctrl+C."""
    config = uvicorn.Config(
        app,
        log_level="error",
        access_log=False,
        server_header=False,
        lifespan="off",
        ws="none",
        limit_concurrency=MOST_CONNECTIONS,
    )
    uvicorn.Server(config).run(sockets=[door])
