"""Custom operators in scripts: the vendor's ``rknn.api.custom_op``, and what ``RKNN`` registers.

A script for the vendor's toolkit says ``from rknn.api.custom_op import get_node_attr``; here it is
``from engine.api.custom_op import get_node_attr`` (docs/custom-operators.md).
"""

from __future__ import annotations

import inspect
import logging
from pathlib import Path
from typing import Any

import onnx

from engine.base.errors import UsageError
from engine.base.text import did_you_mean, sanitize
from engine.graph.ir.custom import CustomOperators, custom_names, from_class


def get_node_attr(node: onnx.NodeProto, name: str) -> Any:
    """An attribute of a node: int, float, text, list of them, or ndarray for a tensor.

    Args:
        node: as ``shape_infer`` and ``compute`` get it.
        name: of the attribute.

    Raises:
        UsageError: the node has no such attribute; names those that it has.
    """
    for attribute in node.attribute:
        if attribute.name == name:
            return _plain(onnx.helper.get_attribute_value(attribute))
    known = [attribute.name for attribute in node.attribute]
    has = ", ".join(sanitize(n, 60) for n in known) or "none"
    raise UsageError(
        f"Node {sanitize(node.name, 120)!r} ({sanitize(node.op_type, 80)}) has no attribute "
        f"{sanitize(str(name), 80)!r}.",
        cause=f"Its attributes: {has}.",
        remedy=did_you_mean(str(name), known) or "Set it where the model is exported.",
    )


def _plain(value: Any) -> Any:
    """Text instead of bytes, lists instead of protobuf's, arrays instead of tensors."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    if isinstance(value, str | int | float | onnx.GraphProto | onnx.TypeProto):
        return value
    try:
        return [_plain(item) for item in value]
    except TypeError:
        return value


def registered(
    operators: CustomOperators | None, given: Any, log: logging.Logger
) -> CustomOperators:
    """The operators with one more, of ``reg_custom_op``.

    A class with nothing but the ``op_type`` of an ONNX operator is taken and changes nothing: the
    vendor's way to say that a board computes that operator by the user's code. Its meaning stays.

    Raises:
        UsageError: the class does not fit.
    """
    known = operators if operators is not None else CustomOperators()
    if _only_placed(given):
        log.warning("reg_custom_op: %s is simulated as ONNX says it.", sanitize(given.op_type))
        return known
    operator = from_class(given)
    if operator.op_type in known:
        log.warning("reg_custom_op: %s replaces an earlier one.", operator.origin)
    return known.replaced(operator)


def _only_placed(operator: Any) -> bool:
    cls = operator if inspect.isclass(operator) else type(operator)
    op_type = getattr(cls, "op_type", None)
    has_code = hasattr(cls, "shape_infer") or hasattr(cls, "compute")
    return isinstance(op_type, str) and bool(op_type) and not has_code and not custom_names(op_type)


def registered_package(
    operators: CustomOperators | None, path: Path, log: logging.Logger
) -> CustomOperators:
    """The operators with the opaque one of an ``.rknnop``, of ``register_op``.

    Raises:
        ContainerError: the package cannot be read.
    """
    from engine.pipeline.trusted_code import operator_of_package

    known = operators if operators is not None else CustomOperators()
    operator = operator_of_package(path)
    if operator is None:
        log.warning("register_op: %s is for an operator that is simulated as ONNX says it.", path)
        return known
    if operator.op_type in known:
        return known  # a class knows more than a package
    log.warning(
        "register_op: %s of %s is opaque: it runs here only where the model's framework defines "
        "it, or a class for it is registered.",
        operator.op_type,
        operator.origin,
    )
    return known.replaced(operator)
