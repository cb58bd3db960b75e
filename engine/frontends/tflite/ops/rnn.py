"""Simple recurrent layers and SVDF."""

from __future__ import annotations

import numpy as np

from engine.base.findings import Finding
from engine.frontends.tflite.layer import Handler, Layer
from engine.frontends.tflite.ops.lstm import give, give_both, initial_of, sequence
from engine.frontends.tflite.ops.rnn_cell import note_state, weights_of

__all__ = ["HANDLERS"]

_ACTIVATIONS = {1: "Relu", 4: "Tanh"}


def _rnn_part(layer: Layer, x: str, first: int, *, backward: bool = False) -> tuple[str, int]:
    """ONNX's RNN with the weights from input ``first``; (time, batch, units) and units."""
    activation = _ACTIVATIONS.get(layer.int_option("activation"))
    if activation is None:
        raise layer.refusal("its activation is neither tanh nor relu")
    if layer.input(0).dtype != "float32":
        raise layer.refusal("it computes in integers")
    kernel, recurrent, bias = (weights_of(layer, first + number) for number in range(3))
    if kernel is None or recurrent is None or bias is None:
        raise ValueError("it has no weights")
    units = len(kernel)
    inputs = [
        x,
        layer.emit.constant(kernel[None], f"{layer.name}_kernel"),
        layer.emit.constant(recurrent[None], f"{layer.name}_recurrent"),
        layer.emit.constant(np.concatenate([bias, np.zeros_like(bias)])[None], "bias"),
        "",
        initial_of(layer, layer.input(first + 3)),
    ]
    while not inputs[-1]:
        inputs.pop()
    y = layer.node(
        "RNN",
        inputs,
        hidden_size=units,
        activations=[activation],
        direction="reverse" if backward else "forward",
    )
    note_state(layer)
    return layer.node("Squeeze", [y, layer.emit.ints(1)]), units


def _sequence_rnn(layer: Layer) -> None:
    """UNIDIRECTIONAL_SEQUENCE_RNN."""
    x, shape, major = sequence(layer)
    y, units = _rnn_part(layer, x, 1)
    give(layer, 0, y, (*shape, units), major)


def _bidirectional_rnn(layer: Layer) -> None:
    """BIDIRECTIONAL_SEQUENCE_RNN."""
    if any(layer.has(index) for index in range(9, 12)):
        raise layer.refusal("it has an auxiliary input")
    x, shape, major = sequence(layer)
    forward, first = _rnn_part(layer, x, 1)
    backward, second = _rnn_part(layer, x, 5, backward=True)
    give_both(layer, (forward, backward), shape, (first, second), major)


def _rnn(layer: Layer) -> None:
    """RNN: one step."""
    tensor = layer.node("Unsqueeze", [layer.real(0), layer.emit.ints(0)])
    y, units = _rnn_part(layer, tensor, 1)
    shape = [layer.input(0).shape[0], units]
    layer.result("Squeeze", [y, layer.emit.ints(0)], shape)


def _svdf(layer: Layer) -> None:
    """SVDF from a memory of zeros: only its newest column counts (svdf.h)."""
    x = layer.input(0)
    feature, time = weights_of(layer, 1), weights_of(layer, 2)
    rank = layer.int_option("rank")
    if x.dtype != "float32":
        raise layer.refusal("it computes in integers")
    if feature is None or time is None or rank < 1 or len(feature) % rank:
        raise ValueError("its weights do not fit its rank")
    units = len(feature) // rank
    batch = x.shape[0]
    # the newest column of the memory is weighted by the last column of the time weights
    weights = layer.emit.constant((feature * time[:, -1:]).T, "weights")
    column = layer.node("MatMul", [layer.real(0), weights])
    parts = layer.node("Reshape", [column, layer.emit.ints(batch, units, rank)])
    total = layer.node("ReduceSum", [parts, layer.emit.ints(2)], keepdims=0)
    if layer.has(3):
        total = layer.node("Add", [total, layer.real(3)])
    total = layer.activated(total, layer.int_option("activation"))
    layer.result("Identity", [total], [batch, units])
    layer.tensors.note(
        Finding(
            code="memory-starts-at-zero",
            severity="warning",
            where=layer.name,
            what="SVDF remembers the inputs of earlier runs; here each run starts without any.",
            cause="A graph has no memory between runs.",
            remedy="Compare first runs only, or convert the model without streaming.",
        )
    )


HANDLERS: dict[str, Handler] = {
    "BIDIRECTIONAL_SEQUENCE_RNN": _bidirectional_rnn,
    "RNN": _rnn,
    "SVDF": _svdf,
    "UNIDIRECTIONAL_SEQUENCE_RNN": _sequence_rnn,
}
