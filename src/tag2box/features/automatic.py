"""What "auto" means in `FeaturesConfig`: the mode by the network, the precision by a measurement.

config = resolved(config)      # nothing in it is "auto" any more, but for the device
"""

from dataclasses import replace
from functools import lru_cache

from tag2box.features.backbone import Network, load_network
from tag2box.features.config import FeaturesConfig
from tag2box.features.modes import BATCH
from tag2box.features.networks.engine import How
from tag2box.features.networks.inference import Part
from tag2box.features.networks.precision import Speeds, fastest
from tag2box.runtime.files import known_hash

__all__ = ["cut_of", "how_of", "measure_precision", "mode_of", "network_of", "resolved"]


def resolved(config: FeaturesConfig) -> FeaturesConfig:
    """`config` with the mode that "auto" means for its network, and the precision on this machine.

    Whoever hands a config to workers resolves it first: all of them must compute the same.
    """
    mode = mode_of(config, network_of(config))
    return replace(config, mode=mode, precision=measure_precision(config).precision)


def network_of(config: FeaturesConfig) -> Network:
    """The network of `config`, to be cut where `config` says."""
    network = load_network(config.network)
    return network if config.cut is None else replace(network, cut=config.cut)


def mode_of(config: FeaturesConfig, network: Network) -> str:
    """How windows go through `network`, where that is left to it."""
    if config.mode != "auto":
        return config.mode
    return "pool" if network.cut is None or network.size is not None else "shared"


def cut_of(config: FeaturesConfig) -> str | None:
    """The map at which whole photos stop on their way, for windows to be cut out of it; None if at none."""
    network = network_of(config)
    return network.cut if mode_of(config, network) == "shared" else None


def how_of(config: FeaturesConfig, threads: int) -> How:
    """How the network is to be run."""
    return How(config.precision, threads, config.device, config.runtime)


@lru_cache(maxsize=16)
def measure_precision(config: FeaturesConfig) -> Speeds:
    """The precision of `config`, and where it is "auto" the figures that it was chosen by."""
    if config.precision != "auto" or config.runtime == "onnxruntime":
        return Speeds("f32" if config.precision == "auto" else config.precision, {})
    network = network_of(config)
    mode = mode_of(config, network)
    start, (batch, h, w) = _measured_part(config, network, mode)
    grid = None if mode == "pool" else config.grid

    def compiled(precision: str) -> Part:
        how = how_of(replace(config, precision=precision), 1)
        return Part(network, (batch, h, w), how, start=start, grid=grid)

    graphs = [known_hash(path) for path in (network.path, network.int8) if path]
    content = [graphs, network.output, start, batch, h, config.grid]
    return fastest(compiled, config.device, content, without=() if network.int8 else ("int8",))


def _measured_part(
    config: FeaturesConfig, network: Network, mode: str
) -> tuple[str | None, tuple[int, int, int]]:
    """Where the part that takes most of the time starts, and what goes into it."""
    if mode == "shared" and network.cut is not None:
        return network.cut, (BATCH, config.crop, config.crop)
    if mode == "pool":
        side = max(max(config.levels) // 2 // network.block, 1) * network.block
        return None, (1, *(network.size or (side, side)))
    return None, (BATCH, *(network.size or (config.size, config.size)))
