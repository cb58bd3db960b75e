"""Activations in the forms that quantization and the runtime fuse into the operator before.

* Clip from 0 without an upper bound is Relu; Max and Min with one number are Clip; Relu and Clip
  after each other are one of them; Relu after what is never negative is nothing.
* PRelu with one slope is LeakyRelu; LeakyRelu with slope 0 is Relu.
* ``clip(x + 3, 0, 6) / 6`` and its relatives are HardSigmoid, ``x * HardSigmoid(x)`` with slope 1/6
  and offset 1/2 is HardSwish.
* Relu and Clip move before Transpose, Reshape, MaxPool, Concat, Slice and Split-like nodes when
  that brings them beside a weighted operator or a sum.

For NaN no promise is made: Relu, Clip, Max and Min treat it differently between runtimes.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from engine.graph.ir.spec import clamp_bounds, input_at, maker_of, only_reader
from engine.graph.layers import FUSED_ACTIVATIONS
from engine.graph.passes.base import NodePass, array, is_constant, uniform_value
from engine.graph.passes.editor import Editor

_NEVER_NEGATIVE = frozenset({"Sigmoid", "Softmax", "HardSigmoid", "Exp", "Abs", "Softplus"})


def _become_clamp(edit: Editor, node: ir.Node, source: ir.Value, low: float, high: float) -> None:
    """Turn ``node`` into the simplest operator that clamps ``source``."""
    if (low, high) == (0.0, float("inf")):
        edit.replace_with(node, "Relu", [source])
        return
    kind = source.dtype.numpy() if source.dtype is not None else np.dtype(np.float32)
    inputs: list[ir.Value | None] = [source]
    for number, name in ((low, "min"), (high, "max")):
        finite = np.isfinite(number)
        inputs.append(
            edit.constant(np.array(number, dtype=kind), f"{node.name}_{name}") if finite else None
        )
    while inputs[-1] is None:
        inputs.pop()
    edit.replace_with(node, "Clip", inputs)


class CanonicalClamps(NodePass):
    """Relu, Clip and what is one of them in disguise."""

    name = "canonical-clamps"
    level = 1
    summary = "Clip, Max, Min, PRelu and LeakyRelu take their simplest form; repeated clamps merge."
    roots = frozenset({"Relu", "Clip", "Max", "Min", "PRelu", "LeakyRelu"})

    def rewrite(self, node: ir.Node, edit: Editor) -> bool:
        """One activation of float32."""
        source = node.inputs[0]
        if node.outputs[0].dtype != ir.DataType.FLOAT or source is None:
            return False
        if node.op_type in ("Max", "Min"):
            return self._extremum(node, edit)
        if node.op_type in ("PRelu", "LeakyRelu"):
            return self._leaky(node, source, edit)
        bounds = clamp_bounds(node)
        if bounds is None:
            return self.near(node, "its bounds are computed or not in order")
        low, high = bounds
        if node.op_type == "Clip" and bounds == (0.0, float("inf")):
            _become_clamp(edit, node, source, low, high)
            return self.did("Clip to Relu")
        before = source.producer()
        if before is None:
            return False
        if low <= 0 and np.isinf(high) and before.op_type in _NEVER_NEGATIVE:
            return edit.bypass(node) and self.did("clamp without effect removed")
        inner = clamp_bounds(before)
        if inner is None or before.inputs[0] is None:
            return False
        if low <= inner[0] and inner[1] <= high:
            return edit.bypass(node) and self.did("clamp without effect removed")
        if only_reader(source) is not node:
            return self.near(node, f"the output of {before.name} is read elsewhere too")
        merged = [min(max(number, low), high) for number in inner]
        edit.add_origin(node, [before])
        _become_clamp(edit, node, before.inputs[0], merged[0], merged[1])
        return self.did("clamps merged")

    def _extremum(self, node: ir.Node, edit: Editor) -> bool:
        if len(node.inputs) != 2:
            return False
        for held, source in _either_way(node):
            numbers = array(held)
            if numbers is None or source is None or is_constant(source) or source.shape is None:
                continue
            if numbers.size != 1 or numbers.ndim > len(source.shape):
                return self.near(node, "its constant is not a single number")
            number, op = float(numbers.ravel()[0]), node.op_type
            if np.isnan(number):
                return self.near(node, "its constant is not a number")
            low, high = (number, np.inf) if op == "Max" else (-np.inf, number)
            _become_clamp(edit, node, source, float(low), float(high))
            return self.did(f"{op} to clamp")
        return False

    def _leaky(self, node: ir.Node, source: ir.Value, edit: Editor) -> bool:
        if node.op_type == "PRelu":
            slope = uniform_value(input_at(node, 1))
            if slope is None:
                return False
            edit.replace_with(node, "LeakyRelu", [source], {"alpha": slope})
            return self.did("PRelu to LeakyRelu")
        if node.attributes.get_float("alpha", 0.01) != 0:
            return False
        edit.replace_with(node, "Relu", [source])
        return self.did("LeakyRelu to Relu")


class HardActivations(NodePass):
    """HardSigmoid and HardSwish written out in simpler operators."""

    name = "hard-activations"
    level = 2
    summary = "HardSigmoid and HardSwish written out as Add, Clip, Mul and Div become one node."
    keeps_bits = False
    roots = frozenset({"Mul", "Div", "Clip"})

    def rewrite(self, node: ir.Node, edit: Editor) -> bool:
        """The last node of a pattern."""
        if node.outputs[0].dtype != ir.DataType.FLOAT:
            return False
        if node.op_type == "Clip":
            return self._unit_clip(node, edit)
        return self._sixth(node, edit) or self._swish(node, edit)

    def _unit_clip(self, node: ir.Node, edit: Editor) -> bool:
        """``clip(a * x + b, 0, 1)`` is HardSigmoid by definition."""
        add = maker_of(node.inputs[0], "Add")
        if clamp_bounds(node) != (0.0, 1.0) or add is None:
            return False
        offset, scaled = _number_and_other(add)
        multiply = maker_of(scaled, "Mul", "Div")
        if offset is None or multiply is None or only_reader(node.inputs[0]) is not node:
            return False
        if only_reader(scaled) is not add:
            return self.near(node, f"the output of {multiply.name} is read elsewhere too")
        slope, source = _number_and_other(multiply)
        if not slope or source is None:
            return False
        slope = slope if multiply.op_type == "Mul" else 1 / slope
        edit.replace_with(
            node, "HardSigmoid", [source], {"alpha": slope, "beta": offset}, origin=[multiply, add]
        )
        return self.did("Mul, Add, Clip to HardSigmoid")

    def _sixth(self, node: ir.Node, edit: Editor) -> bool:
        """``clip(x + 3, 0, 6) / 6`` is ``HardSigmoid(x)`` with slope 1/6 and offset 1/2."""
        number, clipped = _number_and_other(node)
        if number is None or clipped is None:
            return False
        if abs((number if node.op_type == "Mul" else 1 / number if number else 0) * 6 - 1) > 1e-6:
            return False
        product = maker_of(clipped, "Mul")
        if product is not None:
            return self._product_sixth(node, product, edit)
        shifted = _shifted(clipped)
        if shifted is None or only_reader(clipped) is not node:
            return False
        source, steps = shifted
        edit.replace_with(
            node, "HardSigmoid", [source], {"alpha": 1 / 6, "beta": 0.5}, origin=steps
        )
        return self.did("Add, Clip, Div to HardSigmoid")

    def _product_sixth(self, node: ir.Node, product: ir.Node, edit: Editor) -> bool:
        """``x * clip(x + 3, 0, 6) / 6`` is HardSwish."""
        if only_reader(product.outputs[0]) is not node:
            return False
        for clipped, source in _either_way(product):
            shifted = _shifted(clipped)
            if shifted is None or shifted[0] is not source:
                continue
            if only_reader(clipped) is not product:
                return False
            edit.replace_with(node, "HardSwish", [source], origin=[*shifted[1], product])
            return self.did("Add, Clip, Mul, Div to HardSwish")
        return False

    def _swish(self, node: ir.Node, edit: Editor) -> bool:
        """``x * HardSigmoid(x)`` with slope 1/6 and offset 1/2."""
        if node.op_type != "Mul":
            return False
        for gate, source in _either_way(node):
            hard = maker_of(gate, "HardSigmoid")
            if hard is None or hard.inputs[0] is not source or only_reader(gate) is not node:
                continue
            slope = hard.attributes.get_float("alpha", 0.2)
            if abs(slope * 6 - 1) > 1e-6 or hard.attributes.get_float("beta", 0.5) != 0.5:
                return self.near(node, f"{hard.name} has another slope or offset than HardSwish")
            edit.replace_with(node, "HardSwish", [source], origin=[hard])
            return self.did("HardSigmoid and Mul to HardSwish")
        return False


def _number_and_other(node: ir.Node) -> tuple[float | None, ir.Value | None]:
    """The one number of a Mul, Add or Div by a constant, and the other operand."""
    orders = _either_way(node)[1:] if node.op_type == "Div" else reversed(_either_way(node))
    for number, source in orders:
        numbers = array(number)
        if numbers is None or source is None or is_constant(source) or source.shape is None:
            continue
        if numbers.size == 1 and numbers.ndim <= len(source.shape):
            return float(numbers.ravel()[0]), source
    return None, None


def _either_way(node: ir.Node) -> tuple[tuple[ir.Value | None, ir.Value | None], ...]:
    """The two operands of a node, in both orders."""
    left, right = node.inputs
    return (left, right), (right, left)


def _shifted(clipped: ir.Value | None) -> tuple[ir.Value, list[ir.Node]] | None:
    """The source and the nodes of ``clip(x + 3, 0, 6)``, where the sum is read nowhere else."""
    clip = maker_of(clipped, "Clip")
    if clip is None or clamp_bounds(clip) != (0.0, 6.0):
        return None
    add = maker_of(clip.inputs[0], "Add")
    if add is None or only_reader(clip.inputs[0]) is not clip:
        return None
    number, source = _number_and_other(add)
    return (source, [add, clip]) if source is not None and number == 3 else None


class HoistActivations(NodePass):
    """Relu and Clip beside the operator that computes what they clamp."""

    name = "activations-first"
    level = 3
    summary = "Relu and Clip move before Transpose, Reshape, MaxPool and Concat to be fused."
    keeps_bits = False
    roots = FUSED_ACTIVATIONS

    _PASSED = frozenset({"Transpose", "Reshape", "MaxPool", "Concat"})
    _FUSES = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul", "Add", "BatchNormalization"})

    def rewrite(self, node: ir.Node, edit: Editor) -> bool:
        """One clamp with constant bounds."""
        source = node.inputs[0]
        passed = maker_of(source, *self._PASSED)
        if passed is None:
            return False
        if clamp_bounds(node) is None or len(passed.outputs) > 1:
            return False
        if only_reader(source) is not node:
            return self.near(node, f"the output of {passed.name} is read elsewhere too")
        count = len(passed.inputs) if passed.op_type == "Concat" else 1
        for value in passed.inputs[:count]:
            if value is None or not self._leads_to_fusion(value):
                return self.near(node, f"an input of {passed.name} comes from nothing to fuse with")
        inputs = list(passed.inputs)
        for index, value in enumerate(inputs[:count]):
            if value is not None:
                inputs[index] = edit.insert(
                    node.op_type,
                    [value, *node.inputs[1:]],
                    before=passed,
                    like=value,
                    name=f"{node.name}_{index}" if count > 1 else f"{node.name}_first",
                    output=f"{value.name}_clamped",
                    origin=[node],
                ).outputs[0]
        for constant in node.inputs[1:]:
            if constant is not None:
                edit.share(constant)
        name = passed.op_type
        edit.set_inputs(passed, inputs)
        edit.merge_follower(passed, node, add_origin=False)
        return self.did(f"clamp moved before {name}")

    def _leads_to_fusion(self, value: ir.Value, depth: int = 8) -> bool:
        """Whether the value comes, over nodes that a clamp may pass, from one that fuses it."""
        producer = value.producer()
        if producer is None or only_reader(value) is None or depth == 0:
            return False
        if producer.op_type in self._FUSES:
            return True
        if producer.op_type not in self._PASSED:
            return False
        count = len(producer.inputs) if producer.op_type == "Concat" else 1
        return all(
            step is not None and self._leads_to_fusion(step, depth - 1)
            for step in producer.inputs[:count]
        )
