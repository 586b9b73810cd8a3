"""What corrections are worth: a simulated reviewer with the true boxes, in our order and in a random one.

    TAG2BOX_RUN=runs/voc20 python -m benchmarks.review VOC2007 [FOLDER [SHARE...]]

TAG2BOX_RUN: the folder of a finished `tag2box run VOC2007 --split trainval`; nothing is written in it. Of the
positive photos 0, 2, 5, 10, 20 and 50 % are reviewed as a whole: found boxes that overlap a true one by 0.5
are accepted, others rejected, what is missing is drawn. CorLoc is that of the photos nobody reviewed, mAP
that of the test photos, which are described once in FOLDER, as `tag2box reproduce` does. A click is a judged
or a drawn box. The rival is the SVM of as many boxes alone: the reviewed photos as positives and negatives,
and no tags of the others.
"""

import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from tag2box.sharded import Known
from tag2box.training.judged import judged_vectors

from benchmarks import Line, Skip
from tag2box import corloc, evaluate, read_images
from tag2box.boxes import iou_matrix
from tag2box.config import retrains, uses_maps
from tag2box.corrections import Corrections
from tag2box.cover.config import known_tags
from tag2box.description.record import Features
from tag2box.detection.detections import Detections
from tag2box.pipeline import learn_as_the_paper, learn_by_two_streams
from tag2box.reproduce.voc_tables import describe_test
from tag2box.review.found import find_boxes
from tag2box.review.sampling import mixed, random_order
from tag2box.run.folder import RunFolder
from tag2box.runtime.progress import silent
from tag2box.runtime.stages import Runner
from tag2box.training.corrected import SURE, _Stacked, label_judged, learn_corrected
from tag2box.training.initial import train_svms
from tag2box.training.retraining import score_all
from tag2box.training.scoring import score_windows

SHARES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.5)
RIGHT = 0.5


class Trial:
    """A run, its true boxes, and what learning with corrections needs of it."""

    def __init__(self, folder, data):
        self.run = RunFolder(folder)
        truth = read_images(data, split="trainval").only(self.run.images.classes)
        place = {name: i for i, name in enumerate(truth.ids)}
        self.truth = truth.take([place[name] for name in self.run.images.ids])
        work = Runner(self.run.store, workers=2)
        work.keys, work.note = self.run.keys, lambda *_, **__: None  # everything is there, and stays as it is
        self.windows, self.features, self.projection = map(
            self.run.result, ("windows", "features", "projection")
        )
        config = self.run.config
        self.maps = self.run.result("maps") if uses_maps(config) else None
        self.context = self.run.result("context") if self.maps and config.maps.context else None
        tags = known_tags(self.run.images.tags, config.cover.unknown)
        known = Known(self.windows, self.features, tags, self.maps)
        way = learn_by_two_streams if retrains(config) else learn_as_the_paper
        self.learned = way(known, config, work)
        self.before = self.learned.found
        self.found = find_boxes(self.run)
        fixed = random_order(np.unique(self.found.image), "5eed5eed")
        self.orders = {"ours": mixed(self.found.order, fixed)[0], "random": fixed}

    def score(self, weights):
        scorer = replace(self.learned.scorer, weights=weights)
        return score_all(scorer, self.windows, self.features, self.maps, self.learned.objectness)

    def corrections(self, photos):
        """What a person who knows the true boxes says of these photos, and how many clicks it takes."""
        rows = []
        objects = self.truth.truth
        for i in photos:
            real = np.flatnonzero((objects.image == i) & ~objects.difficult)
            left = set(real.tolist())
            for n in np.flatnonzero(self.found.image == i):
                mine = [t for t in left if objects.label[t] == self.found.label[n]]
                overlap = iou_matrix(self.found.xyxy[[n]], objects.xyxy[mine])[0] if mine else np.empty(0)
                hit = len(mine) > 0 and overlap.max() >= RIGHT
                rows.append((i, self.found.xyxy[n], self.found.label[n], hit))
                if hit:
                    left.remove(mine[int(overlap.argmax())])
            rows += [(i, objects.xyxy[t], objects.label[t], True) for t in sorted(left)]
        reviewed = np.zeros(len(self.truth), np.bool_)
        reviewed[photos] = True
        tags = self.run.images.tags.copy()
        tags[photos] = -1
        for i, _, c, right in rows:
            if right:
                tags[i, c] = 1
        return Corrections(
            np.array([r[0] for r in rows], np.intp),
            np.array([r[1] for r in rows], np.float32).reshape(-1, 4),
            np.array([r[2] for r in rows], np.intp),
            np.array([r[3] for r in rows], np.bool_),
            reviewed,
            tags,
        )

    def learn(self, corrections):
        config = self.run.config
        judged = judged_vectors(
            self.run.images,
            corrections,
            self.windows,
            self.maps,
            self.projection,
            self.context,
            config.features,
            workers=2,
        )
        inputs = self.windows, self.features, judged, corrections, self.before, self.score, config.retrain
        return learn_corrected(*inputs, vote_iou=config.detect.vote_iou, workers=2), judged

    def boxes_alone(self, corrections, judged):
        """The rival: an SVM on the reviewed photos, and on nothing else."""
        alone = replace(
            corrections, tags=np.where(corrections.reviewed[:, None], corrections.tags, 0).astype(np.int8)
        )
        nothing = [np.empty(0, np.int64)] * len(self.run.images.classes)
        both = Features(_Stacked(self.features.X, judged), self.features.offsets)
        config = self.run.config.retrain
        svm = replace(config.svm, C=SURE * config.C)  # as boldly as we do
        return train_svms(both, *label_judged(self.windows, alone, nothing, config), svm)

    def corloc_of_rest(self, found, reviewed):
        """CorLoc of the boxes that were found in the photos that nobody reviewed."""
        rest = np.flatnonzero(~reviewed)
        place = np.full(len(self.truth), -1)
        place[rest] = np.arange(len(rest))
        image = place[self.windows.image_of(np.concatenate(found.mined))]
        label = np.repeat(np.arange(len(found.mined)), [len(rows) for rows in found.mined])
        boxes, scores = np.concatenate(found.boxes), np.concatenate(found.best)
        names = tuple(self.truth.ids[i] for i in rest), self.truth.classes
        mine = image >= 0
        boxes = Detections(image[mine], boxes[mine], scores[mine], label[mine], *names)
        return corloc(boxes, self.truth.take(rest)).mean


class Test:
    """Test photos, described once; what adds to W x + b does not change with corrections."""

    def __init__(self, run, data, folder):
        self.detector = run.detector
        self.photos = read_images(data, split="test").only(run.images.classes)
        self.windows, self.features, maps = describe_test(self.photos, run, Path(folder), 2, silent)
        scorer = self.detector.scorer
        self.beyond = [
            scorer.beyond(self.features.X[a:z], self.windows[i], self.windows.sizes[i], maps[i])
            for i, (a, z) in enumerate(self.windows.spans())
        ]

    def mean_ap(self, weights):
        """By margins, as the tables rank boxes."""
        how = replace(self.detector.detect_config, confidence=False, min_score=-np.inf)
        ranking = replace(self.detector, detect_config=how)
        scores = self.windows.by_image(score_windows(self.features.X, weights))
        parts = [
            replace(found, image=found.image + i)
            for i, (mine, more) in enumerate(zip(scores, self.beyond, strict=True))
            for found in [ranking.select(mine + more, self.windows.part(i, i + 1))]
        ]
        return evaluate(Detections.concatenate(parts, ids=self.photos.ids), self.photos).mean


def rows(trial, test=None, shares=SHARES):
    """(order, share, clicks, seconds, CorLoc of the rest before and after, mAP, mAP of the boxes alone)."""
    for share in shares:
        for order, sequence in trial.orders.items():
            chosen = np.sort(sequence[: round(share * len(sequence))])
            corrections = trial.corrections(chosen)
            start = time.monotonic()
            after, judged = trial.learn(corrections) if len(chosen) else (trial.before, None)
            seconds = time.monotonic() - start
            was, now = (trial.corloc_of_rest(each, corrections.reviewed) for each in (trial.before, after))
            scores = [np.nan, np.nan]
            if test is not None:
                scores[0] = test.mean_ap(after)
                if len(chosen):
                    scores[1] = test.mean_ap(trial.boxes_alone(corrections, judged))
            yield order, share, len(corrections), seconds, was, now, *scores


def run():
    """One line for `make bench`: a tenth of the photos, our order against a random one."""
    folder, data = os.environ.get("TAG2BOX_RUN"), os.environ.get("TAG2BOX_DATA", "../shared/data")
    if not folder:
        raise Skip("set TAG2BOX_RUN to a finished run over VOC 2007 trainval")
    trial = Trial(folder, f"{data}/voc20/VOC2007")
    gain, seconds = {}, {}
    for order, sequence in trial.orders.items():
        corrections = trial.corrections(np.sort(sequence[: len(sequence) // 10]))
        start = time.monotonic()
        after, _ = trial.learn(corrections)
        seconds[order] = time.monotonic() - start
        was, now = (trial.corloc_of_rest(each, corrections.reviewed) for each in (trial.before, after))
        gain[order] = 100 * (now - was)
    quality = f"CorLoc of the rest {gain['ours']:+.1f}, in random order {gain['random']:+.1f} points"
    yield Line("learn again, 10 % reviewed", seconds["ours"], seconds["random"], "s", "random order", quality)


if __name__ == "__main__":
    one = Trial(os.environ["TAG2BOX_RUN"], sys.argv[1])
    test = Test(one.run, *sys.argv[1:3]) if len(sys.argv) > 2 else None
    print("order   share  clicks  seconds  CorLoc of the rest, before  after   mAP   boxes alone")
    for row in rows(one, test, [*map(float, sys.argv[3:])] or SHARES):
        print("{:7} {:4.0%} {:7d} {:8.1f} {:26.3f} {:6.3f} {:6.3f} {:6.3f}".format(*row), flush=True)
