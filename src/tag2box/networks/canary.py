"""Run small convolutions in every precision and print those that come out right. `processor` starts this.

It is a process of its own, since a library that believes a wrong flag dies of SIGILL.
"""

import sys

import numpy as np

from tag2box.networks.onnx_writer import Graph

CHANNELS = 64


def _graph(*, int8: bool) -> bytes:
    """The sum of all channels; in 8 bits of products that overflow where two are added up in 16 bits."""
    graph = Graph()
    x, weight = "x", np.full((CHANNELS, CHANNELS, 1, 1), 127, np.int8)
    one = graph.constant("one", np.array(1, np.float32))
    if not int8:
        graph.constant("w", np.ones(weight.shape, np.float32))
    else:
        step = [one, graph.constant("zero", np.array(0, np.uint8))]
        x = graph.add("DequantizeLinear", [graph.add("QuantizeLinear", [x, *step], "q"), *step], "rounded")
        scale = graph.constant("scale", np.full(CHANNELS, 1 / 127, np.float32))
        zeros = graph.constant("zeros", np.zeros(CHANNELS, np.int8))
        graph.add("DequantizeLinear", [graph.constant("w8", weight), scale, zeros], "w", axis=0)
    graph.add("Conv", [x, "w"], "y", kernel_shape=(1, 1))
    shape = (1, CHANNELS, 32, 32)
    return graph.serialize("canary", {"x": shape}, {"y": shape})


def main() -> None:
    """Print the precisions that this processor computes in, f32 first; those that kill come last."""
    import openvino as ov

    core, photo = ov.Core(), np.full((1, CHANNELS, 32, 32), 255, np.float32)
    for precision in ("f32", "int8", "f16", "bf16"):
        hint = "f32" if precision == "int8" else precision
        try:
            model = core.read_model(_graph(int8=precision == "int8"))
            result = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": hint})(photo)[0]
        except RuntimeError:  # not offered: OpenVINO says so
            continue
        if np.allclose(result, 255 * CHANNELS, rtol=0.02):
            sys.stdout.write(f"{precision}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
