"""`serve`: the page on a port of this machine, until Ctrl+C."""

import secrets
import socket
import threading
import webbrowser
from collections.abc import Callable
from urllib.parse import quote

import uvicorn

from tag2box.errors import InputError
from tag2box.review.server import make_app
from tag2box.review.session import Session

__all__ = ["serve"]


def serve(
    session: Session,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    begin_with: str | None = None,
    show: bool = True,
    say: Callable[[str], None],
) -> None:
    """Serve the page and say where it is; its address holds a token that nobody can guess."""
    with _listening(host, port) as door:
        port, token = door.getsockname()[1], secrets.token_urlsafe(24)
        app = make_app(session, token, host, port)
        shown = f"[{host}]" if ":" in host else host
        if host in {"0.0.0.0", "::"}:
            shown = socket.gethostname()
        address = f"http://{shown}:{port}/{token}/"
        if begin_with:
            address += f"?class={quote(begin_with)}"
        say(f"Review: {address}\nCtrl+C ends it. What the page calls saved is saved.")
        if show:
            threading.Timer(0.5, webbrowser.open, [address]).start()
        config = uvicorn.Config(
            app, log_level="error", access_log=False, server_header=False, lifespan="off", ws="none"
        )
        try:
            uvicorn.Server(config).run(sockets=[door])
        finally:
            app.app.state.learning.stop()


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    door = socket.socket(family, socket.SOCK_STREAM)
    try:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind((host, port))
    except OSError as error:
        door.close()
        raise InputError(
            f"cannot listen at {host}, port {port}: {error.strerror or error}; choose another --port"
        ) from error
    return door
