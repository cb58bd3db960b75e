"""What a user's class of a custom operator may call: the vendor's ``rknn.api.custom_op``.

A script for the vendor's toolkit says ``from rknn.api.custom_op import get_node_attr``; here it is
``from engine.api.custom_op import get_node_attr`` (docs/custom-operators.md).
"""

from __future__ import annotations

from typing import Any

import onnx

from engine.base.errors import UsageError
from engine.base.text import did_you_mean, printable

__all__ = ["get_node_attr"]


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
    has = ", ".join(printable(n, 60) for n in known) or "none"
    raise UsageError(
        f"Node {printable(node.name, 120)!r} ({printable(node.op_type, 80)}) has no attribute "
        f"{printable(str(name), 80)!r}.",
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
