"""`tag2box serve` and `serve-labelstudio`: the detector of a run behind an address."""

import os
from pathlib import Path
from typing import Annotated

import typer

from tag2box.cli.options import Elsewhere, Host, Port, RunArgument
from tag2box.detection.config import MIN_SCORE
from tag2box.errors import InputError, install_command

Token = Annotated[
    str,
    typer.Option(envvar="TAG2BOX_TOKEN", show_envvar=False, help="A word that every path must begin with."),
]
AllowHost = Annotated[
    list[str] | None, typer.Option(help="A further name that it may be asked as; may be repeated.")
]
MISSING = f"serving needs more packages: {install_command('serve')}"


def serve(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A finished run, or its detector.npz.")],
    port: Port = 8080,
    host: Host = "127.0.0.1",
    token: Token = "",
    allow_host: AllowHost = None,
    workers: Annotated[
        int | None, typer.Option(min=1, max=1024, help="Images at once; one per core by default.")
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
        from tag2box.serving import detecting
        from tag2box.serving.pool import Limits
        from tag2box.web.access import Access
    except ImportError as missing:
        raise InputError(MISSING) from missing
    from tag2box.runtime.executor import n_workers

    n = n_workers(workers)
    limits = Limits(
        n, 4 * n if waiting is None else waiting, seconds, int(megabytes * 1e6), int(megapixels * 1e6)
    )
    detecting.serve(run, limits, Access(host, port, token, tuple(allow_host or ())), typer.echo)


def serve_labelstudio(
    run: RunArgument,
    images: Elsewhere = None,
    label_studio: Annotated[
        str | None, typer.Option(help="Address of Label Studio, for photos that the run does not have.")
    ] = None,
    min_score: Annotated[float, typer.Option(help="The lowest score of a box in such photos.")] = MIN_SCORE,
    port: Port = 9090,
    host: Host = "127.0.0.1",
    token: Token = "",
    allow_host: AllowHost = None,
) -> None:
    """Be a machine-learning backend of Label Studio: boxes for its tasks, and learning from its annotations.

    Annotations become corrections in the run folder, as those of `tag2box review`; "Start training" learns
    from them. The key to --label-studio is read from the environment: LABEL_STUDIO_API_KEY.

    Example: tag2box serve-labelstudio runs/photos
    """
    try:
        from tag2box.serving import annotating
        from tag2box.serving.fetching import Source
        from tag2box.serving.label_studio import Annotators
        from tag2box.web.access import Access
    except ImportError as missing:
        raise InputError(MISSING) from missing
    from tag2box.data.reading import read_images
    from tag2box.run.annotations import Annotations

    source = Source(label_studio, os.environ.get("LABEL_STUDIO_API_KEY", "")) if label_studio else None
    access = Access(host, port, token, tuple(allow_host or ()))
    elsewhere = read_images(images) if images is not None else None
    annotating.serve(Annotators(Annotations(run, elsewhere), min_score), source, access, typer.echo)
