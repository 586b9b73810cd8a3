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

from benchmarks import Line, Skip
from tag2box import corloc, evaluate, read_images
from tag2box.boxes import iou_matrix
from tag2box.corrections import Corrections
from tag2box.description.photos import PhotoFiles, describe_boxes
from tag2box.detection.detections import Detections
from tag2box.images import known_tags
from tag2box.reproduce.voc_tables import describe_test, detect_described
from tag2box.review.figures import mixed, random_order
from tag2box.review.teaching import make_order
from tag2box.run.annotations import sorted_boxes
from tag2box.run.folder import RunFolder
from tag2box.runtime.progress import silent
from tag2box.training.corrected import SURE, _Stacked, label_judged, learn_corrected
from tag2box.training.initial import train_svms
from tag2box.training.known import Known
from tag2box.training.learned import Learned
from tag2box.training.retraining import Found

SHARES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.5)
RIGHT = 0.5


class Trial:
    """A run, its true boxes, and what learning with corrections needs of it."""

    def __init__(self, folder, data):
        self.run = RunFolder(folder)
        truth = read_images(data, split="trainval").only(self.run.images.classes)
        place = {name: i for i, name in enumerate(truth.ids)}
        self.truth = truth.take([place[name] for name in self.run.images.ids])
        self.described, self.windows = self.run.result("described"), self.run.result("described").windows
        tags = known_tags(self.run.images.tags, self.run.config.unknown)
        objectness = self.run.result("competition") if "competition" in self.run.keys else None
        known = Known(self.described, tags, objectness)
        self.learned = Learned(self.run.detector.scorer, self.run.findings, known)
        self.photos = PhotoFiles(self.run.images.paths, self.run.contents)
        self.found = sorted_boxes(self.run)
        fixed = random_order(np.unique(self.found.image), "5eed5eed")
        self.orders = {"ours": mixed(make_order(self.run).order, fixed)[0], "random": fixed}

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
        config, description = self.run.config, self.run.detector.description
        judged = describe_boxes(self.photos, corrections.image, corrections.xyxy, description, workers=2)
        settings = config.retrain, config.two_stream, config.retrain.vote_iou
        return learn_corrected(judged, corrections, self.learned, *settings, workers=2), judged

    def boxes_alone(self, corrections, judged):
        """The rival: an SVM on the reviewed photos, and on nothing else."""
        alone = replace(
            corrections, tags=np.where(corrections.reviewed[:, None], corrections.tags, 0).astype(np.int8)
        )
        nothing = Found.windows(self.windows, [np.empty(0, np.int64)] * len(self.run.images.classes))
        both = _Stacked(self.described.X, judged)
        config = self.run.config.retrain
        svm = replace(config.svm, C=SURE * config.C)  # as boldly as we do
        return train_svms(both, *label_judged(self.windows, alone, nothing, config), svm)

    def corloc_of_rest(self, findings, reviewed):
        """CorLoc of the boxes that were found in the photos that nobody reviewed."""
        rest = np.flatnonzero(~reviewed)
        place = np.full(len(self.truth), -1)
        place[rest] = np.arange(len(rest))
        image = place[self.windows.image_of(np.concatenate(findings.rows))]
        label = np.repeat(np.arange(len(findings.rows)), [len(rows) for rows in findings.rows])
        boxes, scores = np.concatenate(findings.boxes), np.concatenate(findings.scores)
        names = tuple(self.truth.ids[i] for i in rest), self.truth.classes
        left = image >= 0
        boxes = Detections(image[left], boxes[left], scores[left], label[left], *names)
        return corloc(boxes, self.truth.take(rest)).mean


class Test:
    """Test photos, described once."""

    def __init__(self, run, data, folder):
        self.detector = run.detector
        self.photos = read_images(data, split="test").only(run.images.classes)
        self.described = describe_test(self.photos, run, Path(folder), 2, silent)

    def mean_ap(self, scorer):
        """By margins, as the tables rank boxes."""
        detections = detect_described(replace(self.detector, scorer=scorer), self.photos, self.described)
        return evaluate(detections, self.photos).mean


def rows(trial, test=None, shares=SHARES):
    """(order, share, clicks, seconds, CorLoc of the rest before and after, mAP, mAP of the boxes alone)."""
    for share in shares:
        for order, sequence in trial.orders.items():
            chosen = np.sort(sequence[: round(share * len(sequence))])
            corrections = trial.corrections(chosen)
            start = time.monotonic()
            scorer, judged = trial.learned.scorer, None
            before = after = trial.learned.findings
            if len(chosen):
                corrected, judged = trial.learn(corrections)
                scorer = replace(scorer, weights=corrected.weights, two_stream=corrected.two_stream)
                after = corrected.findings
            seconds = time.monotonic() - start
            was, now = (trial.corloc_of_rest(each, corrections.reviewed) for each in (before, after))
            scores = [np.nan, np.nan]
            if test is not None:
                scores[0] = test.mean_ap(scorer)
                if len(chosen):
                    alone = trial.boxes_alone(corrections, judged)
                    scores[1] = test.mean_ap(replace(trial.learned.scorer, weights=alone))
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
        after = trial.learn(corrections)[0].findings
        seconds[order] = time.monotonic() - start
        both = trial.learned.findings, after
        was, now = (trial.corloc_of_rest(each, corrections.reviewed) for each in both)
        gain[order] = 100 * (now - was)
    quality = f"CorLoc of the rest {gain['ours']:+.1f}, in random order {gain['random']:+.1f} points"
    yield Line("learn again, 10 % reviewed", seconds["ours"], seconds["random"], "s", "random order", quality)


if __name__ == "__main__":
    one = Trial(os.environ["TAG2BOX_RUN"], sys.argv[1])
    test = Test(one.run, *sys.argv[1:3]) if len(sys.argv) > 2 else None
    print("order   share  clicks  seconds  CorLoc of the rest, before  after   mAP   boxes alone")
    for row in rows(one, test, [*map(float, sys.argv[3:])] or SHARES):
        print("{:7} {:4.0%} {:7d} {:8.1f} {:26.3f} {:6.3f} {:6.3f} {:6.3f}".format(*row), flush=True)
