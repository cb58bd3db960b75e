"""The columns of the list of boards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine import sanitize
from rknntui.widgets.records import Field, Record, name_text
from rknntui.widgets.table import Column

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from engine.wire.board import About
    from engine.wire.devices import Device

__all__ = ["device_fields", "device_records", "sign_of", "state_text"]

_SIGNS = {
    "ready": ("✓", "good"),
    "not asked": ("?", "accent"),
    "connecting": ("?", "accent"),
    "needs the vendor's toolkit": ("!", "warn"),
    "recovery": ("!", "warn"),
    "sideload": ("!", "warn"),
    "bootloader": ("!", "warn"),
    "flash mode": ("!", "warn"),
}
"""State -> sign and style; every other one is a problem."""


def sign_of(state: str) -> tuple[str, str]:
    """Sign and style of a state."""
    return _SIGNS.get(state, ("✗", "bad"))


def state_text(state: str) -> str:
    """A state with its sign: nothing is said by colour alone."""
    return f"{sign_of(state)[0]} {state}"


def device_fields() -> tuple[Field, ...]:
    """Mark, name, state, chip, model, transport and address."""
    return (
        Field("mark", Column("", 2, style=lambda _: "accent", name="mark")),
        Field("id", Column("device", 20, grow=2, text=name_text)),
        Field("state", Column("state", 14, text=state_text, style=lambda s: sign_of(s)[1])),
        Field("chip", Column("chip", 7, text=name_text)),
        Field("model", Column("model", 12, grow=1, text=name_text), 50),
        Field("kind", Column("via", 5), 76),
        Field("address", Column("address", 12, grow=1, text=name_text), 70),
    )


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
        {
            "mark": ("●" if device.id == chosen else " ") + ("*" if device.id in marked else " "),
            "id": device.id,
            "state": device.state,
            "chip": known[device.id].facts.chip if device.id in known else None,
            "model": device.model or device.product or device.device or None,
            "kind": device.kind,
            "address": _address(device),
            "aliases": [sanitize(device.serial, 80)],
        }
        for device in devices
    ]


def _address(device: Device) -> str | None:
    """What its name does not say already."""
    return device.address if device.address and not device.id.endswith(device.address) else None
