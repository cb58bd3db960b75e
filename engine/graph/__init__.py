"""The graph: its form (``ir``), its execution (``execute``), its rewrites (``passes``)."""

from engine.graph.onnx_ir_import import import_onnx_ir

import_onnx_ir()
