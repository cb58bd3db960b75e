"""Which board a call means that names a chip and perhaps a board, as ``init_runtime`` does."""

from __future__ import annotations

from engine.base.errors import DeviceError, UsageError
from engine.base.text import sanitize
from engine.devices.address import Address
from engine.devices.listing import poll
from engine.devices.probe.identify import BoardIdentity, identify
from engine.devices.transport import Transport
from engine.devices.transports import reach

_SECONDS = 3.0


def choose(device_id: str | None) -> Address:
    """The board of an id, or the only one there is; the program's own board comes first.

    Args:
        device_id: see :mod:`engine.devices.address`; None for the only one.

    Raises:
        UsageError: there are several, or the id is none.
        DeviceError: there is none.
    """
    if device_id is not None:
        return Address.parse(str(device_id))
    listing = poll(seconds=_SECONDS, start_server=True)
    ready = [device.id for device in listing.devices if device.state == "ready"]
    if "local" in ready:
        return Address("local")
    if len(ready) > 1:
        raise UsageError(
            f"There are {len(ready)} boards.",
            remedy=f"Name one (device_id, or --device): {', '.join(ready[:20])}.",
        )
    if ready:
        return Address.parse(ready[0])
    others = [d for d in listing.devices if d.state != "ready"]
    said = [(d.what, d.remedy) for d in others] + [(n.what, n.remedy) for n in listing.notices]
    raise DeviceError(
        "There is no board that can be used.",
        cause=" ".join(what for what, _ in said[:3]),
        remedy=" ".join(remedy for _, remedy in said[:3] if remedy)
        or "Connect a board by USB, or name one (device_id, or --device), such as ssh:user@host.",
    )


def open_board(target: str, device_id: str | None) -> tuple[Transport, BoardIdentity]:
    """The way to a board with the chip that is wanted, and what it is.

    Args:
        target: name of the chip, as ``rk3588``.
        device_id: as for :func:`choose`.

    Raises:
        UsageError, DeviceError: there is no such board, or it has another chip.
    """
    address = choose(device_id)
    board = reach(address)
    try:
        identity = identify(board)
        name = target.lower()
        if name not in (identity.chip, identity.soc):
            has = identity.chip or "an unknown chip"
            raise DeviceError(
                f"The board {address} has {has}, and target is {sanitize(name, 40)}.",
                cause="Models are compiled for one chip.",
                remedy=f"Give target='{identity.chip}', or another board."
                if identity.chip
                else "See `rknntui doctor --device`.",
            )
    except BaseException:
        board.close()
        raise
    return board, identity
