"""Song, Girshick, Jegelka, Mairal, Harchaoui and Darrell 2014, "On learning to localize objects with minimal
supervision": a discriminative submodular cover, an SVM, and a latent SVM whose maximum is smoothed.

Nothing here is ours but the code: `Config.song2014()` has the paper's settings.
"""

import numpy as np

from tag2box.config import Config
from tag2box.cover.compared import compare
from tag2box.cover.degrees import count_neighbors
from tag2box.cover.stage import find_covers
from tag2box.images import draw_images
from tag2box.runtime.stages import Run
from tag2box.training.findings import find_best
from tag2box.training.initial import train_initial
from tag2box.training.known import Known
from tag2box.training.learned import Learned
from tag2box.training.refinement import refine, score_unseen
from tag2box.training.scorer import Scorer


def song2014(known: Known, config: Config, run: Run) -> Learned:
    """Neighbors, cover, SVM, latent SVM."""
    described, tags, cover = known.described, known.tags, config.cover

    # 1. Neighbors: the nearest window in every image, and how many of the k nearest images are positive.
    drawn = draw_images(tags, cover.most_images)
    compared = run.per_photo(compare, (described, drawn), cover.dimensions, cover.seed_dimensions)
    degrees = run.per_photo(count_neighbors, np.arange(len(tags)), compared, tags, cover.k)

    # 2. Cover: few windows S whose neighbors reach nearly every positive image, F(S) >= alpha F(V).
    covers = run(find_covers, described.windows, compared, tags, degrees, cover)

    # 3. Initial detector: a linear SVM of the covered windows against the windows of negative images.
    initial = run(train_initial, known, covers, config.initial)

    # 4. Refinement: a latent SVM with a smoothed maximum, from there.
    weights = run(refine, known, initial, config.refine)
    scorer = Scorer(weights)

    # 5. Beyond the paper, for confidences: what both SVMs say of photos that they have not seen.
    unseen = None
    if config.detect.confidence:
        unseen = run(score_unseen, known, covers, config.initial, config.refine)
    return Learned(scorer, run(find_best, scorer, known, config.detect.vote_iou, unseen), known)
