"""The ways to a board: adb, SSH, this machine; and from an address to the way that it names."""

from __future__ import annotations

from engine.devices.address import Address
from engine.devices.transport import Transport

__all__ = ["reach"]


def reach(address: Address) -> Transport:
    """The transport of a board; libraries of other transports are not loaded.

    Raises:
        DeviceError: it is not there or cannot be used, as none over NTB can; a board over SSH says
            so at the first call.
    """
    if address.kind == "adb":
        from engine.devices.transports.adb.transport import AdbTransport

        return AdbTransport.open(address.name)
    if address.kind == "ssh":
        from engine.devices.transports.ssh import SshTransport

        return SshTransport(address)
    if address.kind == "ntb":
        from engine.devices.transports.ntb import missing

        raise missing(address.name)  # before anything that is asked gives no answer
    from engine.devices.transports.local import LocalTransport

    return LocalTransport()
