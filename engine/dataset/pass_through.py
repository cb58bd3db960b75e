"""Arrays that are handed to a model as they are: no mean and std, integers as the NPU has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engine.base.errors import DatasetError
from engine.base.text import sanitize, shape_text

if TYPE_CHECKING:
    from engine.dataset.preprocess import InputPlan, Layout
    from engine.graph.ir import QuantParams


def passed_through(
    array: np.ndarray, plan: InputPlan, layout: Layout | None, params: QuantParams | None
) -> np.ndarray:
    """The input from an array of a caller who passes it through.

    Args:
        array: of one of ``plan.accepted_shapes()``. Whole numbers of 8 bits, or of the
            quantized input's own dtype, are dequantized; other numbers are values of the input.
        plan: of the input.
        layout: what the caller says; it decides where both layouts fit the shape.
        params: of a quantized input.

    Raises:
        DatasetError: the shape does not fit.
    """
    placed = plan.to_model_layout(array, layout)
    if placed is None:
        accepted = " or ".join(shape_text(s) for s in plan.accepted_shapes())
        raise DatasetError(
            f"The array for input {sanitize(plan.name, 80)} has the shape "
            f"{shape_text(array.shape)}; it takes {accepted}.",
            remedy="Give it in that shape.",
        )
    values = placed.astype(np.float32)
    if params is not None and array.dtype.name in ("int8", "uint8", params.dtype):
        shift = 128 if array.dtype.name == "uint8" and params.dtype == "int8" else 0
        zero = np.float32(params.zero_point[0] + shift)
        values = (values - zero) * np.float32(params.scale[0])
    return np.asarray(values, dtype=plan.dtype, order="C")
