"""Chips by name, and what is known of each, every figure with its source."""

from __future__ import annotations

from collections.abc import Iterable

from engine.base.errors import UsageError
from engine.base.text import did_you_mean, sanitize
from engine.facts import Chip, chip, chips
from engine.facts.figures import basis, figures
from engine.wire.cost import ChipFacts, ChipFigure


def chips_named(names: Iterable[str]) -> tuple[Chip, ...]:
    """The chips of these names or aliases, each once; all where there is no name.

    Raises:
        UsageError: no chip has one of the names.
    """
    by_name: dict[str, Chip] = {}
    for name in names:
        one = chip(name)
        if one is None:
            known = [entry.name for entry in chips()]
            raise UsageError(
                f"There is no chip {sanitize(name, 60)!r}.",
                cause=f"Known are {', '.join(known)}.",
                remedy=did_you_mean(name, known) or "`rknntui chips` lists them.",
            )
        by_name[one.name] = one
    return tuple(by_name.values()) or chips()


def known_chips(names: Iterable[str] = ()) -> tuple[ChipFacts, ...]:
    """The facts of these chips, all where there is no name.

    Raises:
        UsageError: no chip has one of the names.
    """
    return tuple(map(_facts_of, chips_named(names)))


def _facts_of(one: Chip) -> ChipFacts:
    return ChipFacts(
        name=one.name,
        generation=one.generation,
        toolkit=one.toolkit,
        npu_cores=one.npu_cores,
        dtypes=one.dtypes,
        figures=tuple(
            ChipFigure(row.name, row.text, row.source)
            for row in figures(one.name)
            if row.name != "basis"
        ),
        confidence=basis(one.name),
    )
