"""The rows of the list of boards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine import sanitize
from engine.wire.board_tables import BOARDS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from engine.wire.board import About
    from engine.wire.devices import Device
    from rknntui.widgets.records import Record

__all__ = ["device_records"]


def device_records(
    devices: Sequence[Device],
    chosen: str | None,
    marked: Collection[str],
    known: Mapping[str, About],
) -> list[Record]:
    """The rows of boards.

    Args:
        devices: the boards.
        chosen: id of the one that runs use.
        marked: ids of those that are to be watched.
        known: what boards told of themselves, by their ids.
    """
    return [
        BOARDS.record(
            device,
            mark=("●" if device.id == chosen else " ") + ("*" if device.id in marked else " "),
            chip=known[device.id].facts.chip if device.id in known else None,
            aliases=[sanitize(device.serial, 80)],
        )
        for device in devices
    ]
