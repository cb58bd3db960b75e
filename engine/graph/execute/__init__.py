"""Graphs that run in ONNX Runtime."""

from engine.graph.execute.as_compiled import (
    FINEST_SIGMOID,
    FUSING_LEVEL,
    as_compiled,
    coarse_sigmoids,
    fused_roundings,
    rounded_operands,
    table_roundings,
)
from engine.graph.execute.float16_layers import float16_layers
from engine.graph.execute.lower import is_quantized, lower_for_runtime
from engine.graph.execute.runtime import ort
from engine.graph.execute.segmented import SegmentedSession
from engine.graph.execute.session import Session, open_model, simulation_errors
from engine.graph.execute.session_setup import (
    keep_sums_exact,
    kernels_saturate,
    opposing_signs,
    release_pool,
)
from engine.graph.execute.shared_weights import prepare_for_ort
from engine.graph.execute.submodels import PartedRun

__all__ = [
    "FINEST_SIGMOID",
    "FUSING_LEVEL",
    "PartedRun",
    "SegmentedSession",
    "Session",
    "as_compiled",
    "coarse_sigmoids",
    "float16_layers",
    "fused_roundings",
    "is_quantized",
    "keep_sums_exact",
    "kernels_saturate",
    "lower_for_runtime",
    "open_model",
    "opposing_signs",
    "ort",
    "prepare_for_ort",
    "release_pool",
    "rounded_operands",
    "simulation_errors",
    "table_roundings",
]
