"""`Detector`: how photos are described, what scores their windows, and how sure one can be of a score.

    detection = describe + score + select

It is kept in one file. The network is not in it, only its name and hash: the built-in ones come with the
package, your own must lie where its name says.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tag2box.data.decoding import Source
from tag2box.description.describe import describe
from tag2box.description.description import Description
from tag2box.description.projection import Projection
from tag2box.description.record import Described, Maps
from tag2box.detection.config import DetectConfig
from tag2box.detection.detections import Detections
from tag2box.detection.schema import check_types
from tag2box.detection.suppression import detect_windows
from tag2box.detector.inference import photo_boxes
from tag2box.detector.record import Convnet
from tag2box.errors import InputError
from tag2box.runtime.arrays import read_with_header, with_header
from tag2box.runtime.blas import one_thread
from tag2box.runtime.files import write_whole
from tag2box.runtime.packing import pack, stored, unpack
from tag2box.runtime.store import BROKEN
from tag2box.training.calibration import Calibration
from tag2box.training.confidence import log_shares, overlaps
from tag2box.training.extents import grow
from tag2box.training.findings import log_areas
from tag2box.training.scorer import Scorer
from tag2box.windows.record import Windows

# Raised when a detector of before could no longer be read, or would see other numbers in a photo.
NAME, FORMAT = "tag2box detector", 5


@stored
@dataclass(frozen=True, eq=False)
class Detector:
    """A linear detector, with everything needed to find the same boxes on another machine.

    `Tag2Box` and `tag2box run` make it; `save` and `load` keep it in one file. The network is not in that
    file, only its name and hash: the built-in networks come with the package.

    Parameters
    ----------
    classes : tuple of str
        The names of the classes.
    description : Description
        How photos are described: windows, network, projection, context.
    scorer : Scorer
        What adds up to the score of a window.
    calibration : Calibration
        How sure one can be of a score.
    settings : DetectConfig
        How scores become boxes.
    growth : ndarray of shape (n_classes,), default=None
        The share of its width or height by which each side of a box is moved out; None is 0.
    network : Convnet, default=None
        The network that finds boxes in new photos by one look at each, where the settings do not leave that
        to the windows; None does.

    Examples
    --------
    `Tag2Box` has learned one in ``detector_``; here are the parts of one that has learned nothing.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import tag2box as t2b
    >>> from tag2box.description.projection import Projection
    >>> from tag2box.description.resolving import resolve
    >>> from tag2box.training.calibration import Calibration
    >>> from tag2box.training.scorer import Scorer
    >>> from tag2box.training.scoring import Weights
    >>> features = t2b.FeaturesConfig(levels=(96,), grid=1, precision="f32")
    >>> settings = resolve(t2b.WindowsConfig(mode="single", max_windows=5), features, None)
    >>> projection = Projection(np.zeros(320, np.float32), np.eye(320, 8, dtype=np.float32), "l2", 20.0)
    >>> description = t2b.Description(settings, projection)
    >>> scorer, calibration = Scorer(Weights(np.eye(1, 8), np.zeros(1))), Calibration(np.array([[1.0, 0.0]]))
    >>> detector = t2b.Detector(("square",), description, scorer, calibration)

    It goes into one file, and finds the same on another machine.

    >>> file = Path(tempfile.mkdtemp()) / "detector.npz"
    >>> detector.save(file)
    >>> photo = np.zeros((64, 96, 3), np.uint8)
    >>> photo[16:48, 20:60] = 250, 120, 20
    >>> detections = t2b.Detector.load(file).detect(photo)
    >>> detections.classes, len(detections) > 0
    (('square',), True)
    """

    classes: tuple[str, ...]
    description: Description
    scorer: Scorer
    calibration: Calibration
    settings: DetectConfig = field(default_factory=DetectConfig)
    growth: NDArray[np.float64] | None = None
    network: Convnet | None = None

    def __post_init__(self) -> None:
        n, d = len(self.classes), self.description.width
        self.scorer.check_shape(n, d)
        if self.network is not None and self.network.classes != self.classes:
            raise InputError("the network is not of these classes")
        if self.calibration.curves.shape != (n, 2):
            raise InputError(f"curves must be ({n}, 2), but they are {self.calibration.curves.shape}")

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
        if self.network is not None and self.settings.by != "windows":
            return self._by_network(self.network, source, threads)
        self.description.settings.check_network()
        choose = self.promising if self.settings.full_windows else None
        with one_thread():  # products of one photo are small
            photo = describe(
                source, self.searching, details=self.scorer.details, choose=choose, threads=threads
            )
            scores, objectness = self.scores(photo)
            return self.select(scores, photo.windows, objectness)

    def _by_network(self, network: Convnet, source: Source, threads: int) -> Detections:
        """The boxes of one photo by class, best first, without a window."""
        settings = self.settings
        overlap, most = settings.iou_threshold, settings.max_detections
        boxes, score, label = photo_boxes(network, source, overlap, most, threads=threads)
        if not settings.confidence:
            score = np.log(score) - np.log1p(-score)
        order = np.lexsort((-score, label))
        image = np.zeros(len(order), np.intp)
        found = Detections(image, boxes[order], score[order], label[order], classes=self.classes)
        return found[found.score >= settings.min_score]

    def scores(self, photo: Described) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
        """Score the windows of one photo.

        Parameters
        ----------
        photo : Described
            The photo.

        Returns
        -------
        tuple of ndarray of shape (n, n_classes)
            The score of each window for each class, and its objectness; None where nobody measures that.
        """
        objectness = self.scorer.objectness(photo)
        return self.scorer(photo, objectness), objectness

    @property
    def searching(self) -> Description:
        """How a new photo is described: with more windows than in learning, where few of them cost much."""
        description, settings = self.description, self.settings
        cascade = settings.full_windows > 0 and description.context is not None
        if not settings.max_windows or not (cascade or description.settings.features.shares_maps):
            return description
        searched = description.settings.windows
        wider = replace(
            searched,
            max_windows=max(settings.max_windows, searched.max_windows),
            thin_iou=max(settings.thin_iou, searched.thin_iou),
        )
        return replace(description, settings=replace(description.settings, windows=wider))

    def promising(self, photo: Described) -> NDArray[np.intp]:
        """Choose the windows of one photo that are worth their time in the network.

        Parameters
        ----------
        photo : Described
            The photo, with the context of each window, the last numbers of its vector, for X.

        Returns
        -------
        ndarray of int
            The windows of the best scores by their context alone, in order.
        """
        most, around = self.settings.full_windows, photo.X
        if not 0 < most < len(around):
            return np.arange(len(around))
        X = np.zeros((len(around), self.description.width), np.float32)  # vectors are centered: 0 is the mean
        X[:, -around.shape[1] :] = around
        best = self.scorer(replace(photo, X=X)).max(axis=1)
        return np.sort(np.argsort(-best, kind="stable")[:most])

    def select(
        self, scores: NDArray[np.float32], windows: Windows, objectness: NDArray[np.float32] | None = None
    ) -> Detections:
        """Turn the scores of one photo's windows into boxes.

        Parameters
        ----------
        scores : ndarray of shape (n, n_classes)
            The score of each window for each class.
        windows : Windows
            The windows.
        objectness : ndarray of shape (n, n_classes), default=None
            Their objectness, which tells more of how likely a box is right.

        Returns
        -------
        Detections
            The boxes by class, best first, after non-maximum suppression.
        """
        settings = self.settings
        boxes = detect_windows(
            scores,
            windows.xyxy,
            iou_threshold=settings.iou_threshold,
            vote_iou=settings.vote_iou,
            classes=self.classes,
        )
        first = _first(boxes.label, settings.max_detections)
        if settings.confidence:
            features = self.features(boxes, windows, objectness)
            boxes = replace(boxes, score=self.calibration(features, boxes.label))
        boxes = boxes[first]
        boxes = boxes[boxes.score >= settings.min_score]
        if self.growth is not None:
            boxes = replace(boxes, xyxy=grow(boxes.xyxy, self.growth[boxes.label], windows.sizes[0]))
        return boxes[np.lexsort((-boxes.score, boxes.label))]

    def features(
        self, detections: Detections, windows: Windows, objectness: NDArray[np.float32] | None = None
    ) -> NDArray[np.float64]:
        """Measure what tells how likely boxes are right.

        Parameters
        ----------
        detections : Detections
            All boxes of one photo, with margins of the SVM as scores.
        windows : Windows
            The windows of the photo.
        objectness : ndarray of shape (n_windows, n_classes), default=None
            Their objectness.

        Returns
        -------
        ndarray of shape (n, n_features)
            What `calibration` makes confidences of.
        """
        score, label = detections.score, detections.label
        overlap = np.full(len(label), np.nan)
        if objectness is not None and len(objectness):
            overlap = overlaps(detections.xyxy, windows.xyxy[objectness.argmax(axis=0)][label])
        areas = log_areas(detections.xyxy, windows.sizes[0])
        return self.calibration.features(score, label, log_shares(score, label), overlap, areas)

    def save(self, path: str | Path) -> None:
        """Write the detector to a file.

        Parameters
        ----------
        path : str or Path
            The file, an ``.npz`` of arrays and one JSON header.
        """
        content, arrays = pack(self)
        header = {"format": f"{NAME} {FORMAT}", "content": content}
        write_whole(Path(path), with_header(header, arrays))

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
        if not Path(path).is_file():
            raise InputError(f"{path} is not a file: expected a detector that tag2box saved")
        outdated = False
        try:
            header, arrays = read_with_header(Path(path))
            name, _, version = str(header["format"]).rpartition(" ")
            if outdated := name == NAME and version != str(FORMAT):
                raise ValueError("it is of another version")
            detector = unpack(header["content"], arrays)
            if not isinstance(detector, cls):
                raise TypeError("it holds something else")
            check_types(detector, cls)
            detector._rehearse()
        except (*BROKEN, ArithmeticError, IndexError) as wrong:
            if outdated:
                raise InputError(
                    f"{path} is of another version of tag2box: learn it again with tag2box run"
                ) from wrong
            raise InputError(f"{path} is not a detector that tag2box saved: {wrong}") from wrong
        return detector

    def _rehearse(self) -> None:
        """Score a photo that shows nothing, which raises whatever it does if shapes do not fit."""
        scorer, context = self.scorer, self.description.context
        widths = [len(context.mean)] if context is not None else []
        widths += [scorer.activations.U.shape[1]] if scorer.activations is not None else []
        widths += [scorer.object_maps.salience.W.shape[1]] if scorer.object_maps is not None else []
        boxes = np.array([[0, 0, 30, 20], [10, 5, 60, 40], [0, 0, 64, 48]], np.float32)
        windows = Windows.of_image(boxes, (64, 48))
        maps = Maps.of_image(np.ones((3, 4, max(widths, default=1)), np.float32))
        with np.errstate(over="raise", invalid="raise", divide="raise"):
            projection = self.description.projection
            parts = (projection,) if isinstance(projection, Projection) else projection.parts
            projection(np.zeros((1, sum(len(part.A) for part in parts)), np.float32))
            if context is not None:
                context(maps[0], boxes, windows.sizes[0])
            photo = Described(windows, np.ones((3, self.description.width), np.float32), maps)
            scores, objectness = self.scores(photo)
            self.select(scores, windows, objectness)
        if not np.isfinite(scores).all():
            raise ValueError("its scores are no numbers")


def _first(label: NDArray[np.intp], most: int) -> NDArray[np.bool_]:
    """The first `most` of each label, where equal labels stand together."""
    start = np.searchsorted(label, label)
    return np.asarray(np.arange(len(label)) - start < most)
