"""The server behind the page: a few addresses, each a thin call of `Session`.

/TOKEN/                     the page             /TOKEN/page/NAME        its script and style
/TOKEN/start, /list         what there is        /TOKEN/photos?n=3,4     all about some photos
/TOKEN/photo/3, /thumb/3, /map/3/0               pictures, by the number of the photo
POST /TOKEN/events          corrections          POST, GET /TOKEN/learn  learn again, and how far it is

`?v=KEY` says which run a page knows, by the key that /start gave it; one that knows another is answered 409.
"""

import threading
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from tag2box.errors import InputError, Tag2BoxError
from tag2box.review.listing import Query
from tag2box.review.pictures import LARGE, THUMBNAIL, browser_type, heat_picture, small_picture
from tag2box.review.session import Session
from tag2box.run.heat_maps import Heat, heat_maps_of
from tag2box.run.learning import Learning
from tag2box.web.access import Access, AccessMiddleware
from tag2box.web.answers import ERRORS, NOT_KEPT, as_json, body_as_json, index_in
from tag2box.web.listening import address, listening, new_token, run

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
}
# Pictures may be kept by the browser: the address of a photo changes with its run.
KEPT = {"cache-control": "private, max-age=3600"}
MOST_PHOTOS = 200


def open_page(
    session: Session,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    begin_with: str | None = None,
    show: bool = True,
    say: Callable[[str], None],
) -> None:
    """Serve the page until Ctrl+C, and say where it is; its address holds a token that nobody can guess."""
    with listening(host, port) as port_socket:
        app = make_app(session, new_token(), host, port_socket.getsockname()[1])
        page = address(app.access) + (f"?class={quote(begin_with)}" if begin_with else "")
        say(f"Review: {page}\nCtrl+C ends it. What the page calls saved is saved.")
        if show:
            threading.Timer(0.5, webbrowser.open, [page]).start()
        try:
            run(app, port_socket)
        finally:
            app.app.state.pages.learning.stop()


def make_app(session: Session, token: str, host: str, port: int) -> AccessMiddleware:
    """The application, behind what it takes requests from."""
    pages = _Pages(session)
    app = Starlette(
        routes=[
            Route("/", pages.page),
            Route("/page/{name}", pages.page),
            Route("/start", pages.start),
            Route("/list", pages.list),
            Route("/photos", pages.photos),
            Route("/photo/{n}", pages.photo),
            Route("/thumb/{n}", pages.thumb),
            Route("/map/{n}/{c}", pages.map),
            Route("/events", pages.events, methods=["POST"]),
            Route("/learn", pages.learn, methods=["GET", "POST"]),
        ],
        exception_handlers=ERRORS,
    )
    app.state.pages = pages
    return AccessMiddleware(app, Access(host, port, token, for_pages=True))


class _Pages:
    """The session that the page sees now, and the process that learns again."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.learning = Learning(session.run.folder, self._learned)
        self._heat: tuple[Session, Callable[[int, int], Heat]] | None = None
        self._renewing, self._opening = threading.Lock(), threading.Lock()
        # What maps are made of is large, and is checked when it is read: before anybody waits for it.
        threading.Thread(target=self._warm_up, daemon=True).start()

    def _learned(self) -> None:
        with self._renewing:
            self.session = self.session.renewed()
        self._warm_up()

    def _warm_up(self) -> None:
        with suppress(Tag2BoxError, OSError):  # whoever asks for a map is told
            self._maps(self.session)

    def _maps(self, session: Session) -> Callable[[int, int], Heat]:
        with self._opening:
            if self._heat is None or self._heat[0] is not session:
                self._heat = session, heat_maps_of(session.run)
            return self._heat[1]

    def _known(self, request: Request) -> Session:
        """The session; 409 for a page that knows an earlier one: its numbers may be those of other photos."""
        session = self.session
        if request.query_params.get("v", session.key) != session.key:
            raise HTTPException(409, "the run has learned again: load the page anew")
        return session

    async def page(self, request: Request) -> Response:
        name = request.path_params.get("name", "page.html")
        content = _page_files().get(name)
        if content is None:
            return Response("not here\n", 404)
        return Response(content, media_type=TYPES[Path(name).suffix], headers=NOT_KEPT)

    async def start(self, _request: Request) -> Response:
        return as_json(await run_in_threadpool(self._start))

    def _start(self) -> dict[str, object]:
        with self._renewing:
            self.session = self.session.renewed()
        return {**self.session.start(), "learning": self.learning.status}

    async def list(self, request: Request) -> Response:
        session = self._known(request)
        query = Query.parse(request.query_params, session.images.classes)
        here = request.query_params.get("photo", "")
        return as_json(await run_in_threadpool(session.listing, query, here))

    async def photos(self, request: Request) -> Response:
        session, numbers = self._known(request), request.query_params.get("n", "").split(",")[:MOST_PHOTOS]
        if not all(number.isdecimal() and len(number) < 10 for number in numbers):
            raise InputError("expected numbers of photos, such as n=3,4,5")
        return as_json({"photos": await run_in_threadpool(session.photos, [*map(int, numbers)])})

    async def photo(self, request: Request) -> Response:
        _, path, _ = self._photo(request)
        if kind := await run_in_threadpool(browser_type, path):
            return FileResponse(path, media_type=kind, headers=KEPT)
        return await self._small(path, LARGE)

    async def thumb(self, request: Request) -> Response:
        return await self._small(self._photo(request)[1], THUMBNAIL)

    async def map(self, request: Request) -> Response:
        session, _, n = self._photo(request)
        c = index_in(request.path_params, "c", len(session.images.classes))
        picture = await run_in_threadpool(self._map, session, n, c)
        return Response(picture, media_type="image/png", headers=NOT_KEPT)

    def _map(self, session: Session, n: int, c: int) -> bytes:
        return heat_picture(self._maps(session)(c, n), session.annotations.sizes[n])

    async def events(self, request: Request) -> Response:
        session, events = self._known(request), await body_as_json(request)
        return as_json(await run_in_threadpool(session.save, events))

    async def learn(self, request: Request) -> Response:
        return as_json(self.learning.start() if request.method == "POST" else self.learning.status)

    def _photo(self, request: Request) -> tuple[Session, Path, int]:
        session = self._known(request)
        n = index_in(request.path_params, "n", len(session.images))
        return session, session.images.paths[n], n

    async def _small(self, path: Path, side: int) -> Response:
        cache = self.session.run.folder / "review" / "pictures"
        picture = await run_in_threadpool(small_picture, path, side, cache)
        return Response(picture, media_type="image/jpeg", headers=KEPT)


@lru_cache(maxsize=1)
def _page_files() -> dict[str, bytes]:
    """The page, its scripts and its style by name: nothing else can be asked for."""
    folder = files("tag2box.review") / "page"
    return {item.name: item.read_bytes() for item in folder.iterdir() if Path(item.name).suffix in TYPES}
