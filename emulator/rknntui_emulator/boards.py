"""The boards that can be emulated, and what a program can read on each of them.

Sources: compatible strings, nodes and clocks as in Rockchip's device trees and the manuals'
``scaling_frequency.sh``; versions as in the vendor's table of compatible releases; memory of RV1103
and RV1106 as in their packages (data sheets: RV1103G1, RV1106G2), beside 128 MiB of SPI NAND; that
of the others is what such boards are sold with. No source has the name of RV1126B's evaluation
board. RK3399Pro's NPU is a chip of its own behind USB: no node here, and the CPU clocks are those
of RK3399. Boards with RV1103 name RV1106, too: the first entry is the chip. Every model string says
that the board is emulated.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LABEL = "emulated"
"""Stands in every model string, so that nobody takes a figure of it for a measured one."""

_MODERN_FEATURES = "shell_v2,cmd,stat_v2,ls_v2,fixed_push_mkdir"

_GALCORE = "Galcore version 6.4.6.5.351518"


@dataclass(frozen=True)
class Board:
    """One kind of board.

    Attributes:
        chip: the name of the chip, as in :mod:`engine.facts`.
        compatible: of the device tree, the board's own entry first.
        model: of the device tree.
        generation: of the NPU: 1 or 2.
        node: of the NPU below ``/sys/class/devfreq``; empty where there is none.
        hertz: its highest frequency.
        cores: of the NPU.
        kernel, machine: as ``uname`` says them.
        policies: ``policyN`` of the CPUs and their highest frequency in kHz.
        ddr_hertz: of the memory; 0 where the board has no node for it.
        old_adbd: an adbd of Linux images before 2020: every program has a terminal and no exit
            code, payloads are at most 4 KiB.
        library: where Linux has the runtime library; Android has it in ``/vendor/lib64``.
        server: where Linux has rknn_server.
        version: of runtime and server.
        memory, flash: MiB of its RAM, and of the file system that programs write to.
        serial: its serial number.
        listed, product: its names in the host's list; empty are its own.
    """

    chip: str
    compatible: tuple[str, ...]
    model: str
    generation: int
    node: str
    hertz: int
    cores: int
    kernel: str
    machine: str
    policies: tuple[tuple[int, int], ...]
    ddr_hertz: int
    old_adbd: bool
    library: str
    server: str
    version: str
    memory: int
    flash: int
    serial: str = "emu0000000000001"
    listed: str = ""
    product: str = ""

    @property
    def memory_text(self) -> str:
        """The lines of ``/proc/meminfo``; the shares are those of an RK3588 that does nothing."""
        total = self.memory * 991
        lines = {
            "MemTotal": total,
            "MemFree": total * 4 // 5,
            "MemAvailable": total * 8 // 9,
            "Buffers": total // 256,
            "Cached": total * 3 // 40,
            "CmaTotal": (cma := min(16384, total // 4)),
            "CmaFree": cma * 3 // 4,
        }
        return "".join(f"{name + ':':<16}{value:8} kB\n" for name, value in lines.items())

    @property
    def driver(self) -> str:
        """What the kernel says of the NPU's driver."""
        return _GALCORE if self.generation == 1 else "RKNPU driver: v0.9.8"

    @property
    def kernel_line(self) -> str:
        """The driver's line of the kernel's log."""
        if self.generation == 1:
            return _GALCORE
        of = f" for {self.node}" if self.node else ""
        return f"[drm] Initialized rknpu 0.9.8 20240828{of} on minor 1"

    @property
    def runtime_text(self) -> str:
        """What ``strings`` finds of the version in the runtime library."""
        name = self.library.rpartition("/")[2].removesuffix(".so")
        if self.generation == 1:
            return f"{name} version {self.version} (7b8f8c4 build: 2023-06-25 10:11:12 base: 1131)"
        return f"{name} version: {self.version} (429f97ae6b@2025-04-09T09:09:27)"

    @property
    def server_text(self) -> str:
        """What ``strings`` finds of the version in rknn_server."""
        version = self.version
        if self.generation == 1:
            return f"{version} (8b94b4f build: 2023-06-26 15:03:52 {LABEL})"
        return f"rknn_server version: {version} (1842325 build@2025-03-30T09:54:34 {LABEL})"

    def banner(self, *, old: bool) -> bytes:
        """What adbd says of the board, to one who connects; an old one names no features."""
        product = self.product or self.chip
        fields = [f"ro.product.name={product}"]
        fields += [f"ro.product.model={self.listed or f'{self.chip}_{LABEL}'}"]
        fields += [f"ro.product.device={product}"]
        fields += [] if old else [f"features={_MODERN_FEATURES}"]
        return b"device::" + ";".join(fields).encode("utf-8", "surrogateescape")

    def load_text(self, percent: tuple[int, ...]) -> str:
        """The line of rknpu's ``load``; the comma at its end is the kernel's."""
        if len(percent) == 1:
            return f"NPU load:  {percent[0]}%"
        cores = (f"Core{core}: {value:2}%," for core, value in enumerate(percent))
        return "NPU load:  " + " ".join(cores)


def _read(row: dict[str, Any]) -> Board:
    """A board of a line of the table."""
    for name in ("generation", "hertz", "cores", "ddr_hertz", "old_adbd", "memory", "flash"):
        row[name] = int(row[name])
    row["compatible"] = tuple(row["compatible"].split())
    pairs = (pair.split(":") for pair in row["policies"].split())
    row["policies"] = tuple((int(number), int(kilohertz)) for number, kilohertz in pairs)
    return Board(**row)


with Path(__file__).with_suffix(".csv").open(newline="", encoding="utf-8") as _table:
    BOARDS = {row["chip"]: _read(row) for row in csv.DictReader(_table)}
"""Every board by the name of its chip."""


def elf_header(machine: str) -> bytes:
    """The header of a shared library for ``aarch64`` or ``armv7l``, without anything behind it."""
    wide = machine == "aarch64"
    ident = b"\x7fELF" + bytes((2 if wide else 1, 1, 1)) + bytes(9)
    kind = (3).to_bytes(2, "little") + (183 if wide else 40).to_bytes(2, "little")
    version = (1).to_bytes(4, "little")
    return (ident + kind + version).ljust(64 if wide else 52, b"\0")
