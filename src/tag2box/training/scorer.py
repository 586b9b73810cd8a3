"""`Scorer`: all that adds to the score of a window, the same for photos learned from and for new ones."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tag2box.errors import InputError
from tag2box.maps.competition import Activations
from tag2box.maps.object_maps import ObjectMaps, measure_objectness
from tag2box.training.scoring import Weights, score_windows
from tag2box.training.two_stream import TwoStream

__all__ = ["Scorer"]

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Scorer:
    """score = W x + b + o objectness + s log(two streams) + t logit of the photo's tag.

    weights: W and b. object_maps, ring: how objectness is measured in a photo's map. The weights of the other
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

    def __post_init__(self) -> None:
        for name, needed in (
            ("objectness_weight", "object_maps"),
            ("streams_weight", "two_stream"),
            ("streams_weight", "object_maps"),
            ("tag_weight", "activations"),
        ):
            if getattr(self, name) and getattr(self, needed) is None:
                raise InputError(f"a {name} above 0 needs {needed}: give both, or neither")

    @property
    def needs_map(self) -> bool:
        """Whether scores need the map of the photo."""
        return bool(self.objectness_weight or self.streams_weight or self.tag_weight)

    def __call__(
        self,
        X: NDArray[np.floating],
        boxes: Floats,
        size: NDArray[np.int64],
        map_: NDArray[np.floating] | None,
        *,
        objectness: Floats | None = None,
    ) -> Floats:
        """Scores of one photo's windows for every class, (n, n_classes).

        size: the photo's width and height; map_: its last map; objectness: that of the windows where it is
        known already, as in photos whose tags are known.
        """
        return score_windows(X, self.weights) + self.beyond(X, boxes, size, map_, objectness)

    def beyond(
        self,
        X: NDArray[np.floating],
        boxes: Floats,
        size: NDArray[np.int64],
        map_: NDArray[np.floating] | None,
        objectness: Floats | None = None,
    ) -> Floats:
        """What adds to W x + b; the arguments are those of a call."""
        scores = np.zeros((len(boxes), len(self.weights.b)), np.float32)
        if not self.needs_map or len(boxes) == 0:
            return scores
        if map_ is None:
            raise InputError("this detector looks at the photo's map: give it")
        if objectness is None and self.object_maps is not None:
            objectness = measure_objectness(self.object_maps(map_), boxes, size, self.ring)
        if objectness is not None:
            scores += np.float32(self.objectness_weight) * objectness
            if self.two_stream is not None and self.streams_weight:
                scores += np.float32(self.streams_weight) * self.two_stream.log_scores(X, objectness)
        if self.activations is not None and self.tag_weight:
            scores += np.float32(self.tag_weight) * self.activations.tags(map_)
        return scores
