"""What a name stands for while control flow is resolved: a tensor, or tensors under one name."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Maybe", "TensorList", "TensorSequence", "Value"]


@dataclass(frozen=True)
class TensorSequence:
    """A sequence of ONNX: the names of its tensors."""

    items: tuple[str, ...]


@dataclass(frozen=True)
class TensorList:
    """A tensor list of TensorFlow, as tf2onnx leaves it in a graph.

    Attributes:
        items: the name of each element; None where it was never set, which reads as zeros.
        shape: of an element, where ``TensorListReserve`` tells it; negative numbers are open.
        element: ONNX's number of the type of the elements.
    """

    items: tuple[str | None, ...]
    shape: tuple[int, ...] | None
    element: int


@dataclass(frozen=True)
class Maybe:
    """An optional of ONNX: what it holds, or None."""

    item: str | TensorSequence | None


Value = str | TensorSequence | TensorList | Maybe
"""A tensor is its name in the graph that is emitted; the empty name is an input left out."""
