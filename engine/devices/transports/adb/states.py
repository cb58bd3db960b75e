"""What an adb server says of a board: its states, its refusals, and the remedy of each.

The states are those of ``adb devices -l`` [adb, ``docs/user/adb.1.md``]; what a server answers to a
request for a board that it cannot serve is text, and the same for all versions of adb since 2017.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.base.errors import DeviceAccessError, DeviceError, DeviceLostError, DeviceStorageError
from engine.base.text import human_bytes, sanitize
from engine.devices.transports.shared import storage_cause
from engine.wire.devices import AdbStateName

SERIAL = re.compile(r"[A-Za-z0-9._:\-\[\]%]{1,64}")
"""Serial numbers and addresses that may be a part of a request to the adb server."""

UDEV_RULE = 'SUBSYSTEM=="usb", ATTR{idVendor}=="2207", MODE="0660", GROUP="plugdev", TAG+="uaccess"'
"""Gives who sits at this machine the Rockchip boards on its USB."""

_REPLUG = "Unplug the board and plug it in again, or restart it."
_PERMISSION = (
    "Write this line to /etc/udev/rules.d/51-rockchip.rules as root:\n"
    f"{UDEV_RULE}\n"
    "then run `sudo udevadm control --reload` and plug the board in again. "
    "If the adb server was running before, restart it: `adb kill-server`."
)


@dataclass(frozen=True)
class AdbState:
    """A state that a board is in.

    Attributes:
        name: ``ready`` is the only one in which it can be used.
        what: the state as a part of a sentence that begins with the board.
        cause, remedy: why it may be, and what the user can do.
    """

    name: AdbStateName
    what: str
    cause: str = ""
    remedy: str = ""


_STATES: dict[str, AdbState] = {
    "device": AdbState("ready", "is ready"),
    "offline": AdbState(
        "offline",
        "is offline",
        "It is starting, it does not answer, or its cable or network was cut.",
        f"Wait until it has started. {_REPLUG} A network address: `adb disconnect` it and connect "
        "it again.",
    ),
    "unauthorized": AdbState(
        "unauthorized",
        "does not accept this machine",
        "Android asks on its screen whether it may be debugged from here.",
        "Accept the question on the board's screen. If there is none: unplug it, run "
        "`adb kill-server`, and plug it in again.",
    ),
    "connecting": AdbState(
        "connecting",
        "is being connected",
        "The adb server has found it and waits for its answer.",
        f"Wait a few seconds. {_REPLUG}",
    ),
    "no permissions": AdbState(
        "no permissions",
        "may not be opened by this user",
        "No udev rule gives this user the USB devices of Rockchip, or another user started the adb "
        "server.",
        _PERMISSION,
    ),
    "recovery": AdbState(
        "recovery",
        "runs its recovery system",
        "It was started into recovery, which has no runtime for the NPU.",
        "Restart it into its normal system: `adb reboot`.",
    ),
    "sideload": AdbState(
        "sideload",
        "waits for an update (sideload)",
        "It was started into recovery to take an update.",
        "Finish or leave the update on the board, and restart it.",
    ),
    "bootloader": AdbState(
        "bootloader",
        "is in its boot loader",
        "It was restarted into the boot loader.",
        "Restart it: `fastboot reboot`, or its reset key.",
    ),
}
_SAME = {"authorizing": "connecting", "rescue": "recovery", "host": "bootloader"}


def state_of(text: str) -> AdbState:
    """The state that the adb server names, such as ``no permissions (user in ...); see [...]``."""
    if text.startswith("no permissions"):
        return _STATES["no permissions"]
    known = _STATES.get(_SAME.get(text, text))
    return known or AdbState(
        "unknown",
        f"is in a state that is not known here: {sanitize(text, 80)}",
        "The adb server is newer than this program.",
        _REPLUG,
    )


@dataclass(frozen=True)
class Attached:
    """A board as the adb server lists it.

    Attributes:
        serial: its serial number or address; untrusted text.
        state: which state it is in.
        tags: ``product``, ``model``, ``device``, ``usb``; untrusted text.
        transport_id: the server's number of this connection; None for old servers.
    """

    serial: str
    state: AdbState
    tags: Mapping[str, str] = field(default_factory=dict)
    transport_id: int | None = None


_LINE = re.compile(r"(\(no serial number\)|\S+)\s+(.*)")
_TAG = re.compile(r"(usb|product|model|device|transport_id|features):(\S*)")
_BOARDS = 64


def attached(text: str) -> tuple[Attached, ...]:
    """The boards of the answer to ``host:devices-l``, at most 64.

    A state may have blanks and brackets (``no permissions (...); see [...]``): tags are taken from
    the end of a line.

    Raises:
        DeviceError: no line of it is one of an adb server.
    """
    boards = []
    for line in text.split("\n")[:_BOARDS]:
        match = _LINE.fullmatch(line.strip())
        if match is None:
            continue
        words = match[2].split(" ")
        tags: dict[str, str] = {}
        while words and (tag := _TAG.fullmatch(words[-1])):
            tags[tag[1]] = tag[2]
            words.pop()
        number = tags.pop("transport_id", "")
        if "usb" in tags:
            tags["usb"] = f"usb:{tags['usb']}"
        state = state_of(" ".join(words).strip())
        numbered = int(number) if re.fullmatch(r"[0-9]{1,9}", number) else None
        boards.append(Attached(match[1], state, tags, numbered))
    if text.strip() and not boards:
        raise DeviceError(
            f"What answers there is no adb server: it lists {sanitize(text.strip(), 80)!r}.",
            cause="Another program listens on the adb server's port.",
            remedy="Look what it is (`ss -ltnp`), end it, and run `adb start-server`.",
        )
    return tuple(boards)


def refusal(board: str, text: str) -> DeviceError:
    """The error of a request for a board that the adb server refused with ``text``."""
    lower = text.lower()
    if "not found" in lower or "no devices" in lower or "no device with" in lower:
        return DeviceLostError(
            f"The board {board} is not there.",
            cause="It is unplugged, switched off, or restarting; or the adb server was restarted "
            "and has forgotten its network address.",
            remedy="Look at its cable and power. A network address: `adb connect` it again.",
        )
    if "more than one" in lower:
        return DeviceError(
            f"There are several boards with the serial number {board}.",
            cause="Cheap boards all have the same one.",
            remedy="Name the board with its transport number, as the list of devices does: "
            f"{board}#NUMBER.",
        )
    for word, name in (
        ("unauthorized", "unauthorized"),
        ("permission", "no permissions"),
        ("offline", "offline"),
        ("authorizing", "connecting"),
        ("connecting", "connecting"),
    ):
        if word in lower:
            state = _STATES[name]
            kind = DeviceLostError if name in ("offline", "connecting") else DeviceAccessError
            return kind(f"The board {board} {state.what}.", cause=state.cause, remedy=state.remedy)
    return DeviceError(
        f"The adb server refused a request for the board {board}: {sanitize(text, 200)}.",
        cause="The board's adbd does not offer the service, or is about to end.",
        remedy=_REPLUG,
    )


def storage_error(
    board: str, verb: str, path: str, text: str, size: int | None = None
) -> DeviceStorageError:
    """The error of a file that a board could not ``verb``; ``text`` is what the board says."""
    said = sanitize(text.strip(), 200)
    cause, remedy = storage_cause(text)
    what = path if size is None else f"{path} ({human_bytes(size)})"
    return DeviceStorageError(
        f"The board {board} could not {verb} {what}: {said}.", cause=cause, remedy=remedy
    )
