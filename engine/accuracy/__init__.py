"""How a quantized model differs from the float one: snapshots, error analysis, scores."""
