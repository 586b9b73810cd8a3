"""`Store`: the results of a run on disk, each under a key that says what it was made from.

    RUN/described/4be1c0ffee12/record.json, X.npy, ...     a finished result, whole
    RUN/described/.4be1c0ffee12.part/                      what is done of one that was stopped
    RUN/described/.4be1c0ffee12.old/                       what was being removed when that was stopped

What a key is says `runtime.keys`. Arrays are `.npy` files that can be mapped. Checksums are kept of
everything, and compared whenever it is loaded.
"""

import json
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

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
from tag2box.runtime.packing import pack, unpack
from tag2box.runtime.parts import BROKEN, DamagedError, Parts, intact_rows, rows_are_intact

__all__ = ["DamagedError", "Store", "existing"]

RESULT = re.compile(r"(?P<done>[0-9a-f]{12})|\.(?P<key>[0-9a-f]{12})\.(?P<state>part|new|old)")


class Store:
    """A run folder; nothing else touches what is in it."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def lock(self) -> AbstractContextManager[None]:
        """Hold this folder against other runs."""
        return locked(
            self.folder / ".lock",
            f"another run is at work in {self.folder}: wait for it, or choose another folder with --out",
        )

    def has(self, stage: str, key: str) -> bool:
        """Whether the result is there."""
        return (self._home(stage, key) / "record.json").is_file()

    def load(self, stage: str, key: str) -> Any:
        """The stored record, checked; its large arrays are mapped, read-only."""
        home = self._home(stage, key)
        try:
            stored = _record(home)
            if stored["key"] != key:
                raise DamagedError("it holds the result of other settings")
            arrays = {name: _checked_array(home, name, crc) for name, crc in stored["arrays"].items()}
            return unpack(stored["content"], arrays)
        except BROKEN as error:
            raise DamagedError(
                f"{home} is damaged ({error}): run the command that made it again, and it is computed anew"
            ) from error

    def save(self, stage: str, key: str, record: Any) -> None:
        """Write the result beside its place and move it there in one step."""
        new = self._home(stage, key, ".new")
        with writing(new):
            shutil.rmtree(new, ignore_errors=True)
            new.mkdir(parents=True)
        try:
            self._finish(new, stage, key, record)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
        self.tidy(stage, key)

    def parts(self, stage: str, key: str, rows: Sequence[str]) -> Parts:
        """The finished parts of a result that is being made; rows: its arrays too large for memory."""
        return Parts(self._home(stage, key, ".part"), rows)

    def save_parts(self, stage: str, key: str, parts: Parts, record: Any) -> None:
        """Finish a result that was made in parts. Where it has large arrays they are there already.

        Then the parts stay beside them: if a block is damaged one day, that part alone is made again.
        """
        if not parts.rows:
            self.save(stage, key, record)
            return
        parts.finish()
        self._finish(parts.folder, stage, key, record, written=tuple(parts.rows))
        self.tidy(stage, key)

    def tidy(self, stage: str, key: str) -> None:
        """Remove what a finished result was made from; a run that was killed may have left it."""
        for state in (".part", ".new", ".old"):
            shutil.rmtree(self._home(stage, key, state), ignore_errors=True)

    def drop(self, stage: str, key: str) -> None:
        """Remove a result that nobody needs any more."""
        _remove(self._home(stage, key))
        self.tidy(stage, key)
        with suppress(OSError):  # results of other settings are there, or nothing ever was
            (self.folder / stage).rmdir()

    def reopen(self, stage: str, key: str) -> None:
        """Take a damaged result for an unfinished one: rows that are intact will not be made again."""
        home, part = self._home(stage, key), self._home(stage, key, ".part")
        if any(intact_rows(home, blocks.stem) for blocks in home.glob("*.blocks")):
            _remove(part)
            with writing(home):
                home.rename(part)
        else:
            _remove(home)

    def _finish(self, folder: Path, stage: str, key: str, record: Any, written: tuple[str, ...] = ()) -> None:
        """`record` into `folder`, its JSON last, and then the folder to its place."""
        content, arrays = pack(record)
        home = self._home(stage, key)
        with writing(home):
            # What was written in blocks has their checksums beside it.
            crcs = {
                name: None if name in written else write_array(folder / f"{name}.npy", arrays[name])
                for name in sorted(arrays)
            }
            stored = {"stage": stage, "key": key, "arrays": crcs, "content": content}
            write_whole(folder / "record.json", checked_json(stored))
            _remove(home)  # the rest of a result whose removal was stopped
            folder.rename(home)
            sync_folder(home.parent)

    def write(self, name: str, content: str | bytes) -> Path:
        """A file of the run itself, such as its resolved settings."""
        write_whole(self.folder / name, content)
        return self.folder / name

    def log(self, event: Mapping[str, Any]) -> None:
        """Add one line to `events.jsonl`."""
        append_line(self.folder / "events.jsonl", checked_json(event).rstrip("\n"))

    def results(self) -> list[tuple[str, Path]]:
        """Every result and unfinished result: its stage, its folder. Symbolic links are not followed."""
        stages = (p for p in self.folder.iterdir() if p.is_dir() and not p.is_symlink())
        return sorted((s.name, p) for s in stages for p in s.iterdir() if RESULT.fullmatch(p.name))

    def unused(self, used: Iterable[tuple[str, str]]) -> list[Path]:
        """Every result, finished or not, but those with a (stage, key) in `used`."""
        kept = {self._home(stage, key, state) for stage, key in used for state in ("", ".part")}
        return [path for _, path in self.results() if path not in kept]

    def remove(self, paths: Iterable[Path]) -> None:
        """Remove results for good."""
        for path in paths:
            _remove(path)

    def _home(self, stage: str, key: str, state: str = "") -> Path:
        return self.folder / stage / (f".{key[:12]}{state}" if state else key[:12])


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


def _record(home: Path) -> dict[str, Any]:
    return unchecked(json.loads((home / "record.json").read_text(encoding="utf-8")))


def _checked_array(home: Path, name: str, crc: int | None) -> NDArray[Any]:
    """crc: of the whole file; None where its blocks have theirs beside it."""
    path = home / f"{name}.npy"
    if crc is None:
        intact = rows_are_intact(home, name)
    else:
        with path.open("rb") as file:
            intact = checksum(file) == crc
    if not intact:
        raise DamagedError(f"the checksum of {path.name} is another")
    return read_array(path)


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
