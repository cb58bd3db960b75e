"""The live list of boards: all that this machine can reach, each with its state and its remedy.

:func:`poll` looks once and quickly; who shows the list calls it every second. Nothing is connected
but the hosts that the user named, where that is asked for, and no network is searched.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from engine.base.errors import DeviceAccessError, DeviceError
from engine.base.findings import Finding
from engine.base.text import sanitize
from engine.devices.address import Address
from engine.devices.probe.identify import identify
from engine.devices.transports import ntb, reach
from engine.devices.transports.adb.link import Deadline
from engine.devices.transports.adb.server import AdbServer
from engine.devices.transports.adb.states import SERIAL, Attached
from engine.wire.devices import Device, DeviceState, Listing

# Rockchip devices on this machine's USB, as sysfs shows them; no rights are needed.
#
# [Linux, ``Documentation/ABI/testing/sysfs-bus-usb``]; the product ids are those of the vendor's
# gadget scripts and of field reports.

USB_DEVICES = Path("/sys/bus/usb/devices")

_VENDOR = "2207"  # Fuzhou Rockchip Electronics
_FLASH_MODE = {
    "110b": "rv1126 or rv1109",
    "110c": "rv1106 or rv1103",
    "180a": "rk1808 or the NPU of an rk3399pro",
    "330c": "rk3399 or rk3399pro",
    "350a": "rk3566 or rk3568",
    "350b": "rk3588",
    "350d": "rk3562",
    "350e": "rk3576",
}
_NTB_ONLY = "1808"
_ADB_ONLY = "0006"
_ADB_CLASS = ("ff", "42", "01")
_PORT = re.compile(r"[0-9]+-[0-9.]+")
_DEVICES = 256
_TEXT = 256


@dataclass(frozen=True)
class UsbDevice:
    """A device of Rockchip.

    Attributes:
        port: where it is plugged in: ``1-1.4``.
        serial, product: what it says of itself; untrusted, without control characters.
        flash_mode: chips whose boot ROM or loader this is; empty where the board has booted.
        adb: whether it offers adb.
        ntb: whether it offers NTB.
    """

    port: str
    serial: str
    product: str
    flash_mode: str
    adb: bool
    ntb: bool


def usb_devices(root: Path = USB_DEVICES) -> tuple[UsbDevice, ...]:
    """All of them, in the order of their ports; none where there is no such folder."""
    try:
        names = sorted(path.name for path in islice(root.iterdir(), 16 * _DEVICES))
    except OSError:
        return ()
    ports = [name for name in names if _PORT.fullmatch(name)]
    rockchip = [port for port in ports[:_DEVICES] if _text(root / port / "idVendor") == _VENDOR]
    return tuple(_device(root, port, names) for port in rockchip)


def _device(root: Path, port: str, names: list[str]) -> UsbDevice:
    product_id = _text(root / port / "idProduct")
    product = _text(root / port / "product")
    interfaces = [root / name for name in names if name.startswith(f"{port}:")][:32]
    said = " ".join([product, *(_text(path / "interface") for path in interfaces)]).lower()
    classes = [
        tuple(_text(path / f"bInterface{part}") for part in ("Class", "SubClass", "Protocol"))
        for path in interfaces
    ]
    return UsbDevice(
        port=port,
        serial=_text(root / port / "serial"),
        product=product,
        flash_mode=_FLASH_MODE.get(product_id, ""),
        adb=product_id == _ADB_ONLY or _ADB_CLASS in classes,
        ntb=product_id == _NTB_ONLY or re.search(r"\bntb\b", said.replace("_", " ")) is not None,
    )


def _text(path: Path) -> str:
    return sanitize(_read(path, _TEXT).decode("utf-8", "replace"), _TEXT).strip()


def _read(path: Path, limit: int) -> bytes:
    try:
        with path.open("rb") as stream:
            return stream.read(limit)
    except OSError:
        return b""


BOTH_MODES = "Cannot use both device with adb mode and device with ntb mode."
"""The vendor's own words, which users search for."""

_DEVICE_TREE = Path("/proc/device-tree")
_SHOWN = 64
_LOGINS = 8
"""At the same time."""
_ORDER = ("local", "adb", "ntb", "ssh", "usb")
_NETWORK = re.compile(r"(?!127\.|localhost:|\[::1\])(.+):[0-9]{1,5}")
_NO_AUTHENTICATION = (
    "Network adb of Linux boards has no authentication and no encryption: use it only in a network "
    "that you trust."
)
_SAME_SERIAL = "Several boards have this serial number: this one is named by its USB port."
_SAME_SERIAL_NUMBERED = (
    "Several boards have this serial number. The number behind # is the adb server's and changes "
    "when the board is plugged in again."
)
_EMULATED = "This board is emulated: no figure of it says anything about a real one."


def poll(
    *,
    seconds: float = 2.0,
    server: AdbServer | None = None,
    start_server: bool = False,
    ssh: Sequence[str] = (),
    ask: bool = False,
    usb: Path = USB_DEVICES,
    device_tree: Path = _DEVICE_TREE,
) -> Listing:
    """Look once. What does not answer is a notice, never an error.

    Args:
        seconds: until the adb server and the vendor's proxy have to have answered.
        server: the adb server; that of the environment where there is none given.
        start_server: start it where it is not up, which takes up to ten seconds; for the first
            look, and where the user asks.
        ssh: addresses (``ssh:[user@]host[:port]``) that the user has named.
        ask: log in to them, all at the same time.
        usb: where sysfs shows the USB devices.
        device_tree: where the kernel shows what board this machine is.
    """
    deadline = Deadline(seconds)
    notices: list[Finding] = []
    plugged = usb_devices(usb)
    boards = _boards(server or AdbServer.of_environment(), start_server, deadline, notices)
    devices = [
        *_local(device_tree),
        *_adb(boards),
        *_ntb(plugged, deadline, notices),
        *_ssh(ssh, ask=ask),
        *_only_usb(plugged, boards),
    ]
    listing = Listing(tuple(sorted(devices, key=lambda d: (_ORDER.index(d.kind), d.id))))
    if listing.names("adb") and listing.names("ntb"):
        notices.append(_both_modes())
    return Listing(listing.devices, tuple(notices))


def _boards(
    server: AdbServer, start: bool, deadline: Deadline, notices: list[Finding]
) -> tuple[Attached, ...]:
    try:
        if not server.is_up(deadline.left):
            if not start:
                raise server.absent()
            server.start()
            deadline = Deadline(max(deadline.left, 1.0))
        return server.boards(deadline)
    except DeviceError as error:
        notices.append(Finding.of_error("adb-server", "adb", error, "warning"))
        return ()


def _adb(boards: Iterable[Attached]) -> list[Device]:
    boards = list(boards)
    count = Counter(board.serial for board in boards)
    return [_adb_device(board, count[board.serial] > 1) for board in boards]


def _adb_device(board: Attached, several: bool) -> Device:
    # adb takes the port in place of a serial number that it cannot be asked for, or not clearly
    port = sanitize(board.tags.get("usb", ""), _SHOWN)
    addressed = SERIAL.fullmatch(board.serial) is not None
    name = board.serial if addressed and not (several and port) else port
    warnings = []
    if several and port:
        warnings.append(_SAME_SERIAL)
    elif several and addressed and board.transport_id is not None:
        name = f"{board.serial}#{board.transport_id}"
        warnings.append(_SAME_SERIAL_NUMBERED)
    if _NETWORK.fullmatch(board.serial):
        warnings.append(_NO_AUTHENTICATION)
    if board.tags.get("model", "").endswith("_emulated"):
        warnings.append(_EMULATED)
    shown = sanitize(board.serial, _SHOWN)
    return Device(
        id=f"adb:{name or shown}",
        kind="adb",
        state=board.state.name if name else "unknown",
        what=f"The board {shown} {board.state.what}.",
        cause=board.state.cause,
        remedy=board.state.remedy,
        serial=shown,
        product=sanitize(board.tags.get("product", ""), _SHOWN),
        model=sanitize(board.tags.get("model", ""), _SHOWN),
        device=sanitize(board.tags.get("device", ""), _SHOWN),
        transport_id=board.transport_id,
        address=port or (shown if ":" in shown else ""),
        warnings=tuple(warnings),
    )


def _ntb(plugged: Iterable[UsbDevice], deadline: Deadline, notices: list[Finding]) -> list[Device]:
    addresses = {board.serial or board.port: f"usb:{board.port}" for board in plugged if board.ntb}
    program = shutil.which(ntb.PROXY)
    if program is not None:
        try:
            for board in ntb.ask_proxy(program, max(deadline.left, 0.5)):
                addresses.setdefault(board.serial, "" if board.link == "USB_DEVICE" else board.link)
        except DeviceError as error:
            notices.append(Finding.of_error("ntb-proxy", "ntb", error, "warning"))
    return [_ntb_device(serial, address) for serial, address in addresses.items()]


def _ntb_device(serial: str, address: str) -> Device:
    why = ntb.missing(serial)
    return Device(
        id=f"ntb:{serial}",
        kind="ntb",
        state="needs the vendor's toolkit",
        what=f"The board {serial} is there, by NTB.",
        cause=why.cause,
        remedy=why.remedy,
        serial=serial,
        address=address,
    )


def _ssh(addresses: Iterable[str], *, ask: bool) -> list[Device]:
    named = list(dict.fromkeys(addresses))
    if not ask or not named:
        return [_not_asked(address) for address in named]
    with ThreadPoolExecutor(min(len(named), _LOGINS)) as logins:
        return list(logins.map(_asked, named))


def _not_asked(address: str) -> Device:
    return Device(
        id=sanitize(address, 300),
        kind="ssh",
        state="not asked",
        what=f"{sanitize(address, 300)} is asked when it is opened.",
        address=sanitize(address.removeprefix("ssh:"), 300),
    )


def _asked(address: str) -> Device:
    """A board over SSH, after a login."""
    device = _not_asked(address)
    try:
        with closing(reach(Address.parse(address))) as board:
            identity = identify(board)
    except DeviceError as error:
        state: DeviceState = "unauthorized" if isinstance(error, DeviceAccessError) else "offline"
        return replace(device, state=state, what=error.what, cause=error.cause, remedy=error.remedy)
    return replace(
        device,
        state="ready",
        what=f"{device.id} answers.",
        product=identity.soc,
        model=sanitize(identity.model, 200),
    )


def _only_usb(plugged: Iterable[UsbDevice], boards: Sequence[Attached]) -> list[Device]:
    """Devices on USB that no transport lists, with what to do about them."""
    ports = {board.tags.get("usb", "") for board in boards}
    serials = {board.serial for board in boards}
    return [
        _usb_device(device)
        for device in plugged
        if (device.adb or not device.ntb)
        and f"usb:{device.port}" not in ports
        and (not device.serial or device.serial not in serials)
    ]


def _usb_device(device: UsbDevice) -> Device:
    name = device.serial or device.product or device.port
    state: DeviceState = "no adb"
    what = f"The USB device {name} is Rockchip's and offers no adb."
    cause = "The board has booted, and its USB is set to something else."
    remedy = "Switch its USB to adb, or reach it by ssh."
    if device.flash_mode:
        state = "flash mode"
        what = f"A board ({device.flash_mode}) is not booted: it is in flash mode."
        cause = "Its recovery or maskrom key was held, or it has no system that starts."
        remedy = "Restart it without a key held; flash a system if that does not help."
    elif device.adb:
        state = "not listed"
        what = f"The board {name} offers adb on USB, and the adb server does not list it."
        cause = "The adb server is not up, runs elsewhere, or has not seen it yet."
        remedy = "Run `adb devices`. If the board is not there: `adb kill-server`, and try again."
    return Device(
        id=f"usb:{device.port}",
        kind="usb",
        state=state,
        what=what,
        cause=cause,
        remedy=remedy,
        serial=device.serial,
        product=device.product,
        address=f"usb:{device.port}",
    )


def _local(device_tree: Path) -> list[Device]:
    """This machine, where it is a board of Rockchip."""
    entries = _node(device_tree / "compatible").split("\0")
    if not any(entry.startswith("rockchip,") for entry in entries):
        return []
    return [
        Device(
            id="local",
            kind="local",
            state="ready",
            what="This machine is a board.",
            serial=sanitize(_node(device_tree / "serial-number").strip("\0"), _SHOWN),
            product=sanitize(next(e for e in entries if e), _SHOWN),
            model=sanitize(_node(device_tree / "model").strip("\0"), _SHOWN),
            device=sanitize([e for e in entries if e.startswith("rockchip,")][-1], _SHOWN),
        )
    ]


def _node(path: Path) -> str:
    return _read(path, 4096).decode("latin-1")


def _both_modes() -> Finding:
    runs = " npu_transfer_proxy runs now." if ntb.proxy_runs() else ""
    return Finding(
        code="adb-and-ntb",
        severity="warning",
        where="ntb",
        what=BOTH_MODES,
        cause=f"Both go through the name transfer_proxy of this machine.{runs}",
        remedy="Switch all boards to adb or all to NTB when you use the vendor's toolkit.",
    )
