"""Photos in a zip or tar file, read where they are: nothing is unpacked but the photo that is wanted.

The file may be anything that a stranger sent. One that was cut short is refused, whatever of it could be
read, and so is one that would unpack to much more than it is.
"""

import io
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import IO, Any
from weakref import finalize

from tag2box.errors import InputError

ARCHIVES = {".zip": "zip", ".tar": "tar", ".tgz": "tar", ".tar.gz": "tar"}
# Bytes of one file, whoever sends it: as much as decoding a photo may take.
MOST_BYTES = 512_000_000
# Files of one archive or server. Knowing of one takes some kilobytes.
MOST_FILES = 200_000
# What unpacks to more than this many times its size is no photo, unless it is small: flat colors shrink well.
MOST_RATIO, SMALL = 100, 10_000_000
# Bytes that are read at a time. The longest header of a tar file is the name of a file.
PIECE = 1 << 20
# How zip files of photos are packed. LZMA may ask for 4 GB before the first byte.
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2)
BLOCK = 512  # of a tar file; it ends with one of zeros


class Archive:
    """The files of an archive, by name. kind: "zip" or "tar"; name: for messages; size: its bytes.

    It is read by one thread at a time: all share the place in the file.
    """

    def __init__(self, file: IO[bytes], kind: str, name: str, size: int) -> None:
        self.name, self._lock = name, Lock()
        finalize(self, file.close)
        with one_line(name, ": is it cut short or damaged? Copy or make it again"):
            self._members, self._open = _open_zip(file) if kind == "zip" else _open_tar(file, size)

    def is_file(self, name: str) -> bool:
        """Whether there is such a file."""
        return name in self._members

    def is_dir(self, name: str) -> bool:
        """Whether there is such a folder."""
        return not name or bool(self.below(name))

    def below(self, folder: str) -> list[str]:
        """The names of all files below a folder, relative to it."""
        top = _plain(f"{folder}/x")[:-1]
        return [name.removeprefix(top) for name in self._members if name.startswith(top)]

    def content(self, name: str) -> bytes:
        """What is in a file."""
        if name not in self._members:
            raise InputError(f"{self.name} has no file {name}")
        with self._lock, one_line(self.name), self._open(self._members[name]) as file:
            return read_bounded(file, name)


def read_bounded(file: Any, name: str) -> bytes:
    """All of an open file, up to `MOST_BYTES`."""
    content = io.BytesIO()
    while piece := file.read(PIECE):
        content.write(piece)
        _check_size(name, content.tell(), None)
    return content.getvalue()


@contextmanager
def one_line(name: str, advice: str = "") -> Iterator[None]:
    """A damaged archive and every kind of server have errors of their own: each becomes one line."""
    try:
        yield
    except InputError as error:
        raise error if name in str(error) else InputError(f"{name}: {error}") from None
    except Exception as error:
        why = str(error).strip() or type(error).__name__
        raise InputError(f"{name} cannot be read ({why}){advice}") from error


# The members by name, and what opens one.
_Opened = tuple[dict[str, Any], Callable[[Any], Any]]


def _open_zip(file: IO[bytes]) -> _Opened:
    archive = zipfile.ZipFile(file)
    members = [member for member in archive.infolist() if not member.is_dir()]
    check_count(len(members))

    def opened(member: zipfile.ZipInfo) -> IO[bytes]:
        if member.compress_type not in METHODS:
            raise InputError(f"{member.filename} is packed in an unusual way: pack it with deflate")
        _check_size(member.filename, member.file_size, member.compress_size)
        return archive.open(member)

    return {_plain(member.filename): member for member in members}, opened


def _open_tar(file: IO[bytes], size: int) -> _Opened:
    """Every header is looked at, and of a packed file every byte: so it is known to be whole."""
    start = file.read(2)
    file.seek(0)
    if start == b"\x1f\x8b":
        import gzip

        file = gzip.GzipFile(fileobj=file)  # type: ignore[assignment]
    pieces: Any = _InPieces(file, max(SMALL, MOST_RATIO * size))
    archive = tarfile.TarFile(fileobj=pieces)
    members = {}
    for count, member in enumerate(archive, start=1):
        check_count(count)
        if member.isreg() or member.islnk() or member.issym():
            members[_plain(member.name)] = member
    if pieces.last != bytes(BLOCK):  # a damaged header ends the list too
        raise InputError("it ends before its end: is it cut short or damaged? Copy or make it again")
    while pieces.read(PIECE):  # up to the checksum of what was packed
        pass

    def opened(member: tarfile.TarInfo) -> Any:
        _check_size(member.name, member.size, None)
        return archive.extractfile(member)

    return members, opened


class _InPieces(io.RawIOBase):
    """A file of which nobody reads much at a time or in all: headers may speak of gigabytes."""

    def __init__(self, file: IO[bytes], most: int) -> None:
        self._file, self._most = file, most
        self.seek, self.tell = file.seek, file.tell  # type: ignore[method-assign]
        self.last = b""  # what was read last

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        if not 0 <= size <= PIECE:
            raise InputError(f"a header of {size} bytes")
        self.last = self._file.read(size)
        if (end := self._file.tell()) > self._most:
            raise _swells("it", end, self._most // MOST_RATIO)
        return self.last


def check_count(count: int) -> None:
    """Refuse too many files."""
    if count > MOST_FILES:
        raise InputError(
            f"more than {MOST_FILES} files and folders: give a folder further down, or unpack it"
        )


def _check_size(name: str, size: int, packed: int | None) -> None:
    if size > MOST_BYTES:
        raise InputError(f"{name} has more than {MOST_BYTES // 10**6} MB: no photo is so large; leave it out")
    if packed is not None and size > max(SMALL, MOST_RATIO * packed):
        raise _swells(name, size, packed)


def _swells(name: str, size: int, packed: int) -> InputError:
    return InputError(
        f"{name} would unpack to {size // 10**6} MB or more, over {MOST_RATIO} times its {packed} bytes: "
        "no photos shrink like that; unpack it yourself if you know what it is"
    )


def _plain(name: str) -> str:
    """A name as paths write it, without ./ and doubled slashes."""
    return "/".join(part for part in name.split("/") if part not in ("", "."))
