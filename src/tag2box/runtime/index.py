"""`Index`: the tables of a run folder, in one SQLite file: what is written together is there together.

    index = Index(Path("runs/photos"))
    with index.writing() as change:
        change.put("keys", [("findings", "4be1c0ffee12...")])
    index.rows("keys")

Each row has a checksum, which is compared when it is read. Who only reads needs no right to write.
"""

import json
import sqlite3
import threading
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from tag2box.errors import InputError, Tag2BoxError
from tag2box.runtime.files import ADVICE, ROOM, refuse_link

NAME = "index.sqlite"
# Raised when older versions of tag2box could no longer read a run folder.
FORMAT = 1
# Each table: its columns, of which the first `n` make a row what it is.
TABLES: dict[str, tuple[str, int]] = {
    "photos": ("place INTEGER, id TEXT, path TEXT, relative TEXT, sha256 TEXT, tags BLOB", 1),
    "arrays": ("kind TEXT, name TEXT, file TEXT, dtype TEXT, shape TEXT", 2),
    "spans": ("kind TEXT, sha256 TEXT, spans BLOB", 2),
    "boxes": (
        "class TEXT, photo INTEGER, row INTEGER, x1 REAL, y1 REAL, x2 REAL, y2 REAL, confidence REAL",
        3,
    ),
    "keys": ("stage TEXT, key TEXT", 1),
    "notes": ("name TEXT, value TEXT", 1),
    "detections": ("key TEXT, detector TEXT, images TEXT", 1),
    "evaluations": ("path TEXT, split TEXT, metric TEXT, relative TEXT, figures TEXT, detector TEXT", 2),
    "checked": ("path TEXT, size INTEGER, modified INTEGER", 1),
}
# Seconds to wait for another process that writes.
PATIENCE = 30.0


class DamagedError(Tag2BoxError):
    """What is stored is not what was written: it has to be computed again."""


class Change:
    """What one transaction writes."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def put(self, table: str, rows: Iterable[Sequence[Any]]) -> None:
        """Write rows, each in place of the one with the same first columns."""
        marks = ", ".join("?" * (len(_columns(table)) + 1))
        self._db.executemany(
            f"INSERT OR REPLACE INTO {table} VALUES ({marks})", ((*row, _crc(row)) for row in rows)
        )

    def remove(self, table: str, **values: Any) -> None:
        """Remove the rows with these values; all rows without any."""
        where = " AND ".join(f"{name} = ?" for name in values) or "1"
        self._db.execute(f"DELETE FROM {table} WHERE {where}", tuple(values.values()))

    def mark_checked(self, folder: Path, paths: Iterable[Path]) -> None:
        """Trust these files of the run folder for as long as their size and time stay as they are."""
        self.put("checked", [(p.relative_to(folder).as_posix(), *_state(p)) for p in paths if p.is_file()])


class Index:
    """The tables of a run folder. Each call connects anew: threads and processes may share it."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / NAME
        self._lock = threading.Lock()

    def exists(self) -> bool:
        """Whether there is one."""
        return self.file.is_file()

    @contextmanager
    def writing(self) -> Iterator[Change]:
        """A transaction: what is put while this lasts is written as a whole at its end, or not at all."""
        refuse_link(self.file)
        with self._lock, self._saying("write"):
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.file, timeout=PATIENCE)) as db, db:
                db.execute("BEGIN IMMEDIATE")
                _make_tables(db)
                yield Change(db)

    def rows(self, table: str, **values: Any) -> list[tuple[Any, ...]]:
        """The rows with these values, as they were written, the newest last."""
        if not self.exists():
            return []
        where = " AND ".join(f"{name} = ?" for name in values) or "1"
        query = f"SELECT * FROM {table} WHERE {where} ORDER BY rowid"
        with self._saying("read"), closing(self._reader()) as db:
            if not _version(db):  # a run was killed before it wrote anything
                return []
            found = db.execute(query, tuple(values.values())).fetchall()
        for *row, crc in found:
            if _crc(row) != crc:
                raise DamagedError(f"{self.file} is damaged (a row of {table} is not as it was written)")
        return [row[:-1] for row in found]

    def is_as_checked(self, folder: Path, path: Path) -> bool:
        """Whether a file has the size and time that it was written or last checked with."""
        noted = self.rows("checked", path=path.relative_to(folder).as_posix())
        return bool(noted) and path.is_file() and noted[0][1:] == _state(path)

    def note(self, name: str) -> Any:
        """What was noted under a name; None where nothing was."""
        found = self.rows("notes", name=name)
        return json.loads(found[0][1]) if found else None

    def _reader(self) -> sqlite3.Connection:
        refuse_link(self.file)
        # What a killed writer left half done has to be undone first.
        mode = "rw" if self.file.with_name(f"{NAME}-journal").is_file() else "ro"
        return sqlite3.connect(f"{self.file.absolute().as_uri()}?mode={mode}", timeout=PATIENCE, uri=True)

    @contextmanager
    def _saying(self, what: str) -> Iterator[None]:
        """Turn what SQLite says into one line: a full disk, no permission, a damaged file."""
        try:
            yield
        except sqlite3.OperationalError as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            advice = ADVICE[13] if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM) else ROOM
            if code == sqlite3.SQLITE_BUSY:
                advice = "another process is writing there: wait for it, and run again"
            raise Tag2BoxError(f"cannot {what} {self.file}: {error}; {advice}") from error
        except sqlite3.DatabaseError as error:
            raise DamagedError(f"{self.file} is damaged ({error})") from error
        except OSError as error:
            raise Tag2BoxError(f"cannot {what} {self.file}: {error.strerror or error}; {ROOM}") from error


def _version(db: sqlite3.Connection) -> int:
    version: int = db.execute("PRAGMA user_version").fetchone()[0]
    if version > FORMAT:
        raise InputError("this folder was made by a newer tag2box: update tag2box, or choose another folder")
    return version


def _columns(table: str) -> list[str]:
    return [column.split()[0] for column in TABLES[table][0].split(", ")]


def _make_tables(db: sqlite3.Connection) -> None:
    if _version(db):
        return
    for name, (columns, n) in TABLES.items():
        key = ", ".join(_columns(name)[:n])
        db.execute(f"CREATE TABLE IF NOT EXISTS {name} ({columns}, crc INTEGER, PRIMARY KEY ({key}))")
    db.execute(f"PRAGMA user_version = {FORMAT}")


def _state(path: Path) -> tuple[int, int]:
    now = path.stat()
    return now.st_size, now.st_mtime_ns


def _crc(row: Sequence[Any]) -> int:
    return zlib.crc32(repr(tuple(row)).encode("utf-8", "surrogatepass"))
