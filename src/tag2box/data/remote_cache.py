"""The cache of photos that are elsewhere has a limit: what was not read for longest is removed."""

import os
from contextlib import suppress
from pathlib import Path

from tag2box.errors import InputError

# Room that the photos take, in GB, unless TAG2BOX_CACHE_GB says otherwise: 100,000 of 500 x 375 fit.
LIMIT_GB = 20.0
# What is written, as a share of that, until somebody looks again how full it is; and what goes then at least.
LOOK, SPARE = 0.01, 0.05

_unseen: dict[Path, int] = {}  # bytes that this process has written to a folder since it looked


def make_room(folder: Path, size: int) -> None:
    """Remove files of `folder`, those first that were not read for longest, so that `size` more bytes fit.

    Every process looks now and then only: many of them may be above the limit by a hundredth each.
    """
    limit = _limit()
    unseen = _unseen.get(folder)
    if unseen is not None and unseen + size < LOOK * limit:
        _unseen[folder] = unseen + size
        return
    _unseen[folder] = size
    files = sorted(_files(folder))
    excess = sum(each for _, each, _ in files) + size - limit
    if excess <= 0:
        return
    excess += SPARE * limit
    for _, each, path in files:
        if excess <= 0:
            break
        with suppress(OSError):  # somebody else has removed it, or holds it
            os.unlink(path)
        excess -= each


def _files(folder: Path) -> list[tuple[float, int, str]]:
    """Of each file when it was read, its bytes and its path; what is being written is left alone."""
    files = []
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                if not entry.name.startswith("."):
                    about = entry.stat()
                    files.append((about.st_mtime, about.st_size, entry.path))
    return files


def _limit() -> float:
    given = os.environ.get("TAG2BOX_CACHE_GB", "")
    try:
        limit = float(given) if given else LIMIT_GB
    except ValueError:
        limit = -1.0
    if not limit >= 0:
        raise InputError(
            f"TAG2BOX_CACHE_GB must be a number of GB, such as {LIMIT_GB:g}, but it is {given!r}"
        )
    return 1e9 * limit
