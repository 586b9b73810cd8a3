"""Small random networks as ONNX files, built with the `onnx` package: a CNN and transformers."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

IMAGENET = "mean = [123.7, 116.3, 103.5]\nstd = [58.4, 57.1, 57.4]\n"


class Builder:
    """A graph under construction; weights are random, tensors are known by their names."""

    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.weights, self.count = [], [], 0

    def constant(self, value):
        self.count += 1
        self.weights.append(numpy_helper.from_array(np.asarray(value), f"w{self.count}"))
        return f"w{self.count}"

    def random(self, *shape, scale=None):
        scale = scale or 1 / np.sqrt(np.prod(shape[1:] if len(shape) == 4 else shape[:1]))
        return self.constant(self.rng.normal(0, scale, shape).astype(np.float32))

    def ints(self, *values):
        return self.constant(np.array(values, np.int64))

    def add(self, op, *inputs, out=None, **attributes):
        self.count += 1
        out = out or f"t{self.count}"
        self.nodes.append(helper.make_node(op, inputs, [out], **attributes))
        return out

    def save(self, path, shape, outputs, kind=TensorProto.FLOAT, more=None):
        """kind: of the image's numbers. more: further inputs, all of one whole number."""
        inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, [1]) for name in more or ()]
        inputs += [helper.make_tensor_value_info("image", kind, shape)]
        result = TensorProto.FLOAT16 if kind == TensorProto.FLOAT16 else TensorProto.FLOAT
        results = [helper.make_tensor_value_info(name, result, s) for name, s in outputs.items()]
        graph = helper.make_graph(self.nodes, "random", inputs, results, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(model)
        path.write_bytes(model.SerializeToString())
        return path


def write_cnn(path, width=8, toml=IMAGENET, size=None, classes=None):
    """Five strided convolutions and two residual blocks at stride 16; with `classes`, logits behind."""
    net, x = Builder(), "image"

    def convolution(x, c_in, c_out, stride=2):
        weight = net.random(c_out, c_in, 3, 3, scale=np.sqrt(2 / (9 * c_in)))
        return net.add("Conv", x, weight, strides=[stride] * 2, pads=[1] * 4, kernel_shape=[3, 3])

    for c_in, c_out in [(3, width), *[(width, width)] * 3]:
        x = net.add("Relu", convolution(x, c_in, c_out))
    for i in range(2):
        branch = net.add("Relu", convolution(x, width, width, stride=1), out=f"branch{i}")
        x = net.add("Add", x, convolution(branch, width, width, stride=1), out=f"residual{i}")
    x = net.add("Relu", convolution(x, width, 2 * width), out="map")
    outputs = {"map": ["n", 2 * width, "mh", "mw"]}
    if classes:
        x = net.add("Flatten", net.add("GlobalAveragePool", x), axis=1)
        net.add("MatMul", x, net.random(2 * width, classes), out="logits")
        outputs = {"logits": ["n", classes]}
    if toml is not None:
        path.with_suffix(".toml").write_text(toml)
    return net.save(path, [1, 3, size, size] if size else ["n", 3, "h", "w"], outputs)


def write_vit(
    path, *, patch=8, width=16, depth=2, heads=2, classes=1, registers=0, size=None, toml=IMAGENET, head=None
):
    """A vision transformer. With `size` it takes that alone, else its positions are interpolated to any.

    Outputs: `tokens` (n, tokens, width); with `head`, the logits of its class token instead.
    """
    net = Builder()
    map_ = net.add("Conv", "image", net.random(width, 3, patch, patch), strides=[patch] * 2)
    if size is None:
        sides = net.add("Slice", net.add("Shape", map_), net.ints(2), net.ints(4))
        sizes = net.add("Concat", net.ints(1, width), sides, axis=0)
        map_ = net.add(
            "Add", map_, net.add("Resize", net.random(1, width, 4, 4), "", "", sizes, mode="linear")
        )
    else:
        map_ = net.add("Add", map_, net.random(1, width, size // patch, size // patch))
    x = net.add("Transpose", net.add("Reshape", map_, net.ints(0, width, -1)), perm=[0, 2, 1])
    if special := classes + registers:
        n = net.add("Slice", net.add("Shape", "image"), net.ints(0), net.ints(1))
        shape = net.add("Concat", n, net.ints(special, width), axis=0)
        x = net.add("Concat", net.add("Expand", net.random(1, special, width, scale=1.0), shape), x, axis=1)
    for _ in range(depth):
        x = net.add("Add", x, _attention(net, _norm(net, x, width), width, heads))
        hidden = net.add("Relu", net.add("MatMul", _norm(net, x, width), net.random(width, 4 * width)))
        x = net.add("Add", x, net.add("MatMul", hidden, net.random(4 * width, width)))
    x = _norm(net, x, width, out="tokens")
    outputs = {"tokens": ["n", "t", width]}
    if head:
        x = net.add("Gather", x, net.constant(np.array(0)), axis=1)
        net.add("MatMul", x, net.random(width, head), out="logits")
        outputs = {"logits": ["n", head]}
    if toml is not None:
        path.with_suffix(".toml").write_text(toml)
    return net.save(path, [1, 3, size, size] if size else ["n", 3, "h", "w"], outputs)


OPEN, MAP = ["n", 3, "h", "w"], ["n", 8, "mh", "mw"]


def write_odd(path, kind):
    """A small CNN that differs from `write_cnn` in one thing: its name is `kind`."""
    net, x = Builder(), "image"
    number = np.float16 if kind == "half" else np.float32

    def convolution(x, c_in, stride, side=3, pad=1, **how):
        weight = net.rng.normal(0, np.sqrt(2 / (side * side * c_in)), (8, c_in, side, side))
        pads, shape = [pad] * 4, [side] * 2
        weight = net.constant(weight.astype(number))
        return net.add("Conv", x, weight, strides=[stride] * 2, pads=pads, kernel_shape=shape, **how)

    if kind == "stride 30":
        net.add("Relu", convolution(convolution(x, 3, 5, 5, 0), 8, 6, 6, 0), out="map")
        return net.save(path, OPEN, {"map": MAP})
    if kind == "channels last in":
        x = net.add("Transpose", x, perm=[0, 3, 1, 2])
    if kind == "pixels in":
        x = net.add("Cast", x, to=TensorProto.FLOAT)
    pad = 0 if kind == "no padding" else 1
    stages = []
    for c_in in (3, 8, 8, 8):
        x = net.add("Relu", convolution(x, c_in, 2, pad=pad), out=f"stage{len(stages)}")
        stages.append(x)
    if kind == "channels last in":
        net.add("Identity", x, out="map")
        return net.save(path, ["n", "h", "w", 3], {"map": MAP})
    if kind == "channels last out":
        net.add("Transpose", x, perm=[0, 2, 3, 1], out="map")
        return net.save(path, OPEN, {"map": ["n", "mh", "mw", 8]})
    if kind == "several outputs":
        return net.save(path, OPEN, {name: ["n", 8, f"h{name}", f"w{name}"] for name in stages})
    if kind == "boxes":  # a detector
        net.add("Reshape", x, net.ints(1, -1, 4), out="boxes")
        return net.save(path, [1, 3, 64, 64], {"boxes": [1, 32, 4]})
    if kind == "four at once":
        net.add("Flatten", net.add("GlobalAveragePool", x), axis=1, out="vectors")
        return net.save(path, [4, 3, 64, 64], {"vectors": [4, 8]})
    if kind == "more inputs":
        net.add("Mul", x, net.add("Cast", "scale", to=TensorProto.FLOAT), out="map")
        return net.save(path, OPEN, {"map": MAP}, more=["scale"])
    if kind == "squares of seven":  # as Swin's windows: photos must be multiples of 7 x 16 pixels
        shape = net.add("Shape", x)
        n, *sides = (net.add("Slice", shape, net.ints(i), net.ints(i + 1)) for i in (0, 2, 3))
        h, w = (net.add("Div", side, net.ints(7)) for side in sides)
        apart = net.add("Concat", n, net.ints(8), h, net.ints(7), w, net.ints(7), axis=0)
        net.add("Reshape", net.add("Relu", net.add("Reshape", x, apart)), shape, out="map")
        return net.save(path, OPEN, {"map": MAP})
    net.add("Relu", x, out="map")
    kinds = {"half": TensorProto.FLOAT16, "pixels in": TensorProto.UINT8}
    return net.save(path, OPEN, {"map": MAP}, kinds.get(kind, TensorProto.FLOAT))


def vit_toml(patch=8, classes=1, registers=0, size=None):
    lines = f"patch = {patch}\nclass_tokens = {classes}\nregister_tokens = {registers}\n"
    return IMAGENET + lines + (f"size = {size}\n" if size else "")


def _norm(net, x, width, **how):
    ones, zeros = np.ones(width, np.float32), np.zeros(width, np.float32)
    return net.add("LayerNormalization", x, net.constant(ones), net.constant(zeros), axis=-1, **how)


def _attention(net, x, width, heads):
    def part():
        split = net.add("Reshape", net.add("MatMul", x, net.random(width, width)), net.ints(0, 0, heads, -1))
        return net.add("Transpose", split, perm=[0, 2, 1, 3])

    q, k, v = part(), net.add("Transpose", part(), perm=[0, 1, 3, 2]), part()
    scaled = net.add("Mul", net.add("MatMul", q, k), net.constant(np.float32((width / heads) ** -0.5)))
    seen = net.add("MatMul", net.add("Softmax", scaled, axis=-1), v)
    joined = net.add("Reshape", net.add("Transpose", seen, perm=[0, 2, 1, 3]), net.ints(0, 0, width))
    return net.add("MatMul", joined, net.random(width, width))
