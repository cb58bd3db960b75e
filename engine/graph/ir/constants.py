"""The versions that every graph is pinned to, and the names of what the engine adds to nodes."""

from __future__ import annotations

# ONNX Runtime 1.31 loads at most IR 13 and opset 26, while onnx 1.23 writes IR 14 and opset 28 by
# default; QuantizeLinear of 16 and 4 bits needs opset 21, which belongs to IR 10.
OPSET = 21
IR_VERSION = 10

# protobuf refuses messages of 2 GiB and more; larger models keep their weights in external files.
MAX_PROTO_BYTES = (1 << 31) - 1

# Both names stand for ONNX's own operators.
STANDARD_DOMAINS = frozenset({"", "ai.onnx"})

# Key in a node's ``metadata_props``: names of the source nodes it came from, a line each.
ORIGIN = "origin"

# Key in a node's ``metadata_props``: the epsilon of a BatchNormalization that its weights took in.
NORMALIZED = "batch_normalization"
