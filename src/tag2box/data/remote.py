"""Photos that are elsewhere: `s3://bucket/photos`, `https://host/photos`, an archive; by fsspec.

A `RemotePath` is a path whose files are read through fsspec. Each file is fetched once and kept in the cache
folder, under a name made of its address and its version (its length, time or tag, as the server tells), until
room is needed there (`remote_cache.py`).
"""

import hashlib
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PosixPath
from typing import IO, Any
from urllib.parse import quote, unquote

from tag2box.data.remote_cache import make_room
from tag2box.errors import InputError
from tag2box.runtime.files import cache_folder, write_whole

__all__ = ["RemotePath", "is_address", "place"]

ADDRESS = re.compile(r"([a-z][a-z0-9+]+):/{1,2}(?!/)(.*)", re.DOTALL)
ARCHIVES = {".zip": "zip", ".tar": "tar", ".tgz": "tar"}


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
        full = ADDRESS.sub(r"\1://\2", outer) if ADDRESS.match(outer) else str(Path(outer).absolute())
        return RemotePath(f"{kind}:", quote(full, safe=""), inner)
    match = ADDRESS.match(address)
    assert match is not None
    return RemotePath(f"{match[1]}:", match[2])


def _inside(address: str) -> tuple[str | None, str, str]:
    """The kind of an archive, the path in it and its own address: of zip://inner::outer, or by the suffix."""
    match = ADDRESS.match(address)
    if match and match[1] in ARCHIVES.values():
        inner, _, outer = match[2].partition("::")
        return match[1], inner, outer
    is_folder = not match and Path(address).is_dir()
    return None if is_folder else ARCHIVES.get(Path(address).suffix.lower()), "", address


class RemotePath(PosixPath):
    """A path elsewhere. Its first part is the kind, "s3:"; of an archive the second is its own address."""

    def __str__(self) -> str:
        kind, *parts = self.parts
        if kind.rstrip(":") in ARCHIVES.values() and parts:
            return f"{kind}//{'/'.join(parts[1:])}::{unquote(parts[0])}"
        return f"{kind}//{'/'.join(parts)}"

    def __repr__(self) -> str:
        return f"RemotePath({str(self)!r})"

    def __reduce__(self) -> Any:
        return RemotePath, tuple(self.parts)

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
        """Whether it is a file; a server of web pages has one for every folder too."""
        files, inner = self._files()
        return bool(files.isfile(inner) and not files.isdir(inner))

    def is_dir(self, **_: Any) -> bool:
        """Whether it is a folder."""
        files, inner = self._files()
        return bool(files.isdir(inner))

    def iterdir(self) -> "Iterator[RemotePath]":  # type: ignore[override]
        """What is in the folder."""
        files, inner = self._files()
        return (self / name.rstrip("/").rpartition("/")[2] for name in files.ls(inner, detail=False))

    def below(self) -> list[str]:
        """The names of all files below the folder, relative to it."""
        files, inner = self._files()
        top = inner.rstrip("/") + "/" if inner.strip("/") else ""
        try:
            return sorted(name.removeprefix(top).removeprefix("./") for name in files.find(inner))
        except Exception as error:
            raise _unreadable(self, error) from error

    def open(self, mode: str = "rb", *_: Any, **how: Any) -> IO[Any]:  # type: ignore[override]
        """The file, from the cache; fetched first where it is not there."""
        with suppress(FileNotFoundError):  # another process has made room just now
            return self.fetched().open(mode, **how)
        return self.fetched().open(mode, **how)

    def fetched(self) -> Path:
        """The copy of the file in the cache."""
        files, inner = self._files()
        try:
            version = f"{self}\n{files.ukey(inner)}"
            copy = cache_folder() / "photos" / hashlib.sha256(version.encode()).hexdigest()
            if copy.is_file():
                copy.touch()
            else:
                content = files.cat_file(inner)
                make_room(copy.parent, len(content))
                write_whole(copy, content)
        except InputError:
            raise
        except Exception as error:  # every kind of server has its own
            raise _unreadable(self, error) from error
        return copy

    def _files(self) -> tuple[Any, str]:
        """The file system, and the path in it."""
        try:
            import fsspec
        except ImportError:
            raise InputError(f"{self} needs fsspec: pip install 'tag2box[remote]'") from None
        try:
            files, inner = fsspec.url_to_fs(str(self))
        except (ImportError, ValueError) as error:
            raise InputError(f"{self} cannot be read: {error}") from error
        inner = str(inner)
        if inner and self.parts[0] == "tar:" and not files.exists(inner) and files.exists(f"./{inner}"):
            inner = f"./{inner}"  # made by `tar cf photos.tar .`
        return files, inner


def _unreadable(path: RemotePath, error: Exception) -> InputError:
    return InputError(f"{path} cannot be read: {str(error).strip() or type(error).__name__}")
