"""What a run will cost: seconds and bytes on disk of every stage, from what was measured. A rough guide."""

from dataclasses import dataclass

from tag2box.features.backbone import load_network
from tag2box.maps.context import finer_side
from tag2box.runtime.executor import n_workers
from tag2box.runtime.units import bytes_in_words, seconds_in_words
from tag2box.stages import Config, retrains, scores_by_maps, uses_maps

__all__ = ["Estimate", "estimate"]

# Seconds of one worker, measured in runs of two on two cores: VOC 2007, 500 x 375 photos, 20 classes.
WINDOWS_PER_PHOTO = 0.13
MAPS_PER_PHOTO = 0.08  # with a long side of 512
FEATURES_PER_WINDOW = 0.5 / 300
OBJECTNESS_PER_CELL = 1e-6  # of a window and class
TWO_STREAMS_PER_CELL = 2e-7  # of a window, a class and a pass
PASS_PER_WINDOW = 2e-5  # over the features, for all classes
COMPARED = 1.8e-6  # a window with an image
# Cells of a map, as a share of a square of the photo's long side; channels, as half floats.
CELL, FILLED, CHANNELS = 32, 0.75, 320


@dataclass(frozen=True)
class Estimate:
    """seconds, disk: of each stage, in their order."""

    seconds: dict[str, float]
    disk: dict[str, int]

    @property
    def total_seconds(self) -> float:
        """Of all stages."""
        return sum(self.seconds.values())

    @property
    def total_disk(self) -> int:
        """Of all stages, in bytes."""
        return sum(self.disk.values())

    def to_dict(self) -> dict[str, dict[str, float]]:
        """The same for JSON."""
        return {
            "seconds": {name: round(each, 1) for name, each in self.seconds.items()},
            "disk": {**self.disk},
        }

    def __str__(self) -> str:
        longest = sorted(self.seconds, key=lambda name: -self.seconds[name])[:2]
        shares = (f"{name} {self.seconds[name] / self.total_seconds:.0%}" for name in longest)
        time, disk = seconds_in_words(self.total_seconds), bytes_in_words(self.total_disk)
        return f"about {time} ({', '.join(shares)}), {disk} on disk"


def estimate(n_images: int, n_classes: int, config: Config, workers: int | None = 1) -> Estimate:
    """Time and disk of a run over photos of 500 x 375. Workers are taken to share the work evenly."""
    windows = n_images * config.windows.max_windows
    seconds = {"windows": WINDOWS_PER_PHOTO * n_images}
    disk = {"windows": 16 * windows}
    if uses_maps(config):
        seconds["maps"] = MAPS_PER_PHOTO * n_images * (config.maps.side / 512) ** 2
        disk["maps"] = round(n_images * FILLED * (config.maps.side / CELL) ** 2 * CHANNELS * 2)
    features, width = config.features, config.features.dimensions or 1280 * config.features.grid**2
    if uses_maps(config) and config.maps.context:
        fine_side = finer_side(config.maps, load_network(config.features.network))
        width += 2 * config.maps.context * (2 if fine_side else 1)
        finer = MAPS_PER_PHOTO * n_images * (fine_side / 512) ** 2
    else:
        finer = 0.0
    seconds["features"] = FEATURES_PER_WINDOW * windows + finer
    disk["features"] = windows * width * (2 if features.dtype == "float16" else 4)
    if scores_by_maps(config):
        seconds["objectness"] = OBJECTNESS_PER_CELL * windows * n_classes
        disk["objectness"] = 4 * windows * n_classes
    if retrains(config):
        passes = config.two_stream.iterations
        seconds["competition"] = seconds["objectness"]
        disk["competition"] = disk["objectness"]
        seconds["two streams"] = TWO_STREAMS_PER_CELL * windows * n_classes * passes
        seconds["retraining"] = 4 * PASS_PER_WINDOW * windows
        seconds["findings"] = 2 * PASS_PER_WINDOW * windows
    else:
        some = min(n_images, config.cover.most_images)
        sampled = some * config.windows.max_windows
        seconds["neighbors"] = COMPARED * sampled * some
        disk["neighbors"] = 8 * sampled * n_classes
        seconds["initial detector"] = config.initial.rounds * PASS_PER_WINDOW * windows
        seconds["refinement"] = config.refine.rounds / 2 * PASS_PER_WINDOW * windows
    count = n_workers(workers)
    return Estimate({name: each / count for name, each in seconds.items()}, disk)
