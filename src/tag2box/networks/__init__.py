"""Where networks come from: weights out of a pip package, written as an ONNX graph. No torch, no hub."""
