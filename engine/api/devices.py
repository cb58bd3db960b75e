"""``list_devices``: boards in reach, in the form of the manual."""

from __future__ import annotations

from logging import Logger

_STARS = "*" * 25
_SECONDS = 3.0


def list_devices(log: Logger) -> tuple[list[str], list[str]]:
    """Serial numbers of the boards by adb and by NTB, logged as the vendor prints them
    [RKNN-T1 1.3.2, 3.6.15; RKNN-T2 2.3.0, 2.14].

    An adb server that is not up is started. What keeps a board from the list is a warning.
    """
    from engine.devices.listing import poll

    state = poll(seconds=_SECONDS, start_server=True)
    for notice in state.notices:
        log.warning("list_devices: %s %s", notice.what, notice.remedy)
    for device in state.devices:
        if not device.usable and device.kind != "ntb":
            log.warning("list_devices: %s %s", device.what, device.remedy)
    adb, ntb = state.names("adb"), state.names("ntb")
    lines = [_STARS]
    for mode, names in (("adb", adb), ("ntb", ntb)):
        if names:
            lines += [f"all device(s) with {mode} mode:", ",".join(names)]
    if not adb and not ntb:
        lines.append("None devices connected.")
    log.warning("\n".join([*lines, _STARS]), extra={"plain": True})
    return adb, ntb
