"""Canonical forms of matrix products and arithmetic by constants.

* MatMul of a matrix by a constant matrix and the Add of a bias become Gemm.
* Gemm holds its constant matrix as (outputs, inputs) with ``transB=1``; ``alpha`` and ``beta`` go
  into the constants.
* Sub of a constant becomes Add, Div by powers of two becomes Mul: the same bits, one form less.
  Other divisors stay: a last bit lost before a Sigmoid has been seen to grow three thousandfold.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from engine.graph.passes.base import (
    NodePass,
    constant_input,
    input_at,
    is_constant,
    only_reader,
    shape,
)
from engine.graph.passes.editor import Editor


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
            product = None if value is None else value.producer()
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
