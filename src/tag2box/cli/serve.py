"""`tag2box serve`: the detector of a run behind an address."""

from pathlib import Path
from typing import Annotated

import typer

from tag2box.errors import InputError

__all__ = ["serve"]

Host = Annotated[str, typer.Option(help="Address to listen at; others reach it then.")]
Token = Annotated[
    str,
    typer.Option(envvar="TAG2BOX_TOKEN", show_envvar=False, help="A word that every path must begin with."),
]
AllowHost = Annotated[
    list[str] | None, typer.Option(help="A further name that it may be asked as; may be repeated.")
]
MISSING = 'serving needs more packages: pip install "tag2box[serve]"'


def serve(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A finished run, or its detector.npz.")],
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8080,
    host: Host = "127.0.0.1",
    token: Token = "",
    allow_host: AllowHost = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Images at once; one per core by default.")
    ] = None,
    waiting: Annotated[
        int | None, typer.Option(min=0, help="Images that may wait; 4 per worker by default.")
    ] = None,
    seconds: Annotated[float, typer.Option(min=0.1, help="Time for one image, and for its upload.")] = 30.0,
    megabytes: Annotated[float, typer.Option(min=0.01, help="Size of an image as a file.")] = 20.0,
    megapixels: Annotated[float, typer.Option(min=0.01, max=89.0, help="Pixels of an image.")] = 50.0,
) -> None:
    """Find the learned objects in images that programs send: POST /detect. Only this machine can reach it.

    The address itself shows a page with all it can do, and openapi.json. What is over a limit is refused;
    when all workers are busy and enough images wait, the answer is 503 with Retry-After.

    Example: tag2box serve runs/photos
    """
    try:
        from tag2box.serving.pool import Limits
        from tag2box.serving.serve import serve as start
    except ImportError as missing:
        raise InputError(MISSING) from missing
    from tag2box.runtime.executor import n_workers

    n = n_workers(workers)
    limits = Limits(
        n, 4 * n if waiting is None else waiting, seconds, int(megabytes * 1e6), int(megapixels * 1e6)
    )
    start(run, limits, host=host, port=port, token=token, names=tuple(allow_host or ()), say=typer.echo)
