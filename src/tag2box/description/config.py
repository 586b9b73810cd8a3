"""Settings of the description: the network, how windows go through it, the projection, and the maps."""

from dataclasses import dataclass

from tag2box.description.projection import NORMS
from tag2box.errors import InputError
from tag2box.networks.engine import PRECISIONS, RUNTIMES
from tag2box.runtime.checks import check_above, check_at_least, check_choice
from tag2box.runtime.packing import stored

__all__ = ["FeaturesConfig", "MapsConfig"]

MODES = ("auto", "shared", "warp", "pool")


@stored
@dataclass(frozen=True)
class FeaturesConfig:
    """Settings of the features: the network, how windows go through it, and the projection.

    Parameters
    ----------
    network : str, default="efficientnet-lite0"
        A built-in network, or the path of an ONNX file with its TOML beside it.
    mode : {"auto", "shared", "warp", "pool"}, default="auto"
        Cut windows out of an early map of the photo ("shared"), or out of the photo itself ("warp"), which is
        slower, or average the last map inside of them ("pool"). "auto" is "shared" where the network says
        where to cut it, else "pool".
    cut : str, default=None
        The map at which "shared" cuts. None is the network's own choice.
    crop : int, default=8
        The number of samples of that map per window and direction.
    levels : tuple of int, default=(1024, 512, 256)
        The long sides, in pixels, at which "shared" looks at the photo. "pool" takes the largest, but where
        there are maps it takes those (`MapsConfig`).
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
        What runs the network; the second needs `pip install "tag2box[onnxruntime]"`.
    device : str, default="auto"
        An OpenVINO device, or of onnxruntime CUDA, CoreML, DirectML or CPU; "auto" is a GPU if the runtime
        offers one, else the CPU.
    dimensions : int, default=512
        The greatest number of dimensions of the PCA. None keeps the raw vectors.
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
    mode: str = "auto"
    # shared: the map to cut at; None is the network's own, for EfficientNet the last of stride 16.
    cut: str | None = None
    # shared: samples of the early map per window and direction.
    crop: int = 8
    # shared: long sides of the photo, in pixels: the smaller a window, the larger the photo it is taken from.
    # The smallest serves windows as large as the photo. Those of the maps (`MapsConfig`) cost nothing: what
    # lies before the cut is shared with them. pool takes the maps, or without them the largest.
    levels: tuple[int, ...] = (1024, 512, 256)
    # warp: pixels per window and direction.
    size: int = 128
    # Context on each side, as a share of the window. With more, a part of an object looks like all of it.
    padding: float = 0.0
    # Averages over grid x grid parts of the window: 1 forgets the layout, more keep it.
    grid: int = 2
    # "auto" is the fastest on this machine, by measurement.
    precision: str = "auto"
    # OpenVINO is faster on the CPU; onnxruntime knows the GPUs of NVIDIA, Apple and Windows.
    runtime: str = "openvino"
    # "auto" is a GPU where the runtime offers one, else the CPU.
    device: str = "auto"
    # PCA: None keeps the raw vectors. Whitening 0 is plain PCA, 0.5 whitens fully. Neighbors want no more
    # than the first 128, but with those alone an SVM on true boxes had 7 points of AP less (an earlier cut).
    dimensions: int | None = 512
    whitening: float = 0.25
    # "l2": every vector has the length 20; "mean": the mean length is 20 (R-CNN, which the SVM's C assumes).
    norm: str = "l2"
    length: float = 20.0
    # The sample for the projection: so many images, so many windows of each.
    sample_images: int = 300
    sample_windows: int = 64
    seed: int = 0
    dtype: str = "float16"

    def __post_init__(self) -> None:
        check_choice("mode", self.mode, MODES)
        check_choice("runtime", self.runtime, RUNTIMES)
        check_choice("precision", self.precision, ("auto", *PRECISIONS))
        if self.runtime == "onnxruntime" and self.precision not in ("auto", "f32"):
            raise InputError(f'onnxruntime computes in "f32", not in {self.precision!r}: leave precision out')
        check_choice("norm", self.norm, NORMS)
        check_choice("dtype", self.dtype, ("float16", "float32"))
        check_at_least(1, crop=self.crop, size=self.size, grid=self.grid)
        check_at_least(1, sample_images=self.sample_images, sample_windows=self.sample_windows)
        if not self.levels or min(self.levels) < 32 or max(self.levels) > 4096:
            raise InputError(f"levels must be sizes from 32 to 4096 pixels, but they are {self.levels}")
        check_above(-0.5, padding=self.padding)
        check_above(0, length=self.length)


@stored
@dataclass(frozen=True)
class MapsConfig:
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

    Examples
    --------
    >>> import tag2box as t2b
    >>> t2b.MapsConfig(components=3).side
    512
    """

    # Cells of stride 32 are a sixteenth of it.
    side: int = 512
    # 1 takes water for a boat, 5 and more find less of everything.
    components: int = 2
    ring: float = 0.25
    context: int = 192
    context_ring: float = 0.4
    context_length: float = 14.0
    # The photo's long side for the finer map of the context; 0 leaves it out. None is twice the side. A map
    # of small patches is as fine without, and attention to all of them is quadratic in their number.
    fine_side: int | None = None

    def __post_init__(self) -> None:
        if not 32 <= self.side <= 4096:
            raise InputError(f"side must be from 32 to 4096 pixels, but it is {self.side}")
        if self.fine_side and not 32 <= self.fine_side <= 4096:
            raise InputError(f"fine_side must be 0, or from 32 to 4096 pixels, but it is {self.fine_side}")
        check_at_least(1, components=self.components)
        check_at_least(0, context=self.context)
        check_above(0, ring=self.ring, context_ring=self.context_ring, context_length=self.context_length)
