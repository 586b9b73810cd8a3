"""What a run will cost: seconds and bytes on disk of every stage, from what was measured. A rough guide.

    estimate(len(images), len(images.classes), config, taken=timed(config, len(images)))

The network is most of it, and what machines and networks differ in: where it pays, a photo is timed.
"""

from dataclasses import dataclass

from tag2box.features.automatic import network_of
from tag2box.maps.context import finer_side
from tag2box.maps.photo_maps import check_maps
from tag2box.maps.timing import PhotoTime, time_photo
from tag2box.runtime.executor import n_workers
from tag2box.runtime.units import bytes_in_words, seconds_in_words
from tag2box.stages import Config, retrains, scores_by_maps, uses_maps

__all__ = ["Estimate", "estimate", "timed"]

# Seconds of one worker, measured in runs of two on two cores: VOC 2007, 500 x 375 photos, 20 classes.
WINDOWS_PER_PHOTO = 0.08
OBJECTNESS_PER_CELL = 1e-6  # of a window and class
TWO_STREAMS_PER_CELL = 2e-7  # of a window, a class and a pass
PASS_PER_WINDOW = 2e-5  # over the features, for all classes
COMPARED = 1.8e-6  # a window with an image
# The built-in network with its default settings, 8 bits, and 300 windows.
BUILT_IN = PhotoTime(0.03, 0.21, (12, 16, 320))
# From so many photos on a measurement of some seconds is worth its time.
MANY = 200


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


def timed(config: Config, n_images: int) -> PhotoTime | None:
    """The time of one photo in the network: measured for many photos, or for a network of the user's own."""
    own = config.features.network.endswith(".onnx")
    if not uses_maps(config) or (n_images < MANY and not own):
        return None
    check_maps(config.features)
    return time_photo(config.features, config.maps, windows=config.windows.max_windows)


def _untimed(config: Config) -> PhotoTime:
    """What the built-in network takes, with maps and windows as in `config`."""
    finer = config.maps.side / 512
    h, w, channels = BUILT_IN.map_shape
    shape = max(round(h * finer), 1), max(round(w * finer), 1), channels
    share = config.windows.max_windows / 300
    return PhotoTime(BUILT_IN.map_seconds * finer**2, BUILT_IN.windows_seconds * share, shape)


def estimate(
    n_images: int,
    n_classes: int,
    config: Config,
    workers: int | None = 1,
    *,
    taken: PhotoTime | None = None,
) -> Estimate:
    """Time and disk of a run over photos of 500 x 375. Workers are taken to share the work evenly."""
    taken = taken or _untimed(config)
    windows = n_images * config.windows.max_windows
    h, w, channels = taken.map_shape
    seconds = {"windows": WINDOWS_PER_PHOTO * n_images}
    disk = {"windows": 16 * windows}
    raw = channels * config.features.grid**2
    width = min(config.features.dimensions or raw, raw)
    if uses_maps(config):
        seconds["maps"] = taken.map_seconds * n_images
        disk["maps"] = 2 * n_images * h * w * channels
        if config.maps.context:
            fine_side = finer_side(config.maps, network_of(config.features))
            width += 2 * min(config.maps.context, channels) * (2 if fine_side else 1)
    seconds["features"] = taken.windows_seconds * n_images
    disk["features"] = windows * width * (2 if config.features.dtype == "float16" else 4)
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
