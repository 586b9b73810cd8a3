"""The detector as one ONNX file: an image of any size in; boxes, scores and labels out.

Only operators of set 13 that onnxruntime, its form for browsers, and OpenVINO share. All that `trunk.py` and
`looks.py` do with arrays stands here as a graph, and a test compares them.
"""

import numpy as np
from numpy.typing import NDArray

from tag2box.detector.early import IMAGE, resized_views
from tag2box.detector.operators import Operators
from tag2box.detector.record import (
    AROUND,
    CELLS,
    CENTER_STEP,
    GRIDS,
    LARGEST_SIDE,
    LARGEST_STEP,
    LEAST,
    PROPOSALS,
    REACH,
    SAMPLES,
    SIZE_STEP,
    SIZES,
    THINNED,
    Convnet,
)
from tag2box.detector.trunk import LAYERS, NETWORK
from tag2box.networks.efficientnet import BATCH_NORM_EPS, VARIANTS, Builder, weights_file
from tag2box.networks.torch_reader import State, read_state_dict

Floats = NDArray[np.float32]


def detector_graph(net: Convnet, overlap: float, most: int, metadata: dict[str, str] | None = None) -> bytes:
    """The ONNX file of a detector. overlap, most: of the boxes that are left of a class."""
    op = Operators()
    size, resized, views = resized_views(op, net.side)
    maps = _learned_maps(op, net, views)
    logits, boxes = _first_look(op, net, maps, resized)
    row = _best(op, logits, boxes)
    boxes = op("Gather", boxes, row, axis=0)
    scores, boxes = _second_look(op, net, maps, boxes, resized)
    boxes = op("Mul", boxes, _corners(op, op("Div", size, resized)))
    _select(op, net, scores, boxes, overlap, most)
    outputs = {"boxes": ("n", 4), "scores": ("n",), "labels": ("n",)}
    types = {"image": "u1", "labels": "i8"}
    return op.graph.serialize("detector", {"image": IMAGE}, outputs, types=types, metadata=metadata)


def _learned_maps(op: Operators, net: Convnet, views: list[str]) -> list[str]:
    """The learned maps, (1, c, h, w)."""
    variant = VARIANTS[NETWORK]
    builder = Builder(read_state_dict(weights_file(NETWORK), variant.sha256) | _state(net), op.graph)
    kernel, bias = (op.constant(each) for each in (_kernel(net.weights["mapped.W"]), net.weights["mapped.b"]))
    out = []
    for i, view in enumerate(views):
        builder.prefix = f"view{i}."
        x = builder.convolution(builder.trunk(view, variant.strides), "_conv_head", "_bn1", "map")
        out.append(op("Conv", x, kernel, bias))
    return out


def _state(net: Convnet) -> State:
    """The weights that were learned, as the built-in network calls them; no normalization is left."""
    state: State = {}
    for name, (convolution, norm) in LAYERS.items():
        bias = net.weights[f"{name}.b"]
        state |= {f"{convolution}.weight": _kernel(net.weights[f"{name}.W"]), f"{norm}.bias": bias}
        state |= {f"{norm}.weight": np.ones_like(bias), f"{norm}.running_mean": np.zeros_like(bias)}
        state[f"{norm}.running_var"] = np.full(len(bias), 1 - BATCH_NORM_EPS)
    return state


def _kernel(W: Floats) -> Floats:
    """Weights (in, out) or (k, k, channels) as ONNX has them."""
    return W.transpose(2, 0, 1)[:, None] if W.ndim == 3 else W.T[..., None, None]


def _first_look(op: Operators, net: Convnet, maps: list[str], resized: str) -> tuple[str, str]:
    """What every cell says, slot by slot: logits (n, n_classes) and boxes (n, 4)."""
    n_classes = len(net.classes)
    W1, b1, W2, b2 = (net.weights[f"cells.{name}"] for name in ("0.W", "0.b", "1.W", "1.b"))
    kernel = op.constant(W1.reshape(3, 3, len(W1) // 9, -1).transpose(3, 2, 0, 1))
    second = op.constant(W2.T[:, :, None, None])
    parts = []
    for m, cell in zip(maps, CELLS, strict=True):
        x = op("Relu", op("Conv", m, kernel, b1, pads=(1, 1, 1, 1), kernel_shape=(3, 3)))
        x = op("Transpose", op("Conv", x, second, b2), perm=(0, 2, 3, 1))
        x = op("Reshape", x, [-1, len(SIZES), n_classes + 4])  # (cells, slots, logits and sides)
        sides = op("Clip", op.cut(x, n_classes, n_classes + 4, 2), -LARGEST_SIDE, LARGEST_SIDE)
        length = np.array(SIZES, np.float32)[:, None] * (cell / CELLS[0] / 2)
        sides = op("Mul", op("Exp", sides), length.astype(np.float32))
        at = op("Unsqueeze", _centers(op, resized, cell), [1])
        start, end = op("Sub", at, op.cut(sides, 0, 2, 2)), op("Add", at, op.cut(sides, 2, 4, 2))
        boxes = op("Reshape", op("Concat", start, end, axis=2), [-1, 4])
        parts.append((op("Reshape", op.cut(x, 0, n_classes, 2), [-1, n_classes]), boxes))
    logits, boxes = (op("Concat", *each, axis=0) for each in zip(*parts, strict=True))
    return logits, _inside(op, boxes, resized)


def _centers(op: Operators, resized: str, cell: int) -> str:
    """x and y of the middle of every cell, (cells, 2), row by row."""
    axes = []
    for axis in (0, 1):
        n = op("Squeeze", op("Div", op.cut(resized, axis, axis + 1, 0), float(cell)), [0])
        axes.append(op("Mul", op("Add", op("Range", 0.0, n, 1.0), 0.5), float(cell)))
    y, x = op("Unsqueeze", axes[0], [1]), op("Unsqueeze", axes[1], [0])
    both = [op("Add", op("Mul", a, 0.0), b) for a, b in ((y, x), (x, y))]
    return op("Reshape", op("Concat", *(op("Unsqueeze", each, [2]) for each in both), axis=2), [-1, 2])


def _inside(op: Operators, boxes: str, resized: str) -> str:
    """Boxes cut off at the edges of the photo, and at least a pixel wide and high."""
    limit = _corners(op, resized)
    boxes = op("Max", op("Min", boxes, limit), 0.0)
    start = op.cut(boxes, 0, 2, 1)
    end = op("Max", op.cut(boxes, 2, 4, 1), op("Add", start, 1.0))
    return op("Concat", start, end, axis=1)


def _corners(op: Operators, size: str) -> str:
    """Height and width as width, height, width, height."""
    return op("Gather", size, np.array([1, 0, 1, 0]), axis=0)


def _best(op: Operators, logits: str, boxes: str) -> str:
    """The rows of the proposals: best by any class, no two of them nearly the same."""
    best = op("Sigmoid", op("ReduceMax", logits, axes=(1,), keepdims=0))
    return _suppressed(op, boxes, op("Unsqueeze", best, [0]), PROPOSALS, THINNED, 0.0)[1]


def _suppressed(
    op: Operators, boxes: str, scores: str, most: int, overlap: float, least: float
) -> tuple[str, str]:
    """Class and row of what is left of boxes (n, 4) with scores (n_classes, n): both (kept,)."""
    kept = op(
        "NonMaxSuppression",
        op("Unsqueeze", boxes, [0]),
        op("Unsqueeze", scores, [0]),
        np.array([most]),
        np.array([overlap], np.float32),
        np.array([least], np.float32),
    )
    label, row = (op("Squeeze", op.cut(kept, i, i + 1, 1), [1]) for i in (1, 2))
    return label, row


def _second_look(op: Operators, net: Convnet, maps: list[str], boxes: str, resized: str) -> tuple[str, str]:
    """The second look: logits (n, n_classes + 1) and moved boxes (n, 4) of the proposals."""
    n_classes = len(net.classes)
    start, end = op.cut(boxes, 0, 2, 1), op.cut(boxes, 2, 4, 1)
    center, reach = op("Mul", op("Add", start, end), 0.5), op("Mul", op("Sub", end, start), REACH)
    around = op("Concat", op("Sub", center, reach), op("Add", center, reach), axis=1)
    around = _inside(op, around, resized)
    seen = []
    for x, cell, grid, wider in zip(maps, CELLS, GRIDS, AROUND, strict=True):
        seen += [_bins(op, x, boxes, cell, grid), _bins(op, x, around, cell, wider)]
    seen.append(op("Flatten", op("GlobalAveragePool", maps[-1]), axis=1))
    hidden = op.constant(net.weights["boxes.0.b"])
    for part, W in zip(seen, _parts(net.weights["boxes.0.W"]), strict=True):
        hidden = op("Add", op("MatMul", part, W), hidden)
    x = op("MatMul", op("Relu", hidden), net.weights["boxes.1.W"])
    x = op("Add", x, net.weights["boxes.1.b"])
    moved = _moved(op, boxes, op.cut(x, n_classes + 1, n_classes + 5, 1), resized)
    return op.cut(x, 0, n_classes + 1, 1), moved


def _bins(op: Operators, x: str, boxes: str, cell: int, grid: int) -> str:
    """The map in grid x grid bins of each box, (n, c * grid * grid)."""
    # Cell k lies at k of the map, and its middle at k + 1/2 of the photo.
    x = op(
        "RoiAlign",
        x,
        op("Sub", boxes, cell / 2),
        op("Expand", np.array([0]), op.cut(op("Shape", boxes), 0, 1, 0)),
        output_height=grid,
        output_width=grid,
        sampling_ratio=SAMPLES,
        spatial_scale=1 / cell,
    )
    return op("Flatten", x, axis=1)


def _parts(W: Floats) -> list[Floats]:
    """The first weights by what they see, for bins (c, g, g) as RoiAlign has them, not (g, g, c)."""
    counts = [grid * grid for pair in zip(GRIDS, AROUND, strict=True) for grid in pair] + [1]
    c = len(W) // sum(counts)
    return [
        part.reshape(n, c, -1).transpose(1, 0, 2).reshape(n * c, -1)
        for n, part in zip(counts, np.split(W, np.cumsum(counts)[:-1] * c), strict=True)
    ]


def _moved(op: Operators, boxes: str, steps: str, resized: str) -> str:
    """Boxes moved and stretched by steps (n, 4)."""
    start, end = op.cut(boxes, 0, 2, 1), op.cut(boxes, 2, 4, 1)
    size = op("Sub", end, start)
    center = op("Mul", op("Add", start, end), 0.5)
    center = op("Add", center, op("Mul", op("Mul", op.cut(steps, 0, 2, 1), 1 / CENTER_STEP), size))
    growth = op("Clip", op("Mul", op.cut(steps, 2, 4, 1), 1 / SIZE_STEP), -LARGEST_STEP, LARGEST_STEP)
    half = op("Mul", op("Mul", size, op("Exp", growth)), 0.5)
    moved = op("Concat", op("Sub", center, half), op("Add", center, half), axis=1)
    return _inside(op, moved, resized)


def _select(op: Operators, net: Convnet, logits: str, boxes: str, overlap: float, most: int) -> None:
    """Confidences, suppression class by class, and the outputs, best first."""
    n_classes = len(net.classes)
    p = op("Clip", op.cut(op("Softmax", logits, axis=1), 0, n_classes, 1), 1e-6, 1 - 1e-6)
    slope, offset = net.curves.T.astype(np.float32)
    logit = op("Sub", op("Log", p), op("Log", op("Sub", 1.0, p)))
    sure = op("Transpose", op("Sigmoid", op("Add", op("Mul", logit, slope), offset)), perm=(1, 0))
    label, row = _suppressed(op, boxes, sure, most, overlap, LEAST)
    n = op.cut(op("Shape", boxes), 0, 1, 0)
    score = op("Gather", op("Reshape", sure, [-1]), op("Add", op("Mul", label, n), row), axis=0)
    values, order = op.several("TopK", score, op("Shape", score), n=2, axis=0, largest=1, sorted=1)
    op("Identity", values, name="scores")
    op("Gather", label, order, axis=0, name="labels")
    op("Gather", boxes, op("Gather", row, order, axis=0), axis=0, name="boxes")
