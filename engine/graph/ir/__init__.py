"""The graph: form, checks, views, differences, and the quantization parameters that go with it."""

from engine.graph.ir.constants import IR_VERSION, OPSET, ORIGIN
from engine.graph.ir.graph import Graph
from engine.graph.ir.naming import UniqueNames, name_everything
from engine.graph.ir.quant import QuantParams, QuantTable
from engine.graph.ir.spec import TensorSpec, spec_of

__all__ = [
    "IR_VERSION",
    "OPSET",
    "ORIGIN",
    "Graph",
    "QuantParams",
    "QuantTable",
    "TensorSpec",
    "UniqueNames",
    "name_everything",
    "spec_of",
]
