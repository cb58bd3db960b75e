"""A rewrite: a function that changes a graph for one family of chips."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engine.cost.lowering.graph import LoweringGraph
from engine.facts.npu import NpuDtype, NpuProfile

__all__ = ["Context", "Rule"]


@dataclass(frozen=True)
class Context:
    """What a rewrite may depend on.

    Attributes:
        npu: the family.
        dtype: that the model is compiled in.
        layer_dtypes: layers (by source node) that have another one.
        op_target: layers (by source node) that the user put on ``cpu`` or ``npu``.
        int4: whether dense convolutions have weights of 4 bits; ``dtype`` is float16 then.
    """

    npu: NpuProfile
    dtype: NpuDtype
    layer_dtypes: dict[str, NpuDtype]
    op_target: dict[str, str]
    int4: bool = False

    @property
    def family(self) -> str:
        """Of the chip."""
        return self.npu.family

    @property
    def whole_channels(self) -> int:
        """Channels that a part of a map has to have a multiple of to be moved as it is."""
        return 16 if self.family == "rv1106b" else self.npu.atom(self.dtype)

    def upsamples(self, stride: int) -> bool:
        """Whether a transposed convolution has this stride."""
        return stride in (1, 2, 4, 8) or self.family not in ("rk3566", "rk3588")


Rule = Callable[[LoweringGraph, Context], None]
