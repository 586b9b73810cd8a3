"""The server of `tag2box serve-labelstudio`: what Label Studio asks of a machine-learning backend.

GET /health      whether it is up             POST /setup     a project is connected: the version of the model
POST /predict    tasks in, predictions out    POST /webhook   annotations come, go, or are to be learned from
POST /train      the same, of older versions
"""

import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tag2box.data.formats.labelstudio import address_of
from tag2box.errors import InputError, Tag2BoxError
from tag2box.run.learning import Learning
from tag2box.serving.fetching import Source
from tag2box.serving.label_config import Controls, read_config
from tag2box.serving.label_studio import Annotators
from tag2box.serving.pool import Limits, WorkerPool, pool_of
from tag2box.serving.uploads import checked
from tag2box.web.access import Access, AccessMiddleware
from tag2box.web.answers import ERRORS, as_json, body_as_json
from tag2box.web.listening import greeting, listening, run

# Bytes of the tasks of a project, and their annotations.
MOST_BYTES = 50_000_000

SAVED = frozenset({"ANNOTATION_CREATED", "ANNOTATION_UPDATED", "ANNOTATIONS_CREATED"})
NOT_THEIRS = (KeyError, TypeError, AttributeError, ValueError, IndexError)


def serve(annotators: Annotators, source: Source | None, access: Access, say: Callable[[str], None]) -> None:
    """Serve a run to Label Studio until Ctrl+C, and say where."""
    run_folder = annotators.annotations.run.folder
    with listening(access.host, access.port) as port, pool_of(run_folder, Limits()) as (pool, folder):
        access = replace(access, port=port.getsockname()[1], most_bytes=MOST_BYTES)
        backend = Backend(annotators, pool, folder, source)
        say(greeting("Backend URL for Label Studio:", access))
        try:
            run(make_app(backend, access), port)
        finally:
            backend.learning.stop()


def make_app(backend: "Backend", access: Access) -> AccessMiddleware:
    """The application, behind what it takes requests from."""
    app = Starlette(
        routes=[
            Route("/", backend.health),
            Route("/health", backend.health),
            Route("/setup", backend.setup, methods=["POST"]),
            Route("/predict", backend.predict, methods=["POST"]),
            Route("/webhook", backend.webhook, methods=["POST"]),
            Route("/train", backend.train, methods=["POST"]),
        ],
        exception_handlers=ERRORS,
    )
    return AccessMiddleware(app, access)


class Backend:
    """The run and its annotators, the pool for other photos, and the process that learns.

    source: where photos that the run does not have are fetched from; None for nowhere. folder: for these.
    """

    def __init__(self, annotators: Annotators, pool: WorkerPool, folder: Path, source: Source | None) -> None:
        self.annotators, self.pool, self.folder, self.source = annotators, pool, folder, source
        self.learning = Learning(annotators.annotations.run.folder, self._learned)

    def _learned(self) -> None:
        self.annotators.renew()
        self.pool.renew()

    async def health(self, _request: Request) -> Response:
        """Whether it is up, and whether it learns."""
        return as_json({"status": "UP", "model_class": "tag2box", "learning": self.learning.status})

    async def setup(self, request: Request) -> Response:
        """Refuse a project without rectangles; the version of the model for others."""
        self._controls((await _given(request)).get("schema"))
        return as_json({"model_version": self.annotators.version})

    async def predict(self, request: Request) -> Response:
        """A prediction for each task; an empty one where its photo cannot be had."""
        given = await _given(request)
        controls, tasks = self._controls(given.get("label_config")), given.get("tasks")
        if not isinstance(tasks, list):
            raise InputError("expected tasks")
        results = [await self._predict(task, controls) for task in tasks]
        return as_json({"results": results, "model_version": self.annotators.version})

    async def _predict(self, task: Any, controls: Controls) -> dict[str, Any]:
        with suppress(Tag2BoxError, OSError):
            known = await run_in_threadpool(self.annotators.predict, task, controls)
            if known is not None:
                return known
            if self.source is not None and (address := address_of(task)):
                return self.annotators.detected(await self._detect(self.source, address), controls)
        return self.annotators.nothing()

    async def _detect(self, source: Source, address: str) -> dict[str, Any]:
        path, limits = self.folder / secrets.token_hex(16), self.pool.limits
        try:
            await run_in_threadpool(source.fetch, address, path, limits.most_bytes)
            await checked(path, limits.most_pixels)
            answer = await self.pool.detect(path)
        finally:
            path.unlink(missing_ok=True)
        if "error" in answer:
            raise InputError(answer["error"])
        return answer

    async def webhook(self, request: Request) -> Response:
        """What happens in the project: annotations are saved at once, and learned from when that is asked."""
        answer = await _told(self._event, request)
        return as_json({"status": "ok", "result": answer}, 201)

    def _event(self, given: dict[str, Any]) -> dict[str, Any]:
        action = given.get("action")
        if action in SAVED:
            pairs = zip(_list(given["task"]), _list(given["annotation"]), strict=True)
            return {"boxes": self._save(list(pairs), given["project"]["label_config"])}
        if action == "ANNOTATIONS_DELETED":
            for annotation in given["annotations"]:
                self.annotators.forget(annotation)
        if action == "START_TRAINING":
            return dict(self.learning.start())
        return {}

    async def train(self, request: Request) -> Response:
        """All annotations of a project at once, and learn from them."""
        return as_json(await _told(self._train, request), 201)

    def _train(self, given: dict[str, Any]) -> dict[str, Any]:
        pairs = [(task, each) for task in given["annotations"] for each in task["annotations"]]
        self._save(pairs, given["label_config"])
        return dict(self.learning.start())

    def _save(self, pairs: list[tuple[Any, Any]], config: Any) -> int:
        """Save (task, annotation), and return the number of boxes; one that is wrong stops no other."""
        controls, boxes, wrong = self._controls(config), 0, []
        for task, annotation in pairs:
            try:
                boxes += self.annotators.save(task, annotation, controls)
            except NOT_THEIRS as error:
                wrong.append(_described(error))
        if wrong:
            raise InputError(f"{len(wrong)} of {len(pairs)} annotations are not saved: {wrong[0]}")
        return boxes

    def _controls(self, config: Any) -> Controls:
        return read_config(config, self.annotators.annotations.images.classes)


def _list(one_or_many: Any) -> list[Any]:
    return one_or_many if isinstance(one_or_many, list) else [one_or_many]


async def _told(take: Callable[[dict[str, Any]], dict[str, Any]], request: Request) -> dict[str, Any]:
    """What `take` makes of what was sent; `InputError` where that is not as Label Studio sends it."""
    given = await _given(request)
    try:
        return await run_in_threadpool(take, given)
    except NOT_THEIRS as wrong:
        raise InputError(_described(wrong)) from None


def _described(wrong: Exception) -> str:
    ours = isinstance(wrong, InputError)
    return str(wrong) if ours else f"not an event of Label Studio: {type(wrong).__name__} {wrong}"


async def _given(request: Request) -> dict[str, Any]:
    given = await body_as_json(request)
    if not isinstance(given, dict):
        raise InputError("expected a JSON object")
    return given
