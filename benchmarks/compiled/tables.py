"""What the vendor's compiler prints of our QDQ graphs, and our plan for the same file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.cost.cycles import all_cycles
from engine.cost.lowering import lower, read_graph
from engine.cost.lowering.read import without_qdq
from engine.cost.memory import plan_memory
from engine.cost.printed import Printed, PrintedLayer
from engine.facts.npu import npu_profile
from engine.graph.ir import Graph


def convolutions(printed: Printed) -> list[PrintedLayer]:
    """The layers that are convolutions, with what is fused into them."""
    return [layer for layer in printed.layers if layer.op.startswith("Conv")]


def not_in_integers(printed: Printed) -> list[PrintedLayer]:
    """Convolutions that are not INT8 on the NPU."""
    return [
        layer for layer in convolutions(printed) if (layer.dtype, layer.target) != ("INT8", "NPU")
    ]


@dataclass(frozen=True)
class Totals:
    """The compiler's sums beside those of our plan: (printed, estimated).

    Attributes:
        npu, total: cycles.
        internal, weights: bytes.
        layers: how many layers each has.
        named: layers that both have by one name.
        equal: of those, how many have equal NPU cycles, target, and total cycles within 1 %.
        apart: names of layers that only one has, or where they differ.
    """

    npu: tuple[int, int]
    total: tuple[int, int]
    internal: tuple[int, int]
    weights: tuple[int, int]
    layers: tuple[int, int]
    named: int
    equal: int
    apart: Sequence[str]


def beside_plan(printed: Printed, file: Graph, chip: str) -> Totals:
    """Compare with the plan for the file that was compiled, its Q/DQ nodes left out."""
    npu = npu_profile(chip)
    if npu is None:
        raise ValueError(f"there is no profile of {chip}")
    lowered = lower(without_qdq(read_graph(file)), npu, "int8")
    cycles, memory = all_cycles(lowered, npu), plan_memory(lowered, npu)
    ours = {
        layer.full_name: (layer.target, cost.npu, cost.total)
        for layer, cost in zip(lowered.layers, cycles, strict=True)
    }
    theirs = {row.name: (row.target, row.npu_cycles, row.total_cycles) for row in printed.layers}
    named = ours.keys() & theirs.keys()
    equal = {
        name
        for name in named
        if ours[name][:2] == theirs[name][:2]
        and abs(ours[name][2] - theirs[name][2]) <= 0.01 * theirs[name][2]
    }
    return Totals(
        (sum(row.npu_cycles for row in printed.layers), sum(cost.npu for cost in cycles)),
        (sum(row.total_cycles for row in printed.layers), sum(cost.total for cost in cycles)),
        (printed.internal_bytes or 0, memory.internal),
        (printed.weight_bytes or 0, memory.weight),
        (len(printed.layers), len(lowered.layers)),
        len(named),
        len(equal),
        sorted((ours.keys() | theirs.keys()) - equal),
    )
