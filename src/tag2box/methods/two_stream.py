"""Two streams: object maps, a head in which classes compete for a window and windows for a class, and an SVM.

Beyond the paper; after Bilen and Vedaldi 2016, with a frozen network. `training/two_stream.py` has the head.
"""

from dataclasses import replace

from tag2box.config import Config
from tag2box.runtime.stages import Run
from tag2box.training.activations import fit_activations
from tag2box.training.competition import compete
from tag2box.training.details import add_details
from tag2box.training.findings import find_best
from tag2box.training.folds import find_anew
from tag2box.training.known import Known
from tag2box.training.learned import Learned
from tag2box.training.object_maps import fit_object_maps, measure_all
from tag2box.training.prior import choose_prior
from tag2box.training.retraining import find_boxes, retrain
from tag2box.training.scorer import Scorer
from tag2box.training.scoring import Weights
from tag2box.training.two_stream import train_two_stream


def two_stream(known: Known, config: Config, run: Run) -> Learned:
    """Maps that compete, a head of two streams, and an SVM on the boxes that they find."""
    # 0. Where objects are small, fine cells say where they are, and there are windows around them.
    known, details = add_details(known, config.maps, run)
    described, tags, maps = known.described, known.tags, config.maps

    # 1. Object maps: where the network's last map shows what the photos of a class share, and others lack.
    activations = run(fit_activations, described, tags)
    object_maps = run(fit_object_maps, described, tags, activations, maps.components)
    alone = run.per_photo(measure_all, described, object_maps, maps.ring)

    # 2. Competition: the tags of a photo share its object maps among them.
    objectness = run.per_photo(compete, (described, alone, tags), object_maps, activations, maps.ring)
    known = replace(known, objectness=objectness)

    # 3. The prior: how much the object maps are to be trusted, where that is left to the tags.
    settings = config.two_stream
    if settings.prior == "auto":
        settings = replace(settings, prior=run(choose_prior, known, settings).prior)

    # 4. Two streams: what is in a window, and which window of its photo it is.
    head = run(train_two_stream, known, settings)

    # 5. What adds to the score of an SVM, and the boxes found anew by SVMs that have not seen their photo.
    scorer = Scorer(
        Weights.none(*head.W.shape),
        objectness_weight=_objectness_weight(config, head.prior),
        streams_weight=config.two_stream.weight,
        tag_weight=config.retrain.tag_weight,
        ring=maps.ring,
        object_maps=object_maps,
        two_stream=head,
        activations=activations,
        details=details,
    )
    found = run(find_anew, known, run(find_boxes, known, head), scorer, config.retrain)

    # 6. Retraining: an SVM on these boxes, with the windows near them as negatives.
    scorer = replace(scorer, weights=run(retrain, known, found, config.retrain))
    findings = run(find_best, scorer, known, config.retrain.vote_iou, found.unseen)
    return Learned(scorer, findings, known)


def _objectness_weight(config: Config, prior: float) -> float:
    """What objectness adds to a score: as set, or a tenth of the prior (on VOC 0.5 was best beside 5)."""
    weight = config.retrain.objectness_weight
    return prior / 10 if isinstance(weight, str) else weight
