"""What is known of operators: published limits, and where the compiler was seen to put them.

Published: the operator list of the compiler 2.3.2 (sections 3.x of the NPU, 4.x of the CPU), the
support lists of the toolkits 2.3.2 and 1.7.x; ``npu_limits.csv``, ``cpu_operators.csv`` and
``support.csv`` are made by ``scripts/make_limit_tables.py``.

Seen: what rknn-toolkit2 2.3.2 prints for graphs of single operators, family by family
(docs/estimates/derivation.md): ``operators.csv`` by operator, with what is told of it, and
``without.csv`` for families whose NPU has not what the others have.

Known oddities of the sources: no limit of channels is stated for convolutions; the lists of ONNX
and of the compiler contradict each other about Hardmax, Not, OneHot, ReduceL2, Round and TopK; of
RK2118 no CPU operators are listed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from engine.facts import records, rows

CONTRADICTED = frozenset({"Hardmax", "Not", "OneHot", "ReduceL2", "Round", "TopK"})
"""Operators of which the vendor's lists say both yes and no."""


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit of an operator on a chip's NPU.

    Attributes:
        parameter: ``kernel_h``, ``width``, ``perm=[0,2,1,3]``, ``npu_support``, ...
        low, high: allowed from, to; None where open.
        allowed: the values, where not all between are.
        dtypes: that it holds for; all where empty. Of ``dtype`` itself: those that there are.
        note: a condition, or what the source adds.
        section: of the compiler's operator list.
    """

    parameter: str
    low: float | None
    high: float | None
    allowed: tuple[str, ...]
    dtypes: tuple[str, ...]
    note: str
    section: str


@dataclass(frozen=True, slots=True)
class CpuOperator:
    """An operator that a chip's runtime has on the CPU; ``limit`` in the source's words."""

    op: str
    limit: str
    section: str


@dataclass(frozen=True, slots=True)
class Support:
    """What a toolkit says of a framework's operator."""

    supported: Literal["yes", "limited", "no"]
    limit: str
    source: str


@dataclass(frozen=True, slots=True)
class Operator:
    """What was seen of an operator, of ONNX or of the compiler; empty of one that is not known.

    Attributes:
        compiler: where the compiler 2.3.2 puts it: ``NPU``, within the limits, or ``CPU``.
        toolkit1: of toolkit 1.7.x: ``NPU`` where the manuals show it there, or ``unknown`` where
            it is only in a list (convolution, Relu and pooling: Trouble Shooting 1.4.0, 6.1;
            others: the times by layer of User Guide 1.3.2, 3.5; what only gives a tensor another
            name or shape).
        row1: its row in the list of toolkit 1.7.5, with ``{}`` where dimensions decide.
        usual: why it is on the CPU though no published limit says so.
        remedy: what to do where the operator as such is not on the NPU.
    """

    op: str
    compiler: str = ""
    toolkit1: str = ""
    row1: str = ""
    usual: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Without:
    """An operator that the NPU of some families has not."""

    op: str
    families: tuple[str, ...]
    reason: str
    remedy: str


@cache
def npu_limits(chip: str) -> Mapping[str, tuple[Limit, ...]]:
    """Limits by operator of a chip of generation 2; empty of every other."""
    by_op: dict[str, list[Limit]] = {}
    for row in rows("engine.facts", "npu_limits.csv"):
        for chips, section in zip(
            row["chips"].split("; "), row["sections"].split("; "), strict=True
        ):
            if chip in chips.split():
                by_op.setdefault(row["op"], []).append(_limit(row, section))
    return {op: tuple(limits) for op, limits in by_op.items()}


@cache
def cpu_operators(chip: str) -> Mapping[str, CpuOperator]:
    """CPU operators by name."""
    return {
        row["op"]: CpuOperator(row["op"], row["limit"], row["section"])
        for row in rows("engine.facts", "cpu_operators.csv")
        if chip in row["chips"].split()
    }


@cache
def npu_operators() -> frozenset[str]:
    """Operators that any chip of generation 2 has on its NPU."""
    return frozenset(row["op"] for row in rows("engine.facts", "npu_limits.csv"))


def operator(name: str) -> Operator:
    """What was seen of an operator, by its name."""
    return _operators().get(name) or Operator(name)


def without(op: str, family: str) -> Without | None:
    """Why the NPU of a family has not an operator; None where it has it."""
    return next((row for row in _without() if row.op == op and family in row.families), None)


def support_of(framework: str, op: str, generation: int) -> Support | None:
    """What the toolkit of a generation says of an operator; None where it is in no list."""
    return _support().get((framework, op, generation))


@cache
def _operators() -> dict[str, Operator]:
    return {row.op: row for row in records(Operator, "engine.facts", "operators.csv")}


@cache
def _without() -> tuple[Without, ...]:
    return tuple(
        Without(row["op"], tuple(row["families"].split()), row["reason"], row["remedy"])
        for row in rows("engine.facts", "without.csv")
    )


@cache
def _support() -> dict[tuple[str, str, int], Support]:
    names: dict[str, Literal["yes", "limited", "no"]] = {"limited": "limited", "no": "no"}
    return {
        (row["framework"], row["op"], int(row["generation"])): Support(
            names.get(row["supported"], "yes"), row["limit"], row["source"]
        )
        for row in rows("engine.facts", "support.csv")
    }


def _limit(row: dict[str, str], section: str) -> Limit:
    return Limit(
        parameter=row["parameter"],
        low=_number(row["min"]),
        high=_number(row["max"]),
        allowed=tuple(value for value in row["allowed"].replace("|", ",").split(",") if value),
        dtypes=tuple(row["dtypes"].split()),
        note=row["note"],
        section=section,
    )


def _number(text: str) -> float | None:
    return float(text) if text.lstrip("-").isdigit() else None
