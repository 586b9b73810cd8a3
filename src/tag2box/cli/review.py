"""`tag2box review`: see what a run found, correct it, and learn again, in the browser."""

from pathlib import Path
from typing import Annotated

import typer

from tag2box.cli.options import shown
from tag2box.errors import InputError

__all__ = ["review"]


def review(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")],
    images: Annotated[
        Path | None, typer.Option(help="The data set, where its photos are elsewhere now.")
    ] = None,
    class_: Annotated[
        str | None, typer.Option("--class", help="Begin with the photos of this class.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 0,
    host: Annotated[str, typer.Option(help="Address to listen at; others reach it then.")] = "127.0.0.1",
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open the browser.")] = False,
) -> None:
    """See the boxes of a run in the browser, correct them, and learn again. Only this machine can reach it.

    Corrections are kept in the run folder; `export`, `report` and `evaluate` use them.

    Example: tag2box review runs/photos
    """
    try:
        from tag2box.review.serving import serve
    except ImportError as missing:
        raise InputError('the review page needs more packages: pip install "tag2box[review]"') from missing
    from tag2box.data.reading import read_images
    from tag2box.review.session import Session

    elsewhere = read_images(images) if images is not None else None
    with shown() as progress:
        session = Session(run, images=elsewhere, progress=progress)
    if class_ is not None and class_ not in session.images.classes:
        raise InputError(f"no class {class_!r} here: the classes are {', '.join(session.images.classes)}")
    serve(session, host=host, port=port, begin_with=class_, show=not no_open, say=typer.echo)
