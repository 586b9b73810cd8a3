"""The network: an ONNX file, and how its input is prepared.

Names: `efficientnet-lite0` (the default, weights from a pip package), `-lite1`, `-lite2`, or the path of any
ONNX file with a TOML of the same name beside it, which `tag2box network check` writes:

    input = "image"                  # may be left out where there is one
    output = "map"                   # any tensor: a map (n, c, h, w), tokens (n, tokens, c) or (n, c)
    mean = [123.7, 116.3, 103.5]     # of the red, green and blue of 0..255
    std = [58.4, 57.1, 57.4]
    channels = "rgb"                 # or "bgr"
    cut = "layer2"                   # the map at which `shared` cuts: nothing may lead around it
    patch = 14                       # photos are resized to multiples of it; 32 where nothing is said
    class_tokens = 1                 # tokens in front of those of the patches
    register_tokens = 4
    size = [224, 224]                # height and width, where it takes no other

`networks.inference` runs it, whole or cut in two.
"""

import hashlib
import tomllib
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from tag2box.errors import InputError, Tag2BoxError
from tag2box.networks import efficientnet
from tag2box.runtime.config import toml_value
from tag2box.runtime.files import cache_folder, known_hash, write_whole

# Raised when the graphs that `networks` writes change: it names the cached files.
GRAPH_VERSION = 1


@dataclass(frozen=True)
class Network:
    """An ONNX file with what is needed to feed it.

    output: the tensor to pool, (n, c, h, w), (n, tokens, c) or (n, c). cut: the map at which `shared` cuts.
    patch: the side of a token's patch in pixels; `class_tokens` and `register_tokens` come before theirs.
    size: the only (height, width) that it takes; None where it takes any. int8: the same network in a file
    with 8-bit convolutions, where there is one.
    """

    path: Path
    input: str | None = None
    output: str | None = None
    mean: tuple[float, float, float] = (0.0, 0.0, 0.0)
    std: tuple[float, float, float] = (1.0, 1.0, 1.0)
    channels: str = "rgb"
    cut: str | None = None
    patch: int | None = None
    class_tokens: int = 0
    register_tokens: int = 0
    size: tuple[int, int] | None = None
    int8: Path | None = None

    def rounded(self) -> "Network":
        """The network with 8-bit convolutions."""
        if self.int8 is None:
            raise InputError(
                f'there is no 8-bit form of {self.path.name}: set features.precision to "auto" or "f32"'
            )
        return replace(self, path=self.int8, int8=None)

    @property
    def block(self) -> int:
        """Photos are resized to multiples of so many pixels: 32 is one of every stride that is usual."""
        return self.patch or 32


def load_network(name: str | Path) -> Network:
    """The network of that name, or of that ONNX file; built-in ones are written to the cache once."""
    if str(name) in efficientnet.VARIANTS:
        path, int8 = (_cached(str(name), int8=int8) for int8 in (False, True))
        cut, last = _MAPS[str(name)]
        return Network(path, "image", last, (127.0,) * 3, (128.0,) * 3, "rgb", cut, int8=int8)
    path = Path(name)
    if path.suffix != ".onnx":
        raise InputError(f"no network {name!s}: give {', '.join(efficientnet.VARIANTS)} or an .onnx file")
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    return _described(path, path.with_suffix(".toml"))


# Where to cut (the last map of stride 16) and what to pool (before the 1x1 convolution to 1280
# channels), by what docs/features.md has measured with lite0.
_MAPS = {
    "efficientnet-lite0": ("block10", "block15"),
    "efficientnet-lite1": ("block14", "block20"),
    "efficientnet-lite2": ("block14", "block20"),
}


def _cached(name: str, *, int8: bool) -> Path:
    """The ONNX file of a built-in network, written at its first use, and again where it was damaged."""
    form = "-int8" if int8 else ""
    path = cache_folder() / f"{name}{form}-{efficientnet.VARIANTS[name].sha256[:8]}-v{GRAPH_VERSION}.onnx"
    seal = path.with_suffix(".sha256")
    weights = efficientnet.weights_file(name)
    if _is_sealed(path, seal):
        return path
    graph = efficientnet.to_onnx(name, weights, int8=int8)
    try:
        write_whole(path, graph)
        write_whole(seal, hashlib.sha256(graph).hexdigest() + "\n")
    except Tag2BoxError as error:
        raise InputError(
            f"cannot write {path} ({error.__cause__}): set TAG2BOX_CACHE to a folder that can be written"
        ) from error
    return path


def _is_sealed(path: Path, seal: Path) -> bool:
    """Whether the file holds what was written to it, by the hash that was written after it."""
    try:
        return known_hash(path) == seal.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return False


def _described(path: Path, toml: Path) -> Network:
    """The user's own network, by the TOML beside it."""
    if not toml.is_file():
        raise InputError(
            f"{path.name} needs {toml.name} beside it, with at least mean and std of its input: "
            f"`tag2box network check {path}` writes it"
        )
    try:
        given = tomllib.loads(toml.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{toml} is not TOML: {error}") from error
    known = {f.name for f in fields(Network)} - {"path", "int8"}
    unknown = sorted(set(given) - known)
    if unknown:
        raise InputError(f"{toml} has the unknown key {unknown[0]!r}: known are {', '.join(sorted(known))}")
    _check_names(given, toml)
    _read_colors(given, toml)
    _read_sizes(given, toml)
    return Network(path, **given)


def _check_names(given: dict[str, Any], toml: Path) -> None:
    for key in ("input", "output", "cut"):
        if not isinstance(given.get(key, ""), str):
            raise InputError(f"{toml}: {key} must be the name of a tensor, but it is {given[key]!r}")
    if given.get("channels", "rgb") not in ("rgb", "bgr"):
        raise InputError(f'{toml}: channels must be "rgb" or "bgr", but it is {given["channels"]!r}')


def _read_colors(given: dict[str, Any], toml: Path) -> None:
    for key in ("mean", "std"):
        value = given.get(key)
        if not (isinstance(value, list) and len(value) == 3 and all(map(_is_number, value))):
            raise InputError(f"{toml} must give {key} as three numbers, for red, green and blue of 0..255")
        given[key] = tuple(float(x) for x in value)
    if min(given["std"]) <= 0:
        raise InputError(f"{toml} has a std that is not positive")


def _read_sizes(given: dict[str, Any], toml: Path) -> None:
    for key, least in (("patch", 1), ("class_tokens", 0), ("register_tokens", 0)):
        if not _is_whole(given.get(key, least), least, 512):
            raise InputError(f"{toml}: {key} must be a number from {least} to 512, but it is {given[key]!r}")
    size = given.get("size")
    if size is None:
        return
    sides = [size, size] if isinstance(size, int) else size
    if not (isinstance(sides, list) and len(sides) == 2 and all(_is_whole(x, 16, 4096) for x in sides)):
        raise InputError(f"{toml}: size must be height and width, from 16 to 4096, but it is {size!r}")
    given["size"] = tuple(sides)


def _is_whole(x: object, least: int, most: int) -> bool:
    return type(x) is int and least <= x <= most


def network_toml(network: Network) -> str:
    """The TOML that describes `network`, to lie beside its ONNX file."""
    values = {f.name: getattr(network, f.name) for f in fields(Network) if f.name not in ("path", "int8")}
    keep = {"mean", "std"} | {
        f.name for f in fields(Network) if f.name in values and values[f.name] != f.default
    }
    return "".join(f"{name} = {toml_value(value)}\n" for name, value in values.items() if name in keep)


def _is_number(x: object) -> bool:
    return isinstance(x, int | float) and abs(x) < 1e6  # neither infinite nor NaN
