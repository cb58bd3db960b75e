"""Calibration and quantization: from a float graph and samples to a QDQ graph and its table."""

from engine.quantize.calibrate import Observation, Observations, calibrate, samples_wanted
from engine.quantize.formats import check_dtype, check_layer_dtype, resolve_dtype
from engine.quantize.honoured import honoured
from engine.quantize.layer_names import LayerName, find_layer, layer_names
from engine.quantize.operators import LAYOUT, WEIGHTED, Role, reason_for, role_of
from engine.quantize.plain import require_plain_run
from engine.quantize.plan import is_quantized_source
from engine.quantize.qdq import GUARD, REASON
from engine.quantize.qdq_build import ADDED
from engine.quantize.quantize import Quantized, quantize, to_float16
from engine.quantize.settings import QuantizeSettings
from engine.quantize.targets import layers_of_targets
from engine.quantize.vendor import lower_for_vendor

__all__ = [
    "ADDED",
    "GUARD",
    "LAYOUT",
    "REASON",
    "WEIGHTED",
    "LayerName",
    "Observation",
    "Observations",
    "QuantizeSettings",
    "Quantized",
    "Role",
    "calibrate",
    "check_dtype",
    "check_layer_dtype",
    "find_layer",
    "honoured",
    "is_quantized_source",
    "layer_names",
    "layers_of_targets",
    "lower_for_vendor",
    "quantize",
    "reason_for",
    "require_plain_run",
    "resolve_dtype",
    "role_of",
    "samples_wanted",
    "to_float16",
]
