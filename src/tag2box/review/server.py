"""The server behind the page: a few addresses, each a thin call of `Session`.

/TOKEN/                     the page             /TOKEN/page/NAME        its script and style
/TOKEN/start, /list         what there is        /TOKEN/photos?n=3,4     all about some photos
/TOKEN/photo/3, /thumb/3, /map/3/0               pictures, by the number of the photo
POST /TOKEN/events          corrections          POST, GET /TOKEN/learn  learn again, and how far it is

`?v=KEY` says which run a page knows, by the key that /start gave it; one that knows another is answered 409.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from tag2box.errors import InputError, Tag2BoxError
from tag2box.review.listing import Wanted
from tag2box.review.pictures import LARGE, THUMBNAIL, heat_picture, is_for_browsers, small_picture
from tag2box.review.session import Session
from tag2box.run.heat_maps import Heat, heat_maps_of
from tag2box.run.learning import Learning
from tag2box.web.answers import ERRORS, NOT_KEPT, as_json, body_as_json
from tag2box.web.guard import Door, Guard

TYPES = {".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css"}
# Pictures may be kept by the browser: the address of a photo changes with its run.
KEPT = {"cache-control": "private, max-age=3600"}
MOST_PHOTOS = 200


def make_app(session: Session, token: str, host: str, port: int) -> Guard:
    """The application, behind its guard."""
    pages = _Pages(session)
    app = Starlette(
        routes=[
            Route("/", pages.page),
            Route("/page/{name}", pages.page),
            Route("/start", pages.start),
            Route("/list", pages.list),
            Route("/photos", pages.photos),
            Route("/photo/{n:int}", pages.photo),
            Route("/thumb/{n:int}", pages.thumb),
            Route("/map/{n:int}/{c:int}", pages.map),
            Route("/events", pages.events, methods=["POST"]),
            Route("/learn", pages.learn, methods=["GET", "POST"]),
        ],
        exception_handlers=ERRORS,
        lifespan=None,
    )
    app.state.learning = pages.learning
    return Guard(app, Door(host, port, token, for_pages=True))


class _Pages:
    def __init__(self, session: Session) -> None:
        self.session = session
        self.learning = Learning(session.run.folder, self._learned)
        self._heat: Callable[[int, int], Heat] | None = None
        self._opening = threading.Lock()
        # What maps are made of is large, and is checked when it is read: before anybody waits for it.
        threading.Thread(target=self._warm_up, daemon=True).start()

    def _learned(self) -> None:
        self.session.learned_again()
        self._heat = None
        self._warm_up()

    def _warm_up(self) -> None:
        with suppress(Tag2BoxError, OSError):  # whoever asks for a map is told
            self._open_maps()

    def _open_maps(self) -> Callable[[int, int], Heat]:
        with self._opening:
            if self._heat is None:
                run = self.session.run
                self._heat = heat_maps_of(run)
            return self._heat

    async def page(self, request: Request) -> Response:
        name = request.path_params.get("name", "page.html")
        content = _page_files().get(name)
        if content is None:
            return Response("not here\n", 404)
        return Response(content, media_type=TYPES[Path(name).suffix], headers=NOT_KEPT)

    async def start(self, _request: Request) -> Response:
        answer = await run_in_threadpool(self.session.start)
        return as_json({**answer, "learning": self.learning.status})

    async def list(self, request: Request) -> Response:
        self._refuse_stale(request)
        wanted = Wanted.parse(request.query_params, self.session.images.classes)
        here = request.query_params.get("photo", "")
        return as_json(await run_in_threadpool(self.session.listing, wanted, here))

    async def photos(self, request: Request) -> Response:
        self._refuse_stale(request)
        numbers = request.query_params.get("n", "").split(",")[:MOST_PHOTOS]
        if not all(number.isdecimal() and len(number) < 10 for number in numbers):
            raise InputError("expected numbers of photos, such as n=3,4,5")
        return as_json({"photos": await run_in_threadpool(self.session.photos, [*map(int, numbers)])})

    async def photo(self, request: Request) -> Response:
        path = self._path(request)
        if kind := await run_in_threadpool(is_for_browsers, path):
            return FileResponse(path, media_type=kind, headers=KEPT)
        return await self._small(path, LARGE)

    async def thumb(self, request: Request) -> Response:
        return await self._small(self._path(request), THUMBNAIL)

    async def map(self, request: Request) -> Response:
        self._path(request)
        n, c = request.path_params["n"], request.path_params["c"]
        if c >= len(self.session.images.classes):
            raise InputError(f"there is no class {c}")
        return Response(await run_in_threadpool(self._map, n, c), media_type="image/png", headers=NOT_KEPT)

    def _map(self, n: int, c: int) -> bytes:
        heat = self._open_maps()(c, n)
        (photo,) = self.session.photos([n])
        return heat_picture(heat, (photo["width"], photo["height"]))

    async def events(self, request: Request) -> Response:
        self._refuse_stale(request)
        given = await body_as_json(request)
        return as_json(await run_in_threadpool(self.session.save, given))

    async def learn(self, request: Request) -> Response:
        status = self.learning.start() if request.method == "POST" else self.learning.status
        return as_json(status)

    def _refuse_stale(self, request: Request) -> None:
        """Refuse what a page asks that knows an earlier run: its numbers may be those of other photos."""
        if request.query_params.get("v", self.session.key) != self.session.key:
            raise HTTPException(409, "the run has learned again: load the page anew")

    def _path(self, request: Request) -> Path:
        self._refuse_stale(request)
        n, paths = request.path_params["n"], self.session.images.paths
        if n >= len(paths):
            raise InputError(f"there is no photo {n}: they are numbered from 0 to {len(paths) - 1}")
        path: Path = paths[n]
        return path

    async def _small(self, path: Path, side: int) -> Response:
        cache = self.session.run.folder / "review" / "pictures"
        picture = await run_in_threadpool(small_picture, path, side, cache)
        return Response(picture, media_type="image/jpeg", headers=KEPT)


@lru_cache(maxsize=1)
def _page_files() -> dict[str, bytes]:
    """The page, its scripts and its style by name: nothing else can be asked for."""
    folder = files("tag2box.review") / "page"
    return {item.name: item.read_bytes() for item in folder.iterdir() if Path(item.name).suffix in TYPES}
