"""Which networks a detector may have opened: built-in ones, and those that the user has named himself.

A detector names its network by path, and its hash is in the same file: whoever made it chooses which file of
this disk a runtime opens. So `trusted_network` takes what `trust_network` has noted, by content, or what lies
in a folder of `TAG2BOX_NETWORKS`.
"""

import os
from pathlib import Path

from tag2box.errors import InputError
from tag2box.networks.efficientnet import VARIANTS
from tag2box.networks.network import Network, load_network, network_hash
from tag2box.runtime.files import cache_folder, write_whole

VARIABLE = "TAG2BOX_NETWORKS"


def trust_network(name: str) -> None:
    """Note that the user has named this network: a detector that asks for it may have it opened."""
    if name not in VARIANTS:
        write_whole(_note(load_network(name)), "")


def trusted_network(name: str) -> Network:
    """The network that a detector names; `InputError` where nobody here has used it. Nothing is opened."""
    network = load_network(name)
    if name in VARIANTS or _note(network).is_file() or _is_in_a_folder(network.path):
        return network
    raise InputError(
        f"the network {network.path} was never used on this machine, and a detector of others may name any "
        f"file: if you trust it, type `tag2box network check {network.path}`, or set {VARIABLE} to its folder"
    )


def _note(network: Network) -> Path:
    return cache_folder() / "networks" / network_hash(network)


def _is_in_a_folder(path: Path) -> bool:
    folders = filter(None, os.environ.get(VARIABLE, "").split(os.pathsep))
    return any(path.resolve().is_relative_to(Path(folder).resolve()) for folder in folders)
