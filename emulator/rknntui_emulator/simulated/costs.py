"""Times and memory of an emulated NPU: told from shapes alone, the same in every run.

Nothing here is measured and nothing predicts a board: the peak rates are those of the vendor's
data sheets, the rest is one rule for all chips. A layer takes as long as its multiplications at
half the peak rate of one core, or as its bytes at the memory's rate, whichever is longer.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from engine.devices.measure.perf_report import PerfRow
from engine.graph.ir import Graph, TensorSpec, constant_of, spec_of
from rknntui_emulator.runtime.answers import Memory, TensorFacts

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

    from engine.graph.layers import Layer, LayerMap
    from rknntui_emulator.boards import Board

_TOPS = {
    "rk3588": 2.0, "rk3576": 3.0, "rk3566": 0.8, "rk3568": 0.8, "rk3562": 1.0, "rv1126b": 3.0,
    "rv1106": 0.5, "rv1103": 0.5, "rv1126": 2.0, "rv1109": 1.2, "rk1808": 3.0, "rk3399pro": 2.4,
}  # fmt: skip
"""Of one core, int8."""
_GIGABYTES = {"rk3588": 20.0, "rk3576": 16.0, "rv1106": 2.0, "rv1103": 2.0}
_OTHER_GIGABYTES = 8.0
_START_US = 8
_EFFICIENCY = 0.5
_MORE_CORES = (1.0, 0.62, 0.48)
"""Share of the time on one core, on two and on three."""
_MOST_ROWS = 8000
_BYTES = {"int4": 0.5, "int8": 1, "uint8": 1, "int16": 2, "float16": 2, "float32": 4}
_WIDTH = {"int8": 1.0, "uint8": 1.0, "int4": 1.0}
_REDUCTIONS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})


def layer_rows(
    graph: Graph,
    layers: LayerMap,
    board: Board,
    inputs: Sequence[TensorFacts],
    outputs: Sequence[TensorFacts],
) -> tuple[PerfRow, ...]:
    """The rows of the performance text: one of each layer, between generation 2's own steps.

    Args:
        graph: of the container.
        layers: of it.
        board: whose chip computes.
        inputs, outputs: of the model.
    """
    rows: list[PerfRow] = []
    if board.generation == 2:
        rows += [_end(facts, "InputOperator", number) for number, facts in enumerate(inputs)]
    for layer in layers.layers[:_MOST_ROWS]:
        rows.append(_row(graph, layer, board, len(rows)))
    if board.generation == 2:
        ends = enumerate(outputs, len(rows))
        rows += [_end(facts, "OutputOperator", number) for number, facts in ends]
    return tuple(rows)


def run_times(rows: Sequence[PerfRow], cores: int) -> tuple[int, ...]:
    """Time of a run in microseconds on one core, on two..."""
    whole = sum(row.microseconds or 0 for row in rows) + _START_US
    return tuple(max(1, round(whole * share)) for share in _MORE_CORES[:cores])


def memory_of(graph: Graph) -> Memory:
    """Weights as they are stored, and the two largest tensors that follow each other."""
    weight = sum(
        value.const_value.nbytes
        for value in graph.model.graph.initializers.values()
        if value.const_value is not None
    )
    internal = 0
    for node in graph.nodes:
        values = {value for value in (*node.inputs, *node.outputs) if value is not None}
        now = sum(_size(spec_of(value)) for value in values if constant_of(value) is None)
        internal = max(internal, now)
    ends = sum(_size(spec) for spec in (*graph.inputs, *graph.outputs))
    most = (1 << 32) - 1
    return Memory(min(weight, most), min(internal, most), weight + internal + ends)


def _size(spec: TensorSpec) -> int:
    return math.ceil((spec.size or 0) * _BYTES.get(spec.dtype, 4))


def _end(facts: TensorFacts, op: str, number: int) -> PerfRow:
    kilobytes = math.ceil(facts.size / 1024)
    return PerfRow(
        number,
        op=op,
        name=f"{op}:{facts.name}",
        dtype=facts.dtype,
        target="CPU",
        inputs=(facts.dims,) if op == "OutputOperator" else (),
        outputs=(facts.dims,),
        microseconds=2 + kilobytes // 64,
        traffic=kilobytes << 10,
    )


def _row(graph: Graph, layer: Layer, board: Board, number: int) -> PerfRow:
    """The row of a layer, from the shapes of the node that computes."""
    node = graph.node(layer.node)
    output = spec_of(node.outputs[0])
    specs = [spec_of(value) for value in node.inputs if value is not None]
    macs = _macs(node, output, specs)
    width = _BYTES.get(layer.dtype, 4)
    moved = math.ceil(sum(spec.size or 0 for spec in (output, *specs)) * width)
    rate = _TOPS[board.chip] / 2 * 1e6 * _EFFICIENCY * _WIDTH.get(layer.dtype, 0.25)
    bandwidth = _GIGABYTES.get(board.chip, _OTHER_GIGABYTES) * 1e3
    times = (moved / bandwidth, macs / rate, max(moved / bandwidth, macs / rate))
    us = _START_US + math.ceil(times[-1])
    on_cpu = layer.kind == "float" and layer.dtype == "float32"
    cycles = [0 if on_cpu else math.ceil(time * board.hertz / 1e6) for time in times]
    usage, others = 100 * macs / (us * rate / _EFFICIENCY), (0.0,) * (board.cores - 1)
    relu = "Relu" if any("relu" in name.lower() for name in layer.nodes[1:]) else ""
    return PerfRow(
        number,
        op=layer.op + relu,
        name=f"{layer.op}:{layer.node}" if board.generation == 2 else layer.node,
        dtype=layer.dtype.upper(),
        target="CPU" if on_cpu else "NPU",
        inputs=tuple(_shape(spec) for spec in specs[:4]),
        outputs=(_shape(output),),
        ddr_cycles=cycles[0],
        npu_cycles=cycles[1],
        total_cycles=cycles[2],
        microseconds=us,
        mac_usage=() if on_cpu else (usage, *others),
        workload=(0.0 if on_cpu else 100.0, *others),
        traffic=math.ceil(moved / 1024) << 10,
    )


def _shape(spec: TensorSpec) -> tuple[int, ...]:
    return tuple(max(0, size) for size in spec.shape)


def _macs(node: ir.Node, output: TensorSpec, inputs: Sequence[TensorSpec]) -> int:
    if node.op_type not in _REDUCTIONS or len(inputs) < 2:
        return 0
    data, weight = inputs[0], inputs[1]
    results, size = output.size or 0, weight.size or 0
    if node.op_type == "Conv":
        return results * size // max(1, weight.shape[0])
    if node.op_type == "ConvTranspose":
        return (data.size or 0) * size // max(1, weight.shape[0])
    turned = node.op_type == "Gemm" and bool(node.attributes.get_int("transA", 0))
    return results * max(0, data.shape[0 if turned else -1] if data.shape else 0)
