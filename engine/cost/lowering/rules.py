"""A rewrite: a function that changes a graph for one family of chips."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps

from engine.cost.lowering.graph import LoweringGraph, Node
from engine.facts.npu import NpuDtype, NpuProfile

__all__ = ["Context", "Rule", "on"]


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

    def own_dtype(self, node: Node) -> NpuDtype | None:
        """What hybrid quantization gives a node of its own: that of the first of its sources."""
        own = self.layer_dtypes
        return next((own[name] for name in node.sources if name in own), None)

    def upsamples(self, stride: int) -> bool:
        """Whether a transposed convolution has this stride."""
        return stride in (1, 2, 4, 8) or self.family not in ("rk3566", "rk3588")


Rule = Callable[[LoweringGraph, Context], None]


def on(*ops: str) -> Callable[[Callable[[LoweringGraph, Node, Context], None]], Rule]:
    """A rewrite of the nodes of some operators, one by one in their order.

    Nodes that it makes are not visited, nor those that it has taken out meanwhile.
    """

    def of(visit: Callable[[LoweringGraph, Node, Context], None]) -> Rule:
        @wraps(visit)
        def rule(graph: LoweringGraph, context: Context) -> None:
            for node in graph:
                if node.op in ops and node in graph:
                    visit(graph, node, context)

        return rule

    return of
