"""`Tag2Box`: the whole method as an estimator.

detections = Tag2Box().fit(read_images("photos")).predict(["new.jpg"])
"""

import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from markupsafe import Markup
from PIL import Image
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from tag2box.config import Config
from tag2box.data.first_look import Look
from tag2box.data.photos import find_photos
from tag2box.data.reading import read_images
from tag2box.detection.detections import Detections
from tag2box.images import ImageSet
from tag2box.pipeline import detect
from tag2box.run.corrections import corrected_boxes
from tag2box.run.fitting import fit_run
from tag2box.run.folder import RunFolder
from tag2box.runtime.cluster import using
from tag2box.runtime.executor import map_ordered
from tag2box.runtime.progress import Progress, silent
from tag2box.runtime.stages import Run
from tag2box.runtime.store import Store


class Tag2Box(BaseEstimator):
    """Object detector that learns from image tags, without boxes.

    `fit` learns from images and their tags, `predict` finds boxes in photos. It is what `tag2box run` and
    `tag2box detect` do, with the interface of a scikit-learn estimator.

    Parameters
    ----------
    config : Config, default=None
        The settings of all stages. None stands for the defaults.
    out : str or Path, default=None
        The run folder. A fit that was stopped continues where it stopped, and a changed setting recomputes
        only what depends on it. None uses a temporary folder, which is removed after `fit`.
    n_jobs : int, default=-1
        The number of processes. -1 means one per core, None means 1, as in scikit-learn. No result depends
        on it.
    cluster : str or dask.distributed.Client, default=None
        A Dask cluster to work on instead: a client, the address of a scheduler, or "local:4". It must see the
        run folder `out`, and the photos.
    random_state : int, default=None
        The seed of every random choice: the rank of the windows, the sample for the projection and the
        first negatives. None leaves the seeds in `config`.
    on_error : {"skip", "fail"}, default="skip"
        What to do about photos that cannot be read: leave them out with a warning that names them, or
        raise an `InputError`.
    progress : callable, default=silent
        Called with (label, done, total) as the work proceeds.

    Attributes
    ----------
    detector_ : Detector
        The detector that was learned.
    images_ : ImageSet
        The images that it was learned from.
    found_ : Detections
        The box of each tag of these images, as learned or corrected.

    See Also
    --------
    Config : The settings of all stages.
    Detector : Finds boxes in one photo at a time.

    Examples
    --------
    Eight photos of noise; half of them show an orange square and are tagged with it. The settings are those
    of a toy: small photos, few windows.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from PIL import Image
    >>> import tag2box as t2b
    >>> folder, rng = Path(tempfile.mkdtemp()), np.random.default_rng(0)
    >>> for name in "square", "background":
    ...     (folder / name).mkdir()
    ...     for i in range(4):
    ...         photo = rng.integers(0, 60, (96, 96, 3), dtype=np.uint8)
    ...         if name == "square":
    ...             photo[20:60, 10 * i : 10 * i + 40] = 250, 120, 20
    ...         Image.fromarray(photo).save(folder / name / f"{i}.png")
    >>> config = t2b.Config(
    ...     windows=t2b.WindowsConfig(mode="single", max_windows=20),
    ...     features=t2b.FeaturesConfig(levels=(96,), grid=1, dimensions=16),
    ...     maps=t2b.MapsConfig(side=96),
    ... )
    >>> model = t2b.Tag2Box(config, n_jobs=1).fit(folder)
    >>> detections = model.predict(folder / "square" / "0.png")
    >>> [detections.classes[label] for label in detections.label[:1]]
    ['square']
    """

    def __init__(
        self,
        config: Config | None = None,
        *,
        out: str | Path | None = None,
        n_jobs: int | None = -1,
        cluster: Any = None,
        random_state: int | None = None,
        on_error: str = "skip",
        progress: Progress = silent,
    ) -> None:
        self.config = config
        self.out = out
        self.n_jobs = n_jobs
        self.cluster = cluster
        self.random_state = random_state
        self.on_error = on_error
        self.progress = progress

    def fit(self, images: ImageSet | str | Path, y: None = None) -> "Tag2Box":  # noqa: ARG002  scikit-learn's
        """Learn a detector from images and tags.

        Parameters
        ----------
        images : ImageSet, str or Path
            The images, or the path from which `read_images` reads them.
        y : None
            Ignored, present for scikit-learn's sake: the tags are in `images`.

        Returns
        -------
        Tag2Box
            The fitted estimator.
        """
        if not isinstance(images, ImageSet):
            images = read_images(images, on_error=self.on_error)
        config = _seeded(self.config or Config(), self.random_state)
        with (
            nullcontext(self.out) if self.out else TemporaryDirectory(prefix="tag2box-") as out,
            using(self.cluster, out),
        ):
            options: dict[str, Any] = {"on_error": self.on_error, "progress": self.progress}
            result = fit_run(images, config, out, workers=self._workers, **options)
            run = RunFolder(out)
            self.detector_, self.images_ = run.detector, result.images
            self.found_ = corrected_boxes(run).detections.with_photos(result.images.paths)
        _warn(result.look)
        return self

    def predict(self, photos: Any, *, min_score: float | None = None) -> Detections:
        """Find the learned objects in photos.

        Parameters
        ----------
        photos : ImageSet, str, Path, ndarray, PIL.Image.Image, or sequence of these
            Photos as files, arrays or images of Pillow; folders of photos; or an image set.
        min_score : float, default=None
            The lowest confidence of a box. None keeps all, as evaluation wants them.

        Returns
        -------
        Detections
            The boxes found; its `ids` name the photos, those without a file by their number.
        """
        check_is_fitted(self)
        if isinstance(photos, str | Path | np.ndarray | Image.Image):
            photos = [photos]
        if not isinstance(photos, ImageSet):
            photos = list(photos)
            if any(not isinstance(photo, str | Path) for photo in photos):
                return self._detect_each(photos, min_score)
            photos = find_photos(photos)
        with TemporaryDirectory(prefix="tag2box-") as scratch:
            run = Run(Store(scratch), workers=self._workers, progress=self.progress)
            found, images, _, look = detect(self.detector_, "", photos, run, self.on_error)
        _warn(look)
        return (found if min_score is None else found.above(min_score)).with_photos(images.paths)

    def _detect_each(self, photos: Sequence[Any], min_score: float | None) -> Detections:
        """The same for photos that are not all files; they are called by their number."""
        ids = tuple(map(str, range(len(photos))))
        parts = map_ordered(self.detector_.detect, photos, workers=self._workers, progress=self.progress)
        found = Detections.concatenate(parts, ids)
        return (found if min_score is None else found.above(min_score)).with_photos(photos)

    def _repr_html_(self) -> str:
        """What was learned, where it is; else scikit-learn's."""
        if not hasattr(self, "detector_"):
            return str(super()._repr_html_inner())
        facts = Markup("<p>Tag2Box, learned from the tags of {} images: {}</p>").format(
            len(self.images_), ", ".join(self.detector_.classes)
        )
        return facts + Markup(self.found_._repr_html_())

    def _repr_mimebundle_(self, **_kwargs: Any) -> dict[str, str]:
        """Jupyter asks for this first."""
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    @property
    def _workers(self) -> int:
        return int(effective_n_jobs(self.n_jobs))


def _warn(look: Look) -> None:
    bad = [*(f"{each.path}: {each.reason}" for each in look.unreadable), *look.skipped]
    if bad:
        warnings.warn(f"{len(bad)} photos were left out: {'; '.join(bad)}", stacklevel=3)


def _seeded(config: Config, seed: int | None) -> Config:
    """`config` with this seed in every stage that draws random numbers."""
    if seed is None:
        return config
    stages = {each.name: getattr(config, each.name) for each in fields(config)}
    drawing = {name: stage for name, stage in stages.items() if hasattr(stage, "seed")}
    return replace(config, **{name: replace(stage, seed=seed) for name, stage in drawing.items()})
