"""The doctor's steps on what a model needs beside its software: device files, no conflict, room,
memory.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from engine.base.text import human_bytes, sanitize
from engine.devices.board.layout import MEMORY_FILESYSTEMS, volume_of
from engine.devices.doctor.case import Case, shell_command
from engine.devices.probe.compatibility import ModelFacts
from engine.devices.probe.reading import output, ran, read_text
from engine.devices.probe.versions import MINI_CHIPS, running_on
from engine.devices.transport import Transport
from engine.devices.transports.ntb import PROXY, PROXY_SOCKET, proxy_runs
from engine.wire.doctor import Check

ROOM = 64 << 20
"""Bytes of free memory or storage below which a usual model finds no place; a quarter on RV1103 and
RV1106, which have 64 to 256 MiB in all."""

_BESIDE = 4 << 20
"""Bytes of the agent, inputs and outputs beside a model."""

BUSY_PERCENT = 5.0
"""Load of the NPU from which on somebody else uses it."""


def check_conflicts(case: Case) -> Iterator[Check]:
    """The vendor's proxy: one per machine, and it takes the place of adb's forward."""
    name = "ntb and adb"
    if case.proxy_is_needed:
        pids = running_on(case.transport, PROXY)
        if pids:
            yield Check(name, "ok", f"{PROXY} runs on the board, process {pids[0]}")
        else:
            yield Check(
                name,
                "bad" if pids is not None else "note",
                f"{PROXY} does not run on the board"
                if pids is not None
                else "the processes of the board could not be listed",
                "Programs reach the NPU of RK3399Pro through it. It is started as root.",
                (shell_command(case.transport, ["sudo", PROXY]),),
            )
        return
    here, pids_here = _proxy_here(case.proc)
    if case.transport.kind == "adb" and pids_here:
        pid = pids_here[0]
        yield Check(
            name,
            "note",
            f"{PROXY} runs on this machine, process {pid}",
            "The vendor's PC toolkit cannot use adb beside it; this program can. End it where it "
            "is not needed: boards in NTB mode are lost then, and may have to be restarted.",
            (f"kill {pid}",),
        )
    elif case.transport.kind == "ntb" and not here:
        remedy = "Boards in NTB mode are reached through it. It comes with the vendor's toolkit."
        yield Check(name, "bad", f"{PROXY} does not run on this machine", remedy, (PROXY,))
    elif here and not pids_here:
        yield Check(
            name,
            "note",
            f"a program of this machine has the socket @{PROXY_SOCKET}",
            "A vendor's toolkit in use makes it for a board over adb; one at a time can.",
        )
    else:
        yield Check(name, "ok", "no conflict")


def _proxy_here(proc: Path) -> tuple[bool, tuple[int, ...]]:
    """Whether the proxy's socket exists on this machine, and the processes of that name."""
    pids = []
    with contextlib.suppress(OSError):
        for folder in proc.iterdir():
            if folder.name.isdecimal():
                with contextlib.suppress(OSError):
                    comm = (folder / "comm").read_text("utf-8", "replace").strip()
                    if comm == PROXY[:15]:  # the kernel keeps fifteen characters
                        pids.append(int(folder.name))
    return proxy_runs(proc / "net" / "unix"), tuple(sorted(pids))


def _usual(case: Case) -> int:
    return ROOM // 4 if case.chip in MINI_CHIPS else ROOM


def check_room(case: Case) -> Iterator[Check]:
    """Where on the board a model finds a place."""
    needed = _usual(case)
    if case.model is not None:
        needed = int(case.model.size * 1.1) + _BESIDE
    free = _free(case)
    if free is None:
        yield Check("room", "note", "free space cannot be read", "Look with df -Pk on the board.")
        return
    folder, size, in_memory = free
    folder = "the folder it starts in" if folder == "." else folder
    kind = ", in memory" if in_memory else ""
    summary = f"{human_bytes(size)} free in {folder}{kind}"
    if size < needed:
        state: Literal["note", "bad"] = "bad" if case.model else "note"
        remedy = f"{human_bytes(needed)} are needed: remove what is not needed there."
        yield Check("room", state, summary, remedy, (shell_command(case.transport, ["df", "-Pk"]),))
    else:
        yield Check("room", "ok", summary)


def _folders(case: Case) -> tuple[str, ...]:
    """Where models go, in the order of :func:`engine.devices.board.layout.find_folder`."""
    if case.android:
        return ("/data/local/tmp",)
    last = "." if case.transport.kind in ("ssh", "local") else "/tmp"  # noqa: S108 - a board's
    return ("/userdata", "/data", last)


def _free(case: Case) -> tuple[str, int, bool] | None:
    """(folder, free bytes, whether it is memory) of the first of these folders that is there."""
    for folder in _folders(case):
        if (volume := volume_of(case.transport, folder)) is not None:
            return folder, volume[1], volume[0] in MEMORY_FILESYSTEMS
    return None


def check_memory(case: Case) -> Iterator[Check]:
    """Memory that is left, and whether somebody else uses the NPU."""
    memory, load = case.state.memory, case.state.npu_load
    if memory is None or memory.available is None:
        reason = case.state.reason("memory") or "the kernel does not tell"
        yield Check("memory", "note", f"cannot be read: {reason}")
        return
    summary = f"{human_bytes(memory.available)} of {human_bytes(memory.total or 0)} available"
    needed = max(_usual(case), _size(case.model))
    busy = load is not None and max(load) > BUSY_PERCENT
    if busy and load is not None:
        summary += f"; the NPU is busy: {', '.join(f'{core:.0f}%' for core in load)}"
    if memory.available < needed:
        commands: tuple[str, ...] = ()
        remedy = f"{human_bytes(needed)} are needed: end other programs."
        if case.chip in MINI_CHIPS:
            remedy += " On RV1103 and RV1106 the vendor's camera program takes most of it."
            commands = (shell_command(case.transport, ["RkLunch-stop.sh"]),)
        yield Check("memory", "bad" if case.model else "note", summary, remedy, commands)
    elif busy:
        yield Check(
            "memory", "note", summary, "Times that are measured now are those of two programs."
        )
    else:
        yield Check("memory", "ok", summary)


def _size(model: ModelFacts | None) -> int:
    return model.size if model else 0


# The device files that a runtime opens, and whether programs of this user may.

_RENDER = tuple(f"renderD{number}" for number in range(128, 132))
_USUAL_RENDER = "renderD129"
"""The NPU's where the kernel does not tell; the GPU has the one before it."""

_DEVICE_FILES = "device files"


@dataclass(frozen=True)
class DeviceFile:
    """A character device: its permissions as ``ls`` writes them, owner and group."""

    name: str
    mode: str
    owner: str
    group: str


@dataclass(frozen=True)
class User:
    """Whom programs of the transport run as; ``groups`` with his own."""

    name: str
    root: bool
    groups: frozenset[str]

    def may_use(self, file: DeviceFile) -> bool:
        """Whether he may read and write a device."""
        if self.root:
            return True
        if file.owner == self.name:
            return file.mode[:2] == "rw"
        return (file.mode[3:5] if file.group in self.groups else file.mode[6:8]) == "rw"


def parse_user(text: str) -> User | None:
    """What ``id`` prints: ``uid=1000(pi) gid=1000(pi) groups=1000(pi),44(video)``."""
    match = re.match(r"uid=([0-9]{1,10})(?:\(([^)]{0,64})\))?", text)
    if match is None:
        return None
    groups = re.findall(r"[0-9]{1,10}\(([^)]{0,64})\)", text[match.end() : 4096])
    return User(sanitize(match[2] or match[1], 64), int(match[1]) == 0, frozenset(groups))


def parse_listing(text: str) -> tuple[DeviceFile, ...]:
    """Character devices in what ``ls -l`` prints, of coreutils, busybox, toybox and toolbox."""
    form = re.compile(
        r"(?m)^c([rwxsStT-]{9})\S{0,2}\s+(?:[0-9]+\s+)?(\S{1,64})\s+(\S{1,64})\s+[0-9]+,\s*[0-9]+"
        r"\s.*?(\S{1,80})$"
    )
    return tuple(
        DeviceFile(sanitize(name.rpartition("/")[2], 80), mode, owner, group)
        for mode, owner, group, name in form.findall(text[: 1 << 16])
    )


def device_files(transport: Transport, generation: int | None) -> Check:
    """Whether the NPU's device file is there and may be used."""
    paths = {1: ["/dev/galcore"], 2: ["/dev/dri", "/dev/rknpu"]}
    asked = paths.get(generation or 0, ["/dev/galcore", "/dev/dri", "/dev/rknpu"])
    done = ran(transport, ["ls", "-l", *asked])
    files = {file.name: file for file in parse_listing(done.text if done else "")}
    names = ["rknpu", "galcore", *_render_nodes(transport, files)]
    device = next((files[name] for name in names if name in files), None)
    user = parse_user(output(transport, ["id"]))
    if device is None:
        return Check(
            _DEVICE_FILES,
            "note",
            f"none of {', '.join(asked)} can be seen",
            "The kernel has no driver for the NPU, or these folders are for root only.",
            (shell_command(transport, ["ls", "-l", *asked]),),
        )
    shown = f"{device.name} ({device.mode}, {device.owner}, {device.group})"
    if user is None:
        return Check(_DEVICE_FILES, "note", f"{shown}; who may use it could not be found out")
    if user.may_use(device):
        return Check(_DEVICE_FILES, "ok", f"{shown}, usable as {user.name}")
    group = device.group if re.fullmatch(r"[a-z_][a-z0-9_-]{0,31}", device.group) else "render"
    name = user.name if re.fullmatch(r"[a-z_][a-z0-9_-]{0,31}", user.name) else "USER"
    return Check(
        _DEVICE_FILES,
        "bad",
        f"{shown}, not usable as {user.name}",
        "Become a member of its group and log in again, or run as root.",
        (shell_command(transport, ["sudo", "usermod", "-aG", group, name]),),
    )


def _render_nodes(transport: Transport, files: dict[str, DeviceFile]) -> list[str]:
    """The render nodes of the NPU's driver; the usual one where none tells its driver."""
    here = [name for name in _RENDER if name in files]
    texts = {n: read_text(transport, f"/sys/class/drm/{n}/device/uevent") or "" for n in here}
    ours = [name for name, text in texts.items() if "DRIVER=RKNPU" in text.upper()]
    if ours or any(texts.values()):
        return ours
    return [_USUAL_RENDER]
