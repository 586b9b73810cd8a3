"""The 12 multiple-instance sets of Andrews et al. (2003)."""

from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from tag2box.errors import InputError
from tag2box.mil.bags import Bags
from tag2box.mil.loading import load_mil

SETS = (
    *("musk1", "musk2", "fox", "elephant", "tiger"),
    *("trec1", "trec2", "trec3", "trec4", "trec7", "trec9", "trec10"),
)


def load_set(folder: Path, name: str) -> tuple[Bags, NDArray[Any]]:
    """Bags and labels of `folder/name.npz`."""
    path = folder / f"{name}.npz"
    if not path.is_file():
        raise InputError(f"{path} is missing: --data must name the folder with {name}.npz and the others")
    return load_mil(path)
