"""What tag2box makes of a network: its description, its map of a photo, and how fast windows are."""

from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tag2box.data.decoding import read_small
from tag2box.description.config import FeaturesConfig, MapsConfig
from tag2box.description.describe import check_maps, photo_map
from tag2box.description.record import Described, Maps
from tag2box.description.resolving import resolve
from tag2box.description.timing import time_photo
from tag2box.errors import InputError
from tag2box.networks.inspection import MEAN, STD, possible_cut, understand
from tag2box.networks.network import Network, load_network, network_toml
from tag2box.networks.trust import trust_network
from tag2box.report.pictures import with_heat
from tag2box.run.heat_maps import Heat
from tag2box.runtime.files import write_whole
from tag2box.training.activations import fit_activations
from tag2box.training.object_maps import fit_object_maps
from tag2box.windows.record import Windows
from tag2box.windows.search import WindowsConfig

# Windows that are measured, as many as a run has per photo by default.
WINDOWS = 300
# The long side of the drawn photo.
DRAWN = 480

MODES = {
    "shared": "cut out of the map {cut}, then run through the rest",
    "warp": "cut out of the photo, then run through all of it",
    "pool": "averages of its map, as {why}",
}


@dataclass(frozen=True)
class NetworkCheck:
    """network: as understood, or as its TOML says. map_shape: (h, w, c) of a photo. guessed: its colors.

    possible_cut: where it could be cut into windows, if its TOML names no such place.
    """

    network: Network
    config: FeaturesConfig
    map_shape: tuple[int, ...]
    windows_per_second: float
    guessed: bool
    possible_cut: str | None
    written: tuple[Path, ...]

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values for JSON."""
        network = self.network
        same = ("input", "output", "channels", "cut", "patch", "class_tokens", "register_tokens")
        return {
            "network": str(network.path),
            **{name: getattr(network, name) for name in same},
            **{name: list(getattr(network, name)) for name in ("mean", "std")},
            "size": list(network.size) if network.size else None,
            **{name: getattr(self.config, name) for name in ("mode", "runtime", "precision")},
            "map": list(self.map_shape),
            "windows_per_second": round(self.windows_per_second, 1),
            "written": [str(path) for path in self.written],
        }

    def __str__(self) -> str:
        network, (h, w, c) = self.network, self.map_shape
        sizes = f"{network.size[0]} x {network.size[1]} pixels" if network.size else "any size"
        guess = ": a guess, correct them in the TOML if yours differ" if self.guessed else ""
        cut = self.possible_cut
        why = f'its TOML names no cut (cut = "{cut}" would be one)' if cut else "it has no place to be cut"
        mode = MODES[self.config.mode].format(cut=network.cut, why=why)
        lines = [
            f"input    {network.input or 'the only one'}, images of {sizes}, {network.channels}",
            f"colors   mean {_numbers(network.mean)}, std {_numbers(network.std)}{guess}",
            f"output   {network.output or 'the only one'}{_tokens(network)}",
            f"map      {h} x {w} cells of {c} numbers",
            f"windows  {mode} ({self.config.mode})",
            f"speed    {self.windows_per_second:.0f} windows a second on one thread, {WINDOWS} to a photo "
            f"({self.config.runtime}, {self.config.precision})",
            *(f"written  {path}" for path in self.written),
            f"Next: tag2box run PHOTOS --set features.network={network.path}",
        ]
        return "\n".join(lines)


def _tokens(network: Network) -> str:
    if network.patch is None:
        return ""
    if network.cut is not None:
        return f", of photos in multiples of {network.patch} pixels"
    special = f"{network.class_tokens} class and {network.register_tokens} register tokens"
    return f", patches of {network.patch} pixels, {special}"


def _numbers(values: tuple[float, ...]) -> str:
    return ", ".join(f"{value:g}" for value in values)


def check_network(file: Path, photo: Path | None, runtime: str) -> NetworkCheck:
    """Understand the network, write its TOML where there is none, draw its map of `photo`, and measure it."""
    toml, written = file.with_suffix(".toml"), []
    if file.suffix != ".onnx" or not file.is_file():
        raise InputError(f"{file} is not an ONNX file: give the path of a file that ends in .onnx")
    is_new = not toml.exists()
    if is_new:
        write_whole(toml, _commented(understand(file)))
        written.append(toml)
    network = load_network(file)
    trust_network(str(file))
    features = FeaturesConfig(network=str(file), runtime=runtime)
    settings = resolve(WindowsConfig(max_windows=WINDOWS), features, MapsConfig())
    check_maps(settings)
    if photo is not None:
        picture = file.with_suffix(".map.png")
        write_whole(picture, _drawn(photo, photo_map(photo, settings)))
        written.append(picture)
    taken = time_photo(settings, photo)
    return NetworkCheck(
        network,
        settings.features,
        taken.map_shape,
        taken.n_windows / taken.seconds,
        guessed=is_new and _has_usual_colors(network),
        possible_cut=possible_cut(network) if network.cut is None else None,
        written=tuple(written),
    )


def _commented(network: Network) -> str:
    """The TOML of a network that was only looked at."""
    head = "# Written by `tag2box network check`."
    if _has_usual_colors(network):
        head += " mean and std are a guess: correct them if the network was trained with others."
    return f"{head}\n{network_toml(network)}"


def _has_usual_colors(network: Network) -> bool:
    return (network.mean, network.std) == (MEAN, STD)


def _drawn(photo: Path, map_: NDArray[np.float16]) -> bytes:
    """A PNG: the photo, and beside it the photo under its object map."""
    h, w, _ = map_.shape
    no_windows = Windows.of_image(np.empty((0, 4), np.float32), (w, h))
    alone = Described(no_windows, np.empty((0, 1)), Maps.of_image(map_))
    tag = np.ones((1, 1), np.int8)
    heat = fit_object_maps(alone, tag, fit_activations(alone, tag), MapsConfig().components)(map_)[0]
    pixels, _ = read_small(photo, DRAWN)
    plain = Image.fromarray(pixels)
    both = Image.new("RGB", (2 * plain.width, plain.height))
    both.paste(plain, (0, 0))
    both.paste(with_heat(plain, Heat(heat, plain.width, plain.height), 1.0), (plain.width, 0))
    buffer = BytesIO()
    both.save(buffer, "PNG")
    return buffer.getvalue()
