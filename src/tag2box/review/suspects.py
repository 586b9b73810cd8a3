"""`Suspects`: the tags of a run that are most likely wrong, by what is learned from its other photos."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tag2box.corrections import PhotoCorrections
from tag2box.images import known_tags
from tag2box.run.folder import RunFolder

__all__ = ["SUSPECT", "Suspects"]

# A tag is named as suspect where what is learned from the other photos says so with this probability.
SUSPECT = 0.9


class Suspects:
    """order: all photos, the most suspect tag first; none of a run that keeps no maps."""

    def __init__(self, run: RunFolder) -> None:
        self._classes, n = run.images.classes, len(run.images)
        self._tags = known_tags(run.images.tags, run.config.unknown)
        self._doubt = np.zeros(self._tags.shape)
        if run.has("tag_scores"):
            self._doubt = run.result("tag_scores").suspicion(self._tags)
        self.order: NDArray[np.intp] = np.argsort(-self._doubt.max(axis=1, initial=0), kind="stable")
        assert len(self.order) == n

    def of(self, n: int, corrections: PhotoCorrections) -> dict[str, Any] | None:
        """The tag of photo n that is most likely wrong: its class, the tag, and the probability; or None.

        A tag that a person has looked at is no longer suspect.
        """
        if corrections.state == "reviewed":
            return None
        doubt = self._doubt[n].copy()
        seen = set(corrections.tags) | {box.name for box in corrections.accepted()}
        doubt[[name in seen for name in self._classes]] = 0
        c = int(doubt.argmax())
        if doubt[c] < SUSPECT:
            return None
        return {"class": self._classes[c], "tag": int(self._tags[n, c]), "doubt": round(float(doubt[c]), 4)}
