"""What a board is: chip, model, serial number, system.

The chip is read from the device tree (``/proc/device-tree/compatible``: the board's entry first,
the SoC's last), as the vendor's own programs do; on Android, where that file may be kept from the
shell, from its properties.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from engine.base.text import sanitize
from engine.devices.probe.reading import Elf, elf_of, first_line, output, read_bytes, read_text
from engine.devices.transport import Transport
from engine.facts import chip, chips
from engine.wire.board import BoardFacts

EMULATED_MARK = "/etc/rknntui-emulated"
"""A file that only boards of ``rknntui devices emulate`` have."""

OTHER_NAMES = {"rk1806": "rk1808", "rk3582": "rk3588"}
"""SoCs without facts of their own: RK1806 has the NPU of RK1808."""

_COMPATIBLE = ("/proc/device-tree/compatible", "/sys/firmware/devicetree/base/compatible")
_ENTRIES = 32
_PROPERTIES = ("ro.soc.model", "ro.board.platform", "ro.product.board", "ro.product.device")
_SHELLS = ("/bin/sh", "/system/bin/sh")
_BITS_64 = frozenset({"aarch64", "x86_64"})


@dataclass(frozen=True)
class ChipFound:
    """The SoC that a list of names tells.

    Attributes:
        soc: as the board spells it (``rk3588s``); empty where none of the names is known.
        chip: its name in :mod:`engine.facts`; None where it has no NPU that is known.
        note: why there is none, or what else the name may stand for.
    """

    soc: str = ""
    chip: str | None = None
    note: str = ""


@dataclass(frozen=True)
class BoardIdentity:
    """A board. Texts are fit to be shown; empty where the board does not tell.

    Attributes:
        soc, chip, note: see :class:`ChipFound`.
        compatible: all entries of the device tree, or the properties of an Android board.
        model: the board's name.
        serial: its serial number, as the board tells; not that of the cable.
        system: name and version (``Debian GNU/Linux 11``, ``Android 12``).
        android: the API level, None on other systems.
        kernel: release of the kernel.
        machine: architecture of the kernel (``aarch64``, ``armv7l``).
        userland: for which processor its programs are (32 bits on many kernels of 64); None where
            it is not known, and of an emulated board, whose programs are this machine's.
        emulated: whether it is no board but the emulator.
    """

    soc: str = ""
    chip: str | None = None
    note: str = ""
    compatible: tuple[str, ...] = ()
    model: str = ""
    serial: str = ""
    system: str = ""
    android: int | None = None
    kernel: str = ""
    machine: str = ""
    userland: Elf | None = None
    emulated: bool = False

    @property
    def generation(self) -> int | None:
        """Generation of the NPU and its toolkit: 1 or 2; None for an unknown chip."""
        facts = chip(self.chip) if self.chip else None
        return facts.generation if facts else None

    @property
    def thirty_two_on_64(self) -> bool:
        """Whether programs are 32-bit ones on a 64-bit kernel: libraries have to be, too."""
        return self.machine in _BITS_64 and self.userland is not None and self.userland.bits == 32


@cache
def _names() -> re.Pattern[str]:
    """Names of all SoCs, longest first, so that rv1126b is not taken for rv1126."""
    known = {name for entry in chips() for name in (entry.name, *entry.aliases)} | set(OTHER_NAMES)
    longest_first = sorted(known, key=lambda name: (-len(name), name))
    return re.compile(rf"(?:^|[^a-z0-9])(?:tb-)?({'|'.join(map(re.escape, longest_first))})")


def chip_of(entries: Iterable[str]) -> ChipFound:
    """The SoC of a list of names: entries in their order, in each the longest name.

    Boards with an RV1103 often also say RV1106, behind it.
    """
    bare = ""
    for entry in entries:
        text = entry.lower()[:200]
        if match := _names().search(text):
            soc = match[1]
            known = chip(OTHER_NAMES.get(soc, soc))
            return ChipFound(soc, known.name if known else None)
        if re.search(r"(?:^|[^a-z0-9])rk3399", text):
            bare = bare or "rk3399"
        elif family := re.search(r"(?:^|[^a-z0-9])(rk356x|rv110x)", text):
            bare = bare or family[1]
    if bare == "rk3399":
        return ChipFound(bare, None, "RK3399 without Pro has no NPU.")
    if bare:
        return ChipFound(bare, None, f"{bare} stands for several chips: say which one it is.")
    return ChipFound(note="No known Rockchip chip with an NPU is among these names.")


def system_name(os_release: str) -> str:
    """The name of a system in os-release(5): ``PRETTY_NAME``, else ``NAME`` and version."""
    fields: dict[str, str] = {}
    for line in os_release[:8192].splitlines():
        key, equals, value = line.partition("=")
        if equals:
            fields[key.strip()] = value.strip().strip("\"'")
    name = fields.get("NAME") or fields.get("ID", "")
    version = fields.get("VERSION") or fields.get("VERSION_ID", "")
    return sanitize(fields.get("PRETTY_NAME") or f"{name} {version}".strip(), 80)


def identify(transport: Transport) -> BoardIdentity:
    """Read what a board is.

    Raises:
        DeviceLostError: the board has gone.
        DeviceTimeoutError: it does not answer.
    """
    entries = _entries(transport)
    os_release = read_text(transport, "/etc/os-release") or ""
    level = first_line(output(transport, ["getprop", "ro.build.version.sdk"]))
    android = int(level) if re.fullmatch(r"[0-9]{1,3}", level) else None
    names = chip_of(entries)
    if not names.soc and android is not None:
        properties = [_property(transport, name) for name in _PROPERTIES]
        entries = (*entries, *(text for text in properties if text))
        names = chip_of(entries)
    machine = first_line(output(transport, ["uname", "-m"]))
    emulated = read_bytes(transport, EMULATED_MARK, 64) is not None
    return BoardIdentity(
        soc=names.soc,
        chip=names.chip,
        note=names.note,
        compatible=entries,
        model=first_line(read_text(transport, "/proc/device-tree/model"))
        or (_property(transport, "ro.product.model") if android is not None else ""),
        serial=_serial(transport, android),
        system=_android_name(transport) if android is not None else system_name(os_release),
        android=android,
        kernel=_kernel(transport),
        machine=machine,
        userland=None if emulated else _userland(transport),
        emulated=emulated,
    )


def _entries(transport: Transport) -> tuple[str, ...]:
    for path in _COMPATIBLE:
        if text := read_text(transport, path, 4096):
            cleaned = (sanitize(entry, 100).strip() for entry in text.split("\0")[:_ENTRIES])
            return tuple(entry for entry in cleaned if entry)
    return ()


def _property(transport: Transport, name: str) -> str:
    return first_line(output(transport, ["getprop", name]))


def _android_name(transport: Transport) -> str:
    return f"Android {_property(transport, 'ro.build.version.release')}".strip()


def _serial(transport: Transport, android: int | None) -> str:
    if text := first_line(read_text(transport, "/proc/device-tree/serial-number")):
        return text
    if android is not None:
        return _property(transport, "ro.serialno")
    match = re.search(r"(?m)^Serial\s*:\s*(\S+)", read_text(transport, "/proc/cpuinfo") or "")
    return sanitize(match[1], 80) if match else ""


def _kernel(transport: Transport) -> str:
    if text := first_line(output(transport, ["uname", "-r"])):
        return text
    match = re.match(r"Linux version (\S+)", read_text(transport, "/proc/version") or "")
    return sanitize(match[1], 80) if match else ""


def _userland(transport: Transport) -> Elf | None:
    """For which processor the board's shell is."""
    elves = (elf_of(transport, path) for path in _SHELLS)
    return next((elf for elf in elves if elf), None)


def board_facts(device: str, identity: BoardIdentity) -> BoardFacts:
    """The facts of a board that was examined; ``device`` is its address."""
    facts = chip(identity.chip) if identity.chip else None
    return BoardFacts(
        device=device,
        label="emulated" if identity.emulated else "measured",
        chip=identity.chip or "",
        model=identity.model,
        serial=identity.serial,
        system=identity.system,
        kernel=identity.kernel,
        cores=facts.npu_cores if facts else 0,
    )
