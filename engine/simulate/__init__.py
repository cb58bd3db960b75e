"""Builds that run here: simulated results, integer coverage, and the numpy reference of both."""

from engine.simulate.coverage import integer_coverage
from engine.simulate.layers import QuantizedLayer, quantized_layers
from engine.simulate.reference import reference_layer, stored_steps, unrounded_layer
from engine.simulate.selfcheck import check_saturation
from engine.simulate.simulator import Simulator, open_arithmetic

__all__ = [
    "QuantizedLayer",
    "Simulator",
    "check_saturation",
    "integer_coverage",
    "open_arithmetic",
    "quantized_layers",
    "reference_layer",
    "stored_steps",
    "unrounded_layer",
]
