"""`examine`: this machine as tag2box sees it, to be pasted into a report of a bug."""

import os
import platform
import re
import shutil
import sys
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Any

from tag2box._version import __version__
from tag2box.description.config import FeaturesConfig
from tag2box.description.resolving import measure_precision
from tag2box.errors import InputError, Tag2BoxError
from tag2box.networks.openvino_engine import devices, offered
from tag2box.networks.processor import guard_onednn, instructions, processor_name
from tag2box.run.notes import package_version, read_json, result_packages
from tag2box.runtime.executor import n_workers
from tag2box.runtime.files import cache_folder, unchecked
from tag2box.runtime.parts import BROKEN
from tag2box.runtime.units import bytes_in_words

# What people set, and wonder later why it is slow.
VARIABLES = re.compile(
    r"TAG2BOX_(CACHE|CACHE_GB|DATA|RUN)|(OMP|MKL|OPENBLAS|NUMBA)_NUM_THREADS|(ONEDNN|DNNL)_.*|LOKY_.*"
)
# Packages that tag2box uses where they are there.
OPTIONAL = (
    "pycocotools",
    "starlette",
    "uvicorn",
    "onnxruntime",
    "supervision",
    "fiftyone",
    "datasets",
    "matplotlib",
    "scikit-image",
)
# A worker has some 400 MB, and the photos of a run come on top.
LITTLE_MEMORY = 2_000_000_000
LITTLE_DISK = 1_000_000_000


def examine(run: Path | None = None) -> dict[str, Any]:
    """All that matters, for JSON; `problems` has a line for each thing that is likely to go wrong.

    run: the folder of a run, whose packages are compared with those of today.
    """
    guard_onednn()
    machine: dict[str, Any] = {
        "tag2box": __version__,
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "system": platform.platform(),
        "processor": _processor(),
        "memory": _memory(),
        "cache": _cache(),
    }
    problems: list[str] = []
    for name, look in (("devices", _devices), ("precision", _precision)):
        try:
            machine[name] = look()
        except (Tag2BoxError, ImportError, RuntimeError, OSError) as error:
            machine[name] = None
            problems.append(f"{name}: {' '.join(str(error).split())}")
    machine["packages"] = _packages()
    machine["run"] = None if run is None else made_with(run)
    machine["variables"] = {
        key: value for key, value in sorted(os.environ.items()) if VARIABLES.fullmatch(key)
    }
    return machine | {"problems": [*problems, *_problems(machine)]}


def _processor() -> dict[str, Any]:
    return {
        "name": processor_name(),
        "cores": os.cpu_count() or 1,
        "workers": n_workers(None),
        "instructions": instructions(),
    }


def _memory() -> dict[str, int | None]:
    """Bytes: of the machine, free now, and what this process may have at most (None where nobody says)."""
    total = free = None
    if hasattr(os, "sysconf") and {"SC_PHYS_PAGES", "SC_PAGE_SIZE"} <= os.sysconf_names.keys():
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if (known := _read("/proc/meminfo")) and (line := re.search(r"MemAvailable:\s*(\d+) kB", known)):
        free = int(line[1]) * 1024
    limit = _read("/sys/fs/cgroup/memory.max").strip()
    return {"total": total, "available": free, "limit": int(limit) if limit.isdecimal() else None}


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""


def _cache() -> dict[str, Any]:
    folder = cache_folder()
    there = next(place for place in (folder, *folder.parents) if place.exists())
    files = [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
    return {
        "folder": _without_home(folder),
        "writable": os.access(there, os.W_OK),
        "bytes": sum(path.stat().st_size for path in files),
        "disk_free": shutil.disk_usage(there).free,
    }


def _without_home(path: Path) -> str:
    """A path without the name of its user."""
    home = Path.home()
    return str(Path("~") / path.relative_to(home)) if path.is_relative_to(home) else str(path)


def _devices() -> list[dict[str, Any]]:
    """What networks can run on: OpenVINO's devices, and the providers of onnxruntime where that is there."""
    listed = [
        {"runtime": "openvino", "name": name, "full_name": full_name, "precisions": list(offered(name))}
        for name, full_name in devices().items()
    ]
    try:
        import onnxruntime
    except ImportError:
        return listed
    more = {"runtime": "onnxruntime", "full_name": "", "precisions": []}
    return [*listed, *({**more, "name": name} for name in onnxruntime.get_available_providers())]


def _precision() -> dict[str, Any]:
    speeds = measure_precision(FeaturesConfig())
    return {"chosen": speeds.precision, "why": str(speeds), "ms_a_window": dict(speeds.ms)}


def _packages() -> dict[str, str | None]:
    try:
        needed = [
            re.split(r"[^\w.-]", line)[0] for line in requires("tag2box") or () if "extra ==" not in line
        ]
    except PackageNotFoundError:  # run from its source, without being installed
        needed = []
    return {name: package_version(name) for name in (*needed, *OPTIONAL)}


def made_with(run: Path) -> dict[str, str]:
    """The packages that the results of a run depend on, in the versions that it was made with."""
    try:
        packages: dict[str, str] = unchecked(read_json(run / "run.json"))["packages"]
    except BROKEN:
        raise InputError(f"{run} does not say what it was made with: give the folder of a run") from None
    return packages


def _problems(machine: dict[str, Any]) -> list[str]:
    """What is likely to go wrong, and what to do about it."""
    memory, cache = machine["memory"], machine["cache"]
    left = min((value for value in (memory["available"], memory["limit"]) if value), default=LITTLE_MEMORY)
    out = []
    if left < LITTLE_MEMORY:
        workers = machine["processor"]["workers"]
        out.append(f"memory: {bytes_in_words(left)} are little for {workers} workers: --workers 1")
    if not cache["writable"]:
        out.append(f"cache: {cache['folder']} cannot be written: set TAG2BOX_CACHE to a folder that can")
    if cache["disk_free"] < LITTLE_DISK:
        out.append(f"disk: {bytes_in_words(cache['disk_free'])} free beside {cache['folder']}: make room")
    out += [
        f"run: made with {name} {made}, and here is {here}: results may differ a little"
        for name, made in (machine["run"] or {}).items()
        if (here := result_packages().get(name, "none")) != made
    ]
    if sys.maxsize < 2**32:
        out.append("python: a 32-bit one cannot hold the features of a run: install a 64-bit one")
    return out


def in_words(machine: dict[str, Any]) -> str:
    """The same as text, a line for each thing."""
    processor, memory, cache = machine["processor"], machine["memory"], machine["cache"]
    sizes = {key: "unknown" if value is None else bytes_in_words(value) for key, value in memory.items()}
    kept, disk_free = bytes_in_words(cache["bytes"]), bytes_in_words(cache["disk_free"])
    limit = "" if memory["limit"] is None else f", limited to {sizes['limit']}"
    lines = {
        "tag2box": machine["tag2box"],
        "Python": machine["python"],
        "system": machine["system"],
        "processor": f"{processor['name']}, {processor['cores']} cores, {processor['workers']} workers",
        "instructions": ", ".join(processor["instructions"]) or "none that matter here",
        "memory": f"{sizes['total']}, {sizes['available']} available{limit}",
        "devices": "; ".join(map(_device, machine["devices"] or [])) or "none",
        "precision": machine["precision"]["why"] if machine["precision"] else "unknown",
        "cache": f"{cache['folder']}, {kept}; {disk_free} free on its disk",
        "packages": ", ".join(f"{name} {number}" for name, number in machine["packages"].items() if number),
        "not installed": ", ".join(name for name, number in machine["packages"].items() if not number) or "-",
        "run made with": ", ".join(f"{name} {number}" for name, number in (machine["run"] or {}).items())
        or "-",
        "variables": ", ".join(f"{name}={value}" for name, value in machine["variables"].items()) or "none",
        "problems": "\n               ".join(machine["problems"]) or "none seen",
    }
    return "\n".join(f"{name:<13}  {text}" for name, text in lines.items())


def _device(device: dict[str, Any]) -> str:
    more = "; ".join(filter(None, [device["full_name"], ", ".join(device["precisions"])]))
    return f"{device['runtime']} {device['name']}{f' ({more})' if more else ''}"
