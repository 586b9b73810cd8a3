"""`tag2box serve` at twice its capacity: no crash, bounded memory, and 503 with Retry-After for the rest.

    TAG2BOX_RUN=runs/voc6 python -m benchmarks.serving PHOTOS [SECONDS]

First as many clients as workers ask one photo after the other: what they get is the capacity. Then photos
come at half of that, where none may be refused, and at twice of it, for SECONDS each (60 by default), by the
clock and not by what is answered. Every tenth is no photo: text, or a header of 200 megapixels. Memory is
that of the server and its workers together (Linux).
"""

import struct
import subprocess
import sys
import threading
import time
import zlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from benchmarks import Line, Skip, trained
from tag2box.data.photos import find_photos
from tag2box.runtime.executor import n_workers

HEADER = b"IHDR" + struct.pack(">IIBBBBB", 20_000, 10_000, 8, 0, 0, 0, 0)
HUGE = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + HEADER + struct.pack(">I", zlib.crc32(HEADER))
BAD = (b"text", HUGE + struct.pack(">I", 0) + b"IDAT" + bytes(4))
# Asked every so often with something that is no photo.
EVERY = 10


@dataclass
class Seen:
    """What was answered, how long it took, and the most memory at the time."""

    status: Counter = field(default_factory=Counter)
    seconds: list = field(default_factory=list)
    unkind: int = 0  # refusals that do not say when to come again
    peak_mb: float = 0.0

    def __str__(self):
        times = sorted(self.seconds) or [0.0]
        half, most = times[len(times) // 2], times[int(len(times) * 0.95)]
        return f"{dict(self.status)}, {half:.2f} s in the median, {most:.2f} s at 95 %, {self.peak_mb:.0f} MB"


@contextmanager
def server(run, workers):
    """The command, on a free port: its process and its address."""
    command = [sys.executable, "-m", "tag2box", "serve", str(run), "--port", "0", "--workers", str(workers)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process, process.stdout.readline().split()[-1]
        finally:
            process.terminate()


def memory_mb(pid):
    """Of the process and those that it started; 0 where the system does not say."""
    total = 0
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            lines = dict(line.split(":\t", 1) for line in status.read_text().splitlines() if ":\t" in line)
        except OSError:  # it has ended
            continue
        if str(pid) in (lines["Pid"].strip(), lines["PPid"].strip()) and "VmRSS" in lines:
            total += int(lines["VmRSS"].split()[0])
    return total / 1024


def ask(client, address, content, seen):
    """One photo, one answer."""
    began = time.monotonic()
    try:
        answer = client.post(f"{address}detect", content=content)
    except httpx.HTTPError as error:
        seen.status[type(error).__name__] += 1
        return
    seen.status[answer.status_code] += 1
    seen.unkind += answer.status_code == 503 and int(answer.headers.get("retry-after", 0)) < 1
    if answer.status_code == 200:
        seen.seconds.append(time.monotonic() - began)


def capacity(address, photos, workers, seconds):
    """Photos a second when nobody waits."""
    seen, end = Seen(), time.monotonic() + seconds

    def one_after_the_other(first):
        with httpx.Client(timeout=120) as client:
            k = first
            while time.monotonic() < end:
                ask(client, address, photos[k % len(photos)], seen)
                k += workers

    with ThreadPoolExecutor(workers) as clients:
        list(clients.map(one_after_the_other, range(workers)))
    return seen.status[200] / seconds


def load(process, address, photos, rate, seconds, bad=()):
    """Photos at a rate, whatever is answered."""
    seen, threads = Seen(), []
    with httpx.Client(timeout=120, limits=httpx.Limits(max_connections=None)) as client:
        start = time.monotonic()
        for k in range(int(rate * seconds)):
            time.sleep(max(0.0, start + k / rate - time.monotonic()))
            content = bad[k // EVERY % len(bad)] if bad and k % EVERY == 0 else photos[k % len(photos)]
            threads.append(threading.Thread(target=ask, args=(client, address, content, seen)))
            threads[-1].start()
            if k % 5 == 0:
                seen.peak_mb = max(seen.peak_mb, memory_mb(process.pid))
        for thread in threads:
            thread.join()
    seen.peak_mb = max(seen.peak_mb, memory_mb(process.pid))
    return seen


def run(photos=None, seconds=60.0):
    """Half of the capacity beside twice of it."""
    if photos is None:
        raise Skip("python -m benchmarks.serving PHOTOS, with TAG2BOX_RUN set")
    contents = [path.read_bytes() for path in find_photos([photos]).paths[:50]]
    workers = n_workers(None)
    with server(trained().folder, workers) as (process, address):
        rate = capacity(address, contents, workers, min(seconds, 20))
        before = memory_mb(process.pid)
        calm = load(process, address, contents, max(rate / 2, 0.5), seconds)
        full = load(process, address, contents, 2 * rate, seconds, BAD)
        if process.poll() is not None:
            raise SystemExit("the server has ended")
    print(f"capacity {rate:.2f} photos a second with {workers} workers; {before:.0f} MB")
    print(f"half of it: {calm}")
    print(f"twice of it: {full}; refusals without Retry-After: {full.unkind}")
    quality = f"half: {dict(calm.status)}; twice: {dict(full.status)}"
    yield Line("serve, memory at twice its capacity", full.peak_mb, calm.peak_mb, "MB", "at half", quality)


if __name__ == "__main__":
    for line in run(Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 60.0):
        print(f"{line.job}: {line.ours:.0f} {line.unit}, {line.rival_name} {line.rival:.0f}")
