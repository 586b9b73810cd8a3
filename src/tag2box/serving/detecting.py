"""The server of `tag2box serve`.

POST /detect          an image; its boxes          GET /health    whether it is up, and what is under way
GET /openapi.json     all of it, for programs      GET /          the same as a page, to try it
"""

import json
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tag2box._version import __version__
from tag2box.detection.config import MIN_SCORE
from tag2box.detection.drawing import class_color
from tag2box.errors import InputError
from tag2box.serving.pool import Limits, WorkerPool, pool_of
from tag2box.serving.uploads import checked, received
from tag2box.web.access import Access, AccessMiddleware
from tag2box.web.answers import ERRORS, NOT_KEPT, as_json, number_in
from tag2box.web.listening import greeting, listening, run

# Bytes that a form has around its file.
FRAME = 10_000

TYPES = {"page.css": "text/css", "try.js": "text/javascript", "icon.svg": "image/svg+xml"}


def serve(path: Path, limits: Limits, access: Access, say: Callable[[str], None]) -> None:
    """Serve the detector of `path`, a run folder or a file, until Ctrl+C, and say where."""
    with listening(access.host, access.port) as port, pool_of(path, limits) as (pool, folder):
        most_bytes = limits.most_bytes + FRAME
        access = replace(access, port=port.getsockname()[1], most_bytes=most_bytes, seconds=limits.seconds)
        say(greeting(f"Serving {', '.join(pool.classes)} at", access))
        run(make_app(pool, folder, access), port)


def make_app(pool: WorkerPool, folder: Path, access: Access) -> AccessMiddleware:
    """The application, with its limits. folder: for the images while they are looked at."""
    pages = _Pages(pool, folder)
    app = Starlette(
        routes=[
            Route("/detect", pages.detect, methods=["POST"]),
            Route("/health", pages.health),
            Route("/openapi.json", pages.openapi),
            Route("/", pages.page),
            Route("/page/{name}", pages.file),
        ],
        exception_handlers=ERRORS,
    )
    return AccessMiddleware(app, access)


class _Pages:
    def __init__(self, pool: WorkerPool, folder: Path) -> None:
        self.pool, self.folder = pool, folder

    async def detect(self, request: Request) -> Response:
        least, limits = number_in(request.query_params, "min_score", MIN_SCORE), self.pool.limits
        async with AsyncExitStack() as kept:
            with self.pool.upload():
                photo = await kept.enter_async_context(received(request, self.folder))
                await checked(photo, limits.most_pixels)
            with self.pool.place():
                answer = await self.pool.detect(photo)
        if "error" in answer:
            raise InputError(answer["error"])
        return as_json({**answer, "boxes": [box for box in answer["boxes"] if box["score"] >= least]})

    async def health(self, _request: Request) -> Response:
        content = {
            "status": "ok",
            "version": __version__,
            "classes": self.pool.classes,
            "colors": [class_color(c) for c in range(len(self.pool.classes))],
            "workers": self.pool.limits.workers,
            "places": self.pool.limits.places,
            "taken": self.pool.taken,
        }
        return as_json(content)

    async def openapi(self, _request: Request) -> Response:
        return as_json(openapi())

    async def page(self, _request: Request) -> Response:
        return Response(_page(), media_type="text/html", headers=NOT_KEPT)

    async def file(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in TYPES:
            raise HTTPException(404, "not here")
        return Response(_file(name), media_type=TYPES[name], headers=NOT_KEPT)


@lru_cache
def _file(name: str) -> str:
    return (files("tag2box.serving") / "page" / name).read_text(encoding="utf-8")


@lru_cache
def openapi() -> dict[str, Any]:
    """The addresses, what they take and what they answer, as OpenAPI 3.1 has it."""
    content: dict[str, Any] = json.loads(_file("openapi.json"))
    content["info"]["version"] = __version__
    content["paths"]["/detect"]["post"]["parameters"][0]["schema"]["default"] = MIN_SCORE
    return content


@lru_cache
def _page() -> str:
    from jinja2 import Environment

    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return template.from_string(_file("page.html.j2")).render(api=openapi())
