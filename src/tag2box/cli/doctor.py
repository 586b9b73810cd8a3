"""`tag2box doctor`: this machine, in a form to paste into a report of a bug."""

import os
import platform
import re
import shutil
from pathlib import Path
from typing import Annotated, Any

import typer

from tag2box.cli.options import AsJson, say
from tag2box.errors import InputError, Tag2BoxError
from tag2box.runtime.units import bytes_in_words

# Packages that tag2box uses where they are there.
OPTIONAL = ("starlette", "uvicorn", "onnxruntime", "pycocotools", "supervision", "scikit-image")
# A worker has some 400 MB, and the photos of a run come on top.
LITTLE_MEMORY, LITTLE_DISK = 2_000_000_000, 1_000_000_000


def doctor(
    run: Annotated[Path | None, typer.Option(help="A run, to see which packages it was made with.")] = None,
    as_json: AsJson = False,
) -> None:
    """Say what this machine has, which precision is chosen and why, and what is likely to go wrong.

    Paste it into a report of a bug: it names no user and no folder of yours but that of the cache.

    Example: tag2box doctor
    """
    machine = examine(run)
    say(as_json, machine, in_words(machine))


def examine(run: Path | None = None) -> dict[str, Any]:
    """All that matters, for JSON; `problems` has a line for each thing that is likely to go wrong."""
    from tag2box._version import __version__
    from tag2box.description.config import FeaturesConfig
    from tag2box.description.resolving import measure_precision
    from tag2box.networks.processor import guard_onednn, processor_name
    from tag2box.runtime.executor import n_workers

    guard_onednn()
    machine: dict[str, Any] = {
        "tag2box": __version__,
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "system": platform.platform(),
        "processor": {"name": processor_name(), "cores": os.cpu_count() or 1, "workers": n_workers(None)},
        "memory": _memory(),
        "cache": _cache(),
        "precision": None,
    }
    problems: list[str] = []
    try:
        speeds = measure_precision(FeaturesConfig())
        ms = dict(speeds.ms)
        machine["precision"] = {"chosen": speeds.precision, "why": str(speeds), "ms_a_window": ms}
    except (Tag2BoxError, ImportError, RuntimeError, OSError) as error:
        problems.append(f"precision: {' '.join(str(error).split())}")
    machine["packages"] = _packages()
    machine["run"] = None if run is None else made_with(run)
    return machine | {"problems": [*problems, *_problems(machine)]}


def _memory() -> dict[str, int | None]:
    """Bytes: of the machine, and free now, at most what a container may have; None where nobody says."""
    total = None
    if hasattr(os, "sysconf") and {"SC_PHYS_PAGES", "SC_PAGE_SIZE"} <= os.sysconf_names.keys():
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    line = re.search(r"MemAvailable:\s*(\d+) kB", _read("/proc/meminfo"))
    limit = _read("/sys/fs/cgroup/memory.max").strip()
    free = [int(line[1]) * 1024] if line else []
    return {
        "total": total,
        "available": min([*free, *([int(limit)] if limit.isdecimal() else [])], default=None),
    }


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""


def _cache() -> dict[str, Any]:
    from tag2box.runtime.files import cache_folder

    folder, home = cache_folder(), Path.home()
    there = next(place for place in (folder, *folder.parents) if place.exists())
    return {
        "folder": str(Path("~") / folder.relative_to(home)) if folder.is_relative_to(home) else str(folder),
        "writable": os.access(there, os.W_OK),
        "bytes": sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()),
        "disk_free": shutil.disk_usage(there).free,
    }


def _packages() -> dict[str, str | None]:
    from importlib.metadata import PackageNotFoundError, requires

    from tag2box.run.fitting import package_version

    try:
        lines = [line for line in requires("tag2box") or () if "extra ==" not in line]
    except PackageNotFoundError:  # run from its source, without being installed
        lines = []
    return {name: package_version(name) for name in (*(re.split(r"[^\w.-]", x)[0] for x in lines), *OPTIONAL)}


def made_with(run: Path) -> dict[str, str]:
    """The packages that the results of a run depend on, in the versions that it was made with."""
    from tag2box.runtime.index import Index
    from tag2box.runtime.store import BROKEN

    try:
        packages: dict[str, str] = Index(run).note("run")["packages"]
    except BROKEN:
        raise InputError(f"{run} does not say what it was made with: give the folder of a run") from None
    return packages


def _problems(machine: dict[str, Any]) -> list[str]:
    """What is likely to go wrong, and what to do about it."""
    from tag2box.run.fitting import result_packages

    memory, cache, out = machine["memory"], machine["cache"], []
    if (left := memory["available"]) is not None and left < LITTLE_MEMORY:
        workers = machine["processor"]["workers"]
        out.append(f"memory: {bytes_in_words(left)} are little for {workers} workers: --workers 1")
    if not cache["writable"]:
        out.append(f"cache: {cache['folder']} cannot be written: set TAG2BOX_CACHE to a folder that can")
    if cache["disk_free"] < LITTLE_DISK:
        out.append(f"disk: {bytes_in_words(cache['disk_free'])} free beside {cache['folder']}: make room")
    return out + [
        f"run: made with {name} {made}, and here is {here}: results may differ a little"
        for name, made in (machine["run"] or {}).items()
        if (here := result_packages().get(name, "none")) != made
    ]


def in_words(machine: dict[str, Any]) -> str:
    """The same as text, a line for each thing."""
    processor, cache, run = machine["processor"], machine["cache"], machine["run"] or {}
    sizes = {k: "unknown" if v is None else bytes_in_words(v) for k, v in machine["memory"].items()}
    kept, free = bytes_in_words(cache["bytes"]), bytes_in_words(cache["disk_free"])
    lines = {
        "tag2box": machine["tag2box"],
        "Python": machine["python"],
        "system": machine["system"],
        "processor": f"{processor['name']}, {processor['cores']} cores, {processor['workers']} workers",
        "memory": f"{sizes['total']}, {sizes['available']} available",
        "precision": machine["precision"]["why"] if machine["precision"] else "unknown",
        "cache": f"{cache['folder']}, {kept}; {free} free on its disk",
        "packages": ", ".join(f"{name} {number}" for name, number in machine["packages"].items() if number),
        "not installed": ", ".join(name for name, number in machine["packages"].items() if not number),
        "run made with": ", ".join(f"{name} {number}" for name, number in run.items()),
        "problems": "\n               ".join(machine["problems"]) or "none seen",
    }
    return "\n".join(f"{name:<13}  {text}" for name, text in lines.items() if text)
