"""A photo through a `Convnet`: with arrays, as the oracle of its graph; and through the graph itself."""

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from tag2box.boxes import nms
from tag2box.data.decoding import READING_SIDE, Source, read_small
from tag2box.detector.graph import detector_graph
from tag2box.detector.looks import extent, first_look, moved, proposals, second_look
from tag2box.detector.record import LEAST, Convnet
from tag2box.detector.trunk import Sizes, Weights, trunk

Floats = NDArray[np.float32]
# Boxes (n, 4), their scores and labels.
Boxes = tuple[Floats, NDArray[np.float64], NDArray[np.intp]]

# A probability is no nearer to 0 and 1 than this.
NEAREST = 1e-6


def regions_of(maps: Floats, sizes: Sizes, weights: Weights, n_classes: int) -> tuple[Floats, Floats]:
    """The boxes (n, 4) of one photo's regions in pixels of its first view, and logits of their probabilities.

    maps: at the cut.
    """
    maps, sizes, _ = trunk(maps, sizes, weights)
    boxes = proposals(first_look(maps, sizes, weights)[0], sizes, n_classes)[1]
    said = second_look(maps, sizes, boxes, weights)[0]
    p = np.clip(softmax(said[:, : n_classes + 1], axis=1)[:, :n_classes], NEAREST, 1 - NEAREST)
    return moved(boxes, said[:, n_classes + 1 :], extent(sizes)), np.log(p) - np.log(1 - p)


def boxes_of(maps: Floats, sizes: Sizes, net: Convnet, overlap: float, most: int) -> Boxes:
    """The boxes of one photo in pixels of its first view, best first."""
    regions, logits = regions_of(maps, sizes, net.weights, len(net.classes))
    sure = expit(net.curves[:, 0] * logits + net.curves[:, 1])
    kept = [nms(regions, sure[:, c], overlap)[:most] for c in range(sure.shape[1])]
    label = np.repeat(np.arange(len(kept)), [len(rows) for rows in kept])
    row = np.concatenate(kept)
    order = np.argsort(-sure[row, label], kind="stable")
    order = order[sure[row, label][order] > LEAST]
    return regions[row[order]], sure[row, label][order], label[order]


def photo_boxes(net: Convnet, source: Source, overlap: float, most: int, *, threads: int = 1) -> Boxes:
    """The boxes of one photo in its own pixels, best first, by the graph."""
    photo, size = read_small(source, READING_SIDE)
    result = _compiled(net, overlap, most, threads)(photo)
    boxes, score, label = (np.array(result[k]) for k in range(3))
    h, w = photo.shape[:2]
    stretch = np.tile(np.array([size[0] / w, size[1] / h], np.float32), 2)
    return boxes * stretch, score.astype(np.float64), label.astype(np.intp)


@lru_cache(maxsize=2)
def _compiled(net: Convnet, overlap: float, most: int, threads: int) -> Any:
    from tag2box.networks.openvino_engine import compiled_graph

    return compiled_graph(detector_graph(net, overlap, most), threads)
