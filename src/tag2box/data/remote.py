"""Photos that are elsewhere: `s3://bucket/photos`, `https://host/photos`, `photos.zip`.

A `RemotePath` is a path whose files fsspec reads from a server, or that are in an archive (`archives.py`).
Nothing is kept but by fsspec's own cache, where an address asks for it: `filecache::https://host/photos`. A
server may be anybody's: no answer is longer than `MOST_BYTES`, no list of files than `MOST_FILES`.
"""

import io
import re
import stat
from collections.abc import Callable
from functools import cache, lru_cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from tag2box.data import archives
from tag2box.data.archives import ARCHIVES, Archive, check_count, one_line, read_bounded
from tag2box.errors import HIDDEN, InputError, install_command, redacted
from tag2box.runtime.files import cache_folder, refuse_special

# A RemotePath has what of a Path the readers of photos and tags use, and is passed as one.
if TYPE_CHECKING:
    from pathlib import Path as _Path
else:
    from pathlib import PurePosixPath as _Path

ADDRESS = re.compile(r"((?:filecache::)?[a-z][a-z0-9+]+):/{1,2}(?!/)(.*)", re.DOTALL)


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
    if not isinstance(path, RemotePath):
        refuse_special(path)
    return path.open("rb")


class RemotePath(_Path):
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
            return f"{kind}//{'/'.join(parts[1:])}::{shown(self._archive)}"
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
        files, name = self._files()
        return files.is_file(name)

    def is_dir(self, **_: Any) -> bool:
        """Whether it is a folder."""
        files, name = self._files()
        return files.is_dir(name)

    def below(self) -> list[str]:
        """The names of all files below the folder, relative to it."""
        files, name = self._files()
        return sorted(files.below(name))

    def read_bytes(self) -> bytes:
        """What is in the file now."""
        files, name = self._files()
        return files.content(name)

    def open(self, *_: Any, **__: Any) -> IO[Any]:  # type: ignore[override]
        """The bytes of the file."""
        return io.BytesIO(self.read_bytes())

    def _files(self) -> "tuple[Archive | _Server, str]":
        """The archive or server that it is in, and its name there."""
        if self._archive is None:
            return _Server(self.address), ""
        match = ADDRESS.match(self._archive)
        outer = RemotePath(f"{match[1]}:", match[2]) if match else Path(self._archive)
        kind, inner = self.parts[0].rstrip(":"), "/".join(self.parts[2:])
        return _opened(kind, outer, _version(outer)), inner


def _version(archive: Path) -> str:
    """What tells whether an archive is the one that was opened before."""
    if isinstance(archive, RemotePath):
        return repr(_Server(archive.address).about())
    try:
        about = archive.stat()
    except OSError as error:
        raise InputError(f"{archive} cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(about.st_mode):
        raise InputError(f"{archive} is no file: expected an archive of photos")
    return repr([about.st_ino, about.st_size, about.st_mtime_ns])


@lru_cache(maxsize=8)  # the list of an archive is read once
def _opened(kind: str, archive: Path, _version: str) -> Archive:
    if isinstance(archive, RemotePath):
        server = _Server(archive.address)
        return Archive(server.open(), kind, str(archive), server.about().get("size") or 0)
    try:
        return Archive(archive.open("rb"), kind, str(archive), archive.stat().st_size)
    except OSError as error:
        raise InputError(f"{archive} cannot be read: {error.strerror}") from None


class _Server:
    """The files behind one address, by fsspec; their names are relative to it."""

    def __init__(self, address: str) -> None:
        self.name = redacted(address)
        try:
            import fsspec
        except ImportError:
            raise InputError(f"{self.name} needs fsspec: {install_command('remote')}") from None
        scheme = address.partition("://")[0].rpartition("::")[2]
        self._is_web = scheme in ("http", "https")
        options: dict[str, Any] = {"use_listings_cache": False}  # a listing may be hours old
        if self._is_web:
            # By trust_env passwords may be in ~/.netrc instead of in the address.
            options["client_kwargs"] = {"trust_env": True, "response_class": _limited_response()}
        with one_line(self.name):
            cached = {"cache_storage": str(cache_folder() / "photos")}
            chained = {"filecache": cached} if address.startswith("filecache::") else {}
            self._fs, self._path = fsspec.url_to_fs(address, **{scheme: options}, **chained)

    def is_file(self, _: str = "") -> bool:
        """Whether it is a file; a server of web pages has one for every folder too."""
        with one_line(self.name):
            return bool(self._fs.isfile(self._path) and not self._fs.isdir(self._path))

    def is_dir(self, _: str = "") -> bool:
        """Whether it is a folder."""
        with one_line(self.name):
            return bool(self._fs.isdir(self._path))

    def below(self, _: str = "") -> list[str]:
        """The names of all files below the folder; a server of web pages may have them without end."""
        names, folders = [], 0
        with one_line(self.name):
            for folder, inner, files in self._fs.walk(self._path):
                names += [f"{folder.rstrip('/')}/{name.rpartition('/')[2]}" for name in files if name]
                folders += len(inner)
                check_count(len(names) + folders)
        top = f"{self._path.rstrip('/')}/" if self._path.strip("/") else ""
        return [name.removeprefix(top) for name in names]

    def about(self) -> dict[str, Any]:
        """What the server says of the file."""
        with one_line(self.name):
            about: dict[str, Any] = self._fs.info(self._path)
        return about

    def content(self, _: str = "") -> bytes:
        """What is in the file."""
        with one_line(self.name):
            if self._is_web:
                content: bytes = self._fs.cat_file(self._path)  # bounded by the response
                return content
            with self._fs.open(self._path, "rb") as file:
                return read_bounded(file, self.name)

    def open(self) -> IO[bytes]:
        """The file, to read parts of it."""
        with one_line(self.name):
            file: IO[bytes] = self._fs.open(self._path, "rb")
        return file


@cache
def _limited_response() -> type:
    """An answer of the web that ends with an error where it is too long, whatever it said of its length."""
    from aiohttp import ClientResponse

    class LimitedResponse(ClientResponse):
        whole: bytes | None = None

        async def read(self) -> bytes:
            if self.whole is None:
                content = io.BytesIO()
                async for piece in self.content.iter_chunked(1 << 20):
                    content.write(piece)
                    if content.tell() > archives.MOST_BYTES:
                        self.close()
                        raise InputError(f"an answer of more than {archives.MOST_BYTES // 10**6} MB")
                self.whole = content.getvalue()
            return self.whole

        async def text(self, encoding: str | None = None, errors: str = "replace") -> str:
            return (await self.read()).decode(encoding or "utf-8", errors)

    return LimitedResponse
