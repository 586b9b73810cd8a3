"""The network: an ONNX file, and how its input is prepared.

Names: `efficientnet-lite0` (the default, weights from a pip package), `-lite1`, `-lite2`, or the path of any
ONNX file with a TOML of the same name beside it:

    input = "image"                  # may be left out where there is one
    output = "map"                   # (n, c, h, w), or (n, c) where the network pools by itself; any tensor
    mean = [123.7, 116.3, 103.5]     # of the red, green and blue of 0..255
    std = [58.4, 57.1, 57.4]
    channels = "rgb"                 # or "bgr"
    cut = "layer2"                   # the map at which `shared` cuts: nothing may lead around it

`networks.inference` runs it, whole or cut in two.
"""

import tempfile
import tomllib
from dataclasses import dataclass, fields
from pathlib import Path

from tag2box.errors import InputError
from tag2box.features.networks import efficientnet
from tag2box.runtime.files import cache_folder

__all__ = ["Network", "load_network"]

# Raised when the graphs that `networks` writes change: it names the cached files.
GRAPH_VERSION = 1


@dataclass(frozen=True)
class Network:
    """An ONNX file with what is needed to feed it.

    output: the tensor to pool, (n, c, h, w), or (n, c). cut: the map at which `shared` cuts.
    """

    path: Path
    input: str | None = None
    output: str | None = None
    mean: tuple[float, float, float] = (0.0, 0.0, 0.0)
    std: tuple[float, float, float] = (1.0, 1.0, 1.0)
    channels: str = "rgb"
    cut: str | None = None


def load_network(name: str | Path) -> Network:
    """The network of that name, or of that ONNX file; built-in ones are written to the cache once."""
    if str(name) in efficientnet.VARIANTS:
        path = _cached(str(name))
        cut, last = _MAPS[str(name)]
        return Network(path, "image", last, (127.0,) * 3, (128.0,) * 3, "rgb", cut)
    path = Path(name)
    if path.suffix != ".onnx":
        raise InputError(f"no network {name!s}: give {', '.join(efficientnet.VARIANTS)} or an .onnx file")
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    return _described(path, path.with_suffix(".toml"))


# Where to cut (after the first stage of stride 16) and what to pool (before the 1x1 convolution to 1280
# channels), by what docs/features.md has measured with lite0.
_MAPS = {
    "efficientnet-lite0": ("block7", "block15"),
    "efficientnet-lite1": ("block10", "block20"),
    "efficientnet-lite2": ("block10", "block20"),
}


def _cached(name: str) -> Path:
    """The ONNX file of a built-in network, written at its first use (a temporary file, then one move)."""
    weights = efficientnet.weights_file(name)
    folder = cache_folder()
    path = folder / f"{name}-{efficientnet.VARIANTS[name].sha256[:8]}-v{GRAPH_VERSION}.onnx"
    if path.is_file():
        return path
    graph = efficientnet.to_onnx(name, weights)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, suffix=".part", delete=False) as part:
            part.write(graph)
        Path(part.name).replace(path)
    except OSError as error:
        raise InputError(
            f"cannot write {path}: {error.strerror}. Set TAG2BOX_CACHE to a folder that can be written"
        ) from error
    return path


def _described(path: Path, toml: Path) -> Network:
    """The user's own network, by the TOML beside it."""
    if not toml.is_file():
        raise InputError(f"{path.name} needs {toml.name} beside it, with at least mean and std of its input")
    try:
        given = tomllib.loads(toml.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{toml} is not TOML: {error}") from error
    known = {f.name for f in fields(Network)} - {"path"}
    unknown = sorted(set(given) - known)
    if unknown:
        raise InputError(f"{toml} has the unknown key {unknown[0]!r}: known are {', '.join(sorted(known))}")
    for key in ("mean", "std"):
        value = given.get(key)
        if not (isinstance(value, list) and len(value) == 3 and all(map(_is_number, value))):
            raise InputError(f"{toml} must give {key} as three numbers, for red, green and blue of 0..255")
        given[key] = tuple(float(x) for x in value)
    if min(given["std"]) <= 0:
        raise InputError(f"{toml} has a std that is not positive")
    if given.get("channels", "rgb") not in ("rgb", "bgr"):
        raise InputError(f'{toml}: channels must be "rgb" or "bgr", but it is {given["channels"]!r}')
    return Network(path, **given)


def _is_number(x: object) -> bool:
    return isinstance(x, int | float) and abs(x) < 1e6  # neither infinite nor NaN
