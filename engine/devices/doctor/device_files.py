"""The device files that a runtime opens, and whether programs of this user may."""

from __future__ import annotations

import re
from dataclasses import dataclass

from engine.base.text import sanitize
from engine.devices.doctor.case import shell_command
from engine.devices.probe.reading import output, ran, read_text
from engine.devices.transport import Transport
from engine.wire.doctor import Check

_RENDER = tuple(f"renderD{number}" for number in range(128, 132))
_USUAL_RENDER = "renderD129"
"""The NPU's where the kernel does not tell; the GPU has the one before it."""

NAME = "device files"


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
            NAME,
            "note",
            f"none of {', '.join(asked)} can be seen",
            "The kernel has no driver for the NPU, or these folders are for root only.",
            (shell_command(transport, ["ls", "-l", *asked]),),
        )
    shown = f"{device.name} ({device.mode}, {device.owner}, {device.group})"
    if user is None:
        return Check(NAME, "note", f"{shown}; who may use it could not be found out")
    if user.may_use(device):
        return Check(NAME, "ok", f"{shown}, usable as {user.name}")
    group = device.group if re.fullmatch(r"[a-z_][a-z0-9_-]{0,31}", device.group) else "render"
    name = user.name if re.fullmatch(r"[a-z_][a-z0-9_-]{0,31}", user.name) else "USER"
    return Check(
        NAME,
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
