"""What is known of a chip, as the front ends show it."""

from __future__ import annotations

from engine.facts import Chip
from engine.facts.figures import basis, figures
from engine.wire.cost import ChipFacts, ChipFigure

__all__ = ["facts_of"]


def facts_of(one: Chip) -> ChipFacts:
    """The facts of a chip, each figure with its source."""
    return ChipFacts(
        name=one.name,
        generation=one.generation,
        toolkit=one.toolkit,
        npu_cores=one.npu_cores,
        dtypes=one.dtypes,
        figures=tuple(
            ChipFigure(each.name, each.text, each.source)
            for each in figures(one.name)
            if each.name != "basis"
        ),
        confidence=basis(one.name),
    )
