"""A float graph as ONNX of the opsets that toolkits of generation 1 load.

:mod:`engine.graph.ir.opsets` writes the operators in their older forms; what has none is refused
by name. The manual wants onnx 1.4.1, which has opset 9 and IR 3 [RKNN-T1 1.3.2, 2]; later toolkits
come with onnx 1.6, which has opset 11 and IR 6. What a real toolkit of generation 1 makes of these
files was not tried.
"""

from __future__ import annotations

import onnx

from engine.base.errors import QuantizationError
from engine.base.text import sanitize
from engine.graph.ir.custom import is_custom
from engine.graph.ir.naming import STANDARD_DOMAINS
from engine.graph.ir.opsets import NoFormError, lower

_VERSIONS = ((1, 6), 11, 6), ((0, 0), 9, 3)
"""From which toolkit on, its opset, its IR version."""


def generation_1_onnx(model: bytes, version: str) -> bytes:
    """A float model as a toolkit of generation 1 loads it.

    Args:
        model: ONNX of opset 19.
        version: of the toolkit, such as ``1.7.5``; of an unknown one the oldest is taken.

    Raises:
        QuantizationError: an operator has no form in an opset that old (named).
    """
    parts = tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
    opset, ir_version = next(
        ((o, i) for least, o, i in _VERSIONS if parts >= least), _VERSIONS[-1][1:]
    )
    proto = onnx.load_from_string(model)
    (source_opset,) = (e.version for e in proto.opset_import if e.domain in STANDARD_DOMAINS)
    try:
        for node in filter(is_custom, proto.graph.node):
            raise NoFormError(node, "it is no operator of ONNX's own")
        lower(proto.graph, source_opset, opset)
    except NoFormError as error:
        raise QuantizationError(
            f"Node {sanitize(error.node.name, 80)!r} ({sanitize(error.node.op_type, 40)}) has no "
            f"form in opset {opset}: {sanitize(error.why, 200)}.",
            cause=f"rknn-toolkit {version} of generation 1 loads ONNX of opset {opset} at most.",
            remedy="Name outputs before that operator, or compile for a chip of generation 2.",
        ) from error
    del proto.opset_import[:]
    proto.opset_import.append(onnx.helper.make_opsetid("", opset))
    proto.ir_version = ir_version
    if ir_version < 4:  # there, every constant is an input as well
        names = {value.name for value in proto.graph.input}
        proto.graph.input.extend(
            onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
            for tensor in proto.graph.initializer
            if tensor.name not in names
        )
    try:
        onnx.checker.check_model(proto, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise QuantizationError(
            f"The model has no valid form in opset {opset}: {sanitize(str(error), 300)}",
            cause=f"rknn-toolkit {version} loads ONNX of opset {opset} at most.",
            remedy="Name outputs before that operator, or compile for a chip of generation 2.",
        ) from error
    return proto.SerializeToString(deterministic=True)
