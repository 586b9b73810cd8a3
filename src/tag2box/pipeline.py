"""The one page: every stage of the paper, called in order. Tags in, boxes and a detector out.

Each stage is loaded from the run folder, or computed and saved there: a second run computes nothing, one
that was killed goes on where it stopped, and a changed setting costs only what depends on it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tag2box.corrections.record import Corrections
from tag2box.cover.config import known_tags
from tag2box.cover.degrees import Degrees
from tag2box.cover.greedy import Cover
from tag2box.cover.sample import Sample, draw_sample
from tag2box.cover.stage import find_covers
from tag2box.detection.detections import Detections
from tag2box.detection.detector import Detector, detect_images
from tag2box.features.automatic import cut_of, network_of
from tag2box.features.backbone import load_network
from tag2box.features.extract import find_projection
from tag2box.features.networks.content import network_hash
from tag2box.images import ImageSet
from tag2box.maps.context import finer_side, fit_context
from tag2box.maps.photo_maps import check_maps
from tag2box.runtime.progress import Progress
from tag2box.runtime.runner import Part, Runner
from tag2box.sharded import (
    Description,
    Known,
    count_all_neighbors,
    find_all_competition,
    find_all_features,
    find_all_objectness,
    find_all_windows,
    find_maps,
)
from tag2box.stages import Config, retrains, scores_by_maps, uses_maps
from tag2box.training.corrected import learn_corrected
from tag2box.training.findings import ByPhoto, Refined
from tag2box.training.initial import train_initial
from tag2box.training.judged import judged_vectors
from tag2box.training.refinement import refine
from tag2box.training.retraining import find_boxes, findings, retrain, score_all
from tag2box.training.scorer import Scorer
from tag2box.training.scoring import Weights
from tag2box.training.two_stream import train_two_stream

__all__ = [
    "Config",
    "detect",
    "learn",
    "learn_again",
    "learn_as_the_paper",
    "learn_by_two_streams",
]


def learn(
    images: ImageSet, config: Config, runner: Runner, corrections: Corrections | None = None
) -> Detector:
    """Image tags in, a detector out; with `corrections`, what a person has said of it counts too."""
    images = replace(images, truth=None)  # nobody below can look
    tags = known_tags(images.tags, config.cover.unknown)
    if uses_maps(config):
        check_maps(config.features)

    # 1. Windows: where an object might be.
    windows = find_all_windows(images, config, runner)

    # 2. Maps: what the network's last map says of each photo.
    maps = find_maps(images, windows, config, runner) if uses_maps(config) else None

    # 3. Features: what each window looks like, alone and in its photo.
    projection = runner.result(
        "projection",
        lambda: find_projection(
            images, windows, config.features, maps=maps, workers=runner.workers, progress=runner.progress
        ),
    )
    context = None
    if maps and config.maps.context:
        finer = finer_side(config.maps, load_network(config.features.network))
        context = runner.result("context", lambda: fit_context(maps, config.maps, finer))
    how = Description(projection, context, maps)
    features = find_all_features(images, windows, how, config, runner)

    # 4. to 8. What scores a window: as the paper learns it, or by two streams that compete.
    known = Known(windows, features, tags, maps)
    way = learn_by_two_streams if retrains(config) else learn_as_the_paper
    learned = way(known, config, runner)

    # Corrections: what a person said of the boxes found, where anybody did.
    if corrections is not None:
        found = learn_again(images, corrections, known, learned, how, config, runner)
        learned = replace(learned, found=found)

    return _as_detector(images.classes, config, how, learned.found, learned.scorer)


def _as_detector(
    classes: tuple[str, ...], config: Config, how: Description, found: Refined, scorer: Scorer
) -> Detector:
    """All that was learned, as one record."""
    return Detector(
        classes=classes,
        windows=config.windows,
        features=replace(config.features, cut=cut_of(config.features)),  # whatever the default will be
        projection=how.projection,
        network=network_hash(network_of(config.features)),
        W=found.W,
        b=found.b,
        calibration=found.calibration,
        reliability=found.reliability,
        maps=config.maps,
        context=how.context,
        objectness_weight=scorer.objectness_weight,
        streams_weight=scorer.streams_weight,
        tag_weight=scorer.tag_weight,
        object_maps=scorer.object_maps,
        two_stream=scorer.two_stream,
        activations=scorer.activations,
        detect_config=config.detect,
        trace=found.trace,
    )


@dataclass(frozen=True)
class Learned:
    """What was learned, how windows are scored by it, and their objectness where settings ask for it."""

    found: Refined
    scorer: Scorer
    objectness: NDArray[np.float32] | None


def learn_as_the_paper(known: Known, config: Config, runner: Runner) -> Learned:
    """Cover, SVM, latent SVM; with our object maps, where settings ask for them."""
    windows, features, tags, maps = known.windows, known.features, known.tags, known.maps
    progress = runner.progress
    measured = find_all_objectness(known, config, runner) if maps and scores_by_maps(config) else None
    objectness = measured.objectness if measured else None

    # 5. Neighbors: how many of the images nearest to each window are positive; of many images, in a sample.
    some = draw_sample(windows, features, tags, config.cover)
    degrees = count_all_neighbors(some.features, some.tags, config, runner)

    # 6. Cover: few windows whose neighbors reach nearly every positive image.
    covers = find_all_covers(some, degrees, objectness, config, runner)

    # 7. Initial detector: a linear SVM on the covered windows, with hard negatives.
    initial = runner.result(
        "initial",
        lambda: train_initial(
            windows, features, tags, covers, config.initial, workers=runner.workers, progress=progress
        ),
    )

    # 8. Refinement: a latent SVM with a smoothed maximum, from there.
    refined = runner.result(
        "refine",
        lambda: refine(
            windows,
            features,
            tags,
            initial,
            config.refine,
            objectness=objectness,
            vote_iou=config.detect.vote_iou,
            progress=progress,
        ),
    )
    scorer = Scorer(
        refined,
        objectness_weight=config.refine.objectness_weight,
        ring=config.maps.ring,
        object_maps=measured.maps if measured else None,
    )
    return Learned(refined, scorer, objectness)


def find_all_covers(
    some: Sample, degrees: Degrees, objectness: NDArray[np.float32] | None, config: Config, runner: Runner
) -> tuple[Cover, ...]:
    """6. The cover of each class in the sample, with rows and images of all."""

    def cover() -> tuple[Cover, ...]:
        found = find_covers(
            some.windows,
            some.features,
            some.tags,
            degrees,
            config.cover,
            objectness=None if objectness is None else some.taken(objectness),
            workers=runner.workers,
            progress=runner.progress,
        )
        return tuple(some.found(each) for each in found)

    return runner.result("cover", cover)


def learn_by_two_streams(known: Known, config: Config, runner: Runner) -> Learned:
    """Maps that compete, a head of two streams, and an SVM on the boxes that they find. Beyond the paper."""
    windows, features, tags, maps = known.windows, known.features, known.tags, known.maps
    assert maps is not None  # `uses_maps` said so

    # 5. Competition: the tags of a photo share its object maps.
    alone = find_all_objectness(known, config, runner)
    competition = find_all_competition(known, alone, config, runner)
    objectness = competition.objectness

    # 6. Two streams: what is in a window, and which window of its photo it is.
    two_stream = runner.result(
        "two_stream",
        lambda: train_two_stream(
            features, tags, objectness, config.two_stream, workers=runner.workers, progress=runner.progress
        ),
    )

    # 7. Retraining: an SVM on the boxes found, with the windows near them as negatives.
    def train() -> Weights:
        boxes = find_boxes(windows, features, tags, objectness, two_stream, workers=runner.workers)
        how = config.retrain
        return retrain(windows, features, tags, boxes, how, workers=runner.workers, progress=runner.progress)

    weights = runner.result("retrain", train)
    scorer = Scorer(
        weights,
        objectness_weight=config.retrain.objectness_weight,
        streams_weight=config.two_stream.weight,
        tag_weight=config.retrain.tag_weight,
        ring=config.maps.ring,
        object_maps=alone.maps,
        two_stream=two_stream,
        activations=competition.activations,
    )

    # 8. Findings: what all of it together says of the photos learned from.
    found = runner.result(
        "findings",
        lambda: findings(
            scorer,
            windows,
            features,
            tags,
            maps,
            objectness,
            config.detect.vote_iou,
            workers=runner.workers,
        ),
    )
    return Learned(found, scorer, objectness)


def learn_again(
    images: ImageSet,
    corrections: Corrections,
    known: Known,
    learned: Learned,
    how: Description,
    config: Config,
    runner: Runner,
) -> Refined:
    """The SVM of every class anew, with the boxes that a person accepted or rejected."""
    windows, features, maps = known.windows, known.features, known.maps
    said = replace(corrections, tags=known_tags(corrections.tags, config.cover.unknown))

    def score(weights: Weights) -> ByPhoto:
        scorer = replace(learned.scorer, weights=weights)
        return score_all(scorer, windows, features, maps, learned.objectness)

    judged = runner.result(
        "judged", lambda: _describe_judged(images, corrections, known, how, config, runner)
    )
    return runner.result(
        "corrected",
        lambda: learn_corrected(
            windows,
            features,
            judged,
            said,
            learned.found,
            score,
            config.retrain,
            vote_iou=config.detect.vote_iou,
            workers=runner.workers,
            progress=runner.progress,
        ),
    )


def _describe_judged(
    images: ImageSet,
    corrections: Corrections,
    known: Known,
    how: Description,
    config: Config,
    runner: Runner,
) -> NDArray[np.floating]:
    """The vectors of the judged boxes themselves, as windows have them."""
    return judged_vectors(
        images,
        corrections,
        known.windows,
        known.maps,
        how.projection,
        how.context,
        config.features,
        workers=runner.workers,
        progress=runner.progress,
    )


def detect(detector: Detector, images: ImageSet, runner: Runner) -> Detections:
    """9. Detections: what the detector finds in `images`."""

    def part(a: int, z: int) -> Part[Detections]:
        return partial(_detect, detector, images[a:z], a)

    def joined(parts: Sequence[Detections]) -> Detections:
        return Detections.concatenate(parts, ids=images.ids)

    return runner.in_shards("detections", len(images), part, joined)


def _detect(
    detector: Detector, images: ImageSet, first: int, workers: int | None, progress: Progress
) -> Detections:
    found = detect_images(detector, images, workers=workers, progress=progress)
    return replace(found, image=found.image + first)
