"""Graphs that run in ONNX Runtime, and distances between their results."""

from engine.graph.execute.form import runtime_form
from engine.graph.execute.lower import is_quantized, lower_for_runtime
from engine.graph.execute.metrics import cosine, dot, euclidean, sqnr
from engine.graph.execute.runtime import ort
from engine.graph.execute.session import Session, open_model, simulation_errors

__all__ = [
    "Session",
    "cosine",
    "dot",
    "euclidean",
    "is_quantized",
    "lower_for_runtime",
    "open_model",
    "ort",
    "runtime_form",
    "simulation_errors",
    "sqnr",
]
