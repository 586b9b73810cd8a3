"""`open_page`: the page on a port of this machine until Ctrl+C, and in the browser."""

import threading
import webbrowser
from collections.abc import Callable
from urllib.parse import quote

from tag2box.review.server import make_app
from tag2box.review.session import Session
from tag2box.web.listening import address, listening, new_token, run


def open_page(
    session: Session,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    begin_with: str | None = None,
    show: bool = True,
    say: Callable[[str], None],
) -> None:
    """Serve the page and say where it is; its address holds a token that nobody can guess."""
    with listening(host, port) as place:
        app = make_app(session, new_token(), host, place.getsockname()[1])
        page = address(app.door) + (f"?class={quote(begin_with)}" if begin_with else "")
        say(f"Review: {page}\nCtrl+C ends it. What the page calls saved is saved.")
        if show:
            threading.Timer(0.5, webbrowser.open, [page]).start()
        try:
            run(app, place)
        finally:
            app.app.state.learning.stop()
