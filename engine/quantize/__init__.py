"""Calibration and quantization: from a float graph and samples to a QDQ graph and its table."""

from engine.quantize.calibration.calibrate import calibrate, sample_limit
from engine.quantize.calibration.observations import Observation, Observations
from engine.quantize.checks import applied_dtypes, require_plain_run
from engine.quantize.dtypes.formats import check_dtype, check_layer_dtype, resolve_dtype
from engine.quantize.interface import Quantized, QuantizeSettings
from engine.quantize.planning.layers import cpu_layers, layers_of
from engine.quantize.planning.node_properties import (
    LAYOUT,
    WEIGHTED,
    Role,
    role_of,
    unquantized_reason,
)
from engine.quantize.planning.plan import is_quantized_source, plan
from engine.quantize.qdq.insert import REASON
from engine.quantize.qdq.vendor_file import (
    SCALE_SPAN,
    lower_for_vendor,
    narrow_scales,
    span_of,
    wide_layers,
)
from engine.quantize.qdq.vendor_form import KEPT_IN_FLOAT16, vendor_form
from engine.quantize.quantize import quantize, to_float16

__all__ = [
    "KEPT_IN_FLOAT16",
    "LAYOUT",
    "REASON",
    "SCALE_SPAN",
    "WEIGHTED",
    "Observation",
    "Observations",
    "QuantizeSettings",
    "Quantized",
    "Role",
    "applied_dtypes",
    "calibrate",
    "check_dtype",
    "check_layer_dtype",
    "cpu_layers",
    "is_quantized_source",
    "layers_of",
    "lower_for_vendor",
    "narrow_scales",
    "plan",
    "quantize",
    "require_plain_run",
    "resolve_dtype",
    "role_of",
    "sample_limit",
    "span_of",
    "to_float16",
    "unquantized_reason",
    "vendor_form",
    "wide_layers",
]
