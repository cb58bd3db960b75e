"""Python's ways to a build: the vendor's ``RKNN`` class of both generations, and the typed API.

Both stand on the same pipeline as every front end.
"""

from typing import TYPE_CHECKING

from engine.api.costs import check, estimate, ways_to_rate
from engine.api.layer_table import LayerTable, layer_table
from engine.api.reports import build_report
from engine.api.typed import (
    BuiltModel,
    analyse_model,
    build_model,
    layer_values,
    quantize_model,
    simulate_model,
)

if TYPE_CHECKING:  # the same class, with signatures that static tools can read
    from engine.api.shown import RKNN
else:
    from engine.api.rknn import RKNN

__all__ = [
    "RKNN",
    "BuiltModel",
    "LayerTable",
    "analyse_model",
    "build_model",
    "build_report",
    "check",
    "estimate",
    "layer_table",
    "layer_values",
    "quantize_model",
    "simulate_model",
    "ways_to_rate",
]
