"""An image that comes as the body of a request, or as a file of a form, kept in a file for the while."""

import logging
import math
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from python_multipart.exceptions import FormParserError
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.requests import Request

from tag2box.data.decoding import image_size
from tag2box.errors import InputError
from tag2box.serving.worker import without_path

PIECE = 1 << 16
# It tells the server's terminal of every form that is not one; whoever sent it is told in the answer.
logging.getLogger("python_multipart").setLevel(logging.CRITICAL)
EXPECTED = "expected an image as the body of the request, or as a file of a form"


class TooLargeError(InputError):
    """The image has too many pixels."""

    status = 413


@asynccontextmanager
async def received(request: Request, folder: Path) -> AsyncIterator[Path]:
    """The image of the request in a file of `folder`, removed afterwards."""
    path = folder / secrets.token_hex(16)
    try:
        with path.open("xb") as file:
            async for piece in _pieces(request):
                file.write(piece)
            if not file.tell():
                raise InputError(EXPECTED)
        yield path
    finally:
        path.unlink(missing_ok=True)


async def _pieces(request: Request) -> AsyncIterator[bytes]:
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        async for piece in request.stream():
            yield piece
        return
    try:
        form = await request.form(max_files=1, max_fields=10)
    except FormParserError:  # which starlette before 1.10 lets pass
        raise InputError(f"the form cannot be read: {EXPECTED}") from None
    try:
        upload = next((value for value in form.values() if isinstance(value, UploadFile)), None)
        while upload is not None and (piece := await upload.read(PIECE)):
            yield piece
    finally:
        await form.close()


async def checked(path: Path, most_pixels: int) -> None:
    """Refuse what is no image, or too large a one, by its header alone: it costs nothing."""
    try:
        size = await run_in_threadpool(image_size, path)
    except InputError as wrong:
        kind = TooLargeError if "pixels" in str(wrong) else InputError
        raise kind(without_path(wrong, path)) from None
    if math.prod(size) > most_pixels:
        raise TooLargeError(f"{size[0]} x {size[1]} pixels, more than {most_pixels}: shrink it first")
