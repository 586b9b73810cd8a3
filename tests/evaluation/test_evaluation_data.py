"""Evaluation and the VOC reader on real photos: figures that are known from elsewhere."""

import numpy as np
import pytest

from tag2box.data.reading import read_images
from tag2box.detection.detections import Detections
from tag2box.evaluation.scores import corloc, evaluate

pytestmark = pytest.mark.data


def mined_windows(folder, images):
    """The windows that the authors' own run mined (1-based inclusive), in order of selection."""
    place = {name: i for i, name in enumerate(images.ids)}
    rows = []
    for label, name in enumerate(images.classes):
        lines = (folder / f"saved_foreground_coords_{name}.txt").read_text().splitlines()[1:]
        for order, (image, *box) in enumerate(line.split() for line in lines):
            if image in place:
                x1, y1, x2, y2 = map(float, box)
                rows.append((place[image], (x1 - 1, y1 - 1, x2, y2), -order, label))
    image, xyxy, score, label = zip(*rows, strict=True)
    return Detections(image, xyxy, score, label, ids=images.ids, classes=images.classes)


def test_corloc_of_the_authors_windows(voc_folder, song_folder):
    images = read_images(voc_folder, split="trainval")
    result = corloc(mined_windows(song_folder, images), images)
    assert result.mean == pytest.approx(0.383, abs=5e-4)
    assert images.classes == ("aeroplane", "bicycle", "boat", "bus", "horse", "motorbike")
    np.testing.assert_allclose(result.share, [0.29, 0.54, 0.08, 0.43, 0.38, 0.58], atol=0.006)


@pytest.mark.parametrize("split", ["trainval", "test"])
def test_the_truth_scores_one_against_itself(voc_folder, split):
    images = read_images(voc_folder, split=split)
    truth = images.truth
    detections = Detections(truth.image, truth.xyxy, np.zeros(len(truth.image)), truth.label, images.ids)
    for metric in ("voc07", "voc10", "coco"):
        np.testing.assert_allclose(evaluate(detections, images, metric).ap, 1, atol=1e-12)
    assert corloc(detections, images).mean == 1
    # Tags and boxes tell the same: +1 where an object is there that is not difficult.
    expected = [(tags == 1).sum() for tags in images.tags.T]
    assert corloc(detections, images).n_images.tolist() == expected
    assert corloc(detections, truth).n_images.tolist() == expected
