"""Memory of LSTM and GRU: gates, states, weights in parts, and maps that lie in rows.

Source: the tables that rknn-toolkit2 2.3.2 prints of layers of 5 to 16 steps, 16 to 64 inputs, 12
to 64 hidden values, one and two directions, on each family. On the NPU a layer computes all gates
of all steps in one zone, in float16, whatever the dtype of the model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection

from engine.cost.cycles import ALIGNMENT, aligned
from engine.cost.lowered import Lowered, LoweredLayer
from engine.facts.npu import NpuDtype, NpuProfile

_GATES = {"exLSTM": 4, "LSTM": 4, "exGRU": 3, "GRU": 3}
RECURRENT = tuple(_GATES)
_ROWS_A_STEP = {4: (8, 24), 3: (6, 18)}
"""Rows of the zone by gates: so many a step, and so many more."""
CPU_COPIES = ("rk3576", "rv1126b")
"""Families that copy what a GRU on the CPU reads and writes."""
_TABLES = {"rk3566": 320, "rk3562": 384, "rk3588": 512}
"""Bytes that an LSTM adds to the constants of a model, for what is not given it: states, lengths,
peepholes."""


def gates(layer: LoweredLayer) -> int:
    """Four of an LSTM, three of a GRU."""
    return _GATES[layer.kind]


def row_bytes(shape: tuple[int, ...], size: int, npu: NpuProfile) -> int:
    """Of (steps, batch, values) whose rows are padded to whole groups of ``npu.atom_bytes``.

    Args:
        shape: as the layer has it.
        size: bytes of a value.
        npu: the family of chips.
    """
    return math.prod(shape[:-1]) * aligned(shape[-1] * size, npu.atom_bytes)


def beside(writer: LoweredLayer | None, readers: Collection[LoweredLayer]) -> bool:
    """Whether a recurrent layer or a conversion of types writes or reads a feature."""
    kinds = {layer.kind for layer in (*readers, *((writer,) if writer is not None else ()))}
    return bool(kinds & {*RECURRENT, "exDataConvert"})


def in_rows(
    writer: LoweredLayer | None, readers: Collection[LoweredLayer], npu: NpuProfile
) -> bool:
    """Whether a feature of three axes beside a recurrent layer lies in rows.

    Those that the NPU's layer writes or a conversion, and inputs of the graph; what a Reshape or a
    layer on the CPU writes lies in groups of channels, except what a Reshape writes on RK3566.

    Args:
        writer: the layer that computes it; None of an input of the graph.
        readers: the layers that read it.
        npu: the family of chips.
    """
    if npu.family == "rk3566" and writer is not None and writer.kind == "Reshape":
        return True
    if writer is None or writer.kind == "exDataConvert":
        return True
    if writer.kind not in RECURRENT:
        return False
    return writer.target == "NPU" or any(reader.kind == "exDataConvert" for reader in readers)


def recurrent_working(layer: LoweredLayer, npu: NpuProfile, lowered: Lowered) -> tuple[int, ...]:
    """Bytes of each buffer that a layer needs beside its tensors, in the order of placing.

    On the NPU the zone of its gates, and copies of the input and of the output whose rows are no
    whole groups; 64 bytes stand for a copy that is not needed. On the CPU of RK3576 and RV1126B
    the two copies and 64 bytes, of an LSTM 64 bytes for each state and its output.
    """
    source = lowered.tensors[layer.inputs[0]]
    result = lowered.tensors[layer.outputs[0]]
    if len(source.shape) != 3 or not layer.consts:
        return ()
    size = 2 if layer.dtype == "float16" else 1
    copies = [row_bytes(tensor.shape, size, npu) for tensor in (source, result)]
    if layer.target != "NPU":
        if gates(layer) == 4:
            return (3 * ALIGNMENT,)
        return (*copies, ALIGNMENT) if npu.family in CPU_COPIES else ()
    steps, batch, values = source.shape
    weight = lowered.shape(layer.consts[0])
    hidden = weight[1] // gates(layer)
    needed = [
        copy if length * size % npu.atom_bytes else ALIGNMENT
        for copy, length in zip(copies, (values, hidden), strict=True)
    ]
    per_step, more = _ROWS_A_STEP[gates(layer)]
    rows = weight[0] * batch * (per_step * aligned(steps, 4) + more)
    return (rows * aligned(2 * hidden, ALIGNMENT), *needed)


def table_bytes(lowered: Lowered, npu: NpuProfile) -> int:
    """What LSTM layers on the NPU add to all constants beyond weights and biases, once a model."""
    has_lstm = any(
        layer.kind.endswith("LSTM") and layer.target == "NPU" for layer in lowered.layers
    )
    return _TABLES.get(npu.family, 0) if has_lstm else 0


def recurrent_constants(
    layer: LoweredLayer,
    lowered: Lowered,
    npu: NpuProfile,
    stored: Callable[[int, int, NpuDtype], tuple[int, int]],
) -> list[tuple[str, int]]:
    """Name and bytes of weights, biases and, of an LSTM, of the map of its states.

    On the NPU each gate has the weight of a 1x1 convolution, and two biases. On the CPU they are
    float32, their first axis padded to ``npu.atom_bytes``.

    Args:
        layer: on either side.
        lowered: all layers and tensors.
        npu: the family of chips.
        stored: (inputs, outputs, dtype) -> bytes of the weight and of the bias of such a
            convolution.
    """
    shapes = [lowered.shape(tensor) for tensor in layer.consts]
    directions, gated, inputs = shapes[0]
    hidden = gated // gates(layer)
    # without biases the compiler writes zeros
    biases = layer.consts[2] if len(layer.consts) > 2 else f"{layer.outputs[0]}_input_B"
    if layer.target != "NPU":
        sizes = [(name, shape) for name, shape in zip(layer.consts, shapes, strict=True)]
        if len(sizes) < 3:
            sizes.append((biases, (directions, 2 * gated)))
        constants = [
            (name, 4 * aligned(shape[0], npu.atom_bytes) * math.prod(shape[1:]))
            for name, shape in sizes
        ]
    else:
        dtype: NpuDtype = "float16" if layer.dtype == "float16" else "int8"
        times = directions * gates(layer)
        constants = [
            (layer.consts[0], times * stored(inputs, hidden, dtype)[0]),
            (layer.consts[1], times * stored(hidden, hidden, dtype)[0]),
            (biases, 2 * times * stored(hidden, hidden, dtype)[1]),
        ]
    if gates(layer) == 4:
        name = f"{layer.outputs[0]}_input_proj"
        half = npu.atom("float16") if layer.target == "NPU" else 8
        once = directions if layer.target == "NPU" else aligned(directions, npu.atom_bytes)
        constants.append((name, 4 * hidden * aligned(hidden, half)))
        constants.append((f"{name}B", 4 * once * hidden))
    return constants
