"""Settings of the description: the network, how windows go through it, the projection, and the maps."""

from dataclasses import dataclass
from typing import Annotated

from tag2box.description.projection import NORMS
from tag2box.errors import InputError
from tag2box.networks.engine import PRECISIONS, RUNTIMES
from tag2box.runtime.checks import Choice, Pixels, Range, Seed
from tag2box.runtime.config import Settings
from tag2box.runtime.packing import stored

MODES = ("auto", "shared", "warp", "pool", "pyramid")


@stored
@dataclass(frozen=True)
class FeaturesConfig(Settings):
    """Settings of the features: the network, how windows go through it, and the projection.

    Parameters
    ----------
    network : str, default="efficientnet-lite0"
        A built-in network, or the path of an ONNX file with its TOML beside it.
    mode : {"auto", "shared", "warp", "pool", "pyramid"}, default="auto"
        Cut windows out of an early map of the photo ("shared"), or out of the photo itself ("warp"), which is
        slower, or average the last map inside of them ("pool"), or take maxima over a grid out of the last
        map and the one at the cut, at several sizes of the photo ("pyramid"). "auto" is "shared" where the
        network says where to cut it, else "pool".
    cut : str, default=None
        The map at which "shared" cuts. None is the network's own choice.
    crop : int, default=8
        The number of samples of that map per window and direction.
    levels : tuple of int, default=(1024, 512, 256)
        The long sides, in pixels, at which "shared" and "pyramid" look at the photo. "pool" takes the
        largest, but where there are maps it takes those (`MapsConfig`).
    size : int, default=128
        The width and height, in pixels, to which "warp" resizes a window.
    padding : float, default=0.0
        The context on each side of a window, as a share of its size.
    grid : int, default=2
        The features are averages over grid x grid parts of a window; 1 forgets its layout.
    precision : {"auto", "f32", "bf16", "f16", "int8"}, default="auto"
        The precision of the network; "auto" measures which is the fastest on this machine. The built-in
        networks know "int8".
    runtime : {"openvino", "onnxruntime"}, default="openvino"
        What runs the network; the second needs the extra `onnxruntime`.
    device : str, default="auto"
        An OpenVINO device, or of onnxruntime CUDA, CoreML, DirectML or CPU; "auto" is a GPU if the runtime
        offers one, else the CPU.
    dimensions : int, default=512
        The greatest number of dimensions of the PCA; of a pyramid, for each of its two maps. None keeps the
        raw vectors.
    whitening : float, default=0.25
        The power of the variance by which each axis is divided: 0 is plain PCA, 0.5 whitens fully.
    norm : {"l2", "mean", "none"}, default="l2"
        Whether every vector gets `length`, or their mean does, or nothing is scaled.
    length : float, default=20.0
        The length of the vectors.
    sample_images : int, default=300
        The number of images on which the PCA is fitted.
    sample_windows : int, default=64
        The number of windows of each of them.
    seed : int, default=0
        The seed of that sample.
    dtype : {"float16", "float32"}, default="float16"
        The type of the stored vectors.

    Examples
    --------
    >>> import tag2box as t2b
    >>> t2b.FeaturesConfig(mode="warp", size=224).dimensions
    512
    """

    # A built-in network, or the path of an ONNX file with its TOML beside it.
    network: str = "efficientnet-lite0"
    # "shared" cuts windows out of an early map, "warp" out of the photo: about as good, and slower. "pool"
    # averages the last map, for networks that cannot be cut. "auto" is "shared" where a cut is known.
    mode: Annotated[str, Choice(*MODES)] = "auto"
    # shared: the map to cut at; None is the network's own, for EfficientNet the last of stride 16.
    cut: str | None = None
    # shared: samples of the early map per window and direction.
    crop: Annotated[int, Range(1, 64)] = 8
    # shared: long sides of the photo, in pixels: the smaller a window, the larger the photo it is taken from.
    # The smallest serves windows as large as the photo. Those of the maps (`MapsConfig`) cost nothing: what
    # lies before the cut is shared with them. pool takes the maps, or without them the largest.
    levels: Annotated[tuple[Pixels, ...], Range(1, 8)] = (1024, 512, 256)
    # warp: pixels per window and direction.
    size: Annotated[int, Range(32, 1024)] = 128
    # Context on each side, as a share of the window. With more, a part of an object looks like all of it.
    padding: Annotated[float, Range(-0.49, 10)] = 0.0
    # Averages over grid x grid parts of the window: 1 forgets the layout, more keep it.
    grid: Annotated[int, Range(1, 16)] = 2
    # "auto" is the fastest on this machine, by measurement.
    precision: Annotated[str, Choice("auto", *PRECISIONS)] = "auto"
    # OpenVINO is faster on the CPU; onnxruntime knows the GPUs of NVIDIA, Apple and Windows.
    runtime: Annotated[str, Choice(*RUNTIMES)] = "openvino"
    # "auto" is a GPU where the runtime offers one, else the CPU.
    device: str = "auto"
    # PCA: None keeps the raw vectors. Whitening 0 is plain PCA, 0.5 whitens fully. Neighbors want no more
    # than the first 128, but with those alone an SVM on true boxes had 7 points of AP less (an earlier cut).
    dimensions: Annotated[int, Range(1, 100_000)] | None = 512
    whitening: Annotated[float, Range(0, 1)] = 0.25
    # "l2": every vector has the length 20; "mean": the mean length is 20 (R-CNN, which the SVM's C assumes).
    norm: Annotated[str, Choice(*NORMS)] = "l2"
    length: Annotated[float, Range(1e-3, 1000)] = 20.0
    # The sample for the projection: so many images, so many windows of each.
    sample_images: Annotated[int, Range(1, 1_000_000)] = 300
    sample_windows: Annotated[int, Range(1, 10_000)] = 64
    seed: Seed = 0
    dtype: Annotated[str, Choice("float16", "float32")] = "float16"

    @property
    def shares_maps(self) -> bool:
        """Whether windows are read off maps of the whole photo, so that the network runs for none of them."""
        return self.mode in ("pyramid", "pool")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.runtime == "onnxruntime" and self.precision not in ("auto", "f32"):
            raise InputError(
                f"precision must be auto or f32 with onnxruntime, which has no other, but it is "
                f"{self.precision!r}"
            )


@stored
@dataclass(frozen=True)
class MapsConfig(Settings):
    """Settings of the maps: where in a photo the class is, and the context of a window.

    Parameters
    ----------
    side : int, default=512
        The long side of the photo in pixels, rounded to whole cells of the map.
    components : int, default=2
        The number of principal components of which the object map of a class is made.
    ring : float, default=0.25
        How far the surroundings of a window reach beyond each of its sides, as a share of its size.
    context : int, default=192
        The number of principal components of the map that join the vector of a window. 0 leaves them out.
    context_ring : float, default=0.4
        How far the surroundings of a window reach in its context.
    context_length : float, default=14.0
        The length of the context; the rest of the vector has `FeaturesConfig.length`.
    fine_side : int, default=None
        The long side of the photo, in pixels, for a second and finer map that joins the context. 0 leaves it
        out. None is twice `side`, and 0 for a network whose cells are small already: one with patches of up
        to 16 pixels, or of one size alone.
    details : {"auto", "always", "never"}, default="auto"
        Whether fine cells of the map at the cut say where objects are, which are smaller than the last map
        shows. "auto" is what the photos and tags speak for (`training/details.py`). Needs the mode "shared".

    Examples
    --------
    >>> import tag2box as t2b
    >>> t2b.MapsConfig(components=3).side
    512
    """

    # Cells of stride 32 are a sixteenth of it.
    side: Pixels = 512
    # 1 takes water for a boat, 5 and more find less of everything.
    components: Annotated[int, Range(1, 1000)] = 2
    ring: Annotated[float, Range(1e-3, 10)] = 0.25
    context: Annotated[int, Range(0, 100_000)] = 192
    context_ring: Annotated[float, Range(1e-3, 10)] = 0.4
    context_length: Annotated[float, Range(1e-3, 1000)] = 14.0
    # The photo's long side for the finer map of the context; 0 leaves it out. None is twice the side. A map
    # of small patches is as fine without, and attention to all of them is quadratic in their number.
    fine_side: Annotated[int, Choice(0)] | Pixels | None = None
    # Small defects are found by them alone; of cards and animals they find parts.
    details: Annotated[str, Choice("auto", "always", "never")] = "auto"
