"""A Dask cluster of two workers with one thread each against two worker processes, stage by stage.

Photos a second, as a run does it: on a cluster shards of 32 photos are tasks, in processes single photos are.
The cores must be idle for that; on busy ones look at the CPU time, as in `benchmarks.workers`. A first round
is not counted.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks import Line
from benchmarks.workers import best, photos, stages
from tag2box.config import Config
from tag2box.run.fitting import fit_run
from tag2box.run.folder import RunFolder
from tag2box.runtime.cluster import using
from tag2box.runtime.executor import on_cluster as spread_over

# Of fewer photos the last shard of one worker would have the other wait.
PHOTOS, ROUNDS = 128, 2


def run():
    images = photos(PHOTOS)
    rounds = []
    with TemporaryDirectory() as name, using("local:2", name):
        folder = Path(name)
        fit_run(images.take(np.arange(32)), Config(), folder / "learned", workers=2)
        learned = RunFolder(folder / "learned")
        for i in range(ROUNDS + 1):
            on_cluster = stages(learned, images, folder / f"{i}-cluster", 2)
            with spread_over(None):
                rounds.append((stages(learned, images, folder / f"{i}-local", 2), on_cluster))
    for stage in rounds[0][0]:
        (wall, cpu), (cluster_wall, cluster_cpu) = (best([r[k][stage] for r in rounds[1:]]) for k in (0, 1))
        quality = (
            f"{len(images) / cluster_wall:.1f} photos/s against {len(images) / wall:.1f}: "
            f"{wall / cluster_wall:.2f} of two processes; CPU time {sum(cluster_cpu):.1f} s against "
            f"{sum(cpu):.1f}"
        )
        yield Line(f"{stage} on a cluster", cluster_wall, wall, "s", "two processes", quality)
