"""The image of an emulated board: the files that a program finds there, and the kernel's values."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path

from rknntui_emulator.boards import LABEL, Board, elf_header
from rknntui_emulator.kernel import Clocks, tell_npu
from rknntui_emulator.programs import LOADERS, links, stand_ins
from rknntui_emulator.sandbox import Sandbox

_LABEL_FILE = "/etc/rknntui-emulated"

_MOUNTS = {
    False: (
        "/dev/root / ext4 rw,relatime 0 0\ntmpfs /tmp tmpfs rw 0 0\ntmpfs /run tmpfs rw 0 0\n"
        "/dev/mmcblk0p8 /userdata ext4 rw,relatime 0 0\n"
        "none /sys/kernel/debug debugfs rw,relatime 0 0\n"
    ),
    True: (
        "/dev/block/dm-0 / ext4 ro,relatime 0 0\n/dev/block/dm-1 /vendor ext4 ro,relatime 0 0\n"
        "/dev/block/by-name/userdata /data f2fs rw,relatime 0 0\n"
        "debugfs /sys/kernel/debug debugfs rw,relatime 0 0\n"
    ),
}

_SETTING = 480
"""Bytes of a setting of the stand-in library."""

_DEVICES = {
    "librknnrt.so": ("dri/renderD129", "dma_heap/system"),
    "librknnmrt.so": ("rknpu",),
    "librknn_runtime.so": ("galcore",),
    "librknn_api.so": (),
}
"""Device files of the NPU, by what uses them."""


_ZONES = {
    "rk3588": "soc bigcore0 bigcore1 littlecore center gpu npu",
    "rk3576": "soc bigcore littlecore ddr npu gpu",
}
_TRIPS = (("passive", 75), ("passive", 85), ("critical", 115))
"""Trip points of the chip as a whole, in °C: of ``soc_thermal`` in the vendor's device trees."""
_OTHER_ZONES = {1: "soc cpu", 2: "soc gpu"}


class BoardImage:
    """The files of one board.

    Args:
        sandbox: where they are.
        board: what they say.
        android: an Android image in place of a Linux one.
    """

    def __init__(self, sandbox: Sandbox, board: Board, *, android: bool) -> None:
        self._sandbox, self._board, self._android = sandbox, board, android
        self._model = f"{board.model} ({LABEL})"
        self._changing = threading.Lock()
        self._settings: dict[str, str] = {}
        self._fixed_load = False
        self._load: tuple[int, ...] = ()
        self.clocks = Clocks(sandbox, board)
        self._folders()
        self._identity()
        self._kernel()
        self._programs()
        self._vendor()
        self.boot()

    @property
    def library(self) -> str:
        """Where the board has its runtime library."""
        name = self._board.library.rpartition("/")[2]
        return f"/vendor/lib64/{name}" if self._android else self._board.library

    @property
    def server(self) -> str:
        """Where the board has rknn_server."""
        name = self._board.server.rpartition("/")[2]
        return f"/vendor/bin/{name}" if self._android else self._board.server

    @property
    def answers(self) -> Path:
        """The folder of this machine where the runtime library finds its answers."""
        return self._sandbox.path(self.library).parent / "answers"

    # ------------------------------------------------------------------------ changed while it runs

    def tell_runtime(self, name: str, value: str | None) -> None:
        """Change a setting of the stand-in library, such as ``BEND``; None takes it away.

        Raises:
            ValueError: it is no line of text, or too long.
        """
        if value is not None and (len(os.fsencode(value)) > _SETTING or not value.isprintable()):
            raise ValueError("no setting")
        self._settings.pop(name, None)
        if value is not None:
            self._settings[name] = value
        lines = "".join(f"{key}={text}\n" for key, text in self._settings.items())
        self._sandbox.write(f"{self.library.rpartition('/')[0]}/emulated.conf", _bytes(lines))

    def install_runtime(self, library: Path) -> None:
        """Let a library of this machine be the board's runtime library."""
        self._sandbox.write(self.library, library.read_bytes(), 0o755)

    def remove_runtime(self) -> None:
        """Take the runtime library away."""
        self._sandbox.path(self.library).unlink(missing_ok=True)

    def boot(self) -> None:
        """What only memory holds is as after a start."""
        for folder in ("tmp", "run"):
            path = self._sandbox.path(folder)
            if path.is_dir():
                shutil.rmtree(path)
                path.mkdir()
        self._sandbox.write("/proc/uptime", "12.34 43.21\n")
        with self._changing:
            self._fixed_load = False
            self._write_load((0,) * self._board.cores)
            self.clocks.start()
        self.set_temperature(41.5)

    def set_load(self, percent: Sequence[int] | None) -> None:
        """What rknpu reports until the next start; generation 1 has no such file.

        Args:
            percent: a value for each core; None lets it follow the runs.
        """
        with self._changing:
            self._fixed_load = percent is not None
            if percent is not None:
                self._write_load(tuple(percent))

    def follow_load(self, percent: Sequence[int]) -> None:
        """Let rknpu report what the runs give, unless the load is fixed."""
        with self._changing:
            if not self._fixed_load and tuple(percent) != self._load:
                self._write_load(tuple(percent))

    def _write_load(self, percent: tuple[int, ...]) -> None:
        self._load = percent
        tell_npu(self._sandbox, self._board, "load", self._board.load_text(percent))

    def follow(self) -> None:
        """Let the clocks do what programs have asked for."""
        with self._changing:
            self.clocks.follow()

    def set_temperature(self, celsius: float) -> None:
        """What every thermal zone reports."""
        for number, name in enumerate(self._zones()):
            folder = f"/sys/class/thermal/thermal_zone{number}"
            self._sandbox.write(f"{folder}/type", f"{name}\n")
            self._sandbox.write(f"{folder}/temp", f"{round(celsius * 1000)}\n")

    def _zones(self) -> tuple[str, ...]:
        kinds = _ZONES.get(self._board.chip, _OTHER_ZONES[self._board.generation])
        return tuple(f"{kind}-thermal" for kind in kinds.split())

    # ------------------------------------------------------------------------------ made once

    def _folders(self) -> None:
        linux = "data etc oem/usr/bin oem/usr/lib proc root run sys tmp usr/bin usr/lib userdata"
        droid = "data/local/tmp etc proc root sdcard sys system/bin vendor/bin vendor/lib64"
        for name in (droid if self._android else linux).split():
            self._sandbox.path(name).mkdir(parents=True, exist_ok=True)

    def _identity(self) -> None:
        board, write = self._board, self._sandbox.write
        tree = "/proc/device-tree"
        write(f"{tree}/compatible", b"".join(entry.encode() + b"\0" for entry in board.compatible))
        write(f"{tree}/model", _bytes(self._model) + b"\0")
        write(f"{tree}/serial-number", _bytes(board.serial) + b"\0")
        write(
            _LABEL_FILE,
            f"{board.chip}: this board is emulated by RKNN TUI, nothing here is measured\n",
        )
        if self._android:
            lines = (f"{name}={value}" for name, value in self._properties().items())
            write("/system/build.prop", _bytes("\n".join(lines) + "\n"))
        else:
            write("/etc/os-release", "NAME=Buildroot\nVERSION=2021.11\nID=buildroot\n")

    def _properties(self) -> dict[str, str]:
        board = self._board
        return {
            "ro.board.platform": "rk356x" if board.chip in ("rk3566", "rk3568") else board.chip,
            "ro.build.version.release": "12",
            "ro.build.version.sdk": "31",
            "ro.product.cpu.abi": "arm64-v8a" if board.machine == "aarch64" else "armeabi-v7a",
            "ro.product.model": self._model,
            "ro.serialno": board.serial,
        }

    def _kernel(self) -> None:
        board, write = self._board, self._sandbox.write
        write("/proc/meminfo", board.memory_text)
        write("/proc/version", f"Linux version {board.kernel} ({LABEL}@board)\n")
        write(
            "/proc/stat", "cpu  1000 0 500 98000 10 0 5 0 0 0\ncpu0 1000 0 500 98000 10 0 5 0 0 0\n"
        )
        write("/proc/loadavg", "0.10 0.05 0.01 1/120 321\n")
        write("/proc/net/unix", "Num       RefCount Protocol Flags    Type St Inode Path\n")
        write("/proc/mounts", _MOUNTS[self._android])
        write("/proc/cpuinfo", "".join(f"processor\t: {core}\n\n" for core in range(4)))
        for name in _DEVICES[board.library.rpartition("/")[2]]:
            write(f"/dev/{name}", b"")
        name = self.server.rpartition("/")[2]
        write("/proc/321/comm", f"{name[:15]}\n")
        write("/proc/321/cmdline", f"{self.server}\0")
        for number, (kind, celsius) in enumerate(_TRIPS):
            trip = f"/sys/class/thermal/thermal_zone0/trip_point_{number}"
            write(f"{trip}_type", f"{kind}\n")
            write(f"{trip}_temp", f"{celsius}000\n")
        tell_npu(self._sandbox, board, "version", board.driver)
        tell_npu(self._sandbox, board, "power", "on")

    def _programs(self) -> None:
        programs = self._sandbox.programs
        for name, path in links().items():
            if not (programs / name).is_symlink():
                (programs / name).symlink_to(path)
        for name in () if self._android else LOADERS:
            loader = self._sandbox.path(name)
            if Path(name).exists() and not loader.is_symlink():
                loader.parent.mkdir(parents=True, exist_ok=True)
                loader.symlink_to(name)
        properties = self._properties() if self._android else None
        user = "shell" if self._android else "root"
        for name, text in stand_ins(self._board, properties, user=user).items():
            self._sandbox.write(f"/{programs.relative_to(self._sandbox.root)}/{name}", text, 0o755)

    def _vendor(self) -> None:
        """The vendor's files, of which only the headers and the texts of the versions are real."""
        head, board = elf_header(self._board.machine), self._board
        for path, text in ((self.server, board.server_text), (self.library, board.runtime_text)):
            self._sandbox.write(path, head + b"\0" + text.encode() + b"\0", 0o755)


def _bytes(text: str) -> bytes:
    """What a board holds, also where it is no text of any language."""
    return text.encode("utf-8", "surrogateescape")
