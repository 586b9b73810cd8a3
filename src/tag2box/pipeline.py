"""The page to read first: image tags in, a detector out, in six steps.

What is made of a photo is kept under the hash of its bytes, and each result under what it was made from: a
second run computes nothing, one that was killed goes on where it stopped, a photo more costs one photo, and a
changed setting costs only what depends on it (`run`).
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tag2box.config import Config
from tag2box.corrections import Corrections, State, collect
from tag2box.data.decoding import Photo
from tag2box.data.first_look import Look, look_from, usable
from tag2box.description.photos import PhotoFiles, describe_boxes, describe_photos, make_of_each
from tag2box.description.record import StoredRows
from tag2box.description.resolving import DescriptionConfig, resolve
from tag2box.detection.detections import Detections
from tag2box.detection.detector import Detector
from tag2box.detector.learning import learn_network
from tag2box.errors import InputError
from tag2box.images import ImageSet, known_tags
from tag2box.methods import METHODS
from tag2box.runtime.stages import Run
from tag2box.training.corrected import learn_corrected
from tag2box.training.extents import fit_extents
from tag2box.training.known import Known
from tag2box.training.learned import Learned

# Raised when the same detector finds other boxes in a photo.
VERSION = 3


@dataclass(frozen=True)
class Outcome:
    """What was learned, and from what.

    images: those that can be decoded; hashes: the SHA-256 of each; look: what is odd about the photos; known:
    their descriptions and tags; tags: as a person has corrected them; learned: what the method made of them.
    """

    images: ImageSet
    hashes: tuple[str, ...]
    look: Look
    known: Known
    tags: NDArray[np.int8]
    learned: Learned
    detector: Detector


def learn(
    images: ImageSet, config: Config, run: Run, state: State | None = None, on_error: str = "skip"
) -> Outcome:
    """Image tags in, a detector out.

    state: what a person has said of the boxes, which counts too. on_error: "skip" leaves photos out that
    cannot be decoded; "fail" refuses them.
    """
    images = replace(images, truth=None)  # nobody below can look

    # 1. Photos: each is read once; those bytes are hashed, looked at, decoded and described.
    photos = describe_photos(images.paths, description_settings(config), run)
    look = look_from(images, photos.facts)
    images, rows = _usable(images, look, on_error)
    images = with_positives(images, config)
    hashes = tuple(photos.facts[i].sha256 for i in rows)
    described = photos.described(run, rows)

    # 2. What scores a window, learned from the tags by one of the methods.
    known = Known(described, known_tags(images.tags, config.unknown), description=photos.description)
    learned = METHODS[config.method](known, config, run)

    # 3. Extents: how far the objects of a class reach. The paper's boxes are windows.
    if config.keeps_maps:
        learned = replace(learned, findings=run(fit_extents, learned.findings, learned.known.described))

    # 4. What a person has said of the boxes counts as truth.
    files, tags = PhotoFiles(images.paths, hashes), known.tags
    corrections = None if state is None else collect(state, images, hashes)
    if corrections is not None:
        tags = known_tags(corrections.tags, config.unknown)
        learned = _correct(learned, files, corrections, config, run)

    # 5. A network that learns from these boxes, and finds others in new photos by one look at each.
    network = None
    if config.method == "two_stream" and config.detect.by == "network":
        suppression = config.detect.iou_threshold, config.detect.vote_iou
        given = learned, images.classes, config.detector, suppression, corrections
        network = learn_network(run, files, *given)

    # 6. All that it takes to find the same objects in new photos.
    found_by = replace(config.detect, by="windows" if network is None else "network")
    scorer, found = learned.scorer, learned.findings
    parts = images.classes, photos.description, scorer, found.calibration, found_by, found.growth, network
    return Outcome(images, hashes, look, known, tags, learned, Detector(*parts))


def with_positives(images: ImageSet, config: Config) -> ImageSet:
    """The images with the classes that some image has; refused where there is none."""
    positive = (known_tags(images.tags, config.unknown) == 1).any(axis=0)
    kept = [name for name, has_any in zip(images.classes, positive, strict=True) if has_any]
    if not kept:
        names = " or ".join(images.classes) or "any class"
        raise InputError(f"no image is tagged with {names}: there is nothing to learn from")
    return images.only(kept)


def description_settings(config: Config) -> DescriptionConfig:
    """How photos are described, with what "auto" means for this network and machine."""
    return resolve(config.windows, config.features, config.maps if config.keeps_maps else None)


def _usable(images: ImageSet, look: Look, on_error: str) -> tuple[ImageSet, list[int]]:
    """The photos that can be decoded, and their places among all."""
    kept = usable(images, look, on_error)
    place = {name: i for i, name in enumerate(images.ids)}
    return kept, [place[name] for name in kept.ids]


def _correct(
    learned: Learned, photos: PhotoFiles, corrections: Corrections, config: Config, run: Run
) -> Learned:
    """Two streams and the SVM of every class anew, with the boxes that a person accepted or rejected."""
    judged = run(describe_boxes, photos, corrections.image, corrections.xyxy, learned.known.description)
    known = replace(corrections, tags=known_tags(corrections.tags, config.unknown))
    settings = config.retrain, config.two_stream, config.retrain.vote_iou
    corrected = run(learn_corrected, judged, known, learned, *settings)
    scorer = replace(learned.scorer, weights=corrected.weights, two_stream=corrected.two_stream)
    return replace(learned, scorer=scorer, findings=corrected.findings)


@dataclass(frozen=True)
class PhotoBoxes:
    """What the detector finds in one photo."""

    detections: Detections

    def to_rows(self) -> dict[str, NDArray[np.generic]]:
        """The arrays to store."""
        rows = {name: np.asarray(getattr(self.detections, name)) for name in ("xyxy", "score", "label")}
        return {**rows, "counts": np.array([len(self.detections)])}


def detect(
    detector: Detector, key: str, images: ImageSet, run: Run, on_error: str = "skip"
) -> tuple[Detections, ImageSet, tuple[str, ...], Look]:
    """What the detector finds in `images`: its boxes, the photos that can be decoded, their hashes, a look.

    key: by which the detector is known.
    """
    store = run.photos("detections", VERSION, key)
    job = partial(_detect, detector)
    facts = make_of_each(images.paths, job, store, run, label="detections", known={})
    look = look_from(images, facts)
    images, rows = _usable(images, look, on_error)
    hashes = tuple(facts[i].sha256 for i in rows)
    found = stored_detections(store.load(hashes), images.ids, detector.classes)
    return found, images, hashes, look


def _detect(detector: Detector, photo: Photo) -> PhotoBoxes:
    return PhotoBoxes(detector.detect(photo))


def stored_detections(rows: StoredRows, ids: tuple[str, ...], classes: tuple[str, ...]) -> Detections:
    """The detections of photos, from what is stored of each."""
    counts = np.asarray(rows["counts"])
    xyxy, score, label = (np.array(rows[name]) for name in ("xyxy", "score", "label"))
    return Detections(np.repeat(np.arange(len(counts)), counts), xyxy, score, label, ids, classes)
