"""Rockchip devices on this machine's USB, as sysfs shows them; no rights are needed.

[Linux, ``Documentation/ABI/testing/sysfs-bus-usb``]; the product ids are those of the vendor's
gadget scripts and of field reports.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from engine.base.text import sanitize

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
    try:
        with path.open("rb") as stream:
            return sanitize(stream.read(_TEXT).decode("utf-8", "replace"), _TEXT).strip()
    except OSError:
        return ""
