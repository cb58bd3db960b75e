"""Boards behind the vendor's NTB: what its proxy lists, and what is missing to use them.

NTB is a USB channel of the vendor's own between ``rknn_server`` on the board and
``npu_transfer_proxy`` on this machine. The proxy lists the boards (:func:`ask_proxy`); only the
vendor's generation 1 toolkit talks to them, and :mod:`engine.devices.toolkit` has it do so. It runs
models and nothing else: there is no transport to such a board.
"""

from __future__ import annotations

import os
import re
import select
import subprocess
import time
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import cast

from engine.base.errors import DeviceError, DeviceTimeoutError
from engine.base.text import sanitize

PROXY = "npu_transfer_proxy"
"""The vendor's program, found on the PATH."""

PROXY_SOCKET = "transfer_proxy"
"""Its abstract socket on this machine, or that of an adb forward in its place."""

_HEADER = "List of ntb devices attached"
_LINE = re.compile(r"([!-~]{1,64})\s+([0-9a-f]{1,8})\s+([A-Z_]{1,32})")
_OUTPUT_LIMIT = 1 << 16
_BOARDS = 64


@dataclass(frozen=True)
class NtbDevice:
    """A board that the proxy lists.

    Attributes:
        serial: its serial number; untrusted text without control characters.
        link: ``USB_DEVICE`` or ``PCIE``.
    """

    serial: str
    link: str


def proxy_devices(text: str) -> tuple[NtbDevice, ...]:
    """The boards that ``npu_transfer_proxy devices`` lists, at most 64.

    Lines before its heading are its log; a line that is none of its table is left out.
    """
    _, heading, rows = text[:_OUTPUT_LIMIT].partition(_HEADER)
    boards: dict[str, NtbDevice] = {}
    for row in rows.split("\n") if heading else []:
        match = _LINE.fullmatch(row.strip())
        if match is not None and len(boards) < _BOARDS:
            boards[match[1]] = NtbDevice(match[1], match[3])
    return tuple(boards.values())


def ask_proxy(program: str, seconds: float) -> tuple[NtbDevice, ...]:
    """The boards that the proxy lists.

    Args:
        program: its path.
        seconds: until it has to answer.

    Raises:
        DeviceError: it says why it does not list them, or cannot be started.
        DeviceTimeoutError: it does not answer.
    """
    try:
        process = subprocess.Popen(
            [program, "devices"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            bufsize=0,
        )
    except OSError as error:
        raise _no_answer(str(error)) from error
    stdout = cast("FileIO", process.stdout)
    # only the process that was started here is ended: a proxy that serves others stays
    try:
        output = _output(stdout.fileno(), time.monotonic() + seconds)
        stdout.close()  # who still talks has said too much, and ends by it
        code = process.wait(max(seconds, 1.0))
    except (TimeoutError, subprocess.TimeoutExpired) as error:
        raise DeviceTimeoutError(
            f"{PROXY} did not list its boards within {seconds:g} s.",
            cause="Another proxy holds the boards, or a board hangs.",
            remedy="End the other proxy, or restart the board.",
        ) from error
    finally:
        process.kill()
        stdout.close()
        process.wait()
    text = output.decode("utf-8", "replace")
    if code:
        raise _no_answer(text)
    return proxy_devices(text)


def _output(handle: int, end: float) -> bytes:
    output = bytearray()
    ready = select.poll()
    ready.register(handle, select.POLLIN)
    while len(output) < _OUTPUT_LIMIT:
        if not ready.poll(max(0, int((end - time.monotonic()) * 1000))):
            raise TimeoutError
        data = os.read(handle, _OUTPUT_LIMIT)
        if not data:
            break
        output += data
    return bytes(output)


def _no_answer(text: str) -> DeviceError:
    lines = [line for line in text[-_OUTPUT_LIMIT:].split("\n") if line.strip()]
    said = sanitize(lines[-1], 200) if lines else "nothing"
    return DeviceError(
        f"{PROXY} does not list its boards. It said: {said}",
        cause="A proxy of another version, or of another user, serves this machine.",
        remedy=f"Find it with `pgrep -a {PROXY}`, end it, and restart the board.",
    )


def proxy_runs(sockets: Path = Path("/proc/net/unix")) -> bool:
    """Whether a proxy, or an adb forward in its place, serves this machine."""
    try:
        with sockets.open("rb") as stream:
            return any(line.rstrip().endswith(f" @{PROXY_SOCKET}".encode()) for line in stream)
    except OSError:
        return False


def missing(name: str) -> DeviceError:
    """Why a board cannot be used over NTB, and what to do instead."""
    return DeviceError(
        f"The board {name} is reached by NTB, which this program does not speak itself.",
        cause="NTB belongs to the vendor: only the generation 1 toolkit (rknn-toolkit) talks to a "
        "board over it, and it does so for run, perf and memory.",
        remedy="Name the toolkit's Python once: rknntui vendor adopt PYTHON, then give "
        f"--device ntb:{name}. Or switch the board to adb: write usb_adb_en into its "
        "/etc/init.d/.usb_config and restart it.",
    )
