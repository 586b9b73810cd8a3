"""What "auto" means: the mode by the network, the precision by a measurement, the finer map by the stride.

    settings = resolve(WindowsConfig(), FeaturesConfig(), MapsConfig())

It is asked once, before anything is described. Below nothing is "auto" any more, but for the device, which
the runtime chooses.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from tag2box.description.config import FeaturesConfig, MapsConfig
from tag2box.description.modes import BATCH
from tag2box.errors import InputError
from tag2box.networks.engine import EngineOptions
from tag2box.networks.inference import Part
from tag2box.networks.network import Network, load_network, network_hash
from tag2box.networks.precision import Speeds, fastest
from tag2box.networks.trust import trusted_network
from tag2box.runtime.files import known_hash
from tag2box.runtime.packing import stored
from tag2box.windows.search import WindowsConfig

# With patches of so many pixels a map is as fine as the finer one of a network of stride 32.
SMALL_PATCH = 16


@stored
@dataclass(frozen=True)
class DescriptionConfig:
    """Settings of the description, with nothing left open.

    windows, features: nothing in them is "auto". maps: None where no map is kept. network: the hash of it.
    """

    windows: WindowsConfig
    features: FeaturesConfig
    maps: MapsConfig | None
    network: str

    @property
    def sides(self) -> tuple[int, ...]:
        """The long sides at which last maps are needed, the finer one first: 0 alone where none is."""
        if self.maps is None:
            return (0,)
        finer = (self.maps.fine_side,) if self.maps.context and self.maps.fine_side else ()
        return (*finer, self.maps.side)

    @property
    def early_sides(self) -> tuple[int, ...]:
        """The long sides, largest first, of maps at the cut that are made anyway and are of use later."""
        if self.maps is None or self.features.mode != "shared":
            return ()
        return tuple(sorted({*self.features.levels, *self.sides}, reverse=True))

    def key(self) -> Any:
        """What they are known by: a network is what is in its file, wherever that is."""
        # What the maps are used for later is not theirs.
        later = {name: getattr(MapsConfig, name) for name in ("components", "ring", "details")}
        maps = self.maps and replace(self.maps, **later)
        return [self.windows, replace(self.features, network=""), maps, self.network]

    def check_network(self) -> None:
        """Raise an `InputError` if the network is not that of training, or none that the user has named."""
        trusted_network(self.features.network)
        if network_hash(network_of(self.features)) != self.network:
            raise InputError(
                f"the network {self.features.network}, its weights or its TOML are not those that this "
                f"detector was trained with: put them back, or learn again with tag2box run"
            )


def resolve(windows: WindowsConfig, features: FeaturesConfig, maps: MapsConfig | None) -> DescriptionConfig:
    """These settings, with what "auto" means for the network and on this machine."""
    features = resolved(features)
    network = network_of(features)
    if maps is not None and maps.fine_side is None:
        maps = replace(maps, fine_side=_finer_side(maps, network))
    return DescriptionConfig(windows, features, maps, network_hash(network))


def resolved(config: FeaturesConfig) -> FeaturesConfig:
    """`config` with the mode that "auto" means for its network, where to cut that, and the precision here."""
    network = network_of(config)
    mode = _mode_of(config, network)
    if mode == "shared" and network.cut is None:
        raise InputError(
            f'{network.path.name} names no cut: set cut in its TOML, or features.mode to "pool" or "warp"'
        )
    cut = network.cut if mode in ("shared", "pyramid") else None
    return replace(config, mode=mode, cut=cut, precision=measure_precision(config).precision)


def network_of(config: FeaturesConfig) -> Network:
    """The network of `config`, to be cut where `config` says."""
    network = load_network(config.network)
    return network if config.cut is None else replace(network, cut=config.cut)


def _mode_of(config: FeaturesConfig, network: Network) -> str:
    if config.mode != "auto":
        return config.mode
    return "pool" if network.cut is None or network.size is not None else "shared"


def _finer_side(maps: MapsConfig, network: Network) -> int:
    is_fine = network.size is not None or (network.patch is not None and network.patch <= SMALL_PATCH)
    return 0 if is_fine else min(2 * maps.side, 4096)


def engine_options(config: FeaturesConfig, threads: int) -> EngineOptions:
    """How the network is to be run."""
    return EngineOptions(config.precision, threads, config.device, config.runtime)


@lru_cache(maxsize=16)
def measure_precision(config: FeaturesConfig) -> Speeds:
    """The precision of `config`, and where it is "auto" the figures that it was chosen by."""
    if config.precision != "auto" or config.runtime == "onnxruntime":
        return Speeds("f32" if config.precision == "auto" else config.precision, {})
    network = network_of(config)
    mode = _mode_of(config, network)
    start, (batch, h, w) = _measured_part(config, network, mode)
    grid = None if mode in ("pool", "pyramid") else config.grid

    def compiled(precision: str) -> Part:
        options = engine_options(replace(config, precision=precision), 1)
        return Part(network, (batch, h, w), options, start=start, grid=grid)

    graphs = [known_hash(path) for path in (network.path, network.int8) if path]
    content = [graphs, network.output, start, batch, h, config.grid]
    return fastest(compiled, config.device, content, without=() if network.int8 else ("int8",))


def _measured_part(
    config: FeaturesConfig, network: Network, mode: str
) -> tuple[str | None, tuple[int, int, int]]:
    """Where the part that takes most of the time starts, and what goes into it."""
    if mode == "shared" and network.cut is not None:
        return network.cut, (BATCH, config.crop, config.crop)
    if mode in ("pool", "pyramid"):
        side = max(max(config.levels) // 2 // network.block, 1) * network.block
        return None, (1, *(network.size or (side, side)))
    return None, (BATCH, *(network.size or (config.size, config.size)))
