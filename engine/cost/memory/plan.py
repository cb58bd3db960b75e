"""The memory of a lowered graph on one chip: internal, weights, and each tensor over time."""

from __future__ import annotations

from dataclasses import dataclass

from engine.cost.lowered import Lowered
from engine.cost.memory.allocator import place
from engine.cost.memory.layout import settled
from engine.cost.memory.lifetime import needed
from engine.cost.memory.weights import weight_bytes
from engine.facts.npu import NpuProfile
from engine.wire.cost import MemoryCost, TensorSpan

__all__ = ["MemoryPlan", "plan_memory"]


@dataclass(frozen=True)
class MemoryPlan:
    """Bytes of a model on a chip, estimated.

    Attributes:
        internal: of all feature tensors, those that are needed at different times above each other.
        weight: of all constants.
        spans: feature tensors in the order in which they are placed; behind them those that lie
            where another one does, a Reshape's output in the place of its input.
    """

    internal: int
    weight: int
    spans: tuple[TensorSpan, ...]

    @property
    def total(self) -> int:
        """Internal and weights together."""
        return self.internal + self.weight

    def cost(self, *, spans: bool = False) -> MemoryCost:
        """As the wire has it; with the tensors over time where ``spans``."""
        return MemoryCost(self.internal, self.weight, self.total, self.spans if spans else ())


def plan_memory(lowered: Lowered, npu: NpuProfile) -> MemoryPlan:
    """Place every tensor as the vendor's compiler does."""
    lowered = settled(lowered)
    found = needed(lowered, npu)
    starts = place(found.buffers)
    rows = [*zip(found.buffers, starts, strict=True)]
    rows += [(view, starts[home]) for view, home in found.views]
    spans = tuple(
        TensorSpan(each.name, start, start + each.size, each.first, each.last)
        for each, start in rows
    )
    internal = max((span.end for span in spans), default=0)
    return MemoryPlan(internal, weight_bytes(lowered, npu), spans)
