"""Python's ways to a build: the vendor's ``RKNN`` class of both generations, and the typed API.

Both stand on the same pipeline as every front end.
"""

from engine.api.costs import check, estimate
from engine.api.rknn import RKNN
from engine.api.typed import (
    BuiltModel,
    analyse_model,
    build_model,
    quantize_model,
    simulate_model,
)

__all__ = [
    "RKNN",
    "BuiltModel",
    "analyse_model",
    "build_model",
    "check",
    "estimate",
    "quantize_model",
    "simulate_model",
]
