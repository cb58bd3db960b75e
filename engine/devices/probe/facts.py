"""What a board is, as it is told to front ends."""

from __future__ import annotations

from engine.devices.probe.identify import BoardIdentity
from engine.facts import chip
from engine.wire.board import BoardFacts

__all__ = ["board_facts"]


def board_facts(device: str, identity: BoardIdentity) -> BoardFacts:
    """The facts of a board that was examined; ``device`` is its address."""
    found = chip(identity.chip) if identity.chip else None
    return BoardFacts(
        device=device,
        label="emulated" if identity.emulated else "measured",
        chip=identity.chip or "",
        model=identity.model,
        serial=identity.serial,
        system=identity.system,
        kernel=identity.kernel,
        cores=found.npu_cores if found else 0,
    )
