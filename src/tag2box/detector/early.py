"""An image as a graph sees it: resized, normalized, and through the early blocks."""

from tag2box.detector.operators import Operators
from tag2box.detector.record import BLOCK
from tag2box.detector.trunk import FIRST, NETWORK
from tag2box.networks.efficientnet import VARIANTS, Builder, weights_file
from tag2box.networks.torch_reader import read_state_dict

IMAGE = ("height", "width", 3)
# The trunk was trained on (x - MEAN) / SPREAD of x in 0..255.
MEAN, SPREAD = 127.0, 128.0


def resized_views(op: Operators, side: int) -> tuple[str, str, list[str]]:
    """The image's height and width, those of the first view, and the views (1, 3, h, w), normalized."""
    shape = op("Cast", op.cut(op("Shape", "image"), 0, 2, 0), to=1)
    longest = op("ReduceMax", shape, axes=(0,), keepdims=1)
    blocks = op("Round", op("Div", op("Mul", shape, side / BLOCK), longest))
    resized = op("Mul", op("Max", blocks, 1.0), float(BLOCK))
    x = op("Transpose", op("Cast", "image", to=1), perm=(2, 0, 1))
    x = op("MatMul", _resizing(op, shape, resized, 0), x)
    x = op("MatMul", x, op("Transpose", _resizing(op, shape, resized, 1), perm=(1, 0)))
    x = op("Unsqueeze", op("Div", op("Sub", x, MEAN), SPREAD), [0])
    half = op("AveragePool", x, kernel_shape=(2, 2), strides=(2, 2))
    return shape, resized, [x, half]


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


def views_graph(side: int) -> bytes:
    """The ONNX file of the early blocks alone: `image` in, `early0` and `early1` out, channels first."""
    op = Operators()
    variant = VARIANTS[NETWORK]
    builder = Builder(read_state_dict(weights_file(NETWORK), variant.sha256), op.graph)
    _, _, views = resized_views(op, side)
    for i, x in enumerate(views):
        builder.prefix = f"view{i}."
        op("Identity", builder.trunk(x, variant.strides[:FIRST]), name=f"early{i}")
    outputs = {f"early{i}": (1, "c", f"h{i}", f"w{i}") for i in range(len(views))}
    return op.graph.serialize("views", {"image": IMAGE}, outputs, types={"image": "u1"})
