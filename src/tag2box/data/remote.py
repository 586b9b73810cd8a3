"""Photos that are elsewhere: `s3://bucket/photos`, `https://host/photos`, `photos.zip`.

A `RemotePath` is a path whose files are behind a server (`servers.py`) or in an archive (`archives.py`).
Photos are kept in the cache folder, under a name made of their address and version, until room is needed
there (`remote_cache.py`). Where the version is not known a photo is fetched each time; tags always are.
"""

import hashlib
import io
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path, PosixPath
from typing import IO, Any
from urllib.parse import quote, unquote

from tag2box.data.archives import ARCHIVES, Archive
from tag2box.data.remote_cache import make_room
from tag2box.data.servers import FileServer, version_of
from tag2box.errors import HIDDEN, InputError, redacted
from tag2box.runtime.files import cache_folder, read_sealed, write_sealed

ADDRESS = re.compile(r"([a-z][a-z0-9+]+):/{1,2}(?!/)(.*)", re.DOTALL)


def is_address(path: str | Path) -> bool:
    """Whether this is an address, such as s3://bucket/photos, or an archive of photos."""
    return isinstance(path, RemotePath) or bool(ADDRESS.match(str(path))) or _inside(str(path))[0] is not None


def place(path: str | Path) -> Path:
    """The path of a file or folder, here or elsewhere."""
    if isinstance(path, RemotePath) or not is_address(path):
        return Path(path) if isinstance(path, str) else path
    address = str(path)
    kind, inner, outer = _inside(address)
    if kind is not None:
        full = _written_out(outer) if ADDRESS.match(outer) else str(Path(outer).absolute())
        return RemotePath(f"{kind}:", quote(full, safe=""), inner)
    scheme, _, rest = _written_out(address).partition("://")
    return RemotePath(f"{scheme}:", rest)


def _written_out(address: str) -> str:
    """With both slashes, of which a path keeps one; and without what stands for a password."""
    return ADDRESS.sub(r"\1://\2", address).replace(f"://{HIDDEN}@", "://")


def _inside(address: str) -> tuple[str | None, str, str]:
    """The kind of an archive, the path in it and its own address: of zip://inner::outer, or by the suffix."""
    match = ADDRESS.match(address)
    if match and match[1] in ARCHIVES.values():
        inner, _, outer = match[2].rpartition("::")
        return match[1], inner, outer
    if not match and Path(address).is_dir():
        return None, "", address
    name = (address.partition("?")[0] if match else address).lower()  # a signature is no part of the name
    kinds = (kind for suffix, kind in ARCHIVES.items() if name.endswith(suffix))
    return next(kinds, None), "", address


def open_file(path: Path) -> IO[bytes]:
    """A file here or elsewhere, to read."""
    refuse_special(path)
    return path.open("rb")


def refuse_special(path: Path) -> None:
    """Raise `InputError` where `path` is no regular file: to open a pipe or a device may never end."""
    if isinstance(path, RemotePath):
        return
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


class RemotePath(PosixPath):
    """A path elsewhere. Its first part is the kind, "s3:"; of an archive the second is its own address.

    As text it shows no password: only who reads the files gets to see `address`.
    """

    def __str__(self) -> str:
        return self._written(redacted)

    def __repr__(self) -> str:
        return f"RemotePath({str(self)!r})"

    def __reduce__(self) -> Any:
        return RemotePath, tuple(self.parts)

    @property
    def address(self) -> str:
        """The address with everything that is needed to read it."""
        return self._written(str)

    def _written(self, shown: Callable[[str], str]) -> str:
        kind, *parts = self.parts
        if self._archive is not None:
            return f"{kind}//{self._inner}::{shown(self._archive)}"
        return shown(f"{kind}//{'/'.join(parts)}")

    @property
    def _archive(self) -> str | None:
        """The address of the archive that it is in."""
        kind, *parts = self.parts
        return unquote(parts[0]) if kind.rstrip(":") in ARCHIVES.values() and parts else None

    def is_absolute(self) -> bool:
        """An address is one wherever one is."""
        return True

    def absolute(self) -> "RemotePath":
        """Itself."""
        return self

    def exists(self, **_: Any) -> bool:
        """Whether there is such a file or folder."""
        return self.is_file() or self.is_dir()

    def is_file(self, **_: Any) -> bool:
        """Whether it is a file."""
        archive = self._opened()
        return archive.is_file(self._inner) if archive else FileServer(self.address).is_file()

    def is_dir(self, **_: Any) -> bool:
        """Whether it is a folder."""
        archive = self._opened()
        return archive.is_dir(self._inner) if archive else FileServer(self.address).is_dir()

    def iterdir(self) -> "Iterator[RemotePath]":  # type: ignore[override]
        """What is in the folder."""
        archive = self._opened()
        names = archive.names(self._inner) if archive else FileServer(self.address).names()
        return (self / name for name in sorted(names))

    def below(self) -> list[str]:
        """The names of all files below the folder, relative to it."""
        archive = self._opened()
        return sorted(archive.below(self._inner) if archive else FileServer(self.address).below())

    def open(self, mode: str = "rb", *_: Any, **options: Any) -> IO[Any]:  # type: ignore[override]
        """A photo, from the cache; or text, which is tags, as it is now."""
        if "b" not in mode:
            return io.TextIOWrapper(io.BytesIO(self.read_bytes()), **options)
        return io.BytesIO(self._photo())

    def read_bytes(self) -> bytes:
        """What is in the file now."""
        archive = self._opened()
        return archive.content(self._inner) if archive else FileServer(self.address).content()

    def _photo(self) -> bytes:
        """What is in the file, from the cache where that has this version of it, undamaged."""
        version = self._version()
        copy = None if version is None else self._copy(version)
        if copy is not None and (kept := read_sealed(copy)) is not None:
            with suppress(FileNotFoundError):  # another process has made room just now
                os.utime(copy)
            return kept
        content = self.read_bytes()
        if copy is not None and self._version() == version:  # it did not change while it was read
            make_room(copy.parent, len(content))
            write_sealed(copy, content)
        return content

    def _copy(self, version: str) -> Path:
        """Where a version of the file is kept."""
        return cache_folder() / "photos" / hashlib.sha256(f"{self.address}\n{version}".encode()).hexdigest()

    def _version(self) -> str | None:
        """What tells the content of the file, or of its archive, without reading it; None if nothing does."""
        if self._archive is None:
            return version_of(FileServer(self.address).about())
        outer = _place_of(self._archive)
        if isinstance(outer, RemotePath):
            return outer._version()
        try:
            about = outer.stat()
        except OSError as error:
            raise InputError(f"{outer} cannot be read: {error.strerror}") from None
        if not stat.S_ISREG(about.st_mode):
            raise InputError(f"{outer} is no file: expected an archive of photos")
        return repr([about.st_ino, about.st_size, about.st_mtime_ns])

    @property
    def _inner(self) -> str:
        """The path in the archive."""
        return "/".join(self.parts[2:])

    def _opened(self) -> Archive | None:
        """The archive that it is in."""
        if self._archive is None:
            return None
        version = self._version()
        opening = _open if version is None else _kept
        return opening(self.parts[0].rstrip(":"), self._archive, version)


def _place_of(archive: str) -> Path:
    """Where an archive is: a file here, or one behind a server."""
    match = ADDRESS.match(archive)
    return RemotePath(f"{match[1]}:", match[2]) if match else Path(archive)


def _open(kind: str, address: str, _: str | None) -> Archive:
    outer = _place_of(address)
    if isinstance(outer, RemotePath):
        server = FileServer(outer.address)
        return Archive(server.open(), kind, str(outer), server.about().get("size") or 0)
    try:
        return Archive(outer.open("rb"), kind, address, outer.stat().st_size)
    except OSError as error:
        raise InputError(f"{outer} cannot be read: {error.strerror}") from None


_kept = lru_cache(maxsize=8)(_open)  # by its version: the list of an archive is read once
