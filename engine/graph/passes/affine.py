"""Scale and offset per channel, as operators write it: what folding into weights needs to know."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from engine.graph.passes.match import array, constant_input, input_at, shape

__all__ = ["AFFINE_OPS", "Affine", "affine_of"]

AFFINE_OPS = frozenset({"BatchNormalization", "Mul", "Add", "Sub", "Div"})


@dataclass(frozen=True)
class Affine:
    """``y = scale * x + offset``, float64 arrays of one element per channel (or of one element).

    Attributes:
        source: x.
        scale, offset: of shape ``(channels,)`` or ``(1,)``.
    """

    source: ir.Value
    scale: np.ndarray
    offset: np.ndarray

    @property
    def finite(self) -> bool:
        """Whether all numbers are finite."""
        return bool(np.isfinite(self.scale).all() and np.isfinite(self.offset).all())


def affine_of(node: ir.Node, axis: int = 1) -> Affine | None:
    """The scale and offset of a BatchNormalization, Mul, Add, Sub or Div; None for anything else.

    Args:
        node: any node.
        axis: of the channels in its input; the constant must not vary along any other axis, and
            must not broadcast the input to a larger tensor.
    """
    if node.op_type == "BatchNormalization":
        return _normalization(node) if axis == 1 else None
    if node.op_type not in AFFINE_OPS or len(node.inputs) != 2:
        return None
    left, right = node.inputs
    if left is None or right is None:
        return None
    swapped = array(right) is None
    source, numbers = (right, array(left)) if swapped else (left, array(right))
    if numbers is None or numbers.dtype.kind != "f":
        return None
    constant = _per_channel(numbers, shape(source), shape(node.outputs[0]), axis)
    if constant is None:
        return None
    one, zero = np.ones(1), np.zeros(1)
    if node.op_type == "Mul":
        return Affine(source, constant, zero)
    if node.op_type == "Add":
        return Affine(source, one, constant)
    if node.op_type == "Sub":
        return Affine(source, -one, constant) if swapped else Affine(source, one, -constant)
    if swapped or not constant.all():
        return None  # constant / x is no scale
    return Affine(source, 1 / constant, zero)


def _per_channel(
    numbers: np.ndarray,
    before: tuple[int, ...] | None,
    after: tuple[int, ...] | None,
    axis: int,
) -> np.ndarray | None:
    if numbers.size == 1 and (before is None or numbers.ndim <= len(before)):
        return numbers.astype(np.float64).reshape(1)
    if before is None or before != after or numbers.ndim > len(before):
        return None
    dims = (1,) * (len(before) - numbers.ndim) + numbers.shape
    axis %= len(before)
    if any(dim != 1 for index, dim in enumerate(dims) if index != axis):
        return None
    return numbers.astype(np.float64).reshape(-1)


def _normalization(node: ir.Node) -> Affine | None:
    """BatchNormalization of inference: scale / sqrt(var + epsilon) * (x - mean) + bias."""
    source = input_at(node, 0)
    found = [constant_input(node, index) for index in range(1, 5)]
    if source is None or node.attributes.get_int("training_mode", 0) != 0:
        return None
    if any(numbers is None for numbers in found):
        return None
    scale, bias, mean, variance = (n.astype(np.float64) for n in found if n is not None)
    epsilon = node.attributes.get_float("epsilon", 1e-5)
    with np.errstate(all="ignore"):
        factor = scale / np.sqrt(variance + epsilon)
        return Affine(source, factor, bias - factor * mean)
