"""The review page with 20,000 photos: how long each request takes, and the memory of the server.

    TAG2BOX_RUN=runs/voc6 python -m benchmarks.review_page

The photos, windows and boxes of a finished run are taken again and again under other names until there are
enough (hard links, in a folder that is removed afterwards). Of them 5000 are reviewed when the clock starts.
Requests go to the real command one after the other, each as a page sends it; the longest counts, but for
thumbnails that are made for the first time. What counts is 50 ms, beside the same with the run's own photos.
Where the machine does other work, look at the processor time that the server takes for a request (Linux).
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import numpy as np

from benchmarks import Line, trained
from benchmarks.serving import memory_mb
from tag2box.corrections import CorrectionLog
from tag2box.review.teaching import TeachingOrder, make_order, review_key
from tag2box.run.annotations import sorted_boxes
from tag2box.run.fitting import put_photos
from tag2box.run.folder import RunFolder
from tag2box.runtime.files import content_hash
from tag2box.runtime.store import Store

PHOTOS, REVIEWED, TIMES = 20_000, 5000, 40
MOST_MS = 50.0


def many(run, folder, n):
    """A run of n photos in `folder`: those of `run` again and again."""
    base, photos = len(run.images), folder / "photos"
    (folder / "run").mkdir(parents=True)
    for name in ("config.toml", "detector.npz", "index.sqlite", "tag_scores", "prior"):
        source = run.folder / name
        copy = shutil.copytree if source.is_dir() else shutil.copy
        copy(source, folder / "run" / name) if source.exists() else None
    ids = [f"{i // 1000:03d}/{i:06d}" for i in range(n)]
    paths = []
    for i, name in enumerate(ids):
        source = run.images.paths[i % base]
        paths.append(photos / f"{name}{source.suffix}")
        paths[-1].parent.mkdir(parents=True, exist_ok=True)
        paths[-1].write_bytes(source.read_bytes() + f"{i}".encode())  # each is a photo of its own
    again = np.arange(n) % base
    images = replace(run.images, ids=tuple(ids), paths=tuple(paths), tags=run.images.tags[again], truth=None)
    home, contents = Store(folder / "run"), [content_hash(path) for path in paths]
    rows, n_boxes = run.index.rows("boxes"), len(again) // base
    boxes = [(c, i + k * base, *rest) for c, i, *rest in rows for k in range(n_boxes)]
    store = home.photos("described-again")
    windows = run.result("described").windows
    for i, sha256 in enumerate(contents):
        part = windows.part(i % base, i % base + 1)
        store.add(sha256, {"xyxy": part.xyxy, "sizes": part.sizes, "X": np.zeros((len(part.xyxy), 0), "f2")})
    store.close()
    with home.index.writing() as change:
        put_photos(change, home.folder, images, contents)
        change.put("keys", [("described", "described-again")])
        change.remove("boxes")
        change.put("boxes", boxes)
    made = RunFolder(folder / "run")
    home.save("review", review_key(made), order_again(run, base, n))
    return made


def findings_again(run, n):
    """The boxes of the first photos for all of them: those of a copy are as many windows further on."""
    findings, windows = run.result("findings"), run.result("described").windows
    base, step = len(run.images), len(windows.xyxy)
    copies = -(-n // base)
    most = (n // base) * step + int(windows.offsets[n % base])
    rows = [np.concatenate([of_class + k * step for k in range(copies)]) for of_class in findings.rows]
    kept = [each < most for each in rows]

    def tiled(arrays):
        return tuple(np.concatenate([a] * copies)[keep] for a, keep in zip(arrays, kept, strict=True))

    more = {name: tiled(getattr(findings, name)) for name in ("scores", "boxes", "confidence", "features")}
    return replace(findings, rows=tuple(r[keep] for r, keep in zip(rows, kept, strict=True)), **more)


def order_again(run, base, n):
    """In which order to look at them."""
    order, image = make_order(run), sorted_boxes(run).image
    copies = -(-n // base)
    kept = np.concatenate([image + k * base for k in range(copies)]) < n
    photos = np.concatenate([order.order + k * base for k in range(copies)])
    return TeachingOrder(np.concatenate([order.doubt] * copies)[kept], photos[photos < n])


@contextmanager
def page(run):
    """The command on a free port: its process, a client, and the seconds until it answered."""
    began = time.monotonic()
    command = [sys.executable, "-m", "tag2box", "review", str(run.folder), "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            address = re.search(r"http://\S+", process.stdout.readline())[0]
            origin = f"http://{urlsplit(address).netloc}"
            with httpx.Client(base_url=address, headers={"origin": origin}, timeout=60) as client:
                yield process, client, time.monotonic() - began
        finally:
            process.terminate()


def review(run, n):
    """What a person who accepts everything leaves after n photos."""
    log, event = CorrectionLog(run.folder), {"set": "photo", "state": "reviewed"}
    photos = zip(run.images.ids[:n], run.contents, strict=False)
    log.append({**event, "id": f"r{i}", "photo": name, "sha256": c} for i, (name, c) in enumerate(photos))


def requests(run):
    """(what, its method, its address, what is sent) for `TIMES` requests of each kind."""
    rng, n = np.random.default_rng(0), len(run.images)
    name, maps = run.images.classes[0], run.result("described").maps
    mapped = np.count_nonzero(maps.counts)  # maps are not taken again
    for k in range(TIMES):
        some = rng.permutation(n)[:200].tolist()
        yield "start", "GET", "start", None
        yield "list, all", "GET", "list?order=teaching", None
        yield "list, filtered", "GET", f"list?order=confident&class={name}&low=0.1&high=0.9&search=1", None
        yield "one photo's boxes", "GET", f"photos?n={some[0]}", None
        yield "200 photos' boxes", "GET", f"photos?n={','.join(map(str, some))}", None
        yield "photo", "GET", f"photo/{some[1]}", None
        yield "thumbnail, first time", "GET", f"thumb/{k}", None
        yield "thumbnail", "GET", f"thumb/{k}", None
        yield "map", "GET", f"map/{some[2] % mapped}/0", None
        event = {"set": "photo", "id": f"e{k}", "photo": run.contents[some[3]], "state": "reviewed"}
        yield "a correction", "POST", "events", [event]
        yield "how far learning is", "GET", "learn", None


def measure(run):
    """The seconds of each kind of request, the server's memory, and the seconds until it is there."""
    seconds = {}
    with page(run) as (process, client, ready):
        for name, method, path, content in requests(run):
            sent = json.dumps(content).encode() if content else None
            began, worked = time.monotonic(), processor_seconds(process.pid)
            answer = client.request(method, path, content=sent, headers={"content-type": "application/json"})
            took = time.monotonic() - began, processor_seconds(process.pid) - worked
            seconds.setdefault(name, []).append(took)
            answer.raise_for_status()
        return seconds, memory_mb(process.pid), ready


def processor_seconds(pid):
    """What all threads of a process have worked; 0 where the system does not say."""
    worked = 0
    for task in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with suppress(OSError):  # the thread has ended
            worked += int(task.read_text().split()[0])
    return worked / 1e9


def slowest(seconds):
    """Milliseconds of the longest request that is no first thumbnail."""
    return 1000 * max(max(times)[0] for name, times in seconds.items() if name != "thumbnail, first time")


def run():
    """20,000 photos beside those that the run has."""
    base = trained()
    with tempfile.TemporaryDirectory(dir=base.folder.parent) as folder:
        few, lots = (many(base, Path(folder) / str(n), n) for n in (len(base.images), PHOTOS))
        review(lots, REVIEWED)
        small, _, _ = measure(few)
        large, memory, ready = measure(lots)
    for name, times in large.items():
        (half, work), (most, hard) = (1000 * f(times, axis=0) for f in (np.median, np.max))
        shown = f"{half:6.1f} ms in the median, {most:6.1f} at most"
        print(f"{name:22} {shown}; processor {work:5.1f} and {hard:5.1f}")
    quality = f"{memory:.0f} MB, there in {ready:.1f} s; the bar is {MOST_MS:.0f} ms"
    rival = f"{len(base.images)} photos"
    yield Line(f"slowest request, {PHOTOS} photos", slowest(large), slowest(small), "ms", rival, quality)


if __name__ == "__main__":
    for line in run():
        print(f"{line.job}: {line.ours:.1f} {line.unit}, {line.rival_name} {line.rival:.1f}; {line.quality}")
