"""The page to read first: image tags in, a detector out, in four steps.

Each stage is loaded from the run folder, or computed and saved there (`run`): a second run computes nothing,
one that was killed goes on where it stopped, and a changed setting costs only what depends on it.
"""

from dataclasses import replace

from tag2box.config import Config
from tag2box.corrections.record import Corrections
from tag2box.description.describe import has_early
from tag2box.description.description import fit_description
from tag2box.description.photos import (
    Photos,
    describe_boxes,
    describe_photos,
    draw_photos,
    hash_photos,
    sample_photos,
)
from tag2box.description.resolving import DescriptionConfig, resolve
from tag2box.detection.detections import Detections
from tag2box.detection.detector import Detector, detect_photos
from tag2box.detector.learning import learn_network
from tag2box.images import ImageSet, known_tags
from tag2box.methods import METHODS
from tag2box.runtime.stages import Run
from tag2box.training.corrected import learn_corrected
from tag2box.training.details import choose_details
from tag2box.training.extents import fit_extents
from tag2box.training.known import Known
from tag2box.training.learned import Learned
from tag2box.training.tag_scores import judge_tags


def learn(
    images: ImageSet, photos: Photos, config: Config, run: Run, corrections: Corrections | None = None
) -> Detector:
    """Image tags in, a detector out; with `corrections`, what a person has said of it counts too.

    photos: those of `images`, by what is in their files (`hash_photos`).
    """
    images = replace(images, truth=None)  # nobody below can look
    tags = known_tags(images.tags, config.unknown)

    # 1. How photos are described: by which windows and network, and a projection that a sample gives.
    settings = description_settings(config)
    drawn = draw_photos(photos, settings)
    sample = run.later(sample_photos, drawn, settings)
    description = replace(run(fit_description, sample, settings), settings=settings)  # its network may move
    if config.maps.details != "never" and has_early(settings):
        place = {name: i for i, name in enumerate(photos.hashes)}
        of_sample = tags[[place[name] for name in drawn.hashes]]
        chosen = run(choose_details, sample, of_sample, description, config.maps.details)
        description = replace(description, details=chosen.details)

    # 2. Every photo: decoded once, its windows found, its layers run once.
    described = run.per_photo(describe_photos, photos, description, sample)
    run.drop(sample)

    if described.maps is not None:
        run(
            judge_tags,
            described,
            tags if corrections is None else known_tags(corrections.tags, config.unknown),
        )

    # 3. What scores a window, learned from the tags by one of the methods, and from corrections.
    learned = METHODS[config.method](Known(described, tags), config, run)
    if config.keeps_maps:  # the paper's boxes are windows
        learned = replace(learned, findings=run(fit_extents, photos, learned.findings, described))
    if corrections is not None:
        judged = run(describe_boxes, photos, corrections.image, corrections.xyxy, description)
        learned = _corrected(learned, judged, corrections, config, run)

    # 4. A network that learns from these boxes, and finds others in new photos by one look at each.
    network = None
    if config.method == "two_stream" and config.detect.by == "network":
        suppression = config.detect.iou_threshold, config.detect.vote_iou
        known = learned, images.classes, config.detector, suppression, corrections
        network = learn_network(run, photos, *known)

    # 5. All that it takes to find the same objects in new photos.
    found_by = replace(config.detect, by="windows" if network is None else "network")
    calibration, growth = learned.findings.calibration, learned.findings.growth
    return Detector(images.classes, description, learned.scorer, calibration, found_by, growth, network)


def description_settings(config: Config) -> DescriptionConfig:
    """How photos are described, with what "auto" means for this network and machine."""
    return resolve(config.windows, config.features, config.maps if config.keeps_maps else None)


def _corrected(
    learned: Learned, judged: object, corrections: Corrections, config: Config, run: Run
) -> Learned:
    """Two streams and the SVM of every class anew, with the boxes that a person accepted or rejected."""
    known = replace(corrections, tags=known_tags(corrections.tags, config.unknown))
    settings = config.retrain, config.two_stream, config.retrain.vote_iou
    corrected = run(learn_corrected, judged, known, learned, *settings)
    scorer = replace(learned.scorer, weights=corrected.weights, two_stream=corrected.two_stream)
    return replace(learned, scorer=scorer, findings=corrected.findings)


def detect(detector: Detector, images: ImageSet, run: Run) -> Detections:
    """What the detector finds in `images`: they are described, their windows scored, and some selected."""
    photos: Photos = hash_photos(images, progress=run.progress)
    return replace(run.per_photo(detect_photos, photos, detector), ids=images.ids)
