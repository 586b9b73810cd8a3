"""`Detector`: weights, and all that it takes to find windows in a new photo and to score them.

It is kept in one file (`detector_file`). The network is not in it, only its name and hash: the built-in ones
come with the package, your own must lie where its name says.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tag2box.data.decoding import Source
from tag2box.detection.config import DetectConfig
from tag2box.detection.detections import Detections
from tag2box.detection.detector_file import detector_bytes, read_detector
from tag2box.detection.suppression import detect_windows
from tag2box.errors import InputError
from tag2box.features.automatic import network_of, resolved
from tag2box.features.config import FeaturesConfig
from tag2box.features.networks.content import network_hash
from tag2box.features.one_photo import photo_map, see
from tag2box.features.projection import Projection
from tag2box.features.whole_photo import Seen
from tag2box.images import ImageSet
from tag2box.maps.competition import Activations
from tag2box.maps.context import Context, Photo, photo_context, photo_features
from tag2box.maps.object_maps import MapsConfig, ObjectMaps
from tag2box.runtime.blas import one_thread
from tag2box.runtime.executor import map_ordered
from tag2box.runtime.files import write_whole
from tag2box.runtime.progress import Progress, silent
from tag2box.training.calibration import confidence
from tag2box.training.scorer import Scorer
from tag2box.training.scoring import Weights
from tag2box.training.two_stream import TwoStream
from tag2box.windows.record import Windows
from tag2box.windows.search import WindowsConfig, search_windows

__all__ = ["Detector", "detect_images"]


@dataclass(frozen=True, eq=False)
class Detector:
    """A linear detector, with everything needed to find the same boxes on another machine.

    `Tag2Box` and `tag2box run` make it; `save` and `load` keep it in one file. The network is not in that
    file, only its name and hash: the built-in networks come with the package.

    Parameters
    ----------
    classes : tuple of str
        The names of the classes.
    windows : WindowsConfig
        How windows are found.
    features : FeaturesConfig
        How they are described.
    projection : Projection
        The projection of the features.
    network : str
        The hash of the network.
    W : ndarray of shape (n_classes, d)
        The weights of each class.
    b : ndarray of shape (n_classes,)
        The bias of each class.
    calibration : ndarray of shape (n_classes, 2)
        The slope and offset of the logistic curve that turns the scores of each class into confidences.
    maps : MapsConfig
        How the map of a photo is computed.
    objectness_weight : float, default=0.0
        What the best objectness of a photo adds to the score of a window.
    streams_weight : float, default=0.0
        What the logarithm of the score of the two streams adds to it.
    tag_weight : float, default=0.0
        What the logit of the photo's tag adds to it.
    context : Context, default=None
        What the map of the photo adds to the vector of a window.
    object_maps : ObjectMaps, default=None
        How the objects of each class are seen in the map.
    two_stream : TwoStream, default=None
        The weights of the two streams.
    activations : Activations, default=None
        The classifiers of the map's cells, from which the logit of a tag comes.
    reliability : ndarray of shape (n_classes,), default=None
        About the share of boxes of each class that are right, a factor of their confidences. None is 1.
    detect_config : DetectConfig
        How scores become boxes.
    trace : tuple, default=()
        The rounds of training of each class.

    Examples
    --------
    >>> import numpy as np
    >>> import tag2box as t2b
    >>> from tag2box.features.networks.content import network_hash
    >>> from tag2box.features.projection import Projection
    >>> features = t2b.FeaturesConfig(levels=(96,), grid=1)
    >>> detector = t2b.Detector(
    ...     classes=("cat",),
    ...     windows=t2b.WindowsConfig(mode="single", max_windows=10),
    ...     features=features,
    ...     projection=Projection(np.zeros(320, np.float32), np.eye(320, 4, dtype=np.float32), "l2", 20.0),
    ...     network=network_hash(features.network),
    ...     W=np.ones((1, 4)),
    ...     b=np.zeros(1),
    ...     calibration=np.array([[1.0, 0.0]]),
    ... )
    >>> found = detector.detect(np.zeros((64, 96, 3), np.uint8))
    >>> found.classes, found.xyxy.tolist()
    (('cat',), [[0.0, 0.0, 96.0, 64.0]])
    """

    classes: tuple[str, ...]
    windows: WindowsConfig
    features: FeaturesConfig
    projection: Projection
    network: str
    W: NDArray[np.float64]
    b: NDArray[np.float64]
    calibration: NDArray[np.float64]
    maps: MapsConfig = field(default_factory=MapsConfig)
    objectness_weight: float = 0.0
    streams_weight: float = 0.0
    tag_weight: float = 0.0
    context: Context | None = None
    object_maps: ObjectMaps | None = None
    two_stream: TwoStream | None = None
    activations: Activations | None = None
    reliability: NDArray[np.float64] | None = None
    detect_config: DetectConfig = field(default_factory=DetectConfig)
    trace: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        n = len(self.classes)
        d = self.projection.A.shape[1] + (self.context.width if self.context else 0)
        if self.W.shape != (n, d) or self.b.shape != (n,) or self.calibration.shape != (n, 2):
            raise InputError(
                f"W must be (n_classes, d), b (n_classes,), calibration (n_classes, 2): ({n}, {d}), ({n},), "
                f"({n}, 2), but they are {self.W.shape}, {self.b.shape} and {self.calibration.shape}"
            )
        if self.object_maps is not None and self.object_maps.V.shape[0] != n:
            raise InputError(
                f"object_maps must be of {n} classes, but they are of {self.object_maps.V.shape[0]}"
            )
        if self.two_stream is not None and self.two_stream.W.shape != (n, d):
            raise InputError(f"the two streams must have the weights of {n} classes and {d} dimensions")
        self.scorer  # noqa: B018  refuses a weight without what it is the weight of

    @cached_property
    def scorer(self) -> Scorer:
        """The terms that add up to the score of a window."""
        return Scorer(
            Weights(self.W, self.b),
            objectness_weight=self.objectness_weight,
            streams_weight=self.streams_weight,
            tag_weight=self.tag_weight,
            ring=self.maps.ring,
            object_maps=self.object_maps,
            two_stream=self.two_stream,
            activations=self.activations,
        )

    def check_network(self) -> None:
        """Raise an `InputError` if the network is not the one of training."""
        if network_hash(network_of(self.features)) != self.network:
            raise InputError(
                f"the network {self.features.network}, its weights or its TOML are not those that this "
                f"detector was trained with: put them back, or learn again with tag2box run"
            )

    def detect(self, source: Source, *, threads: int = 1) -> Detections:
        """Find the learned objects in one photo.

        Parameters
        ----------
        source : str, Path, ndarray or PIL.Image.Image
            The photo.
        threads : int, default=1
            The number of threads of the network.

        Returns
        -------
        Detections
            The boxes by class, best first.
        """
        self.check_network()
        with one_thread():  # products of one photo are small
            windows, X, map_ = self.describe(source, threads=threads)
            return self.select(self.scorer(X, windows.xyxy, windows.sizes[0], map_), windows)

    def describe(
        self, source: Source, *, threads: int = 1
    ) -> tuple[Windows, NDArray[np.floating], NDArray[np.float16] | None]:
        """Find and describe the windows of one photo that may be objects.

        Parameters
        ----------
        source : str, Path, ndarray or PIL.Image.Image
            The photo.
        threads : int, default=1
            The number of threads of the network.

        Returns
        -------
        windows : Windows
            The windows.
        X : ndarray of shape (n, d)
            Their features.
        map_ : ndarray of shape (h, w, c) or None
            The last map of the photo, if it is needed.
        """
        fine_side = self.context.fine_side if self.context else 0
        seen = see(source, self.features, side=fine_side, threads=threads)
        search = partial(search_windows, seen.decoded or source, self.windows, threads=threads)
        with ThreadPoolExecutor(1) as pool:
            searching = pool.submit(search) if threads > 1 else None
            map_ = self._map(seen, fine_side)
            windows = searching.result() if searching else search()
        photo = Photo(seen, map_, windows.sizes[0], windows.xyxy)
        if self.context is None:
            X = photo_features(self.projection, None, self.features, photo, threads=threads)
            return windows, X, map_
        around = photo_context(self.context, self.features, photo).astype(self.features.dtype)
        rows = self.promising(around, windows, map_)
        photo = replace(photo, boxes=windows.xyxy[rows])
        X = photo_features(self.projection, self.context, self.features, photo, threads=threads)
        kept = Windows.of_image(photo.boxes, seen.size[::-1])
        return kept, np.concatenate([X, around[rows]], axis=1), map_

    def promising(
        self, around: NDArray[np.floating], windows: Windows, map_: NDArray[np.floating] | None
    ) -> NDArray[np.intp]:
        """Choose the windows of one photo that are worth their time in the network.

        Parameters
        ----------
        around : ndarray of shape (n, k)
            The context of each window, the last numbers of its vector.
        windows : Windows
            The windows.
        map_ : ndarray of shape (h, w, c) or None
            The last map of the photo.

        Returns
        -------
        ndarray of int
            The windows of the best scores by their context alone, in order.
        """
        most = self.detect_config.full_windows
        if not 0 < most < len(around):
            return np.arange(len(around))
        X = np.zeros((len(around), self.W.shape[1]), np.float32)  # features are centered: 0 is the mean
        X[:, -around.shape[1] :] = around
        best = self.scorer(X, windows.xyxy, windows.sizes[0], map_).max(axis=1)
        return np.sort(np.argsort(-best, kind="stable")[:most])

    def _map(self, seen: Seen, fine_side: int) -> NDArray[np.float16] | None:
        """The last map of a photo, if it is needed; what else takes no windows is run too, and kept there."""
        needs_map = self.context is not None or self.scorer.needs_map
        sides = [side for side in (fine_side, self.maps.side) if side] if needs_map else []
        seen.run(self.features.levels if seen.net.cut else (), sides)
        if not needs_map:
            return None
        return photo_map(seen, self.maps.side, self.features)

    def select(self, scores: NDArray[np.float32], windows: Windows) -> Detections:
        """Turn the scores of one photo's windows into boxes.

        Parameters
        ----------
        scores : ndarray of shape (n, n_classes)
            The score of each window for each class.
        windows : Windows
            The windows.

        Returns
        -------
        Detections
            The boxes by class, best first, after non-maximum suppression.
        """
        how = self.detect_config
        found = detect_windows(
            scores,
            windows.xyxy,
            iou_threshold=how.iou_threshold,
            vote_iou=how.vote_iou,
            classes=self.classes,
        )
        found = found[_first(found.label, how.max_detections)]
        if how.confidence:
            found = self.confidence(found)
        return found[found.score >= how.min_score]

    def confidence(self, detections: Detections) -> Detections:
        """Turn scores into confidences.

        Parameters
        ----------
        detections : Detections
            Detections with margins of the SVM as scores.

        Returns
        -------
        Detections
            The same with confidences in [0, 1].
        """
        sure = confidence(detections.score, detections.label, self.calibration)
        if self.reliability is not None:
            sure = sure * self.reliability[detections.label]
        return replace(detections, score=sure)

    def save(self, path: str | Path) -> None:
        """Write the detector to a file.

        Parameters
        ----------
        path : str or Path
            The file, an ``.npz`` of arrays and one JSON header.
        """
        write_whole(Path(path), detector_bytes(self))

    @classmethod
    def load(cls, path: str | Path) -> "Detector":
        """Read a detector that `save` wrote.

        Nothing in the file is executed.

        Parameters
        ----------
        path : str or Path
            The file.

        Returns
        -------
        Detector
            The detector.
        """
        return read_detector(Path(path), cls)


def detect_images(
    detector: Detector, images: ImageSet, *, workers: int | None = 1, progress: Progress = silent
) -> Detections:
    """What the detector finds in many photos; `image` is their place in `images`."""
    detector = replace(detector, features=resolved(detector.features))
    with one_thread():  # as in a worker: the last bit of a product depends on the threads
        parts = map_ordered(
            detector.detect, images.paths, workers=workers, progress=progress, label="detections"
        )
        return Detections.concatenate(replace(part, image=part.image + i) for i, part in enumerate(parts))


def _first(label: NDArray[np.intp], most: int) -> NDArray[np.bool_]:
    """The first `most` of each label, where equal labels stand together."""
    start = np.searchsorted(label, label)
    return np.asarray(np.arange(len(label)) - start < most)
