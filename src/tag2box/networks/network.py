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
import re
import tomllib
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from tag2box.errors import InputError, Tag2BoxError
from tag2box.networks import efficientnet
from tag2box.runtime.checks import Choice, Range, conform
from tag2box.runtime.config import toml_value
from tag2box.runtime.files import cache_folder, known_hash, to_json, write_whole

# Raised when the graphs that `networks` writes change: it names the cached files.
GRAPH_VERSION = 1
# A protocol buffer writes where a tensor lies as {"location": file}: the key, then the length of the name in
# one or two bytes of which the first may have its highest bit set, then the name.
LOCATION = re.compile(rb"\x0a\x08location\x12([\x80-\xff]?[\x00-\x7f])", re.DOTALL)
Color = Annotated[tuple[Annotated[float, Range(-1_000_000, 1_000_000)], ...], Range(3, 3)]
Tokens = Annotated[int, Range(0, 512)]
Side = Annotated[int, Range(16, 4096)]
# What a TOML may say.
KEYS: dict[str, Any] = {
    **dict.fromkeys(("input", "output", "cut"), str),
    **dict.fromkeys(("mean", "std"), Color),
    "channels": Annotated[str, Choice("rgb", "bgr")],
    "patch": Annotated[int, Range(1, 512)],
    **dict.fromkeys(("class_tokens", "register_tokens"), Tokens),
    "size": Side | Annotated[tuple[Side, ...], Range(2, 2)],
}


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
    if (variant := efficientnet.VARIANTS.get(str(name))) is not None:
        path, int8 = (_cached(str(name), int8=int8) for int8 in (False, True))
        return Network(path, "image", variant.last, (127.0,) * 3, (128.0,) * 3, "rgb", variant.cut, int8=int8)
    path = Path(name)
    if path.suffix != ".onnx":
        raise InputError(f"no network {name!s}: give {', '.join(efficientnet.VARIANTS)} or an .onnx file")
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    return _described(path, path.with_suffix(".toml"))


def _cached(name: str, *, int8: bool) -> Path:
    """The ONNX file of a built-in network, written at its first use, and again where it was damaged."""
    form = "-int8" if int8 else ""
    path = cache_folder() / f"{name}{form}-{efficientnet.VARIANTS[name].sha256[:8]}-v{GRAPH_VERSION}.onnx"
    seal = path.with_suffix(".sha256")
    weights = efficientnet.weights_file(name)
    try:
        if known_hash(path) == seal.read_text(encoding="ascii").strip():
            return path
    except (OSError, UnicodeDecodeError):  # not there, or damaged
        pass
    graph = efficientnet.to_onnx(name, weights, int8=int8)
    try:
        write_whole(path, graph)
        write_whole(seal, hashlib.sha256(graph).hexdigest() + "\n")
    except Tag2BoxError as error:
        raise InputError(
            f"cannot write {path} ({error.__cause__}): set TAG2BOX_CACHE to a folder that can be written"
        ) from error
    return path


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
    if unknown := sorted(given.keys() - KEYS):
        raise InputError(f"{toml} has the unknown key {unknown[0]!r}: known are {', '.join(sorted(KEYS))}")
    if missing := [key for key in ("mean", "std") if key not in given]:
        raise InputError(f"{toml} must give {missing[0]} as three numbers, for red, green and blue of 0..255")
    values = {key: conform(value, KEYS[key], f"{toml}: {key}") for key, value in given.items()}
    if min(values["std"]) <= 0:
        raise InputError(f"{toml} has a std that is not positive")
    if isinstance(side := values.get("size"), int):
        values["size"] = side, side
    return Network(path, **values)


def network_toml(network: Network) -> str:
    """The TOML that describes `network`, to lie beside its ONNX file."""
    default = Network(network.path)
    values = {key: getattr(network, key) for key in KEYS}
    return "".join(
        f"{key} = {toml_value(value)}\n"
        for key, value in values.items()
        if key in ("mean", "std") or value != getattr(default, key)
    )


def network_hash(network: Network | str) -> str:
    """64 hexadecimal digits that change with any weight, also of its 8-bit form, and with the TOML."""
    network = load_network(network) if isinstance(network, str) else network
    graphs = [network.path] if network.int8 is None else [network.path, network.int8]
    files = [known_hash(path) for graph in graphs for path in (graph, *external_files(graph))]
    feed = [network.input, network.output, network.mean, network.std, network.channels, network.cut]
    tokens = [network.patch, network.class_tokens, network.register_tokens, network.size]
    return hashlib.sha256(to_json([files, feed, tokens]).encode()).hexdigest()


def external_files(graph: Path) -> list[Path]:
    """The files that an ONNX file keeps weights in; refused where one is missing or outside of its folder."""
    files = [graph.parent / name for name in _locations(graph, known_hash(graph))]
    for file in files:
        if not file.resolve().is_relative_to(graph.parent.resolve()):
            raise InputError(f"{graph} keeps weights in {file}, outside of its folder: put them beside it")
        if not file.is_file():
            raise InputError(f"{graph} keeps weights in {file}, which is not there: put it beside it")
    return files


@lru_cache(maxsize=16)
def _locations(graph: Path, _content: str) -> tuple[str, ...]:
    content, names = graph.read_bytes(), set()
    for match in LOCATION.finditer(content):
        low, *high = match[1]
        size = (low & 0x7F) + 128 * sum(high)
        names.add(content[match.end() : match.end() + size].decode("utf-8", "replace").replace("\0", "?"))
    return tuple(sorted(names))
