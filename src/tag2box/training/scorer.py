"""`Scorer`: all that adds to the score of a window, the same for photos learned from and for new ones."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tag2box.errors import InputError
from tag2box.maps.competition import Activations
from tag2box.maps.object_maps import ObjectMaps, objectness
from tag2box.training.scoring import Weights, score_windows
from tag2box.training.two_stream import TwoStream

__all__ = ["Scorer"]

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Scorer:
    """score = W x + b + o objectness + s log(two streams) + t logit of the photo's tag.

    weights: W and b. object_maps, ring: how objectness is read off a photo's map; objectness, streams, tag:
    the factors o, s and t. What a factor of 0 would need may be None.
    """

    weights: Weights
    objectness: float = 0.0
    streams: float = 0.0
    tag: float = 0.0
    ring: float = 0.25
    object_maps: ObjectMaps | None = None
    two_stream: TwoStream | None = None
    activations: Activations | None = None

    def __post_init__(self) -> None:
        for name, factor, needed in (
            ("objectness", self.objectness, self.object_maps),
            ("streams", self.streams, self.two_stream),
            ("streams", self.streams, self.object_maps),
            ("tag", self.tag, self.activations),
        ):
            if factor and needed is None:
                raise InputError(f"a scorer with a factor of {name} needs what it is a factor of")

    @property
    def needs_map(self) -> bool:
        """Whether a photo's map is looked at."""
        return bool(self.objectness or self.streams or self.tag)

    def __call__(
        self,
        X: NDArray[np.floating],
        boxes: Floats,
        size: NDArray[np.int64],
        map_: NDArray[np.floating] | None,
        *,
        share: Floats | None = None,
    ) -> Floats:
        """Scores of one photo's windows for every class, (n, n_classes).

        size: the photo's width and height; map_: its last map; share: the objectness of the windows where it
        is known already, as in photos whose tags are known.
        """
        return score_windows(X, self.weights) + self.beyond(X, boxes, size, map_, share)

    def beyond(
        self,
        X: NDArray[np.floating],
        boxes: Floats,
        size: NDArray[np.int64],
        map_: NDArray[np.floating] | None,
        share: Floats | None = None,
    ) -> Floats:
        """What adds to W x + b; the arguments are those of a call."""
        scores = np.zeros((len(boxes), len(self.weights.b)), np.float32)
        if not self.needs_map or len(boxes) == 0:
            return scores
        if map_ is None:
            raise InputError("this detector looks at the photo's map: give it")
        if share is None and self.object_maps is not None:
            share = objectness(self.object_maps(map_), boxes, size, self.ring)
        if share is not None:
            scores += np.float32(self.objectness) * share
            if self.two_stream is not None and self.streams:
                scores += np.float32(self.streams) * self.two_stream.log_scores(X, share)
        if self.activations is not None and self.tag:
            scores += np.float32(self.tag) * self.activations.tags(map_)
        return scores
