"""The command line that says what a view of Chips shows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from engine import OPTIONS
from engine.wire.cost import CostCheckParams, WhatIf
from engine.wire.flags import words_of
from rknntui.keys.commandline import command_for

if TYPE_CHECKING:
    from rknntui.screens.chips.estimates import Want
    from rknntui.session.state import Session

__all__ = ["command_line"]

_VERBS = {"Chips": "chips", "Memory": "memory", "Check": "check"}
_OF_SOURCE = {option.name for option in OPTIONS if option.section == "source"}


def command_line(session: Session, want: Want) -> list[str]:
    """The words; empty where nothing is open.

    ``perf`` and ``memory`` take a file of a recipe, or a model with the options of its source: a
    recipe with more that has no file is for ``chips``.
    """
    verb = _VERBS.get(want.view, "perf")
    filed = session.recipe_path is not None and not session.dirty
    if verb in ("perf", "memory") and not filed and not set(session.recipe) <= _OF_SOURCE:
        verb = "chips"
    words = command_for(verb, session)
    if not words:
        return []
    chips = () if want.view == "Chips" else (want.chip, *want.others)
    asked = replace(want.scenario, chips=chips)
    if verb == "check":
        return [*words, *words_of(CostCheckParams, {"chips": chips, "dtype": asked.dtype})]
    cores = [] if verb == "memory" or asked.cores == 1 else ["--cores", str(asked.cores)]
    if verb == "perf" and cores:  # which names the cores, as on a board
        cores[1] = "_".join(map(str, range(asked.cores)))
    return [*words, *words_of(WhatIf, vars(replace(asked, cores=1))), *cores]
