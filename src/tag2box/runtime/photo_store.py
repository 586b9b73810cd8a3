"""`PhotoStore`: what was made of each photo, under the SHA-256 of its bytes, in arrays that only grow.

    photos = PhotoStore(index, folder, kind)        # kind: what was made of them, and how
    photos.add(sha256, {"X": X, "maps": cells})     # rows of each array; `commit` makes them count
    photos.load(sha256s)["X"]                       # the rows of these photos, mapped

The rows of a photo are written once, behind all others. The index says where they are, and counts them only
when they are on the disk: a run that was killed goes on behind the last photo that counts. A photo that goes
leaves its rows until `compact`.
"""

import json
import os
import zlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tag2box.runtime.files import open_itself, writing
from tag2box.runtime.index import DamagedError, Index

Array = NDArray[Any]
# Photos after which what was added counts: some seconds of work, lost at most when a run is killed.
SOME = 32


class PhotoRows:
    """Rows of photos that lie apart in one array: indexed as an array is, and copied only where asked for.

    array: mapped; starts, counts: (n_photos,), where the rows of each photo are in it.
    """

    def __init__(self, array: Array, starts: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
        self._array, self._starts = array, starts
        self._offsets = np.append(0, np.cumsum(counts))
        self.shape = (int(self._offsets[-1]), *array.shape[1:])
        self.dtype, self.ndim = array.dtype, array.ndim
        self.nbytes = int(np.prod(self.shape)) * array.itemsize

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, rows: Any) -> Array:
        if isinstance(rows, tuple):
            return np.asarray(self[rows[0]][(slice(None), *rows[1:])])
        if isinstance(rows, slice):
            a, z, step = rows.indices(len(self))
            if not range(a, z, step):
                return self._array[:0]
            first, last = np.searchsorted(self._offsets, [a, max(z - 1, a)], side="right") - 1
            shift = self._starts[first] - self._offsets[first]
            if step == 1 and first == last:
                return self._array[a + shift : z + shift]
            rows = np.arange(a, z, step)
        wanted = np.asarray(rows)
        if wanted.dtype == np.bool_:
            wanted = np.flatnonzero(wanted)
        wanted = np.where(wanted < 0, wanted + len(self), wanted)
        photo = np.searchsorted(self._offsets, wanted, side="right") - 1
        return np.asarray(self._array[wanted - self._offsets[photo] + self._starts[photo]])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self[:], dtype)


# The places of a span's numbers.
START, N = 0, 1


class Span(NamedTuple):
    """Where the rows of a photo are in an array: the first, how many, and their checksum."""

    start: int
    n: int
    crc: int


class _Growing(NamedTuple):
    """An array that grows: its file, the type of its numbers, and the shape of a row."""

    file: str
    dtype: np.dtype[Any]
    row: tuple[int, ...]

    @property
    def row_bytes(self) -> int:
        size: int = prod(self.row, start=int(self.dtype.itemsize))
        return size


class PhotoStore:
    """What was made of photos in one way; `kind` names it."""

    def __init__(self, index: Index, folder: Path, kind: str) -> None:
        self.kind, self._index, self._root = kind, index, folder
        self._home = folder / "arrays" / kind
        self._new: dict[str, bytes] = {}
        self._open: dict[str, IO[bytes]] = {}
        self._arrays = {
            name: _Growing(file, np.dtype(dtype), tuple(json.loads(row)))
            for _, name, file, dtype, row in index.rows("arrays", kind=kind)
        }
        self._spans: dict[str, bytes] = {sha256: spans for _, sha256, spans in index.rows("spans", kind=kind)}

    def __contains__(self, sha256: str) -> bool:
        return sha256 in self._spans or sha256 in self._new

    def __len__(self) -> int:
        return len(self._spans) + len(self._new)

    def add(self, sha256: str, rows: Mapping[str, Array]) -> None:
        """Write what was made of a photo; it counts from the next commit on."""
        arrays = {name: np.ascontiguousarray(rows[name]) for name in sorted(rows)}
        with writing(self._home):
            if not self._arrays:
                self._home.mkdir(parents=True, exist_ok=True)
                self._arrays = {
                    name: _Growing(f"{name}.bin", each.dtype, each.shape[1:]) for name, each in arrays.items()
                }
            self._new[sha256] = _packed(self._write(name, each) for name, each in arrays.items())
        if len(self._new) >= SOME:
            self.commit()

    def _write(self, name: str, rows: Array) -> Span:
        growing = self._arrays[name]
        if (rows.dtype, rows.shape[1:]) != (growing.dtype, growing.row):
            raise ValueError(
                f"{name}: rows {rows.shape[1:]} of {rows.dtype} do not fit those of other photos"
            )
        if name not in self._open:
            path = self._home / growing.file
            path.touch()
            self._open[name] = open_itself(path, "r+b")
            self._open[name].truncate(self._end(name) * growing.row_bytes)
            self._open[name].seek(0, os.SEEK_END)
        file, bytes_ = self._open[name], rows.reshape(-1).view(np.uint8)
        start = file.tell() // max(growing.row_bytes, 1)
        file.write(bytes_.data)
        return Span(start, len(rows), zlib.crc32(bytes_.data))

    def _end(self, name: str) -> int:
        place = list(self._arrays).index(name)
        spans = self._unpacked(self._spans)[:, place]
        return int((spans[:, START] + spans[:, N]).max(initial=0))

    def _unpacked(self, sha256s: Iterable[str]) -> NDArray[np.int64]:
        """Where the rows of these photos are: (n_photos, n_arrays, 3), as `Span` has it."""
        packed = b"".join(self._spans[sha256] for sha256 in sha256s)
        return np.frombuffer(packed, np.int64).reshape(-1, len(self._arrays), 3)

    def commit(self) -> None:
        """From now on what was added counts, whatever happens."""
        if not self._new:
            return
        with writing(self._home):
            for file in self._open.values():
                file.flush()
                os.fsync(file.fileno())
        with self._index.writing() as change:
            change.put(
                "arrays",
                [
                    (self.kind, name, g.file, g.dtype.str, json.dumps(g.row))
                    for name, g in self._arrays.items()
                ],
            )
            change.put("spans", [(self.kind, name, spans) for name, spans in self._new.items()])
            change.mark_checked(self._root, self._files())
        self._spans |= self._new
        self._new = {}

    def close(self) -> None:
        """Close the files that grow."""
        try:
            self.commit()
        finally:
            for file in self._open.values():
                file.close()
            self._open = {}

    def check(self) -> list[str]:
        """Compare the arrays with their checksums, if their files are not as they were left.

        Returns the photos whose rows are damaged or gone; they no longer count.
        """
        suspect = [
            name
            for name, g in self._arrays.items()
            if not self._index.is_as_checked(self._root, self._home / g.file)
        ]
        if not suspect:
            return []
        bad = self._damaged(list(self._spans), suspect)
        for sha256 in bad:
            del self._spans[sha256]
        with self._index.writing() as change:
            for sha256 in bad:
                change.remove("spans", kind=self.kind, sha256=sha256)
            if not bad or all((self._home / g.file).is_file() for g in self._arrays.values()):
                change.mark_checked(self._root, self._files())
        return bad

    def _damaged(self, sha256s: Sequence[str], names: Iterable[str]) -> list[str]:
        """The photos whose rows in these arrays are not as they were written."""
        mapped = [(list(self._arrays).index(name), self._mapped(name)) for name in names]
        return [
            sha256
            for sha256, spans in zip(sha256s, self._unpacked(sha256s).tolist(), strict=True)
            if not all(_is_intact(array, Span(*spans[place])) for place, array in mapped)
        ]

    def load(self, sha256s: Sequence[str]) -> dict[str, Any]:
        """Of each array the rows of these photos, in this order."""
        if not self._arrays:
            return {}
        as_left = all(self._index.is_as_checked(self._root, path) for path in self._files())
        if not as_left and self._damaged(sha256s, self._arrays):
            raise DamagedError(
                f"{self._home} is damaged: run the command that made it again, and what is damaged is "
                "computed anew"
            )
        spans = self._unpacked(sha256s)
        return {
            name: _rows(self._mapped(name), spans[:, place, START], spans[:, place, N])
            for place, name in enumerate(self._arrays)
        }

    def compact(self, keep: Iterable[str]) -> None:
        """Give back the room of all photos but these."""
        kept = [sha256 for sha256 in dict.fromkeys(keep) if sha256 in self._spans]
        if len(kept) == len(self._spans):
            return
        loaded = self.load(kept) if kept else {}
        fresh = {name: _Growing(_next_file(g.file), g.dtype, g.row) for name, g in self._arrays.items()}
        spans = self._unpacked(kept).copy() if kept else np.empty((0, 0, 3), np.int64)
        with writing(self._home):
            for place, (name, rows) in enumerate(loaded.items()):
                offsets = np.append(0, np.cumsum(spans[:, place, N])).tolist()
                spans[:, place, START] = offsets[:-1]
                with open_itself(self._home / fresh[name].file, "wb") as file:
                    for a, z in pairwise(offsets):
                        file.write(np.ascontiguousarray(rows[a:z]).reshape(-1).view(np.uint8).data)
                    file.flush()
                    os.fsync(file.fileno())
        old, self._arrays = self._arrays, fresh
        self._spans = {sha256: of_photo.tobytes() for sha256, of_photo in zip(kept, spans, strict=True)}
        with self._index.writing() as change:
            change.remove("spans", kind=self.kind)
            change.remove("arrays", kind=self.kind)
            if kept:
                change.put(
                    "arrays",
                    [(self.kind, n, g.file, g.dtype.str, json.dumps(g.row)) for n, g in fresh.items()],
                )
                change.put("spans", [(self.kind, *each) for each in self._spans.items()])
                change.mark_checked(self._root, self._files())
        for growing in old.values():
            (self._home / growing.file).unlink(missing_ok=True)

    def _mapped(self, name: str) -> Array:
        """The whole array, as far as its file goes."""
        growing, path = self._arrays[name], self._home / self._arrays[name].file
        size = path.stat().st_size if path.is_file() else 0
        n = size // growing.row_bytes if growing.row_bytes else self._end(name)
        if size == 0 or n == 0:
            return np.empty((n if not growing.row_bytes else 0, *growing.row), growing.dtype)
        return np.memmap(path, growing.dtype, "r", 0, (n, *growing.row))

    def _files(self) -> list[Path]:
        return [self._home / growing.file for growing in self._arrays.values()]


def _rows(array: Array, starts: NDArray[np.int64], counts: NDArray[np.int64]) -> Any:
    """The rows of photos: a part of the array where they lie one after another."""
    ends = starts + counts
    if len(starts) == 0:
        return array[:0]
    if (starts[1:] == ends[:-1]).all():
        return array[starts[0] : ends[-1]]
    return PhotoRows(array, starts, counts)


def _is_intact(array: Array, span: Span) -> bool:
    rows = array[span.start : span.start + span.n]
    return (
        len(rows) == span.n
        and zlib.crc32(np.ascontiguousarray(rows).reshape(-1).view(np.uint8).data) == span.crc
    )


def _packed(spans: Iterable[Span]) -> bytes:
    return np.array(list(spans), np.int64).tobytes()


def _next_file(file: str) -> str:
    name, _, number = file.removesuffix(".bin").partition("~")
    return f"{name}~{int(number or 0) + 1}.bin"
