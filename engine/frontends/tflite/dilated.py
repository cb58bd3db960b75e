"""Dilated convolutions that old exporters wrote as space-to-batch, convolution, batch-to-space."""

from __future__ import annotations

from collections.abc import Sequence

from engine.frontends.tflite.schema import Operator, Subgraph

__all__ = ["join_dilated"]


def join_dilated(
    graph: Subgraph, operators: Sequence[Operator], outputs: Sequence[int]
) -> list[Operator]:
    """``operators``."""
    return list(operators)
