"""`Suspects`: the tags of a run that are most likely wrong, by what is learned from its other photos."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tag2box.corrections import PhotoCorrections
from tag2box.images import known_tags
from tag2box.run.corrections import read_corrections
from tag2box.run.folder import RunFolder
from tag2box.training.tag_scores import TagScores

# What is odd with this probability is pointed out to those who did not ask.
LIKELY = 0.9


class Suspects:
    """How likely each tag is wrong, and which are odd: none that a person saw, none of a run without maps."""

    def __init__(self, run: RunFolder) -> None:
        self._classes = run.images.classes
        self._tags = known_tags(run.images.tags, run.config.unknown)
        self._doubt, self._odd = np.zeros(self._tags.shape), np.zeros(self._tags.shape, np.bool_)
        if run.has("tag_scores"):
            scores: TagScores = run.result("tag_scores")
            self._doubt, self._odd = scores.suspicion(self._tags), scores.odd(self._tags)
        self._unseen = np.ones(self._tags.shape, np.bool_)

    def update(self, n: int, corrections: PhotoCorrections) -> None:
        """Take in what is said of photo n: a tag that a person has looked at is no longer suspect."""
        seen = set(corrections.tags) | {box.name for box in corrections.accepted()}
        whole = corrections.state == "reviewed"
        self._unseen[n] = [not whole and name not in seen for name in self._classes]

    @property
    def order(self) -> NDArray[np.intp]:
        """All photos: those with an odd tag, the most suspect first, then the others so."""
        worst = (self._unseen * (self._odd + self._doubt)).max(axis=1, initial=0)
        return np.argsort(-worst, kind="stable")

    def of(self, n: int) -> dict[str, Any] | None:
        """The most suspect odd tag of photo n, its class, and how likely it is wrong; None without one."""
        doubt = np.where(self._odd[n] & self._unseen[n], self._doubt[n], -1)
        if doubt.max(initial=-1) < 0:
            return None
        c = int(doubt.argmax())
        tag, likely = int(self._tags[n, c]), bool(doubt[c] >= LIKELY)
        return {"class": self._classes[c], "tag": tag, "doubt": round(float(doubt[c]), 4), "likely": likely}

    def __iter__(self) -> Iterator[tuple[int, int, int, float]]:
        """(photo, class, tag, how likely it is wrong) of all odd tags, the most suspect first."""
        photos, classes = np.nonzero(self._odd & self._unseen)
        for at in np.argsort(-self._doubt[photos, classes], kind="stable").tolist():
            n, c = int(photos[at]), int(classes[at])
            yield n, c, int(self._tags[n, c]), float(self._doubt[n, c])


def read_suspects(run: RunFolder) -> Suspects:
    """Those of a run as it is corrected now."""
    suspects = Suspects(run)
    state, contents = read_corrections(run)
    for n, content in enumerate(contents):
        if content in state.photos:
            suspects.update(n, state.photo(content))
    return suspects
