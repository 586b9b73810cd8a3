"""`serve`: the page on a port of this machine, until Ctrl+C."""

import threading
import webbrowser
from collections.abc import Callable
from urllib.parse import quote

from tag2box.review.server import make_app
from tag2box.review.session import Session
from tag2box.web.listening import address, listening, new_token, run

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
    with listening(host, port) as door:
        port, token = door.getsockname()[1], new_token()
        app = make_app(session, token, host, port)
        page = address(host, port, token) + (f"?class={quote(begin_with)}" if begin_with else "")
        say(f"Review: {page}\nCtrl+C ends it. What the page calls saved is saved.")
        if show:
            threading.Timer(0.5, webbrowser.open, [page]).start()
        try:
            run(app, door)
        finally:
            app.app.state.learning.stop()
