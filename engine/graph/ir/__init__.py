"""The graph: form, checks, views, differences, and the quantization parameters that go with it."""

from engine.graph.ir.custom import (
    CustomOperator,
    CustomOperators,
    assign_custom_domain,
    from_class,
    is_custom,
)
from engine.graph.ir.diff import GraphDiff, NodeChange, ValueChange, diff
from engine.graph.ir.graph import Graph
from engine.graph.ir.naming import (
    IR_VERSION,
    NORMALIZED,
    OPSET,
    ORIGIN,
    STANDARD_DOMAINS,
    UniqueNames,
    name_everything,
)
from engine.graph.ir.quant import QUANT_DTYPES, QuantParams, QuantTable, params_of
from engine.graph.ir.shapes import infer_model, infer_shapes
from engine.graph.ir.spec import TensorSpec, constant_of, dtype_name, spec_of
from engine.graph.ir.verify import verify
from engine.graph.ir.views import describe, graph_view, node_detail, tensor_statistics
from engine.graph.ir.weightless import weightless_proto

__all__ = [
    "IR_VERSION",
    "NORMALIZED",
    "OPSET",
    "ORIGIN",
    "QUANT_DTYPES",
    "STANDARD_DOMAINS",
    "CustomOperator",
    "CustomOperators",
    "Graph",
    "GraphDiff",
    "NodeChange",
    "QuantParams",
    "QuantTable",
    "TensorSpec",
    "UniqueNames",
    "ValueChange",
    "assign_custom_domain",
    "constant_of",
    "describe",
    "diff",
    "dtype_name",
    "from_class",
    "graph_view",
    "infer_model",
    "infer_shapes",
    "is_custom",
    "name_everything",
    "node_detail",
    "params_of",
    "spec_of",
    "tensor_statistics",
    "verify",
    "weightless_proto",
]
