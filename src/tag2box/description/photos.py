"""Many photos: each is read once, and what is made of its bytes is kept under their SHA-256.

    photos = describe_photos(images.paths, settings, run)
    photos.facts                      # of each file: its hash, its size, or why it cannot be decoded
    photos.described                  # of those that can be

What is hashed is what is decoded: a file that changes later does not matter. Bytes that were described before
are not decoded again. Nothing depends on the other photos but the projection. It is fitted on the first
photos of a run folder, and again only when there are `GROWN` times as many.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tag2box.data.decoding import Photo, read_photo
from tag2box.data.first_look import PhotoFacts
from tag2box.data.photos import read_again
from tag2box.description.describe import describe, finished, raw_photo, raw_widths
from tag2box.description.description import Description, fit_description
from tag2box.description.record import Described
from tag2box.description.resolving import DescriptionConfig
from tag2box.errors import InputError
from tag2box.runtime.executor import map_ordered
from tag2box.runtime.photo_store import PhotoStore
from tag2box.runtime.progress import Progress, silent
from tag2box.runtime.stages import Run, stage
from tag2box.runtime.store import DamagedError
from tag2box.windows.record import Windows

# How many times as many photos there must be until the projection is fitted anew. With fewer than its sample
# it was fitted on less than it could be; from then on more photos change nothing that counts.
GROWN = 4
# Bytes that the raw vectors of the sample may take on disk, until the photos are described.
MOST_BYTES = 1 << 30


@dataclass(frozen=True)
class PhotoFiles:
    """Files of photos, and the SHA-256 of each, by which they are known: they may be moved and renamed."""

    paths: tuple[Path, ...]
    hashes: tuple[str, ...]

    def key(self) -> Any:
        """What they are known by."""
        return self.hashes

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, part: slice) -> "PhotoFiles":
        return PhotoFiles(self.paths[part], self.hashes[part])

    def take(self, rows: Sequence[int]) -> "PhotoFiles":
        """These photos."""
        return PhotoFiles(tuple(self.paths[i] for i in rows), tuple(self.hashes[i] for i in rows))


class Rows(Protocol):
    """What is made of a photo, as rows of arrays."""

    def to_rows(self) -> dict[str, NDArray[Any]]: ...  # noqa: D102


@dataclass(frozen=True)
class Photos:
    """What was made of photos. facts: of each file; description: how they are described."""

    facts: tuple[PhotoFacts, ...]
    description: Description
    store: PhotoStore

    def described(self, run: Run, images: Sequence[int]) -> Described:
        """The vectors, windows and maps of some photos that can be decoded, mapped from their files."""
        hashes = [self.facts[i].sha256 for i in images]
        return run.made(Described.of_rows(self.store.load(hashes)), "described", self.description, hashes)


def describe_photos(paths: Sequence[Path], settings: DescriptionConfig, run: Run) -> Photos:
    """Describe the photos that were not described in this run folder yet."""
    known: dict[int, PhotoFacts] = {}
    description = _kept_description(len(paths), settings, run)
    sample = None
    if description is None:
        known, sample = _see_sample(paths, settings, run)
        description = _fit(known, sample, len(paths), settings, run)
    ready = None if sample is None or settings.features.mode == "pyramid" else _finisher(sample, description)
    store = run.photos("described", description)
    of_photo = partial(describe_photo, description)
    facts = make_of_each(paths, of_photo, store, run, label="described", known=known, ready=ready)
    if sample is not None:
        run.drop_photos("sample")
    return Photos(facts, description, store)


def describe_photo(description: Description, photo: Photo) -> Described:
    """One photo described, with its early maps."""
    return finished(raw_photo(photo, description.settings), description)


def _kept_description(n: int, settings: DescriptionConfig, run: Run) -> Description | None:
    """The description that was fitted in this run folder; None without one that fits so many photos."""
    key = run.key_of("description", settings)
    noted = run.store.index.note(f"description {key[:12]}")
    if noted is None or (n > GROWN * noted and noted < settings.features.sample_images):
        return None
    try:
        description: Description = run.store.load("description", key)
    except DamagedError:  # or it is not there
        return None
    run.keys["description"] = key
    return replace(description, settings=settings)  # its network may have moved


def _fit(
    known: dict[int, PhotoFacts], sample: PhotoStore, n: int, settings: DescriptionConfig, run: Run
) -> Description:
    """Fit the description on the photos seen, out of n, and keep it."""
    hashes = [fact.sha256 for fact in known.values() if not fact.reason]
    if not hashes:
        reasons = "; ".join(fact.reason for fact in list(known.values())[:3])
        raise InputError(f"none of the {len(known)} photos looked at first can be used ({reasons})")
    seen = Described.of_rows(sample.load(list(dict.fromkeys(hashes))))
    key = run.key_of("description", settings)
    description = fit_description(seen, raw_widths(settings), settings)
    run.store.save("description", key, description)
    with run.store.index.writing() as change:
        change.put("notes", [(f"description {key[:12]}", str(n))])
    run.keys["description"] = key
    return description


def _see_sample(
    paths: Sequence[Path], settings: DescriptionConfig, run: Run
) -> tuple[dict[int, PhotoFacts], PhotoStore]:
    """Some photos as the network sees them: all of their windows, or of a pyramid some, as they are long."""
    features = settings.features
    windows = features.sample_windows if features.mode == "pyramid" else settings.windows.max_windows
    most = min(features.sample_images, max(MOST_BYTES // (4 * windows * sum(raw_widths(settings))), 1))
    drawn = np.sort(np.random.default_rng(features.seed).permutation(len(paths))[:most]).tolist()
    store = run.photos("sample", settings)
    see = partial(_see, settings)
    facts = make_of_each([paths[i] for i in drawn], see, store, run, label="sample", known={})
    return dict(zip(drawn, facts, strict=True)), store


def _see(settings: DescriptionConfig, photo: Photo) -> Described:
    raw, features = raw_photo(photo, settings), settings.features
    if features.mode != "pyramid":
        return raw
    rng = np.random.default_rng([features.seed, int(photo.sha256[:8], 16)])
    rows = np.sort(rng.permutation(len(raw.X))[: features.sample_windows])
    return replace(raw, windows=Windows.of_image(raw.windows.xyxy[rows], raw.windows.sizes[0]), X=raw.X[rows])


def _finisher(sample: PhotoStore, description: Description) -> Callable[[str], Described | None]:
    def finish(sha256: str) -> Described | None:
        if sha256 not in sample:
            return None
        return finished(Described.of_rows(sample.load([sha256])), description)

    return finish


def make_of_each(
    paths: Sequence[Path],
    function: Callable[[Photo], Rows],
    store: PhotoStore,
    run: Run,
    *,
    label: str,
    known: dict[int, PhotoFacts],
    ready: Callable[[str], Rows | None] | None = None,
) -> tuple[PhotoFacts, ...]:
    """Read every photo once, and store what `function` makes of those whose bytes are new.

    known: the facts of photos that were read already. ready: what is at hand for a hash, so that nothing is
    made of the photo anew.
    """
    for sha256 in store.check():
        run.note("damaged", photo=sha256[:12], of=store.kind)
    start, before = time.monotonic(), len(store)
    tell = partial(run.progress, label)
    queue = _PhotoQueue(paths, store, dict(known), ready or (lambda _: None), tell)
    attempt = partial(_attempt, function)
    try:
        for result in map_ordered(attempt, queue.new_photos(), workers=run.workers, n=len(paths)):
            queue.take(result)
    finally:
        store.close()
    run.count_photos(label, len(store) - before, len(paths), time.monotonic() - start)
    return _complete([queue.facts[i] for i in range(len(paths))], store)


class _PhotoQueue:
    """Photos that are read, at work or at hand, in order: what is made of them is stored in this order."""

    def __init__(
        self,
        paths: Sequence[Path],
        store: PhotoStore,
        facts: dict[int, PhotoFacts],
        ready: Callable[[str], Rows | None],
        tell: Callable[[int, int], None],
    ) -> None:
        self.paths, self.store, self.facts, self.ready, self.tell = paths, store, facts, ready, tell
        self._waiting: deque[tuple[int, str, Rows | None]] = deque()
        self._taken: set[str] = set()

    def new_photos(self) -> Iterator[Photo]:
        """Read the photos; those of which nothing is stored, or at hand, are to be worked on."""
        for i, path in enumerate(self.paths):
            try:
                photo = None if i in self.facts else read_photo(path)
                if photo is not None:
                    self.facts[i] = PhotoFacts(sha256=photo.sha256)
                sha256 = self.facts[i].sha256
                if self.facts[i].reason or sha256 in self.store or sha256 in self._taken:
                    continue
                record = self.ready(sha256)
                if record is None:
                    photo = photo or read_again(path, sha256)
            except InputError as error:
                self.facts[i] = PhotoFacts(reason=_reason(error, path))
                continue
            self._taken.add(sha256)
            self._waiting.append((i, sha256, record))
            self._store_at_hand()
            if record is None and photo is not None:
                yield photo

    def take(self, result: Rows | InputError) -> None:
        """Store what was made of the first photo that is at work, or note why it cannot be used."""
        i, sha256, _ = self._waiting.popleft()
        if isinstance(result, InputError):
            self.facts[i] = self.facts[i]._replace(reason=_reason(result, self.paths[i]))
        else:
            self.store.add(sha256, result.to_rows())
        self.tell(i + 1, len(self.paths))
        self._store_at_hand()

    def _store_at_hand(self) -> None:
        while self._waiting and (record := self._waiting[0][2]) is not None:
            i, sha256, _ = self._waiting.popleft()
            self.store.add(sha256, record.to_rows())
            self.tell(i + 1, len(self.paths))


def _reason(error: InputError, path: Path) -> str:
    return str(error).removeprefix(f"{path}: ")


def _attempt(function: Callable[[Photo], Rows], photo: Photo) -> Rows | InputError:
    """What the function makes of a photo, or why it cannot be used."""
    try:
        return function(photo)
    except InputError as error:
        return error


def _complete(facts: Sequence[PhotoFacts], store: PhotoStore) -> tuple[PhotoFacts, ...]:
    """The facts with the size of every photo; copies of one that cannot be decoded cannot be either."""
    reasons = {fact.sha256: fact.reason for fact in facts if fact.reason and fact.sha256}
    hashes = list(dict.fromkeys(fact.sha256 for fact in facts if fact.sha256 in store))
    sizes = store.load(hashes).get("sizes") if hashes else None
    of_hash = (
        dict(zip(hashes, map(tuple, np.asarray(sizes).tolist()), strict=True)) if sizes is not None else {}
    )
    return tuple(
        fact._replace(
            size=of_hash.get(fact.sha256, fact.size), reason=fact.reason or reasons.get(fact.sha256, "")
        )
        for fact in facts
    )


@stage("judged", version=2)
def describe_boxes(
    photos: PhotoFiles,
    image: NDArray[np.intp],
    xyxy: NDArray[np.float32],
    description: Description,
    *,
    workers: int | None = 1,
    progress: Progress = silent,
) -> NDArray[np.floating]:
    """The vectors of boxes, (n, d), each computed for the box itself; image: (n,) the photo of each."""
    chosen = np.unique(image)
    rows = [np.flatnonzero(image == i) for i in chosen]
    items = [(photos.paths[i], photos.hashes[i], xyxy[own]) for i, own in zip(chosen, rows, strict=True)]
    job = partial(_describe_boxes, description)
    vectors = map_ordered(job, items, workers=workers, progress=progress, label="your boxes")
    out = np.empty((len(xyxy), description.width), description.settings.features.dtype)
    for own, part in zip(rows, vectors, strict=True):
        out[own] = part
    return out


def _describe_boxes(
    description: Description, item: tuple[Path, str, NDArray[np.float32]]
) -> NDArray[np.floating]:
    path, sha256, boxes = item
    return describe(read_again(path, sha256), description, boxes=boxes).X
