"""The student as one ONNX file: an image of any size in; boxes, scores and labels out.

Only operators of set 13 that onnxruntime, its form for browsers, and OpenVINO share. All that
`student/looking.py` does with arrays stands here as a graph, and a test compares them.
"""

import numpy as np
from numpy.typing import NDArray

from tag2box.networks.efficientnet import add_trunk
from tag2box.student.operators import Operators
from tag2box.student.record import (
    AROUND,
    CELL,
    CENTER_STEP,
    EARLY,
    GRID,
    LARGEST_SIDE,
    LARGEST_STEP,
    LAST,
    LEAST,
    PROPOSALS,
    REACH,
    SIZE_STEP,
    SIZES,
    THINNED,
    TRUNK,
    Layers,
    Student,
)

IMAGE = ("height", "width", 3)
# The trunk was trained on (x - MEAN) / SPREAD of x in 0..255.
MEAN, SPREAD = 127.0, 128.0
BLOCK = 32


def map_graph(side: int) -> bytes:
    """The ONNX file of the trunk alone: an image in, its maps `early` and `last` out, channels first."""
    op = Operators()
    _add_trunk(op, side)
    op("Identity", EARLY, name="early")
    op("Identity", LAST, name="last")
    outputs = {"early": (1, "early_channels", "h", "w"), "last": (1, "last_channels", "h2", "w2")}
    return op.graph.serialize("maps", {"image": IMAGE}, outputs, types={"image": "u1"})


def student_graph(student: Student, metadata: dict[str, str]) -> bytes:
    """The ONNX file of the student."""
    op = Operators()
    size, resized = _add_trunk(op, student.side)
    fused = _fused(op, student)
    logits, boxes = _dense(op, student, fused, resized)
    row = _best(op, logits, boxes)
    boxes = op("Gather", boxes, row, axis=0)
    scores, boxes = _regions(op, student, fused, boxes, resized)
    stretch = op("Div", size, resized)  # height, width
    boxes = op("Mul", boxes, _corners(op, stretch))
    _select(op, student, scores, boxes)
    outputs = {"boxes": ("n", 4), "scores": ("n",), "labels": ("n",)}
    types = {"image": "u1", "labels": "i8"}
    return op.graph.serialize("detector", {"image": IMAGE}, outputs, types=types, metadata=metadata)


def _add_trunk(op: Operators, side: int) -> tuple[str, str]:
    """From the image to the maps; returns its height and width, and those at which the trunk sees it."""
    shape = op("Cast", op.cut(op("Shape", "image"), 0, 2, 0), to=1)
    longest = op("ReduceMax", shape, axes=(0,), keepdims=1)
    blocks = op("Round", op("Div", op("Mul", shape, side / BLOCK), longest))
    resized = op("Mul", op("Max", blocks, 1.0), float(BLOCK))
    x = op("Transpose", op("Cast", "image", to=1), perm=(2, 0, 1))
    x = op("MatMul", _resizing(op, shape, resized, 0), x)
    x = op("MatMul", x, op("Transpose", _resizing(op, shape, resized, 1), perm=(1, 0)))
    x = op("Unsqueeze", op("Div", op("Sub", x, MEAN), SPREAD), [0])
    add_trunk(op.graph, TRUNK, x)
    return shape, resized


def _resizing(op: Operators, old: str, new: str, axis: int) -> str:
    """The matrix (new, old) that resizes one axis as Pillow's bilinear filter does: no pixel is left out.

    Pixel i is the mean of the pixels around its place, weighted by a triangle as wide as it is itself.
    """
    n_old, n_new = (op("Squeeze", op.cut(x, axis, axis + 1, 0), [0]) for x in (old, new))
    ratio = op("Div", n_old, n_new)
    place = op("Mul", op("Add", op("Range", 0.0, n_new, 1.0), 0.5), ratio)
    distance = op("Sub", op("Unsqueeze", place, [1]), op("Add", op("Range", 0.0, n_old, 1.0), 0.5))
    share = op("Sub", 1.0, op("Div", op("Abs", distance), op("Max", ratio, 1.0)))
    weight = op("Max", share, 0.0)
    return op("Div", weight, op("ReduceSum", weight, [1], keepdims=1))


def _fused(op: Operators, student: Student) -> str:
    """Both maps, projected, at the cells of the early one: (1, c, h, w)."""
    early, last = (
        op("Conv", x, projection.axes.T[:, :, None, None], -projection.mean @ projection.axes)
        for x, projection in ((EARLY, student.early), (LAST, student.last))
    )
    last = op(
        "Resize",
        last,
        "",
        np.array([1, 1, 2, 2], np.float32),
        mode="linear",
        coordinate_transformation_mode="half_pixel",
    )
    return op("Concat", early, last, axis=1)


def _dense(op: Operators, student: Student, fused: str, resized: str) -> tuple[str, str]:
    """What every cell says, slot by slot: logits (n, n_classes) and boxes (n, 4)."""
    n_classes = len(student.classes)
    W1, b1, W2, b2, W3, b3 = student.dense
    c = len(W1) // 9
    kernel = W1.reshape(3, 3, c, -1).transpose(3, 2, 0, 1)
    x = op("Relu", op("Conv", fused, kernel, b1, dilations=(2, 2), pads=(2, 2, 2, 2), kernel_shape=(3, 3)))
    x = op("Relu", op("Conv", x, W2.T[:, :, None, None], b2))
    x = op("Transpose", op("Conv", x, W3.T[:, :, None, None], b3), perm=(0, 2, 3, 1))
    x = op("Reshape", x, [-1, len(SIZES), n_classes + 4])  # (cells, slots, logits and sides)
    sides = op("Clip", op.cut(x, n_classes, n_classes + 4, 2), -LARGEST_SIDE, LARGEST_SIDE)
    sides = op("Mul", op("Exp", sides), np.array(SIZES, np.float32)[:, None] / 2)
    centers = op("Unsqueeze", _centers(op, resized), [1])
    boxes = op(
        "Concat",
        op("Sub", centers, op.cut(sides, 0, 2, 2)),
        op("Add", centers, op.cut(sides, 2, 4, 2)),
        axis=2,
    )
    logits = op("Reshape", op.cut(x, 0, n_classes, 2), [-1, n_classes])
    return logits, _inside(op, op("Reshape", boxes, [-1, 4]), resized)


def _centers(op: Operators, resized: str) -> str:
    """x and y of the middle of every cell, (cells, 2), row by row."""
    axes = []
    for axis in (0, 1):
        n = op("Squeeze", op("Div", op.cut(resized, axis, axis + 1, 0), float(CELL)), [0])
        axes.append(op("Mul", op("Add", op("Range", 0.0, n, 1.0), 0.5), float(CELL)))
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


def _regions(op: Operators, student: Student, fused: str, boxes: str, resized: str) -> tuple[str, str]:
    """The second look: scores (n, n_classes) and corrected boxes (n, 4) of the proposals."""
    n_classes = len(student.classes)
    start, end = op.cut(boxes, 0, 2, 1), op.cut(boxes, 2, 4, 1)
    center, reach = op("Mul", op("Add", start, end), 0.5), op("Mul", op("Sub", end, start), REACH)
    around = op("Concat", op("Sub", center, reach), op("Add", center, reach), axis=1)
    parts = _parts(student.regions[0])
    first = [
        op("MatMul", _places(op, fused, boxes, GRID), parts[0]),
        op("MatMul", _places(op, fused, _inside(op, around, resized), AROUND), parts[1]),
        op("MatMul", op("Flatten", op("GlobalAveragePool", fused), axis=1), parts[2]),
    ]
    hidden = op("Add", op("Add", first[0], first[1]), op("Add", first[2], student.regions[1]))
    x = _perceptron(op, op("Relu", hidden), student.regions[2:])
    moved = _moved(op, boxes, op.cut(x, n_classes, n_classes + 4, 1), resized)
    return op.cut(x, 0, n_classes, 1), moved


def _places(op: Operators, fused: str, boxes: str, grid: int) -> str:
    """The map at grid x grid places of each box, (n, c * grid * grid)."""
    # Cell k lies at k of the map, and its middle at k + 1/2 of the photo.
    x = op(
        "RoiAlign",
        fused,
        op("Sub", boxes, CELL / 2),
        op("Expand", np.array([0]), op.cut(op("Shape", boxes), 0, 1, 0)),
        output_height=grid,
        output_width=grid,
        sampling_ratio=1,
        spatial_scale=1 / CELL,
    )
    return op("Flatten", x, axis=1)


def _parts(W: NDArray[np.float32]) -> list[NDArray[np.float32]]:
    """The first weights by what they see, for places (c, g, g) as RoiAlign has them, not (g, g, c)."""
    counts = GRID**2, AROUND**2, 1
    c = len(W) // sum(counts)
    return [
        part.reshape(n, c, -1).transpose(1, 0, 2).reshape(n * c, -1)
        for n, part in zip(counts, np.split(W, np.cumsum(counts)[:-1] * c), strict=True)
    ]


def _perceptron(op: Operators, x: str, layers: Layers) -> str:
    for i in range(0, len(layers), 2):
        x = op("Add", op("MatMul", x, layers[i]), layers[i + 1])
        x = op("Relu", x) if i + 2 < len(layers) else x
    return x


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


def _select(op: Operators, student: Student, scores: str, boxes: str) -> None:
    """Confidences, suppression class by class, and the outputs, best first."""
    calibration = student.calibration
    slope, offset = calibration.curves.T.astype(np.float32)
    sure = op("Sigmoid", op("Add", op("Mul", scores, slope), offset))
    if calibration.reliability is not None:
        sure = op("Mul", sure, calibration.reliability.astype(np.float32))
    sure = op("Transpose", sure, perm=(1, 0))
    label, row = _suppressed(op, boxes, sure, student.most, student.overlap, LEAST)
    n = op.cut(op("Shape", boxes), 0, 1, 0)
    flat = op("Reshape", sure, [-1])
    score = op("Gather", flat, op("Add", op("Mul", label, n), row), axis=0)
    values, order = op.several("TopK", score, op("Shape", score), n=2, axis=0, largest=1, sorted=1)
    op("Identity", values, name="scores")
    op("Gather", label, order, axis=0, name="labels")
    op("Gather", boxes, op("Gather", row, order, axis=0), axis=0, name="boxes")
