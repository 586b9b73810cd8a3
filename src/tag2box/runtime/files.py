"""Files that are either whole or absent, whatever happens while they are written; locks; content hashes."""

import errno
import hashlib
import json
import os
import platform
import re
import secrets
import stat
import warnings
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from itertools import count
from pathlib import Path
from typing import IO, Any

from tag2box.errors import InputError, Tag2BoxError

# What a file system without locks answers.
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL)
SURROGATE = re.compile("[\ud800-\udfff]")
# Files that are being written. A process is known by its number and, as numbers come again and machines may
# share a folder, by a word: four letters are the machine's, four are random.
TEMPORARY = re.compile(r"\..+\.(\d{1,10})-([0-9a-f]{8})-\d+\.tag2box")
# Bytes of a file's own name in that: with the rest it stays below the 255 that a name may have.
LONGEST = 200
MACHINE = f"{zlib.crc32(platform.node().encode()) & 0xFFFF:04x}"
PROCESS, WRITES = f"{MACHINE}{secrets.token_hex(2)}", count()
# What to do where the system refuses to write; a full disk is the usual reason.
ROOM = "make room or choose another folder, and run again"
ADVICE = {
    **dict.fromkeys(
        (errno.EACCES, errno.EPERM, errno.EROFS),
        "that folder cannot be written: choose another, or copy the run to one that can, and run again",
    ),
    **dict.fromkeys(
        (errno.EEXIST, errno.ENOTDIR),
        "a file is where a folder is needed: choose another name",
    ),
    errno.ELOOP: "it is a link to a file elsewhere, which is not followed: remove it and run again",
}
SEAL_BYTES = 4
ALONE = "see to it that only one run at a time works there"


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what the system says about a failed write into one line: full disk, no permission, no folder."""
    try:
        yield
    except OSError as error:
        raise Tag2BoxError(
            f"cannot write {path}: {error.strerror or error}; "
            f"what was finished before is whole: {ADVICE.get(error.errno or 0, ROOM)}"
        ) from error


def write_whole(path: Path, content: str | bytes, *, lasting: bool = True) -> None:
    """Write `content` beside `path` and move it there in one step; folders are made as needed.

    lasting: wait until the disk has it, so that it outlives a power cut: some milliseconds.
    """
    data = content.encode() if isinstance(content, str) else content
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        _sweep(path.parent)
        # A name that no other writer takes; opened as any file is, so that others may read it as usual.
        begin = os.fsencode(path.name)[:LONGEST].decode(errors="ignore")
        temporary = path.with_name(f".{begin}.{os.getpid()}-{PROCESS}-{next(WRITES)}.tag2box")
        try:
            with temporary.open("xb") as file:
                file.write(data)
                if lasting:
                    file.flush()
                    os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        if lasting:
            sync_folder(path.parent)


@cache
def _sweep(folder: Path) -> None:
    """Remove what killed writers have left in `folder`: once per process, before it writes there."""
    for path in folder.iterdir():
        if (left := TEMPORARY.fullmatch(path.name)) and not _at_work(int(left[1]), left[2]):
            path.unlink(missing_ok=True)


def _at_work(pid: int, process: str) -> bool:
    """Whether that process may still be writing; where the system cannot tell, it may."""
    if os.name != "posix" or not process.startswith(MACHINE):
        return True
    if pid == os.getpid():
        return process == PROCESS
    try:
        os.kill(pid, 0)  # sends nothing
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # it is another user's
        return True
    return True


def write_sealed(path: Path, content: bytes) -> None:
    """Keep `content` where it can be made again, with its checksum: `read_sealed` gives it back."""
    write_whole(path, content + _seal(content), lasting=False)


def read_sealed(path: Path) -> bytes | None:
    """What `write_sealed` was given; None where it is not there, or was damaged."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    content = data[:-SEAL_BYTES]
    return content if data[-SEAL_BYTES:] == _seal(content) else None


def _seal(content: bytes) -> bytes:
    return zlib.crc32(content).to_bytes(SEAL_BYTES)


def to_json(value: Any, *, sort_keys: bool = False) -> str:
    """One line of JSON; letters as they are, unless UTF-8 has none for them (halves of a pair)."""
    text = json.dumps(value, sort_keys=sort_keys, ensure_ascii=False)
    return text if text.isascii() or not SURROGATE.search(text) else json.dumps(value, sort_keys=sort_keys)


def checked_json(content: Mapping[str, Any]) -> str:
    """A line of JSON with a checksum in it."""
    return to_json({**content, "crc": _json_checksum(content)}) + "\n"


def unchecked(stored: Any) -> dict[str, Any]:
    """What `checked_json` was given, from the JSON that it made; `ValueError` where that was damaged."""
    if not isinstance(stored, dict):
        raise ValueError("not what tag2box has written")
    content = {name: value for name, value in stored.items() if name != "crc"}
    if stored.get("crc") != _json_checksum(content):
        raise ValueError("its checksum is another")
    return content


def _json_checksum(content: Mapping[str, Any]) -> int:
    return zlib.crc32(to_json(content, sort_keys=True).encode())


def refuse_link(path: Path) -> None:
    """Refuse to follow a link where a folder should have its own file: whoever made it chose the target."""
    if path.is_symlink():
        raise Tag2BoxError(f"{path} is a symbolic link, and is not followed: put the file itself there")


def append_line(path: Path, line: str) -> None:
    """Add `line` to the file and wait until it is on the disk. A line that was cut short is ended first."""
    refuse_link(path)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        _append(path, line)


def _append(path: Path, line: str) -> None:
    with open_itself(path, "ab+") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")
        file.write(line.encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def refuse_special(path: Path) -> None:
    """Raise `InputError` where `path` is no regular file: to open a pipe or a device may never end."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:  # a zero byte
        raise InputError(f"{path} cannot be the name of a file: {error}") from None
    if stat.S_ISDIR(mode):
        raise InputError(f"{path}: a folder, where a file was expected")
    if not stat.S_ISREG(mode):
        raise InputError(f"{path}: a pipe, a socket or a device, where a file was expected")


def open_itself(path: Path, mode: str) -> IO[Any]:
    """Open a file of a run folder to write: itself, never a file elsewhere that a link in its place names.

    A run folder may come from others. Files that are written whole take the place of a link anyway.
    """
    return open(path, mode, opener=_open_itself)


def _open_itself(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)  # Windows has no such flag


def sync_folder(folder: Path) -> None:
    """Make new and renamed files of `folder` survive a power cut, where the system offers it."""
    with suppress(PermissionError, IsADirectoryError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def content_hash(path: Path) -> str:
    """SHA-256 of the file's bytes, as 64 hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def known_hash(path: Path) -> str:
    """`content_hash` of a file that is asked for often: it is read again where it has been written since."""
    state = path.stat()
    return _known_hash(path, state.st_size, state.st_mtime_ns, state.st_ctime_ns)


@lru_cache(maxsize=64)
def _known_hash(path: Path, _size: int, _modified: int, _changed: int) -> str:
    return content_hash(path)


@contextmanager
def locked(path: Path, refusal: str, *, wait: float = 0) -> Iterator[None]:
    """Hold the lock file `path`; where another process holds it for `wait` seconds, raise `refusal`.

    The system lets the lock go when its process ends, however that ends: none is ever left behind. Where the
    file system has no locks, as on some networks, that is said in a warning and nothing is refused.
    """
    from filelock import FileLock, Timeout

    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        # filelock's own substitute for a missing lock would outlive a killed run.
        lock = FileLock(path, fallback_to_soft=False)
        try:
            lock.acquire(timeout=wait, poll_interval=0.005)
        except Timeout:
            raise Tag2BoxError(refusal) from None
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
            warnings.warn(f"{path.parent} is on a file system without locks: {ALONE}", stacklevel=3)
    try:
        yield
    finally:
        lock.release()


def cache_folder() -> Path:
    """Where tag2box keeps what it can make again: `TAG2BOX_CACHE`, or the system's folder for caches."""
    from platformdirs import user_cache_path

    chosen = os.environ.get("TAG2BOX_CACHE")
    return Path(chosen).expanduser() if chosen else user_cache_path("tag2box", appauthor=False)
