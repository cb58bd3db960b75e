"""Boards: the list of those in reach, and what a board's doctor finds."""

from __future__ import annotations

from typing import Literal

from engine.base.findings import Finding
from engine.wire.doctor import Checks
from engine.wire.method import Query
from engine.wire.record import record

__all__ = [
    "DEVICES_DOCTOR",
    "DEVICES_LIST",
    "Device",
    "DeviceAt",
    "DeviceListParams",
    "DeviceState",
    "Listing",
]

DeviceState = Literal[
    "ready",
    "offline",
    "unauthorized",
    "connecting",
    "no permissions",
    "recovery",
    "sideload",
    "bootloader",
    "unknown",
    "not listed",
    "flash mode",
    "no adb",
    "needs the vendor's toolkit",
    "not asked",
]


@record
class DeviceListParams:
    """How to look.

    Attributes:
        ssh: boards that the user has named, as ``ssh:[user@]host[:port]``.
        start_server: start an adb server that is not up; takes up to ten seconds.
    """

    ssh: tuple[str, ...] = ()
    start_server: bool = False


@record
class Device:
    """A board in the list. All texts of boards are without control characters.

    Attributes:
        id: its name as the user gives it: ``adb:SERIAL``, ``ntb:SERIAL``, ``ssh:ADDRESS``,
            ``local``; ``usb:PORT`` for what cannot be used yet. Where boards share a serial
            number: ``adb:usb:PORT``, or ``adb:SERIAL#NUMBER`` without a port.
        kind: how it is reached; ``usb`` where it cannot be.
        state: ``ready`` boards can be used; ``not asked`` ones may be.
        what: the state as a sentence.
        cause, remedy: why it is so, and what the user can do; empty where it is ready.
        serial: serial number or address.
        product, model, device: what it says of itself.
        transport_id: the adb server's number of its connection.
        address: USB port (``usb:1-1.4``) or network address.
        warnings: what the user should know before using it.
    """

    id: str
    kind: Literal["adb", "ssh", "local", "ntb", "usb"]
    state: DeviceState
    what: str
    cause: str = ""
    remedy: str = ""
    serial: str = ""
    product: str = ""
    model: str = ""
    device: str = ""
    transport_id: int | None = None
    address: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def usable(self) -> bool:
        """Whether it makes sense to open it."""
        return self.state in ("ready", "not asked")


@record
class Listing:
    """What one look found.

    Attributes:
        devices: boards, by transport and name.
        notices: what belongs to no board: no adb server, adb and NTB side by side.
    """

    devices: tuple[Device, ...]
    notices: tuple[Finding, ...] = ()

    def names(self, kind: str) -> list[str]:
        """The boards of a transport that are ready, or that NTB reaches, as ``device_id`` of the
        manual names them: ids without their transport, mostly serial numbers.
        """
        states = ("ready", "needs the vendor's toolkit")
        found = [d.id for d in self.devices if d.kind == kind and d.state in states]
        return [name.partition(":")[2] for name in found]


@record
class DeviceAt:
    """A board, as the user gives it: ``adb:SERIAL``, ``ssh:[user@]host[:port]``, ``local``."""

    id: str


DEVICES_LIST = Query("devices.list", DeviceListParams, Listing)
DEVICES_DOCTOR = Query("devices.doctor", DeviceAt, Checks)
