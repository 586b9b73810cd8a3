"""`tag2box review`: see what a run found, correct it, and learn again, in the browser."""

from typing import Annotated

import typer

from tag2box.cli.options import Elsewhere, Host, Port, RunArgument, shown
from tag2box.errors import InputError, install_command
from tag2box.names import place_of_class


def review(
    run: RunArgument,
    images: Elsewhere = None,
    class_: Annotated[
        str | None, typer.Option("--class", help="Begin with the photos of this class.")
    ] = None,
    port: Port = 0,
    host: Host = "127.0.0.1",
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open the browser.")] = False,
) -> None:
    """See the boxes of a run in the browser, correct them, and learn again. Only this machine can reach it.

    Corrections are kept in the run folder; `export`, `report` and `evaluate` use them.

    Example: tag2box review runs/photos
    """
    try:
        from tag2box.review.server import open_page
    except ImportError as missing:
        raise InputError(f"the review page needs more packages: {install_command('review')}") from missing
    from tag2box.data.reading import read_images
    from tag2box.review.session import Session

    elsewhere = read_images(images) if images is not None else None
    with shown() as progress:
        session = Session(run, images=elsewhere, progress=progress)
    if class_ is not None:
        place_of_class(class_, session.images.classes)  # refuses one that is not there
    open_page(session, host=host, port=port, begin_with=class_, show=not no_open, say=typer.echo)
