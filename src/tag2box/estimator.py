"""`Tag2Box`: the whole of it as an estimator.

detections = Tag2Box().fit(read_images("photos")).predict(["new.jpg"])
"""

import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from tag2box.data.look import look, usable
from tag2box.data.photos import find_photos
from tag2box.data.reading import read_images
from tag2box.detection.detections import Detections
from tag2box.detection.detector import detect_images
from tag2box.images import ImageSet
from tag2box.pipeline import Config
from tag2box.run_folder import RunFolder, fit_run
from tag2box.runtime.progress import Progress, silent

__all__ = ["Tag2Box"]


class Tag2Box(BaseEstimator):
    """The whole of it as an estimator: `fit` learns from images and tags, `predict` finds boxes in photos.

    config: the settings, a `Config`; None for the defaults. out: the run folder, in which a stopped fit goes
    on; None for a temporary one. workers: processes, None for one per core; no result depends on it.
    on_error: "skip" leaves out photos that cannot be read, with a warning that names them; "fail" refuses.
    progress: called with (label, done, total).

    `detector_` is what was learned, and `images_` from which images.
    """

    def __init__(
        self,
        config: Config | None = None,
        *,
        out: str | Path | None = None,
        workers: int | None = None,
        on_error: str = "skip",
        progress: Progress = silent,
    ) -> None:
        self.config = config
        self.out = out
        self.workers = workers
        self.on_error = on_error
        self.progress = progress

    def fit(self, images: ImageSet | str | Path, y: None = None) -> "Tag2Box":  # noqa: ARG002  scikit-learn's
        """Learn from an `ImageSet`, or from what `read_images` finds at a path."""
        if not isinstance(images, ImageSet):
            images = read_images(images, on_error=self.on_error)
        images = self._usable(images)
        with nullcontext(self.out) if self.out else TemporaryDirectory(prefix="tag2box-") as out:
            fit_run(images, self.config or Config(), out, workers=self.workers, progress=self.progress)
            self.detector_ = RunFolder(out).detector
        self.images_ = images
        return self

    def predict(self, paths: ImageSet | str | Path | Sequence[str | Path]) -> Detections:
        """The boxes in photos: files, folders, or an `ImageSet`; `ids` says which image is which."""
        check_is_fitted(self)
        if not isinstance(paths, ImageSet):
            paths = find_photos([paths] if isinstance(paths, str | Path) else paths)
        images = self._usable(paths)
        found = detect_images(self.detector_, images, workers=self.workers, progress=self.progress)
        return replace(found, ids=images.ids)

    def _usable(self, images: ImageSet) -> ImageSet:
        seen = look(images, workers=self.workers, progress=self.progress)
        bad = [*(f"{each.path}: {each.reason}" for each in seen.unreadable), *seen.skipped]
        kept = usable(images, seen, on_error=self.on_error)
        if bad:
            warnings.warn(f"{len(bad)} photos were left out: {'; '.join(bad)}", stacklevel=3)
        return kept
