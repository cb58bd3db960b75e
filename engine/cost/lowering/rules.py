"""A rewrite: a function that changes a graph for one family of chips."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engine.chips.npu import NpuDtype, NpuProfile
from engine.cost.lowering.graph import LoweringGraph

__all__ = ["Context", "Rule"]


@dataclass(frozen=True)
class Context:
    """What a rewrite may depend on.

    Attributes:
        npu: the family.
        dtype: that the model is compiled in.
        layer_dtypes: layers (by source node) that have another one.
        op_target: layers (by source node) that the user put on ``cpu`` or ``npu``.
    """

    npu: NpuProfile
    dtype: NpuDtype
    layer_dtypes: dict[str, NpuDtype]
    op_target: dict[str, str]

    @property
    def family(self) -> str:
        """Of the chip."""
        return self.npu.family


Rule = Callable[[LoweringGraph, Context], None]
