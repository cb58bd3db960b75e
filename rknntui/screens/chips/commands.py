"""The command line that says what a view of Chips shows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from engine.wire.cost import CostCheckParams, WhatIf
from engine.wire.flags import words_of
from rknntui.keys.commandline import command_for

if TYPE_CHECKING:
    from rknntui.screens.chips.estimates import Want
    from rknntui.session.state import Session

_VERBS = {"Chips": "chips", "Memory": "memory", "Check": "check"}


def command_line(session: Session, want: Want) -> list[str]:
    """The words; empty where nothing is open."""
    verb = _VERBS.get(want.view, "perf estimate")
    words = command_for(verb, session)
    if not words:
        return []
    chips = () if want.view == "Chips" else (want.chip, *want.others)
    asked = replace(want.scenario, chips=chips)
    if verb == "check":
        return [*words, *words_of(CostCheckParams, {"chips": chips, "dtype": asked.dtype})]
    if verb == "memory":  # that of one core
        asked = replace(asked, cores=1)
    return [*words, *words_of(WhatIf, vars(asked))]
