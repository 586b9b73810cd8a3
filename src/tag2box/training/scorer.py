"""`Scorer`: all that adds to the score of a window, the same for photos learned from and for new ones."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tag2box.description.details import Details
from tag2box.description.record import Described
from tag2box.errors import InputError
from tag2box.runtime.blas import one_thread
from tag2box.runtime.halves import as_float32
from tag2box.runtime.packing import pack, stored
from tag2box.training.activations import Activations
from tag2box.training.known import Known
from tag2box.training.object_maps import ObjectMaps, photo_objectness
from tag2box.training.scoring import Weights, score_photos, score_windows
from tag2box.training.two_stream import TwoStream

Floats = NDArray[np.float32]

# The arrays of a scorer that are multiplied with the vectors of windows; every one has a row per class.
OF_VECTORS = ("weights.W", "two_stream.W", "two_stream.V")


@stored
@dataclass(frozen=True, eq=False)
class Scorer:
    """score = W x + b + o objectness + s log(two streams) + t logit of the photo's tag.

    weights: W and b. object_maps, ring: how objectness is measured in a photo's map; details: what fine cells
    speak for, where objects are small. The weights of the other
    terms are o, s and t; what a weight of 0 would need may be None.
    """

    weights: Weights
    objectness_weight: float = 0.0
    streams_weight: float = 0.0
    tag_weight: float = 0.0
    ring: float = 0.25
    object_maps: ObjectMaps | None = None
    two_stream: TwoStream | None = None
    activations: Activations | None = None
    details: Details | None = None

    def __post_init__(self) -> None:
        for name, needed in (
            ("objectness_weight", "object_maps"),
            ("streams_weight", "two_stream"),
            ("streams_weight", "object_maps"),
            ("tag_weight", "activations"),
        ):
            if getattr(self, name) and getattr(self, needed) is None:
                raise InputError(f"a {name} above 0 needs {needed}: give both, or neither")

    def check_shape(self, n_classes: int, d: int) -> None:
        """Refuse arrays that are not of so many classes, or of vectors of other dimensions."""
        for name, array in pack(self)[1].items():
            expected = (n_classes, d) if name in OF_VECTORS else (n_classes, *array.shape[1:])
            if array.shape != expected:
                raise InputError(f"{name} must be {expected} for these classes, but it is {array.shape}")

    @property
    def needs_map(self) -> bool:
        """Whether scores need the map of the photo."""
        return bool(self.objectness_weight or self.streams_weight or self.tag_weight)

    def __call__(self, photo: Described, objectness: Floats | None = None) -> Floats:
        """Scores of one photo's windows for every class, (n, n_classes).

        objectness: that of the windows where it is known already, as in photos whose tags are known.
        """
        return score_windows(photo.X, self.weights) + self.other_terms(photo, objectness)

    def objectness(self, photo: Described) -> Floats | None:
        """The objectness of one photo's windows, (n, n_classes), by its own maps; None without any."""
        if self.object_maps is None or photo.maps is None or not len(photo.windows.xyxy):
            return None
        return photo_objectness(self.object_maps, photo, self.ring)

    def other_terms(self, photo: Described, objectness: Floats | None = None) -> Floats:
        """What adds to W x + b; the arguments are those of a call."""
        scores = np.zeros((len(photo.X), len(self.weights.b)), np.float32)
        if not self.needs_map or len(scores) == 0:
            return scores
        map_ = photo.map_of(0)
        if map_ is None:
            raise InputError("this detector looks at the photo's map: give it")
        if objectness is None:
            objectness = self.objectness(photo)
        if objectness is not None:
            scores += np.float32(self.objectness_weight) * objectness
            if self.two_stream is not None and self.streams_weight:
                scores += np.float32(self.streams_weight) * self.two_stream.log_scores(photo.X, objectness)
        if self.activations is not None and self.tag_weight:
            scores += np.float32(self.tag_weight) * self.activations.tags(map_)
        return scores


def score_known(scorer: Scorer, known: Known) -> Iterator[tuple[Floats, Floats]]:
    """The scores of each photo's windows, (n_i, n_classes), with what its tags say and without."""
    linear = score_photos(known.described.X, known.described.offsets, scorer.weights)
    for scores, (with_tags, without) in zip(linear, known_terms(scorer, known), strict=True):
        yield scores + with_tags, scores + without


def known_terms(scorer: Scorer, known: Known) -> Iterator[tuple[Floats, Floats]]:
    """What adds to the scores W x + b of each photo's windows, with what its tags say and without.

    Photos whose tags are known have the objectness of `known`; new ones have that of their own maps alone.
    """
    for i in range(len(known)):
        photo = known.described.part(i, i + 1)
        photo = replace(photo, X=as_float32(photo.X))
        with one_thread():  # products of one photo are small
            without = scorer.other_terms(photo)
            objectness = known.objectness
            yield without if objectness is None else scorer.other_terms(photo, objectness[i]), without
