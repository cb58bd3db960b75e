"""The vendor's runtime libraries on a board: where they are looked for, and which fit.

Paths: the vendor's installation notes for each chip [RKNN-RT2 2.3.2, RKNN-RT1 1.7.5].
"""

from __future__ import annotations

import re

from engine.base.errors import DeviceStorageError, RuntimeLibraryError
from engine.devices.probe.reading import HEAD, Elf, read_bytes, read_elf
from engine.devices.transport import Transport

_FOLDERS = (
    "/usr/lib",
    "/usr/lib64",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib/arm-linux-gnueabihf",
    "/usr/local/lib",
    "/vendor/lib64",
    "/vendor/lib",
    "/oem/usr/lib",
)

LIBRARIES = {
    # on an RV1103 or RV1106 a copy of librknnmrt.so in /usr/lib is the one that is loaded
    2: (
        *(f"{folder}/librknnrt.so" for folder in _FOLDERS),
        "/usr/lib/librknnmrt.so",
        "/oem/usr/lib/librknnmrt.so",
        "/vendor/lib64/librknn_api_android.so",
        "/vendor/lib/librknn_api_android.so",
    ),
    1: (
        *(f"{folder}/librknn_api.so" for folder in _FOLDERS[:5]),
        *(f"{folder}/librknn_runtime.so" for folder in _FOLDERS),
    ),
}
"""Generation of the NPU -> absolute paths, in the order in which they are tried."""

_PLAIN = re.compile(r"[A-Za-z0-9@%+=:,./_-]+")


def usable_libraries(
    transport: Transport,
    generation: int | None,
    wanted: Elf | None,
    given: str = "",
) -> tuple[str, ...]:
    """The libraries that are on a board and fit what loads them, in the order in which to try them.

    Args:
        transport: the board.
        generation: of the model; None where it is not known.
        wanted: the processor of what loads them; None where nothing is known.
        given: the library that the user names, in place of all others.

    Raises:
        RuntimeLibraryError: there is none, or each is for another processor.
    """
    if given and not _PLAIN.fullmatch(given):
        return (given,)  # such a path travels in a message only: the agent looks for itself
    paths = (given,) if given else LIBRARIES.get(generation or 0, LIBRARIES[2] + LIBRARIES[1])
    usable, foreign = [], []
    for path in paths:
        try:
            head = transport.read(path, limit=HEAD)
        except DeviceStorageError:  # only its own processes may read it
            usable.append(path)
            continue
        if head is None:
            continue
        elf = read_elf(head)
        if elf is None or (wanted and elf != wanted):
            foreign.append(f"{path} is for {elf}" if elf else f"{path} is no library")
        else:
            usable.append(path)
    if usable:
        return tuple(usable)
    if foreign:
        raise RuntimeLibraryError(
            f"No runtime library of {transport.name} fits its agent.",
            cause=f"{'; '.join(foreign)}. The agent there is for {wanted or 'another processor'}.",
            remedy="Install the library of the vendor for this processor, or build the "
            "agent for that of the library: rknntui devices agent build.",
        )
    other = {1: 2, 2: 1}.get(generation or 0)
    elsewhere = [p for p in LIBRARIES.get(other or 0, ()) if read_bytes(transport, p, HEAD)]
    if elsewhere and not given:
        raise RuntimeLibraryError(
            f"{transport.name} has no runtime library of generation {generation}.",
            cause=f"It has {elsewhere[0]}, which runs models of generation {other} only.",
            remedy=f"Run a model that was built for a chip of generation {other}.",
        )
    raise RuntimeLibraryError(
        f"There is no runtime library of the vendor on {transport.name}.",
        cause=f"Tried were {', '.join(paths[:12])}.",
        remedy="Install the vendor's runtime (librknnrt.so for generation 2, librknn_runtime.so "
        "for generation 1) into /usr/lib of the board, or name the library.",
    )
