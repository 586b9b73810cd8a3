"""Made-up stages of every kind, called as the pipeline calls its own: a sample first, all items, and drop it.

`python -m tests._stages FOLDER NOTES PAUSE` runs them, notes every shard that it begins, and takes its time.
"""

import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tag2box.description.record import Described, Maps
from tag2box.runtime import stages
from tag2box.runtime.files import append_line
from tag2box.runtime.stages import Run, stage
from tag2box.runtime.store import Store
from tag2box.windows.record import Windows


@dataclass(frozen=True)
class Items:
    """counts: the windows of each item; width: the numbers of a window; maps: whether there are maps."""

    counts: tuple[int, ...]
    width: int = 4
    maps: bool = True
    first: int = 0

    def key(self):
        return [self.counts, self.width, self.maps]

    def __len__(self):
        return len(self.counts)

    def part(self, a, z):
        return Items(self.counts[a:z], self.width, self.maps, self.first + a)


def watch(what):
    """Called with the stage and the first item of each shard that is begun; tests put their own here."""


def _windows(items):
    xyxy = np.repeat(np.arange(items.first, items.first + len(items), dtype=np.float32), items.counts)
    offsets = np.append(0, np.cumsum(items.counts, dtype=np.int64))
    return Windows(np.tile(xyxy[:, None], 4), offsets, np.full((len(items), 2), 9))


def _described(items):
    X, cells = [], []
    for i, count in enumerate(items.counts, start=items.first):
        rng = np.random.default_rng(i)
        X.append(rng.random((count, items.width)).astype(np.float16))
        cells.append(Maps.of_image(rng.random((2, 1 + i % 3, 5)).astype(np.float16)))
    return Described(_windows(items), np.concatenate(X), Maps.concatenate(cells) if items.maps else None)


@stage("sample", version=1)
def sample_items(items: Items) -> Described:
    watch(f"sample {items.first}")
    return _described(items)


@stage("fitted", version=1)
def fit_items(sample: Described, factor: float) -> dict[str, object]:
    watch("fitted")
    return {"a": np.arange(9) * factor, "n": len(sample.X)}


@stage("windows", version=1)
def find_windows(items: Items) -> Windows:
    watch(f"windows {items.first}")
    return _windows(items)


@stage("described", version=1)
def describe_items(items: Items, fitted: dict[str, object], sample: Described | None = None) -> Described:
    watch(f"described {items.first}{'' if sample is None else ' by the sample'}")
    return _described(items)


def run_stages(run, items, factor=1.0):
    """What the stages make."""
    sample = run.later(sample_items, items.part(0, min(3, len(items))))
    fitted = run(fit_items, sample, factor)
    windows = run.per_photo(find_windows, items)
    described = run.per_photo(describe_items, items, fitted, sample)
    run.drop(sample)
    return fitted, windows, described


def main(folder, notes, pause):
    def slowly(what):
        append_line(Path(notes), what)
        time.sleep(float(pause))

    sys.modules[__name__].watch = slowly
    stages.SHARD = 2
    store = Store(folder)
    with store.lock():
        print("ready", flush=True)  # noqa: T201
        run_stages(Run(store, workers=1), Items((50,) * 30, 64))


if __name__ == "__main__":
    main(*sys.argv[1:])
