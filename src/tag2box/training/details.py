"""Details: where the objects are, if they are smaller than the last map can show. Beyond the paper.

A cell of the last map sees a good part of the photo: a pore in a tile is lost there. Cells x of the map at
the network's cut, at the largest size, see little more than themselves. The paper's smoothed latent SVM, with
a photo for a bag and its cells for instances, says which of them make the tag:

    min ½‖w‖² + C Σ_i ℓ(y_i f_μ(w; cells of photo i)),      score of a cell = wᵀx

On playing cards that finds the corner that tells a king from a queen, and on animals the face, where the
object map finds the whole; so it must not be used there. Which of the two finds things? That whose boxes tell
each other where they are (`agreement`): details are taken where they agree better, on average over the
classes, but for classes whose object maps agree clearly better there.
"""

import warnings
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from tag2box.description.config import MapsConfig
from tag2box.description.describe import with_details
from tag2box.description.description import Description
from tag2box.description.details import Details
from tag2box.description.record import Described, EarlyMaps, Maps
from tag2box.mil.bags import Bags
from tag2box.mil.latent import SmoothLatentSVC
from tag2box.runtime.blas import one_thread
from tag2box.runtime.executor import map_ordered, map_threads
from tag2box.runtime.packing import stored
from tag2box.runtime.progress import Progress, silent
from tag2box.runtime.stages import Run, stage
from tag2box.training.activations import fit_activations
from tag2box.training.agreement import agreement
from tag2box.training.competition import compete
from tag2box.training.known import Known
from tag2box.training.object_maps import fit_object_maps, measure_all

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]

# Of the latent SVM, on cells of mean 0 and deviation 1; it is far from converged after so many steps, and
# good enough. Between C = 1e-4 and 1e-3 and mu = 1 and 5 much the same cells stand out.
C, MU, STEPS = 1e-3, 5.0, 25
# Photos of which they are learned.
SAMPLE = 300
# Agreement that is more than the chance of a draw, with some fifty photos of a class.
CLEARLY = 0.1


@stored
@dataclass(frozen=True)
class DetailsChoice:
    """agreement: (2, n_classes), by object maps and by details, or NaN; details: None where unused."""

    agreement: Floats
    details: Details | None


def add_details(known: Known, maps: MapsConfig, run: Run) -> tuple[Known, Details | None]:
    """Windows where fine cells stand out, and what those speak for; None where nobody asks them."""
    description = known.description
    if maps.details == "never" or description is None or not known.described.early:
        return known, None
    details = run(choose_details, known.described, known.tags, description, maps.details).details
    if details is None:
        return known, None
    return replace(
        known, described=run.per_photo(describe_details, known.described, description, details)
    ), details


@stage("details", version=5)
def choose_details(
    described: Described,
    tags: NDArray[np.int8],
    description: Description,
    wanted: str = "auto",
    *,
    workers: int | None = 1,
    progress: Progress = silent,
) -> DetailsChoice:
    """Whether details say better where the objects are, from a sample of photos and their tags.

    wanted: "always" takes them for every class, whatever they say.
    Memory: the cells of the sample in single precision, some 0.4 GB, and its vectors.
    """
    unknown = DetailsChoice(np.full((2, tags.shape[1]), np.nan), None)
    maps = description.settings.maps
    if not described.early or maps is None or len(described) < 2:
        return unknown
    drawn = np.sort(np.random.default_rng(0).permutation(len(described))[:SAMPLE])
    described = Described.concatenate([described.part(i, i + 1) for i in drawn.tolist()])
    early, tags = described.early[0], tags[drawn]
    details = fit_details(early, tags, workers=workers, progress=progress)
    finer = [details(early[i]) for i in range(len(described))]
    both = described, replace(described, details=Maps.concatenate(finer))
    agreeing = np.stack([agreement(each, tags, _best(each, tags, maps)) for each in both])
    if wanted == "always":
        return DetailsChoice(agreeing, details)
    told = np.isfinite(agreeing).all(axis=0)
    if not told.any() or agreeing[1, told].mean() <= agreeing[0, told].mean():
        return replace(unknown, agreement=agreeing)
    small = told & (agreeing[1] > agreeing[0] - CLEARLY)
    return DetailsChoice(agreeing, Details(details.W * small[:, None].astype(np.float32)))


def fit_details(
    early: EarlyMaps, tags: NDArray[np.int8], *, workers: int | None = 1, progress: Progress = silent
) -> Details:
    """The latent SVM of each class on the cells of photos; zeros where only one tag is there."""
    cells = np.concatenate([early[i].reshape(-1, early.X.shape[1]) for i in range(len(early.shape))])
    mean, spread = cells.mean(axis=0), cells.std(axis=0)
    spread[spread == 0] = 1
    cells -= mean
    cells /= spread
    fit = partial(_fit_class, Bags(cells, np.asarray(early.offsets)))
    W = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # see STEPS
        for row in map_threads(fit, list(tags.T), workers=workers):
            W.append(row / spread)
            progress("details", len(W), tags.shape[1])
    return Details(np.array(W, np.float32).reshape(-1, cells.shape[1]))


@stage("detailed", version=1)
def describe_details(
    photos: Described,
    description: Description,
    details: Details,
    *,
    workers: int | None = 1,
    progress: Progress = silent,
) -> Described:
    """The photos with windows where their fine cells stand out: from stored maps, no pixels are needed."""
    job = partial(with_details, description=description, details=details)
    parts = (photos.part(n, n + 1) for n in range(len(photos)))
    found = map_ordered(job, parts, workers=workers, progress=progress, label="details", n=len(photos))
    return Described.concatenate(list(found))


def _fit_class(bags: Bags, column: NDArray[np.int8]) -> Floats:
    known = np.flatnonzero(column != 0)
    if len(np.unique(column[known])) < 2:
        return np.zeros(bags.X.shape[1])
    svm = SmoothLatentSVC(C=C, mu=MU, class_weight="balanced", max_iter=STEPS)
    with one_thread():
        svm.fit(bags if len(known) == len(column) else bags[known], column[known])
    return np.asarray(svm.coef_.ravel())


def _best(described: Described, tags: NDArray[np.int8], maps: MapsConfig) -> Rows:
    """The window of most objectness of each photo, for each class."""
    activations = fit_activations(described, tags)
    object_maps = fit_object_maps(described, tags, activations, maps.components)
    alone = measure_all(described, object_maps, maps.ring)
    objectness = compete((described, alone, tags), object_maps, activations, maps.ring)
    best = np.zeros(tags.shape, np.intp)
    for i, values in enumerate(objectness.by_image(objectness.values)):
        if len(values):
            best[i] = values.argmax(axis=0)
    return best
