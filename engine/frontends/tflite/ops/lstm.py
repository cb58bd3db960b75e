"""LSTM layers.

One that ONNX's LSTM computes becomes one; what that lacks (clipping of the cell as TFLite clips it,
projection, coupled gates, layer normalization) is unrolled over time, step by step as
``lstm_eval.cc`` computes it.
"""

from __future__ import annotations

import numpy as np

from engine.frontends.formula import Formula, apply, clip, sigmoid, tanh
from engine.frontends.tflite.layer import Handler, Layer
from engine.frontends.tflite.ops.rnn_cell import GATES, Cell, cell_of, note_state
from engine.frontends.tflite.values import Value

__all__ = ["HANDLERS", "give", "give_both", "initial_of", "sequence"]

_TANH = 4
_MAX_STEPS = 1024
_EPSILON = 1e-8  # kLayerNormEpsilon


def sequence(layer: Layer) -> tuple[str, tuple[int, int], int]:
    """The first input as (time, batch, features), steps and batch, and whether time comes first."""
    major, shape, x = layer.int_option("time_major"), layer.input(0).shape, layer.real(0)
    if major:
        return x, (shape[0], shape[1]), major
    return layer.node("Transpose", [x], perm=[1, 0, 2]), (shape[1], shape[0]), major


def _run(layer: Layer, cell: Cell, x: str, steps: int, *, backward: bool = False) -> str:
    """Outputs (time, batch, outputs) of inputs (time, batch, features)."""
    if cell.plain(steps):
        return _onnx_lstm(layer, cell, x, backward)
    if steps > _MAX_STEPS:
        raise layer.refusal(f"it would be unrolled over {steps} steps")
    return _unrolled(layer, cell, x, steps, backward)


def initial_of(layer: Layer, value: Value) -> str:
    """A state for ONNX: (1, batch, units), or nothing for zeros."""
    if value.array is not None and not value.array.any():
        return ""
    return layer.node("Unsqueeze", [layer.tensors.real(value), layer.emit.ints(0)])


def _onnx_lstm(layer: Layer, cell: Cell, x: str, backward: bool) -> str:
    """ONNX orders the gates input, output, forget, cell."""
    order = (0, 3, 1, 2)
    units = cell.units

    def joined(parts: tuple[np.ndarray | None, ...], which: tuple[int, ...]) -> np.ndarray:
        blank = np.zeros(units, np.float32)
        return np.concatenate([blank if parts[i] is None else parts[i] for i in which])

    bias = np.concatenate([joined(cell.bias, order), np.zeros(4 * units, np.float32)])
    inputs = [
        x,
        layer.emit.constant(joined(cell.kernel, order)[None], f"{layer.name}_kernel"),
        layer.emit.constant(joined(cell.recurrent, order)[None], f"{layer.name}_recurrent"),
        layer.emit.constant(bias[None], f"{layer.name}_bias"),
        "",
        initial_of(layer, cell.hidden),
        initial_of(layer, cell.state),
    ]
    if any(part is not None for part in cell.peephole):
        # TFLite's are input, forget, output; ONNX's input, output, forget
        inputs.append(layer.emit.constant(joined(cell.peephole, (0, 2, 1))[None], "peephole"))
    while not inputs[-1]:
        inputs.pop()
    y = layer.node(
        "LSTM", inputs, hidden_size=units, direction="reverse" if backward else "forward"
    )
    return layer.node("Squeeze", [y, layer.emit.ints(1)])


def _unrolled(layer: Layer, cell: Cell, x: str, steps: int, backward: bool) -> str:
    gates = cell.gates
    normed = any(norm is not None for norm in cell.norm)
    kernel = np.concatenate([cell.kernel[i] for i in gates])
    recurrent = np.concatenate([cell.recurrent[i] for i in gates])
    projected = layer.node("MatMul", [x, layer.emit.constant(kernel.T, "kernel")])
    if not normed:
        blank = np.zeros(cell.units, np.float32)
        bias = np.concatenate([blank if cell.bias[i] is None else cell.bias[i] for i in gates])
        projected = layer.node("Add", [projected, layer.emit.constant(bias, "bias")])
    weights = layer.emit.constant(recurrent.T, "recurrent")
    # everything keeps the axis of time, of length 1, so that the steps join without reshaping
    front = layer.emit.ints(0)
    hidden, state = (
        layer.node("Unsqueeze", [layer.tensors.real(value), front])
        for value in (cell.hidden, cell.state)
    )
    names = [f"{layer.name}_step_{step}" for step in range(steps)]
    parts = layer.emit.nodes("Split", [projected], names, axis=0, num_outputs=steps)
    outputs = [""] * steps
    for step in reversed(range(steps)) if backward else range(steps):
        sums = layer.node("Add", [parts[step], layer.node("MatMul", [hidden, weights])])
        hidden, state = _step(layer, cell, sums, state)
        outputs[step] = hidden
    return layer.node("Concat", outputs, axis=0)


def _step(layer: Layer, cell: Cell, sums: str, state: str) -> tuple[str, str]:
    """One step: the new output and the new cell."""
    names = [f"{layer.name}_{GATES[i]}_gate" for i in cell.gates]
    sizes = layer.emit.ints(*[cell.units] * len(names))
    parts = dict(
        zip(cell.gates, layer.emit.nodes("Split", [sums, sizes], names, axis=-1), strict=True)
    )
    given = {gate: layer.emit.formula(part) for gate, part in parts.items()}
    before = layer.emit.formula(state)
    forget = sigmoid(_gate(layer, cell, 1, given[1], before))
    entry = sigmoid(_gate(layer, cell, 0, given[0], before)) if 0 in given else 1.0 - forget
    new = tanh(_gate(layer, cell, 2, given[2], before))
    after = forget * before + entry * new
    if cell.cell_clip > 0:
        after = clip(after, -cell.cell_clip, cell.cell_clip)
    out = sigmoid(_gate(layer, cell, 3, given[3], after))
    hidden, state = (out * tanh(after)).written(), after.written()
    if cell.projection is None:
        return hidden, state
    hidden = layer.node("MatMul", [hidden, layer.once(cell.projection, "projection")])
    if cell.projection_bias is not None:
        hidden = layer.node("Add", [hidden, layer.once(cell.projection_bias, "projection_bias")])
    bound = cell.projection_clip
    if bound > 0:
        hidden = clip(layer.emit.formula(hidden), -bound, bound).written()
    return hidden, state


def _gate(layer: Layer, cell: Cell, gate: int, sums: Formula, state: Formula) -> Formula:
    """What goes into a gate's activation: peephole, then layer normalization and its bias."""
    peephole = None if gate == 2 else cell.peephole[(0, 1, -1, 2)[gate]]
    if peephole is not None:
        sums = sums + state * layer.once(peephole, "peephole")
    norm = cell.norm[gate]
    if not any(part is not None for part in cell.norm):
        return sums
    if norm is None:
        raise ValueError(f"its {GATES[gate]} gate has no normalization, and others have")
    bias = cell.bias[gate]
    factors = [layer.once(norm, "norm")]
    if bias is not None:
        factors.append(layer.once(bias, "bias"))
    # as MeanStddevNormalization: epsilon is added to the variance
    return apply("LayerNormalization", sums, *factors, axis=-1, epsilon=_EPSILON)


def _sequence_lstm(layer: Layer) -> None:
    """UNIDIRECTIONAL_SEQUENCE_LSTM."""
    if layer.int_option("diagonal_recurrent"):
        raise layer.refusal("its recurrent weights are diagonal")
    cell = cell_of(layer, 1, 18, 20)
    x, shape, major = sequence(layer)
    y = _run(layer, cell, x, shape[0])
    give(layer, 0, y, (*shape, cell.outputs), major)


def give(layer: Layer, index: int, y: str, shape: tuple[int, int, int], major: int) -> None:
    """Output ``index`` from (time, batch, outputs)."""
    if major:
        layer.result("Identity", [y], shape, index=index)
        return
    swapped = (shape[1], shape[0], shape[2])
    layer.result("Transpose", [y], swapped, index=index, perm=[1, 0, 2])


def give_both(
    layer: Layer, parts: tuple[str, str], shape: tuple[int, int], sizes: tuple[int, int], major: int
) -> None:
    """The outputs of both directions, joined where the option says so."""
    if layer.int_option("merge_outputs"):
        joined = layer.node("Concat", parts, axis=2)
        give(layer, 0, joined, (*shape, sum(sizes)), major)
        return
    for index, (part, size) in enumerate(zip(parts, sizes, strict=True)):
        give(layer, index, part, (*shape, size), major)


def _bidirectional_lstm(layer: Layer) -> None:
    """BIDIRECTIONAL_SEQUENCE_LSTM: inputs 1 to 17 forward, 18 to 34 backward, then the states."""
    if any(layer.has(index) for index in range(39, 48)):
        raise layer.refusal("it has an auxiliary input")
    cells = (cell_of(layer, 1, 35, None), cell_of(layer, 18, 37, None))
    x, shape, major = sequence(layer)
    parts = (_run(layer, cells[0], x, shape[0]), _run(layer, cells[1], x, shape[0], backward=True))
    give_both(layer, parts, shape, (cells[0].outputs, cells[1].outputs), major)


def _lstm(layer: Layer) -> None:
    """LSTM: one step, of the full or of the basic kernel."""
    if layer.int_option("kernel_type") == 1:
        _basic_lstm(layer)
        return
    cell = cell_of(layer, 1, 18, 20)
    x = layer.input(0)
    tensor = layer.node("Unsqueeze", [layer.real(0), layer.emit.ints(0)])
    y = _run(layer, cell, tensor, 1)
    # files of old converters list scratch tensors before the output
    shape = [x.shape[0], cell.outputs]
    layer.result("Squeeze", [y, layer.emit.ints(0)], shape, index=layer.outputs - 1)


def _basic_lstm(layer: Layer) -> None:
    """The basic kernel: one matrix for (input, output before), gates input, new, forget, output."""
    x, before, state = layer.input(0), layer.input(1), layer.input(4)
    if x.dtype != "float32" or layer.int_option("activation") != _TANH:
        raise layer.refusal("it computes in integers, or with another activation than tanh")
    units = state.shape[-1]
    joined = layer.node("Concat", [layer.real(0), layer.real(1)], axis=-1)
    flat = layer.node("Reshape", [joined, layer.emit.ints(-1, x.shape[-1] + before.shape[-1])])
    sums = layer.node("Gemm", [flat, layer.real(2), layer.real(3)], transB=1)
    names = [f"{layer.name}_{gate}" for gate in ("input", "new", "forget", "output")]
    sizes = layer.emit.ints(*[units] * 4)
    entry, new, forget, out = layer.emit.nodes("Split", [sums, sizes], names, axis=-1)
    flat_state = layer.node("Reshape", [layer.real(4), layer.emit.ints(-1, units)])
    of = layer.emit.formula
    cell = sigmoid(of(forget)) * of(flat_state) + sigmoid(of(entry)) * tanh(of(new))
    hidden = sigmoid(of(out)) * tanh(cell)
    for index, tensor in enumerate((hidden.written(), cell.written())):
        shape = layer.emit.ints(*state.shape)
        layer.result("Reshape", [tensor, shape], state.shape, index=index)
    note_state(layer)


HANDLERS: dict[str, Handler] = {
    "BIDIRECTIONAL_SEQUENCE_LSTM": _bidirectional_lstm,
    "LSTM": _lstm,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _sequence_lstm,
}
