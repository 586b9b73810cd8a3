"""Details: where the objects are, if they are smaller than the last map can show. Beyond the paper.

A cell of the last map sees a good part of the photo: a pore in a tile is lost there. Cells x of the map at
the network's cut, at the largest size, see little more than themselves. The paper's smoothed latent SVM, with
a photo for a bag and its cells for instances, says which of them make the tag:

    min ½‖w‖² + C Σ_i ℓ(y_i f_μ(w; cells of photo i)),      score of a cell = wᵀx

On playing cards that finds the corner that tells a king from a queen, and on animals the face, where the
object map finds the whole; so it must not be used there. Which of the two finds things? The photos are halved
(those that look alike stay together); the mean vector of the boxes in one half, whitened, finds a box in each
photo of the other half. Boxes that were laid anywhere are not found again, but for those that fill the photo:

    agreement = (share of boxes found again - share by chance) / (1 - share by chance)

where chance is the share of pairs of photos whose boxes overlap anyway. Details are taken where they agree
better, on average over the classes, but for classes whose object maps agree clearly better there.
"""

import warnings
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fclusterdata
from sklearn.exceptions import ConvergenceWarning

from tag2box.boxes import iou_matrix
from tag2box.description.config import MapsConfig
from tag2box.description.description import Description, Details
from tag2box.description.photos import described_sample
from tag2box.description.record import Described, Maps, Raw
from tag2box.mil.bags import Bags
from tag2box.mil.smooth_latent import SmoothLatentSVC
from tag2box.runtime.blas import one_thread
from tag2box.runtime.executor import map_threads
from tag2box.runtime.packing import stored
from tag2box.runtime.progress import Progress, silent
from tag2box.runtime.stages import stage
from tag2box.training.activations import fit_activations
from tag2box.training.competition import compete
from tag2box.training.object_maps import fit_object_maps, measure_all

__all__ = ["DetailsChoice", "agreement", "choose_details", "fit_details"]

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]

# Of the latent SVM, on cells of mean 0 and deviation 1; it is far from converged after so many steps, and
# good enough. Between C = 1e-4 and 1e-3 and mu = 1 and 5 much the same cells stand out.
C, MU, STEPS = 1e-3, 5.0, 25
# A class of fewer photos than this says nothing of how its boxes agree.
FEW = 6
# Photos in a group of those that look alike, on average.
ALIKE = 8
# Windows of a photo that the covariance is made of, and what is added to it, in mean variances.
DRAWN, RIDGE = 30, 0.1
SAME = 0.5
# Agreement that is more than the chance of a draw, with some fifty photos of a class.
CLEARLY = 0.1


@stored
@dataclass(frozen=True)
class DetailsChoice:
    """agreement: (2, n_classes), by object maps and by details, or NaN; details: None where unused."""

    agreement: Floats
    details: Details | None


@stage("details", version=3)
def choose_details(
    sample: Raw,
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
    if sample.early is None or maps is None or len(sample) < 2:
        return unknown
    described = described_sample(sample, description)
    details = fit_details(sample.early, tags, workers=workers, progress=progress)
    finer = [details(sample.early[i]) for i in range(len(sample))]
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
    early: Maps, tags: NDArray[np.int8], *, workers: int | None = 1, progress: Progress = silent
) -> Details:
    """The latent SVM of each class on the cells of photos; zeros where only one tag is there."""
    cells = np.array(early.X, np.float32)
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


def agreement(described: Described, tags: NDArray[np.int8], best: Rows) -> Floats:
    """How well the boxes of a class in some photos tell where those in others are, (n_classes,), or NaN.

    best: the box of each photo for each class, among its windows.
    """
    windows, n_windows = described.windows, described.counts
    again, photos = np.zeros(tags.shape[1]), np.zeros(tags.shape[1])
    half = _halves(described)
    present = (tags == 1) & (n_windows > 0)[:, None]
    with one_thread():
        for learn in (half, ~half):
            if not present[learn].any():
                continue
            mean, covariance = _background(described, np.flatnonzero(learn & (n_windows > 0)))
            for c in np.flatnonzero(present[learn].any(axis=0) & present[~learn].any(axis=0)):
                own = np.flatnonzero(present[:, c] & learn)
                vectors = described.X[described.offsets[own] + best[own, c]]
                w = np.linalg.solve(covariance, vectors.astype(np.float64).mean(axis=0) - mean)
                for i in np.flatnonzero(present[:, c] & ~learn).tolist():
                    scores = described.X[described.offsets[i] : described.offsets[i + 1]] @ w
                    both = windows[i][[int(scores.argmax()), best[i, c]]]
                    again[c] += float(iou_matrix(both[:1], both[1:])[0, 0]) >= SAME
                    photos[c] += 1
    return _beyond_chance(again, photos, _chance(described, present, best))


def _halves(described: Described) -> NDArray[np.bool_]:
    """One half of the photos; those that look alike, as a tile at several exposures, are on one side."""
    assert described.maps is not None
    looks = np.stack(
        [np.asarray(described.maps[i], np.float64).mean(axis=(0, 1)) for i in range(len(described))]
    )
    spread = looks.std(axis=0)
    looks = (looks - looks.mean(axis=0)) / np.where(spread == 0, 1, spread)
    groups = fclusterdata(looks, max(len(looks) // ALIKE, 2), criterion="maxclust", method="ward")
    side = np.random.default_rng(0).permutation(int(groups.max()) + 1) % 2 == 0
    return np.asarray(side[groups])


def _background(described: Described, photos: Rows) -> tuple[Floats, Floats]:
    """The mean and the covariance of windows that were drawn anywhere."""
    rng = np.random.default_rng(0)
    rows = [described.offsets[i] + rng.permutation(int(described.counts[i]))[:DRAWN] for i in photos]
    X = described.X[np.concatenate([np.empty(0, np.int64), *rows])].astype(np.float64)
    mean = X.mean(axis=0)
    X -= mean
    covariance = X.T @ X / len(X)
    return mean, covariance + RIDGE * max(np.trace(covariance) / len(covariance), 1e-9) * np.eye(
        len(covariance)
    )


def _chance(described: Described, present: NDArray[np.bool_], best: Rows) -> Floats:
    """The share of pairs of photos whose boxes overlap, in shares of the photos."""
    windows, out = described.windows, np.zeros(present.shape[1])
    for c in range(len(out)):
        own = np.flatnonzero(present[:, c])
        boxes = windows.xyxy[windows.offsets[own] + best[own, c]] / np.tile(windows.sizes[own], 2)
        pairs = len(own) * (len(own) - 1)
        if pairs:
            out[c] = ((iou_matrix(boxes, boxes) >= SAME).sum() - len(own)) / pairs
    return out


def _beyond_chance(again: Floats, photos: Floats, chance: Floats) -> Floats:
    told = photos >= FEW
    share = np.divide(again, photos, out=np.full_like(again, np.nan), where=told)
    return np.asarray((share - chance) / np.maximum(1 - chance, 1e-6))
