"""Photos behind an address, by fsspec: which there are, their versions, and what is in them.

A server may be anybody's: no answer is longer than `MOST_BYTES`, no list of files than `MOST_FILES`.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import cache
from typing import IO, Any

from tag2box.data.archives import MOST_BYTES, MOST_FILES
from tag2box.errors import InputError, install_command, redacted

# Bytes of the page that lists a folder: those of as many files.
MOST_LISTED = 320 * MOST_FILES
# How servers tell which version of a file they have: by its content, or by when it was written.
MARKS = ("etag", "content-md5", "digest", "md5hash", "md5", "crc32c", "checksum", "sha", "hex", "generation")
TIMES = ("last-modified", "lastmodified", "last_modified", "mtime", "modified", "modify", "updated")
# Times, and marks made of them, are often whole seconds: a file that is younger than this may change again
# and look the same. A minute, since clocks differ.
YOUNG = timedelta(minutes=1)


class FileServer:
    """The files behind one address. name: the address without its secrets, for messages."""

    def __init__(self, address: str) -> None:
        self.name = redacted(address)
        try:
            import fsspec
        except ImportError:
            raise InputError(f"{self.name} needs fsspec: {install_command('remote')}") from None
        options: dict[str, Any] = {"use_listings_cache": False}  # a listing may be hours old
        if self._is_web(address):
            # By trust_env passwords may be in ~/.netrc instead of in the address.
            options["client_kwargs"] = {"trust_env": True, "response_class": _limited_response()}
        with self._expecting():
            self._files, self._path = fsspec.url_to_fs(address, **options)

    @staticmethod
    def _is_web(address: str) -> bool:
        return address.startswith(("http://", "https://"))

    def is_file(self) -> bool:
        """Whether it is a file; a server of web pages has one for every folder too."""
        with self._expecting():
            return bool(self._files.isfile(self._path) and not self._files.isdir(self._path))

    def is_dir(self) -> bool:
        """Whether it is a folder."""
        with self._expecting():
            return bool(self._files.isdir(self._path))

    def names(self) -> list[str]:
        """The names of what is in the folder."""
        with self._expecting():
            paths = self._files.ls(self._path, detail=False)
        return [name.rstrip("/").rpartition("/")[2] for name in paths]

    def below(self) -> list[str]:
        """The names of all files below the folder, relative to it."""
        top = f"{self._path.rstrip('/')}/" if self._path.strip("/") else ""
        with self._expecting():
            paths = self._walk() if self._is_web(self._path) else self._files.find(self._path)
        return [name.removeprefix(top) for name in paths]

    def _walk(self) -> list[str]:
        """All files below; a server of web pages can have folders in folders without end."""
        folders, seen, files = [self._path], {self._path}, set()
        while folders:
            for entry in self._files.ls(folders.pop(), detail=True):
                name = entry["name"]
                if entry["type"] != "directory":
                    files.add(name)
                elif name not in seen:
                    seen.add(name)
                    folders.append(name)
            if len(files) + len(seen) > MOST_FILES:
                raise InputError(f"more than {MOST_FILES} files and folders: give a folder further down")
        return sorted(files)

    def about(self) -> dict[str, Any]:
        """What the server says of the file."""
        with self._expecting():
            about: dict[str, Any] = self._files.info(self._path)
        return about

    def content(self) -> bytes:
        """What is in the file."""
        with self._expecting():
            if not self._is_web(self._path) and (self._files.size(self._path) or 0) > MOST_BYTES:
                raise InputError(f"more than {MOST_BYTES // 10**6} MB: no photo is so large")
            content: bytes = self._files.cat_file(self._path)
        return content

    def open(self) -> IO[bytes]:
        """The file, to read parts of it."""
        with self._expecting():
            file: IO[bytes] = self._files.open(self._path, "rb")
        return file

    @contextmanager
    def _expecting(self) -> Iterator[None]:
        """Every kind of server has its own errors: each becomes one line."""
        try:
            yield
        except InputError as error:
            raise error if self.name in str(error) else InputError(f"{self.name}: {error}") from None
        except Exception as error:
            why = str(error).strip() or type(error).__name__
            raise InputError(f"{self.name} cannot be read: {why}") from error


def version_of(about: dict[str, Any], now: datetime | None = None) -> str | None:
    """By which the content of a file is known without reading it; None where nothing is said that holds."""
    properties = {str(name).lower(): value for name, value in about.items() if value not in (None, "")}
    times = {name: properties[name] for name in TIMES if name in properties}
    marks = {name: properties[name] for name in MARKS if name in properties}
    latest = (now or datetime.now(UTC)) - YOUNG
    if not times | marks or any(_when(value) > latest for value in times.values()):
        return None
    return repr([properties.get("size"), *sorted((times | marks).items())])


def _when(value: Any) -> datetime:
    """A time as servers write it; now where it is not understood."""
    try:
        if isinstance(value, int | float):
            return datetime.fromtimestamp(value, UTC)
        text = str(value)
        time = parsedate_to_datetime(text) if "," in text else datetime.fromisoformat(text)
        return time if time.tzinfo else time.replace(tzinfo=UTC)
    except (ValueError, TypeError, OverflowError, OSError):
        return datetime.now(UTC)


@cache
def _limited_response() -> type:
    """An answer of the web that ends with an error where it is too long, whatever it said of its length."""
    from aiohttp import ClientResponse

    class LimitedResponse(ClientResponse):
        most = MOST_BYTES

        async def read(self) -> bytes:
            if self._body is None:
                content = io.BytesIO()
                async for piece in self.content.iter_chunked(1 << 20):
                    content.write(piece)
                    if content.tell() > self.most:
                        self.close()
                        raise InputError(
                            f"an answer of more than {self.most // 10**6} MB: no photo is so large"
                        )
                self._body = content.getvalue()
            return await super().read()

        async def text(self, *args: Any, **options: Any) -> str:
            self.most = MOST_LISTED
            return await super().text(*args, **options)

    return LimitedResponse
