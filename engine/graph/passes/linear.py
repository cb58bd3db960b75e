"""Linear operators: canonical forms, and scales and offsets into the weights beside them.

* BatchNormalization, Mul, Add, Sub and Div by constants per channel, after Conv, ConvTranspose or
  Gemm: into its weight and bias.
* The same before Conv or Gemm: a scale always, an offset where no padding mixes zeros in.
* MatMul by a constant takes scales into that constant.

The products are formed in float64 and rounded once, so results differ from the source's in the
last bits of float32.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from engine.graph.ir import NORMALIZED
from engine.graph.ir.spec import input_at, maker_of, only_reader
from engine.graph.passes.base import NodePass, array, constant_input, is_constant, shape
from engine.graph.passes.editor import Editor

# Scale and offset per channel, as operators write it: what folding into weights needs to know.

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
    parameters = [constant_input(node, index) for index in range(1, 5)]
    if source is None or node.attributes.get_int("training_mode", 0) != 0:
        return None
    if any(numbers is None for numbers in parameters):
        return None
    scale, bias, mean, variance = (n.astype(np.float64) for n in parameters if n is not None)
    epsilon = node.attributes.get_float("epsilon", 1e-5)
    with np.errstate(all="ignore"):
        factor = scale / np.sqrt(variance + epsilon)
        return Affine(source, factor, bias - factor * mean)


_WEIGHTED = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})


class FuseAffineIntoProducer(NodePass):
    """Scale and offset that follow a weighted operator."""

    name = "fold-into-weights"
    level = 2
    summary = (
        "Scales and offsets (BatchNormalization, Mul, Add...) after Conv or Gemm become weights."
    )
    keeps_bits = False
    roots = AFFINE_OPS

    def rewrite(self, node: ir.Node, edit: Editor) -> bool:
        """Fold ``node`` into the operator before it."""
        maker = next(
            (p for v in node.inputs if v is not None and (p := v.producer()) is not None), None
        )
        if maker is None or maker.op_type not in _WEIGHTED:
            return False
        axis = 1 if maker.op_type in ("Conv", "ConvTranspose") else -1
        if maker.op_type == "Gemm" and node.op_type == "BatchNormalization":
            axis = 1
        affine = affine_of(node, axis)
        if affine is None:
            if any(is_constant(value) for value in node.inputs):
                return self.near(node, "its other operand is not a constant per channel")
            return False
        if affine.source is not maker.outputs[0] or only_reader(affine.source) is not node:
            return self.near(node, f"the output of {maker.name} is read elsewhere too")
        if any(v.uses() or v.is_graph_output() for v in node.outputs[1:]):
            return self.near(node, "its other outputs are read")
        reason = _scale_outputs(maker, affine, edit)
        if reason:
            return self.near(node, reason)
        op, epsilon = node.op_type, node.attributes.get_float("epsilon", 1e-5)
        edit.merge_follower(maker, node)
        if op == "BatchNormalization":
            maker.metadata_props[NORMALIZED] = repr(epsilon)
        return self.did(f"{op} into {maker.op_type}")


class FuseAffineIntoConsumer(NodePass):
    """Scale and offset that precede a weighted operator."""

    name = "fold-ahead-into-weights"
    level = 2
    summary = (
        "Scales and offsets (BatchNormalization, Mul, Add...) before Conv or Gemm become weights."
    )
    keeps_bits = False
    roots = AFFINE_OPS

    def rewrite(self, node: ir.Node, edit: Editor) -> bool:
        """Fold ``node`` into the operator that alone reads it."""
        reader = only_reader(node.outputs[0])
        if reader is None or reader.op_type not in ("Conv", "Gemm"):
            return False
        if reader.inputs[0] is not node.outputs[0]:
            return False
        affine = affine_of(node, 1)
        if affine is None:
            return False
        if any(v.uses() or v.is_graph_output() for v in node.outputs[1:]):
            return self.near(node, "its other outputs are read")
        reason = _scale_inputs(reader, affine, edit)
        if reason:
            return self.near(node, reason)
        op = node.op_type
        edit.add_origin(reader, [node])
        edit.set_inputs(reader, [affine.source, *reader.inputs[1:]])
        return self.did(f"{op} into the {reader.op_type} after it")


def _fits(*arrays: np.ndarray) -> bool:
    limit = np.finfo(np.float32).max
    return all(bool((np.abs(a) <= limit).all()) for a in arrays)  # NaN fails too


def _scale_outputs(node: ir.Node, affine: Affine, edit: Editor) -> str:
    """Change weight and bias of ``node``; the reason where that cannot be."""
    weight = constant_input(node, 1)
    if weight is None or weight.dtype != np.float32:
        return f"the weight of {node.name} is not a float32 constant"
    if node.op_type == "MatMul":
        return _scale_matmul(node, weight, affine, edit)
    held = input_at(node, 2)
    bias = constant_input(node, 2)
    if held is not None and bias is None:
        return f"the bias of {node.name} is computed"
    if node.op_type == "Gemm" and not _plain_gemm(node):
        return f"{node.name} scales or transposes its operands itself"
    channels = _output_channels(node, weight)
    if affine.scale.size not in (1, channels) or affine.offset.size not in (1, channels):
        return "the constant does not fit the channels"
    scale = np.broadcast_to(affine.scale, (channels,))
    offset = np.broadcast_to(affine.offset, (channels,))
    with np.errstate(all="ignore"):
        new_weight = _times(node, weight, scale)
        new_bias = offset if bias is None else bias.astype(np.float64) * scale + offset
    if not _fits(new_weight, new_bias):
        return "the folded weights would overflow"
    if not bool((scale == 1).all()):
        edit.set_constant(node, 1, new_weight.astype(np.float32))
    if bias is not None or new_bias.any():
        edit.set_constant(node, 2, new_bias.astype(np.float32), f"{node.name}_bias")
    return ""


def _plain_gemm(node: ir.Node) -> bool:
    get = node.attributes
    return get.get_float("alpha", 1.0) == 1 == get.get_float("beta", 1.0)


def _output_channels(node: ir.Node, weight: np.ndarray) -> int:
    if node.op_type == "ConvTranspose":
        return int(weight.shape[1]) * node.attributes.get_int("group", 1)
    if node.op_type == "Gemm" and not node.attributes.get_int("transB", 0):
        return int(weight.shape[1])
    return int(weight.shape[0])


def _times(node: ir.Node, weight: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """The weight with each output channel scaled, in float64."""
    if node.op_type == "ConvTranspose":  # (in, out / groups, ...), the groups along the inputs
        groups = node.attributes.get_int("group", 1)
        split = weight.reshape(groups, -1, weight.shape[1], int(np.prod(weight.shape[2:])))
        scaled: np.ndarray = split * scale.reshape(groups, 1, -1, 1)
        return scaled.reshape(weight.shape)
    if node.op_type == "Gemm" and not node.attributes.get_int("transB", 0):
        wide = scale
    else:
        wide = scale.reshape(-1, *(1,) * (weight.ndim - 1))
    product: np.ndarray = weight * wide
    return product


def _scale_matmul(node: ir.Node, weight: np.ndarray, affine: Affine, edit: Editor) -> str:
    if affine.offset.any():
        return "MatMul has no bias"
    if weight.ndim < 2 or affine.scale.size not in (1, weight.shape[-1]):
        return "the constant does not fit the columns"
    with np.errstate(all="ignore"):
        scaled = weight * affine.scale
    if not _fits(scaled):
        return "the folded weights would overflow"
    edit.set_constant(node, 1, scaled.astype(np.float32))
    return ""


def _scale_inputs(node: ir.Node, affine: Affine, edit: Editor) -> str:
    """Change weight and bias of the reader of an affine tensor; the reason where that cannot be."""
    weight = constant_input(node, 1)
    if weight is None or weight.dtype != np.float32:
        return f"the weight of {node.name} is not a float32 constant"
    bias = constant_input(node, 2)
    if input_at(node, 2) is not None and bias is None:
        return f"the bias of {node.name} is computed"
    groups = 1
    if node.op_type == "Gemm":
        if not _plain_gemm(node) or node.attributes.get_int("transA", 0) != 0:
            return f"{node.name} scales or transposes its operands itself"
        if not node.attributes.get_int("transB", 0):
            return f"{node.name} is not in canonical form"
    else:
        groups = node.attributes.get_int("group", 1)
        if affine.offset.any() and _padded(node):
            return f"{node.name} pads with zeros, which the offset would have moved"
    # rows of a group see the channels of that group
    channels = weight.shape[1] * groups
    dims = shape(affine.source)
    if dims is None or len(dims) < 2 or dims[1] != channels:
        return "the number of channels is not known"
    scale = np.broadcast_to(affine.scale, (channels,)).reshape(groups, 1, -1)
    offset = np.broadcast_to(affine.offset, (channels,)).reshape(groups, 1, -1)
    flat = weight.astype(np.float64).reshape(groups, weight.shape[0] // groups, weight.shape[1], -1)
    with np.errstate(all="ignore"):
        new_weight = flat * scale[..., None]
        shift = (flat * offset[..., None]).sum((2, 3)).ravel()
        new_bias = shift if bias is None else bias + shift
    if not _fits(new_weight, new_bias):
        return "the folded weights would overflow"
    edit.set_constant(node, 1, new_weight.reshape(weight.shape).astype(np.float32))
    if shift.any():
        edit.set_constant(node, 2, new_bias.astype(np.float32), f"{node.name}_bias")
    return ""


def _padded(node: ir.Node) -> bool:
    mode = node.attributes.get_string("auto_pad", "NOTSET")
    pads = node.attributes.get_ints("pads", None) or []
    return mode in ("SAME_UPPER", "SAME_LOWER") or (mode == "NOTSET" and any(pads))


# Canonical forms of matrix products and arithmetic by constants.
#
# * MatMul of a matrix by a constant matrix and the Add of a bias become Gemm. * Gemm holds its
# constant matrix as (outputs, inputs) with ``transB=1``; ``alpha`` and ``beta`` go into the
# constants. * Sub of a constant becomes Add, Div by powers of two becomes Mul: the same bits, one
# form less. Other divisors stay: a last bit lost before a Sigmoid has been seen to grow three
# thousandfold.


class CanonicalGemm(NodePass):
    """Matrix products with a constant."""

    name = "canonical-gemm"
    level = 1
    summary = "MatMul and Add become Gemm; Gemm has transB=1, alpha=1 and beta=1."
    # the bias is added inside the kernel, in another order
    keeps_bits = False
    roots = frozenset({"Gemm", "Add"})

    def rewrite(self, node: ir.Node, edit: Editor) -> bool:
        """One Gemm, or the Add after a MatMul."""
        return self._gemm(node, edit) if node.op_type == "Gemm" else self._add(node, edit)

    def _gemm(self, node: ir.Node, edit: Editor) -> bool:
        attributes = node.attributes
        alpha, beta = attributes.get_float("alpha", 1.0), attributes.get_float("beta", 1.0)
        held = input_at(node, 2)
        weight, bias = constant_input(node, 1), constant_input(node, 2)
        if weight is None or weight.dtype != np.float32:
            return self.near(node, "its matrix is not a float32 constant")
        if held is not None and bias is None and beta != 1:
            return self.near(node, "its bias is computed")
        turned = not attributes.get_int("transB", 0)
        if not turned and alpha == 1 and beta == 1:
            return False
        new_weight = (weight.T if turned else weight).astype(np.float64) * alpha
        edit.set_constant(node, 1, new_weight.astype(np.float32))
        if bias is not None and beta != 1:
            edit.set_constant(node, 2, (bias.astype(np.float64) * beta).astype(np.float32))
        trans_a = attributes.get_int("transA", 0)
        attributes.clear()
        attributes["transB"] = ir.AttrInt64("transB", 1)
        if trans_a:
            attributes["transA"] = ir.AttrInt64("transA", 1)
        edit.requeue(node.outputs[0])
        return self.did("Gemm brought to transB=1")

    def _add(self, node: ir.Node, edit: Editor) -> bool:
        for index in (0, 1):
            value = node.inputs[index]
            product = maker_of(value)
            if value is None or product is None or product.op_type != "MatMul":
                continue
            bias = constant_input(node, 1 - index)
            if bias is None:
                continue
            rows = shape(product.inputs[0])
            weight = constant_input(product, 1)
            if rows is None or len(rows) != 2 or weight is None or weight.ndim != 2:
                return self.near(
                    node, f"{product.name} is not a product of a matrix and a constant"
                )
            if weight.dtype != np.float32 or only_reader(value) is not node:
                return self.near(node, f"{product.name} is read elsewhere too")
            if shape(node.outputs[0]) != (rows[0], weight.shape[1]):
                return self.near(node, "the bias does not fit the rows")
            held = product.inputs[1]
            turned = edit.constant(weight.T, (held.name if held is not None else "") or "weight")
            inputs = [product.inputs[0], turned, node.inputs[1 - index]]
            edit.replace_with(product, "Gemm", inputs, {"transB": 1})
            edit.merge_follower(product, node)
            return self.did("MatMul and Add to Gemm")
        return False


class CanonicalArithmetic(NodePass):
    """Sub and Div by constants, where the other form gives the same bits."""

    name = "canonical-arithmetic"
    level = 1
    summary = "Sub of a constant becomes Add, Div by powers of two becomes Mul."
    roots = frozenset({"Sub", "Div"})

    def rewrite(self, node: ir.Node, edit: Editor) -> bool:
        """One Sub or Div whose second operand is constant."""
        numbers = constant_input(node, 1)
        if numbers is None or numbers.dtype != np.float32 or is_constant(node.inputs[0]):
            return False
        op = node.op_type
        if op == "Sub":
            edit.set_constant(node, 1, -numbers)
        else:
            mantissas, exponents = np.frexp(np.abs(numbers))
            if not (mantissas == 0.5).all() or (np.abs(exponents) > 100).any():
                return self.near(node, "a product with the reciprocal would round differently")
            edit.set_constant(node, 1, 1 / numbers)
        edit.replace_with(node, "Add" if op == "Sub" else "Mul", list(node.inputs))
        return self.did("Sub to Add" if op == "Sub" else "Div to Mul")
