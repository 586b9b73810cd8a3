"""`tag2box network`: networks of one's own."""

from pathlib import Path
from typing import Annotated

import typer

from tag2box.cli.options import AsJson, say

network = typer.Typer(no_args_is_help=True, help="Networks of your own.")


@network.callback()
def _group() -> None:
    pass


@network.command("check")
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE.onnx", help="The network.")],
    photo: Annotated[Path | None, typer.Option(help="A photo to draw the network's map of.")] = None,
    runtime: Annotated[str, typer.Option(help="openvino or onnxruntime.")] = "openvino",
    as_json: AsJson = False,
) -> None:
    """Say what tag2box understands of a network, write its TOML, draw its map of a photo, and measure it.

    A TOML that is there already is checked and left as it is.

    Example: tag2box network check dinov2.onnx --photo photo.jpg
    """
    from tag2box.report.network_check import check_network

    result = check_network(file, photo, runtime)
    say(as_json, result.to_dict(), str(result))
