"""If, Loop, Scan and SequenceMap, and what chooses between results by data."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx

from engine.base.errors import UnsupportedOperatorError
from engine.base.text import sanitize, shape_text
from engine.frontends.ends import INITIAL_FORM
from engine.frontends.onnx.control.expander import (
    Expander,
    Scope,
    TensorList,
    TensorSequence,
    Value,
    handles,
)
from engine.graph.ir.rewriting import attribute


def _graph(ex: Expander, node: onnx.NodeProto, name: str) -> onnx.GraphProto:
    for held in node.attribute:
        if held.name == name and held.HasField("g"):
            graph: onnx.GraphProto = held.g
            return graph
    raise ex.refusal(node, f"it has no {name}")


def _ints(node: onnx.NodeProto, name: str, count: int) -> list[int]:
    """An attribute of one whole number per scan input or output; zeros where it is left out."""
    return attribute(node, name, list[int]()) or [0] * count


@handles("If")
def _if(ex: Expander, node: onnx.NodeProto, scope: Scope) -> Sequence[Value]:
    """The branch of a known condition, or both with ``Where`` between them."""
    condition = truth(ex, ex.tensor(node, 0, scope))
    branches = [_graph(ex, node, name) for name in ("then_branch", "else_branch")]
    if isinstance(condition, bool):
        branch = branches[0 if condition else 1]
        return ex.inlined(branch, ex.opened(branch, scope))
    try:
        with ex.guarded(node):
            yes, no = [ex.inlined(branch, ex.opened(branch, scope)) for branch in branches]
        if len(yes) != len(no):
            raise ex.refusal(node, "its branches give different numbers of results")
        chosen = [select(ex, condition, a, b) for a, b in zip(yes, no, strict=True)]
    except UnsupportedOperatorError as error:
        raise _with_values(ex, condition, error) from error
    ex.switches.update(dict.fromkeys(_switches(ex, condition)))
    return chosen


def _switches(ex: Expander, condition: str) -> list[str]:
    """The inputs of one element that a condition is made of; none where it takes others too."""
    sizes = {name: ex.emission.shape(name) for name in ex.emission.inputs_behind(condition)}
    single = [name for name, shape in sizes.items() if shape is not None and math.prod(shape) == 1]
    return sorted(single) if len(single) == len(sizes) else []


def _with_values(
    ex: Expander, condition: str, error: UnsupportedOperatorError
) -> UnsupportedOperatorError:
    """The error, with the way to decide the condition: a value for the switches it is made of."""
    switches = _switches(ex, condition)
    if not switches or "input_initial_val" in error.remedy:
        return error
    named = " and ".join(repr(sanitize(name, 60)) for name in switches[:4])
    return UnsupportedOperatorError(
        error.what,
        cause=error.cause,
        remedy=f"Give the input {named} a value with 'input_initial_val', which then decides the "
        f"branch: {INITIAL_FORM}. {error.remedy}",
    )


class _Loop:
    """A Loop on its way: the values that it carries, and whether it is still running.

    The body is run on ``carried`` as often as the bound allows. Where a condition depends on data,
    ``result`` keeps, by ``Where(active, carried, result)``, what the last iteration gave that the
    model would have run; what iterations compute after that is used nowhere.
    """

    def __init__(self, ex: Expander, node: onnx.NodeProto, scope: Scope) -> None:
        self.ex = ex
        self.node = node
        self.body = _graph(ex, node, "body")
        self.scope = ex.opened(self.body, scope)
        self.carried = [ex.value(scope, name) for name in node.input[2:]]
        self.result = list(self.carried)
        self.scans: list[list[str]] = [
            [] for _ in range(len(self.body.output) - 1 - len(self.carried))
        ]
        self.active: str | None = None
        """The name of a bool: whether the model would run the next iteration; None: it would."""

    def iterate(self, number: int) -> bool:
        """Run the body once; gives whether another iteration may follow."""
        # a scalar by ONNX's rules; tf2onnx declares one element, which ONNX Runtime takes too
        axes = len(self.body.input[0].type.tensor_type.shape.dim)
        index = self.ex.emission.constant(np.full([1] * axes, number, np.int64), "iteration")
        going = self.active or self.ex.emission.constant(np.array(True), "true")
        outputs = self.ex.inlined(self.body, self.scope, [index, going, *self.carried])
        count = len(self.carried)
        self.carried = outputs[1 : 1 + count]
        for scan, value in zip(self.scans, outputs[1 + count :], strict=True):
            scan.append(self.ex.as_tensor(value, "a scan output"))
        if self.active is None:
            self.result = list(self.carried)
        else:
            pairs = zip(self.carried, self.result, self.node.output, strict=False)
            self.result = [
                select(self.ex, self.active, new, old) if switched else old
                for new, old, switched in pairs
            ]
        return self.proceed(self.ex.as_tensor(outputs[0], "the condition"))

    def proceed(self, condition: str) -> bool:
        """Take the condition for the next iteration; gives whether it may follow."""
        going = truth(self.ex, condition)
        if isinstance(going, bool):
            return going
        if self.active is not None:
            going = self.ex.emission.op("And", [self.active, going], f"{going}_still")
            constant = self.ex.emission.known(going)
            if constant is not None:
                return bool(constant)
        self.active = going
        return True


@handles("Loop")
def _loop(ex: Expander, node: onnx.NodeProto, scope: Scope) -> Sequence[Value]:
    """Unrolled: as many iterations as a constant trip count or condition lets happen."""
    trips = ex.number(node, 0, scope, "trip count")
    loop = _Loop(ex, node, scope)
    condition = ex.tensor(node, 1, scope)
    going = loop.proceed(condition) if condition else True
    number = 0
    while going and (trips is None or number < trips):
        ex.step()
        if loop.active is None:
            going = loop.iterate(number)
        else:
            if loop.scans:
                raise ex.refusal(node, "how many results it collects depends on data")
            with ex.guarded(node):
                going = loop.iterate(number)
        number += 1
    return [*loop.result, *(_collected(ex, node, scan, 0) for scan in loop.scans)]


def _collected(ex: Expander, node: onnx.NodeProto, items: Sequence[str], axis: int) -> str:
    if not items:
        raise ex.refusal(node, "it has no iteration, so that what it collects is empty")
    return ex.concatenated(items, axis, new_axis=True)


@handles("Scan")
def _scan(ex: Expander, node: onnx.NodeProto, scope: Scope) -> Sequence[Value]:
    """Unrolled over the axes that it scans (opset 9 and newer)."""
    if ex.emission.opset < 9:
        raise ex.refusal(node, "Scan of opset 8 works on batches of sequences")
    body = _graph(ex, node, "body")
    scanned = attribute(node, "num_scan_inputs", 0)
    states = len(node.input) - scanned
    collected = len(body.output) - states
    if scanned < 1 or states < 0 or collected < 0:
        raise ex.refusal(node, "its attributes do not fit its inputs")
    inputs = [ex.tensor(node, states + n, scope) for n in range(scanned)]
    axes = _ints(node, "scan_input_axes", scanned)
    backward = _ints(node, "scan_input_directions", scanned)
    length = _scan_length(ex, node, inputs, axes)
    opened = ex.opened(body, scope)
    carried = [ex.value(scope, name) for name in node.input[:states]]
    scans: list[list[str]] = [[] for _ in range(collected)]
    for step in range(length):
        ex.step()
        slices = [
            ex.element(name, axis, length - 1 - step if reverse else step)
            for name, axis, reverse in zip(inputs, axes, backward, strict=True)
        ]
        outputs = ex.inlined(body, opened, [*carried, *slices])
        carried = outputs[:states]
        for scan, value in zip(scans, outputs[states:], strict=True):
            scan.append(ex.as_tensor(value, "a scan output"))
    out_axes = _ints(node, "scan_output_axes", collected)
    for scan, reverse in zip(scans, _ints(node, "scan_output_directions", collected), strict=True):
        if reverse:
            scan.reverse()
    ends = [_collected(ex, node, s, axis) for s, axis in zip(scans, out_axes, strict=True)]
    return [*carried, *ends]


def _scan_length(
    ex: Expander, node: onnx.NodeProto, inputs: Sequence[str], axes: Sequence[int]
) -> int:
    if len(axes) != len(inputs):
        raise ex.refusal(node, "its scan_input_axes do not fit its inputs")
    lengths = set()
    for name, axis in zip(inputs, axes, strict=True):
        shape = ex.emission.shape(name)
        if shape is None or not -len(shape) <= axis < len(shape):
            raise ex.refusal(node, "the size of what it scans is not known")
        lengths.add(shape[axis])
    if len(lengths) != 1:
        raise ex.refusal(node, "its inputs have different lengths")
    return lengths.pop()


@handles("SequenceMap")
def _sequence_map(ex: Expander, node: onnx.NodeProto, scope: Scope) -> Sequence[Value]:
    """The body once for each element; inputs that are no sequences are the same each time."""
    body = _graph(ex, node, "body")
    values = [ex.value(scope, name) for name in node.input]
    lengths = {len(value.items) for value in values if isinstance(value, TensorSequence)}
    if not values or not isinstance(values[0], TensorSequence) or len(lengths) != 1:
        raise ex.refusal(node, "its sequences have different lengths")
    opened = ex.opened(body, scope)
    results: list[list[str]] = [[] for _ in body.output]
    for index in range(lengths.pop()):
        ex.step()
        arguments = [v.items[index] if isinstance(v, TensorSequence) else v for v in values]
        for result, value in zip(results, ex.inlined(body, opened, arguments), strict=True):
            result.append(ex.as_tensor(value, "an output of the body"))
    return [TensorSequence(tuple(result)) for result in results]


# ONNX Runtime has no Where for these; every number of theirs is one of the wider type
_THROUGH: dict[int, int] = {
    onnx.TensorProto.BOOL: onnx.TensorProto.INT32,
    onnx.TensorProto.INT8: onnx.TensorProto.INT32,
    onnx.TensorProto.INT16: onnx.TensorProto.INT32,
    onnx.TensorProto.UINT16: onnx.TensorProto.INT32,
    onnx.TensorProto.BFLOAT16: onnx.TensorProto.FLOAT,
}


def select(ex: Expander, condition: str, yes: Value, no: Value) -> Value:
    """``yes`` where the scalar ``condition`` holds, else ``no``.

    Raises:
        UnsupportedOperatorError: they differ in type, shape or length.
    """
    if yes == no:
        return yes
    if isinstance(yes, TensorSequence) and isinstance(no, TensorSequence):
        if len(yes.items) != len(no.items):
            raise ex.refusal(ex.current, "the length of a sequence depends on data")
        pairs = zip(yes.items, no.items, strict=True)
        return TensorSequence(tuple(_where(ex, condition, a, b) for a, b in pairs))
    if isinstance(yes, TensorList):
        yes = ex.stacked(yes)
    if isinstance(no, TensorList):
        no = ex.stacked(no)
    if not isinstance(yes, str) or not isinstance(no, str):
        raise ex.refusal(ex.current, "whether it gives a tensor depends on data")
    return _where(ex, condition, yes, no)


def _where(ex: Expander, condition: str, yes: str, no: str) -> str:
    emission = ex.emission
    if yes == no:
        return yes
    kind, shape = emission.element(yes), emission.shape(yes)
    if shape is None or not kind or (kind, shape) != (emission.element(no), emission.shape(no)):
        raise ex.refusal(
            ex.current,
            "which result it gives depends on data, and the results differ in size or type "
            f"({_shown(shape)} and {_shown(emission.shape(no))})",
        )
    if emission.opset < 9:
        raise ex.refusal(
            ex.current, f"its condition depends on data, and opset {emission.opset} has no Where"
        )
    chosen = _by_logic(ex, condition, yes, no) if kind == onnx.TensorProto.BOOL else ""
    if chosen:
        return chosen
    through = _THROUGH.get(kind)
    if through is not None:
        yes, no = (emission.op("Cast", [x], f"{x}_wide", to=through) for x in (yes, no))
    result = emission.op("Where", [condition, yes, no], f"{yes}_selected")
    if through is None:
        return result
    return emission.op("Cast", [result], f"{result}_narrow", to=kind)


def _by_logic(ex: Expander, condition: str, yes: str, no: str) -> str:
    """What TorchScript made a branch of, ``and``, ``or`` and ``bool()``; empty for other bools."""
    known = [ex.emission.known(name) for name in (yes, no)]
    first, second = (None if a is None or a.shape != () else bool(a) for a in known)
    if (first, second) == (True, False):
        return condition
    if first is True:
        return ex.emission.op("Or", [condition, no], f"{no}_selected")
    if second is False:
        return ex.emission.op("And", [condition, yes], f"{yes}_selected")
    return ""


def truth(ex: Expander, name: str) -> bool | str:
    """A condition that is known, or the name of a bool without dimensions."""
    array = ex.emission.known(name)
    if array is not None and array.size == 1:
        return bool(array.reshape(()))
    if ex.emission.shape(name) == ():
        return name
    scalar = ex.emission.constant(np.zeros(0, np.int64), "no_dims")
    return ex.emission.op("Reshape", [name, scalar], f"{name}_scalar")


def _shown(shape: tuple[int, ...] | None) -> str:
    return "unknown" if shape is None else shape_text(shape)
