"""Adapts what a caller of ``inference`` gives to the inputs of the network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from engine.base.errors import UsageError
from engine.base.text import sanitize, shape_text
from engine.dataset import InputPlan, passed_through, prepare_array
from engine.graph.ir import QuantParams

_TYPES = ("float32", "float16", "int8", "uint8", "int16")


def adapt_inputs(
    plans: Sequence[InputPlan],
    inputs: Any,
    *,
    data_format: Any = None,
    data_type: Any = None,
    pass_through: Any = None,
    quant: Mapping[str, QuantParams] | None = None,
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Input name -> array in the model's layout, and warnings.

    Args:
        plans: preprocessing of each input; generation 1's ``reorder_channel`` is part of it.
        inputs: one array per input; NHWC or NCHW, with or without a batch of 1.
        data_format: 'nhwc' or 'nchw', or a list with one per input; None: NHWC. It decides where a
            shape fits both.
        data_type: of generation 1: the type that the data has; it is converted where nothing is
            lost.
        pass_through: per input 1: no mean and std; whole numbers of the input's quantized type are
            taken as such and dequantized, other numbers are values of the input.
        quant: parameters of quantized inputs.

    Raises:
        UsageError, DatasetError: something does not fit; names the input.
    """
    arrays = _listed(inputs, len(plans))
    formats = _formats(data_format, len(plans))
    through = [False] * len(plans) if pass_through is None else [bool(p) for p in pass_through]
    if len(through) != len(plans):
        raise UsageError(
            f"inputs_pass_through has {len(through)} entries for {len(plans)} inputs.",
            remedy="Give 0 or 1 per input.",
        )
    feeds: dict[str, np.ndarray] = {}
    warnings: list[str] = []
    for index, (plan, value) in enumerate(zip(plans, arrays, strict=True)):
        name = sanitize(plan.name, 80)
        if not isinstance(value, np.ndarray):
            raise UsageError(
                f"Input {index} ({name}) is a {type(value).__name__}, not an ndarray.",
                remedy="Give a list of numpy arrays, one per input.",
            )
        array = value if data_type is None else to_data_type(value, data_type, name)
        layout = formats[index]
        if plan.layout and _only_other(plan, array.shape, layout):
            warnings.append(
                f"inference: input {index} has the shape {shape_text(array.shape)}, which is not "
                f"{layout.lower()}; it is read as it must be."
            )
        if through[index]:
            params = (quant or {}).get(plan.name)
            feeds[plan.name] = passed_through(array, plan, layout, params)
            continue
        feeds[plan.name] = prepare_array(array, plan, layout)
    return feeds, warnings


def _listed(inputs: Any, count: int) -> list[Any]:
    if isinstance(inputs, np.ndarray):
        inputs = [inputs]
    if not isinstance(inputs, Sequence) or isinstance(inputs, str):
        raise UsageError("inputs is not a list.", remedy="Give a list of numpy arrays.")
    if len(inputs) != count:
        raise UsageError(
            f"inputs has {len(inputs)} arrays, the model has {count} inputs.",
            remedy="Give one array per input, in the model's order.",
        )
    # one number, as numpy gives it for an input of rank 0, is an array too
    return [np.asarray(one) if isinstance(one, np.generic) else one for one in inputs]


def _formats(data_format: Any, count: int) -> list[Any]:
    formats = [data_format] * count if isinstance(data_format, str) else data_format
    if formats is None:
        return ["NHWC"] * count
    names = [str(f).upper() for f in formats]
    if len(names) != count or any(n not in ("NHWC", "NCHW") for n in names):
        raise UsageError(
            f"data_format {sanitize(repr(data_format), 60)} does not fit {count} inputs.",
            remedy="Give 'nhwc' or 'nchw', or a list with one per input.",
        )
    return names


def to_data_type(array: np.ndarray, data_type: Any, name: str) -> np.ndarray:
    """Generation 1: an array in the type that its caller says it has.

    Raises:
        UsageError: there is no such type, or values would change; ``name`` is the input's.
    """
    if data_type not in _TYPES:
        raise UsageError(
            f"data_type {sanitize(repr(data_type), 40)} is not known.",
            remedy=f"It is one of {', '.join(_TYPES)}.",
        )
    if array.dtype == np.dtype(data_type):
        return array
    with np.errstate(invalid="ignore", over="ignore"):
        cast = array.astype(data_type)
        same = np.allclose(cast.astype(np.float64), array.astype(np.float64), rtol=1e-2, atol=1e-3)
    if not same:
        raise UsageError(
            f"The data of input {name} is {array.dtype} and does not fit data_type {data_type}.",
            cause="data_type is the type of the data that you give; its default is 'uint8'.",
            remedy=f"Say data_type='{array.dtype}'."
            if str(array.dtype) in _TYPES
            else "Convert the data first.",
        )
    return cast


def _only_other(plan: InputPlan, shape: tuple[int, ...], layout: str) -> bool:
    """Whether a shape is that of the layout that the caller did not name."""
    n, c, h, w = plan.shape[0], plan.channels, plan.height, plan.width
    own = (n, h, w, c) if layout == "NHWC" else (n, c, h, w)
    return shape in plan.accepted_shapes() and shape not in (own, own[1:])
