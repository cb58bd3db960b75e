"""Calibration and quantization: from a float graph and samples to a QDQ graph and its table."""

from engine.quantize.calibration.calibrate import (
    Observation,
    Observations,
    calibrate,
    samples_wanted,
)
from engine.quantize.dtypes.formats import check_dtype, check_layer_dtype, resolve_dtype
from engine.quantize.plain import require_plain_run
from engine.quantize.planning.operators import LAYOUT, WEIGHTED, Role, reason_for, role_of
from engine.quantize.planning.placement import layers_of_targets
from engine.quantize.planning.plan import is_quantized_source, plan
from engine.quantize.planning.sources import layers_of
from engine.quantize.qdq.insert import REASON
from engine.quantize.qdq.vendor_opset import lower_for_vendor
from engine.quantize.qdq.verify import honoured
from engine.quantize.quantize import quantize, to_float16
from engine.quantize.quantized import Quantized
from engine.quantize.settings import QuantizeSettings

__all__ = [
    "LAYOUT",
    "REASON",
    "WEIGHTED",
    "Observation",
    "Observations",
    "QuantizeSettings",
    "Quantized",
    "Role",
    "calibrate",
    "check_dtype",
    "check_layer_dtype",
    "honoured",
    "is_quantized_source",
    "layers_of",
    "layers_of_targets",
    "lower_for_vendor",
    "plan",
    "quantize",
    "reason_for",
    "require_plain_run",
    "resolve_dtype",
    "role_of",
    "samples_wanted",
    "to_float16",
]
