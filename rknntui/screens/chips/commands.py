"""The command line that says what a view of Chips shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine import OPTIONS
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
    words += [word for chip in chips for word in ("--chip", chip)]
    scenario = want.scenario
    words += ["--dtype", scenario.dtype] if scenario.dtype else []
    if verb == "check":
        return words
    words += [word for size in scenario.sizes for word in ("--input-size", size)]
    words += ["--rknn-batch-size", str(scenario.batch)] if scenario.batch is not None else []
    words += ["--npu-mhz", f"{scenario.mhz:g}"] if scenario.mhz is not None else []
    if scenario.cores > 1 and verb != "memory":  # perf names the cores, as on a board
        mask = "_".join(map(str, range(scenario.cores)))
        words += ["--cores", mask if verb == "perf" else str(scenario.cores)]
    return words
