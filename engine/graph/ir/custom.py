"""Operators that are not ONNX's own: what is known of each, and what runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["CustomOperator", "CustomOperators"]


@dataclass(frozen=True)
class CustomOperator:
    """An operator that somebody else defined.

    Attributes:
        op_type: its name in the graph, in whatever domain.
        shape_infer: ``(node, in_shapes, in_dtypes) -> (out_shapes, out_dtypes)`` as the vendor's
            ``reg_custom_op`` has it; None where only its name is known.
        compute: ``(node, inputs) -> outputs`` on arrays; None for an opaque operator, which is
            shown and kept but does not run.
        origin: where it comes from, for messages: a class, ``FILE.py:Name``, or an ``.rknnop``.
    """

    op_type: str
    shape_infer: Callable[[Any, list[list[int]], list[Any]], tuple[Any, Any]] | None
    compute: Callable[[Any, list[Any]], Sequence[Any]] | None
    origin: str


class CustomOperators(Mapping[str, CustomOperator]):
    """The operators that are registered, by ``op_type``; frozen."""

    def __init__(self, operators: Sequence[CustomOperator] = ()) -> None:
        self._operators = {operator.op_type: operator for operator in operators}

    def __getitem__(self, op_type: str) -> CustomOperator:
        return self._operators[op_type]

    def __iter__(self) -> Iterator[str]:
        return iter(self._operators)

    def __len__(self) -> int:
        return len(self._operators)
