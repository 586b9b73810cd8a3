"""Two worker processes against one, stage by stage, as a run does it: windows a second.

The cores must be idle for that. On busy ones look at the CPU time: what the stage takes alone, divided by
what it takes the busier worker, or by half of what all take together, is what idle cores would gain. A first
round is not counted: in it workers start, and OpenVINO prepares for every size of photo.
"""

import os
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks import Line, Skip, data
from tag2box.config import Config
from tag2box.data.reading import read_images
from tag2box.description.photos import describe_photo, make_of_each
from tag2box.pipeline import detect
from tag2box.run.fitting import fit_run
from tag2box.run.folder import RunFolder
from tag2box.runtime.stages import Run
from tag2box.runtime.store import Store

PHOTOS, ROUNDS = 32, 3
TICK = os.sysconf("SC_CLK_TCK")


def run():
    images = photos(PHOTOS)
    rounds = []
    with TemporaryDirectory() as folder:
        fit_run(images, Config(), Path(folder) / "learned", workers=2)
        learned = RunFolder(Path(folder) / "learned")
        for i in range(ROUNDS + 1):
            both = [stages(learned, images, Path(folder) / f"{i}-{n}", n) for n in (1, 2)]
            rounds += [both] if i else []
        windows = len(learned.result("described").X)
    for name in rounds[0][0]:
        (alone_wall, alone_cpu), (wall, cpu) = (best([r[n][name] for r in rounds]) for n in (0, 1))
        took = max(*cpu, sum(cpu) / 2)
        quality = (
            f"{windows / wall:.0f} windows/s against {windows / alone_wall:.0f}; "
            f"CPU time {sum(alone_cpu):.1f} s against {' + '.join(f'{s:.1f}' for s in cpu)}: "
            f"{sum(alone_cpu) / took:.2f} x on idle cores"
        )
        yield Line(name, wall, alone_wall, "s", "one worker", quality)


def photos(n):
    """So many photos of VOC, at random, or `Skip`."""
    if not Path("/proc/self/stat").is_file():
        raise Skip("only Linux tells the CPU time of every process")
    everything = read_images(data("voc6") / "VOC2007", split="trainval")
    return everything.take(np.random.default_rng(0).permutation(len(everything))[:n])


def stages(learned, images, folder, workers):
    """Of each stage the seconds, and the CPU seconds of every process."""
    run, detector = Run(Store(folder), workers=workers), learned.detector
    job, store = partial(describe_photo, detector.description), run.photos("described")
    return {
        "described": timed(lambda: make_of_each(images.paths, job, store, run, label="described", known={})),
        "detections": timed(lambda: detect(detector, "", images, run)),
    }


def best(costs):
    """The shortest of the times, and the CPU seconds of the round that needed least."""
    return min(wall for wall, _ in costs), min((cpu for _, cpu in costs), key=sum)


def timed(job):
    """The seconds of the job, and the CPU seconds of every process that did something."""
    before, start = cpu_times(), time.perf_counter()
    job()
    wall, after = time.perf_counter() - start, cpu_times()
    spent = (after[pid] - before.get(pid, 0.0) for pid in after)
    return wall, [seconds for seconds in spent if seconds > 0]


def cpu_times():
    """CPU seconds of this process and its children, by their number."""
    times = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            pid, fields = int(stat.parent.name), stat.read_text().rpartition(")")[2].split()
            if os.getpid() in (pid, int(fields[1])):
                times[pid] = (int(fields[11]) + int(fields[12])) / TICK
    return times
