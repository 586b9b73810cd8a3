"""`Store`: a run folder: its index, what was made of each photo, and the results of stages under their keys.

    RUN/index.sqlite                                      what there is and where (`runtime.index`)
    RUN/arrays/KIND/X.bin, ...                            rows of photos (`runtime.photo_store`)
    RUN/findings/4be1c0ffee12/record.json, scores.npy     the result of a stage, whole

Checksums are kept of everything. They are compared when a file is not as it was left: by its size and time.
"""

import json
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

from tag2box.errors import InputError, Tag2BoxError
from tag2box.runtime.arrays import checksum, read_array, write_array
from tag2box.runtime.files import (
    append_line,
    checked_json,
    locked,
    sync_folder,
    unchecked,
    write_whole,
    writing,
)
from tag2box.runtime.index import DamagedError, Index
from tag2box.runtime.packing import pack, record_named, unpack
from tag2box.runtime.photo_store import PhotoStore

__all__ = ["BROKEN", "DamagedError", "Store", "existing"]

RESULT = re.compile(r"(?P<done>[0-9a-f]{12})|\.(?P<key>[0-9a-f]{12})\.(?P<state>new|old)")
# What reading a file that something has damaged can raise.
BROKEN = (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, RecursionError, Tag2BoxError)


class Store:
    """A run folder; nothing else touches what is in it."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.index = Index(self.folder)

    def lock(self) -> AbstractContextManager[None]:
        """Hold this folder against other runs."""
        return locked(
            self.folder / ".lock",
            f"another run is at work in {self.folder}: wait for it, or choose another folder with --out",
        )

    def photos(self, kind: str) -> PhotoStore:
        """What was made of each photo in one way."""
        return PhotoStore(self.index, self.folder, kind)

    def has(self, stage: str, key: str) -> bool:
        """Whether the result is there."""
        return (self._home(stage, key) / "record.json").is_file()

    def load(self, stage: str, key: str) -> Any:
        """The stored record; its large arrays are mapped, read-only."""
        home = self._home(stage, key)
        try:
            stored = unchecked(json.loads((home / "record.json").read_text(encoding="utf-8")))
            if stored["key"] != key:
                raise DamagedError("it holds the result of other settings")
            self._check(home, stored["arrays"])
            arrays = {name: read_array(_npy(home, name)) for name in stored["arrays"]}
            return unpack(stored["content"], arrays)
        except BROKEN as error:
            raise DamagedError(
                f"{home} is damaged ({error}): run the command that made it again, and it is computed anew"
            ) from error

    def _check(self, home: Path, crcs: Mapping[str, int]) -> None:
        """Compare the arrays with their checksums whose files are not as they were left."""
        suspect = [n for n in crcs if not self.index.is_as_checked(self.folder, _npy(home, n))]
        for name in suspect:
            with _npy(home, name).open("rb") as file:
                if checksum(file) != crcs[name]:
                    raise DamagedError(f"the checksum of {name}.npy is another")
        if suspect:
            self._trust(home)

    def _trust(self, home: Path) -> None:
        with suppress(Tag2BoxError), self.index.writing() as change:  # a folder that cannot be written
            change.mark_checked(self.folder, home.glob("*.npy"))

    def save(self, stage: str, key: str, record: Any) -> None:
        """Write the result beside its place and move it there in one step."""
        home, new = self._home(stage, key), self._home(stage, key, ".new")
        content, arrays = pack(record)
        with writing(new):
            shutil.rmtree(new, ignore_errors=True)
            new.mkdir(parents=True)
        try:
            with writing(home):
                crcs = {name: write_array(_npy(new, name), arrays[name]) for name in sorted(arrays)}
                stored = {"stage": stage, "key": key, "arrays": crcs, "content": content}
                write_whole(new / "record.json", checked_json(stored))
                _remove(home)  # a damaged one, or the rest of one whose removal was stopped
                new.rename(home)
                sync_folder(home.parent)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
        self._trust(home)
        self.tidy(stage, key)

    def mark_whole(self, kind: str, record: type, shards: Sequence[str]) -> None:
        """All rows of a result are there; record: what it is."""
        with self.index.writing() as change:
            change.put("notes", [(f"whole {kind}", json.dumps([record.__name__, *shards]))])

    def shards(self, kind: str) -> list[str]:
        """The shards of a result that is whole."""
        return (self.index.note(f"whole {kind}") or [""])[1:]

    def load_rows(self, stage: str, key: str) -> Any:
        """The stored record of a stage that made it shard by shard; None where it did not, or is not done."""
        noted = self.index.note(f"whole {(kind := f'{stage}-{key[:12]}')}")
        return None if noted is None else record_named(noted[0]).of_rows(self.photos(kind).load(noted[1:]))

    def tidy(self, stage: str, key: str) -> None:
        """Remove what a finished result was made from; a run that was killed may have left it."""
        for state in (".new", ".old"):
            shutil.rmtree(self._home(stage, key, state), ignore_errors=True)

    def drop(self, stage: str, key: str) -> None:
        """Remove a result that nobody needs any more."""
        _remove(self._home(stage, key))
        self.tidy(stage, key)
        with suppress(OSError):  # results of other settings are there, or nothing ever was
            (self.folder / stage).rmdir()

    def write(self, name: str, content: str | bytes) -> Path:
        """A file of the run itself, such as its resolved settings."""
        write_whole(self.folder / name, content)
        return self.folder / name

    def log(self, event: Mapping[str, Any]) -> None:
        """Add one line to `events.jsonl`."""
        append_line(self.folder / "events.jsonl", checked_json(event).rstrip("\n"))

    def results(self) -> list[Path]:
        """Every result and unfinished result. Symbolic links are not followed."""
        stages = (p for p in self.folder.iterdir() if p.is_dir() and not p.is_symlink())
        return sorted(p for s in stages for p in s.iterdir() if RESULT.fullmatch(p.name))

    def unused(self, used: Iterable[tuple[str, str]], kinds: Iterable[str]) -> list[Path]:
        """The results, finished or not, that no (stage, key) in `used` has; and arrays of other kinds."""
        kept = {self._home(stage, key) for stage, key in used}
        arrays = self.folder / "arrays"
        others = sorted(arrays.iterdir()) if arrays.is_dir() and not arrays.is_symlink() else []
        return [
            *(path for path in self.results() if path not in kept),
            *(path for path in others if path.name not in set(kinds)),
        ]

    def remove(self, paths: Iterable[Path]) -> None:
        """Remove results, or arrays of photos, for good."""
        for path in paths:
            if path.parent == self.folder / "arrays":
                with self.index.writing() as change:
                    change.remove("spans", kind=path.name)
                    change.remove("arrays", kind=path.name)
                    change.remove("notes", name=f"whole {path.name}")
            _remove(path)

    def _home(self, stage: str, key: str, state: str = "") -> Path:
        return self.folder / stage / (f".{key[:12]}{state}" if state else key[:12])


def _npy(home: Path, name: str) -> Path:
    return home / f"{name}.npy"


def _remove(path: Path) -> None:
    """Remove a result, if it is there. Renamed first: nobody takes what is left of it for a whole."""
    try:
        if path.is_symlink() or path.is_file():
            path.unlink()
        elif path.exists():
            old = path.with_name(f".{path.name.strip('.')[:12]}.old")
            if path != old:
                shutil.rmtree(old, ignore_errors=True)
                path.rename(old)
            shutil.rmtree(old)
    except OSError as error:
        raise Tag2BoxError(f"cannot remove {path}: {error.strerror or error}") from error


def existing(folder: str | Path) -> Store:
    """The store of a run that was made before; a folder without one is refused."""
    if not (Path(folder) / "config.toml").is_file():
        raise InputError(f"{folder} is no run folder: {_where_runs_are()}")
    return Store(folder)


def _where_runs_are() -> str:
    """What to do without one: to give one that is here, or to make one."""
    here = [str(path.parent) for path in sorted(Path("runs").glob("*/config.toml"))]
    if not here:
        return "make one with `tag2box run DATA`, which says where it is"
    names = ", ".join([*here[:3], *(["..."] if len(here) > 3 else [])])
    return f"give one ({names}), or make one with `tag2box run DATA`"
