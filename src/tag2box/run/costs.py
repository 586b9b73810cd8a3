"""What a run will cost: seconds and bytes on disk of every stage, from what was measured. A rough guide.

    estimate(len(images), len(images.classes), config, taken=timed(config, description, len(images)))

The network is most of it, and what machines and networks differ in: where it pays, a photo is timed.
"""

from dataclasses import dataclass

from tag2box.config import Config
from tag2box.description.resolving import DescriptionConfig
from tag2box.description.timing import PhotoTime, time_photo
from tag2box.runtime.executor import n_workers
from tag2box.runtime.units import bytes_in_words, seconds_in_words

# Seconds of one worker, measured in runs of two on two cores: VOC 2007, 500 x 375 photos, 20 classes.
OBJECTNESS_PER_CELL = 1e-6  # of a window and class
TWO_STREAMS_PER_CELL = 2e-7  # of a window, a class and a pass
PASS_PER_WINDOW = 2e-5  # over the vectors, for all classes
COMPARED = 1.8e-6  # a window with an image
# The built-in network with its default settings, 8 bits, and 300 windows.
BUILT_IN = PhotoTime(0.3, (12, 16, 320), 300)
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


def timed(description: DescriptionConfig, n_images: int) -> PhotoTime | None:
    """The time of one photo: measured for many photos, or for a network of the user's own."""
    own = description.features.network.endswith(".onnx")
    return time_photo(description) if n_images >= MANY or own else None


def _untimed(config: Config) -> PhotoTime:
    """What the built-in network takes, with maps and windows as in `config`."""
    finer = config.maps.side / 512
    h, w, channels = BUILT_IN.map_shape
    share = config.windows.max_windows / BUILT_IN.n_windows
    shape = max(round(h * finer), 1), max(round(w * finer), 1), channels
    return PhotoTime(BUILT_IN.seconds * max(share, finer**2), shape, config.windows.max_windows)


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
    seconds = {"describing": taken.seconds * n_images}
    disk = {"describing": n_images * _bytes_of_photo(config, taken)}
    if config.method == "two_stream":
        seconds["objectness"] = 2 * OBJECTNESS_PER_CELL * windows * n_classes
        disk["objectness"] = 8 * windows * n_classes
        passes = config.two_stream.iterations
        seconds["two streams"] = TWO_STREAMS_PER_CELL * windows * n_classes * passes
        rounds = config.retrain.rounds  # each retrains and finds, as the stages at the end do
        seconds["retraining"] = (4 + 6 * rounds) * PASS_PER_WINDOW * windows
        seconds["findings"] = 2 * PASS_PER_WINDOW * windows
    else:
        drawn = min(n_images, config.cover.most_images)
        compared = drawn * config.windows.max_windows
        seconds["neighbors"] = COMPARED * compared * drawn
        disk["neighbors"] = compared * (_bytes_compared(config) + 8 * n_classes)
        seconds["initial detector"] = config.initial.rounds * PASS_PER_WINDOW * windows
        seconds["refinement"] = config.refine.rounds / 2 * PASS_PER_WINDOW * windows
    count = n_workers(workers)
    return Estimate({name: each / count for name, each in seconds.items()}, disk)


def _bytes_of_photo(config: Config, taken: PhotoTime) -> int:
    """Its windows, their vectors and its map, as they are stored."""
    h, w, channels = taken.map_shape
    raw = (channels or 320) * config.features.grid**2
    width = min(config.features.dimensions or raw, raw) * (2 if config.features.mode == "pyramid" else 1)
    map_bytes = 0.0
    if config.keeps_maps:
        early = sum(
            0.75 * (side / 16) ** 2 * 112 for side in config.features.levels
        )  # of the built-in network
        map_bytes = 2 * h * w * channels + early + 300 * 225  # and the lightness
        width += 2 * min(config.maps.context, channels) * (2 if config.maps.fine_side != 0 else 1)
    return int(config.windows.max_windows * (16 + _bytes_of_number(config) * width) + map_bytes)


def _bytes_compared(config: Config) -> int:
    """What is compared of a window, as it is stored."""
    parts = 2 if config.features.mode == "pyramid" else 1
    dimensions = min(config.cover.dimensions, parts * (config.features.dimensions or config.cover.dimensions))
    fewer = config.cover.seed_dimensions
    return _bytes_of_number(config) * (dimensions + (fewer if fewer < dimensions else 0))


def _bytes_of_number(config: Config) -> int:
    return 2 if config.features.dtype == "float16" else 4
