"""The boards that can be emulated, and what a program can read on each of them.

Sources: compatible strings, nodes and clocks as in Rockchip's device trees and the manuals'
``scaling_frequency.sh``; versions as in the vendor's table of compatible releases; memory of RV1103
and RV1106 as in their packages (data sheets: RV1103G1, RV1106G2), beside 128 MiB of SPI NAND; that
of the others is what such boards are sold with. What no source says is marked. Every model string
says that the board is emulated.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = ["BOARDS", "LABEL", "Board", "elf_header"]

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
    generation: int = 2
    node: str = ""
    hertz: int = 1_000_000_000
    cores: int = 1
    kernel: str = "5.10.160"
    machine: str = "aarch64"
    policies: tuple[tuple[int, int], ...] = ((0, 1_800_000),)
    ddr_hertz: int = 0
    old_adbd: bool = False
    library: str = "/usr/lib/librknnrt.so"
    server: str = "/usr/bin/rknn_server"
    version: str = "2.3.2"
    memory: int = 2048
    flash: int = 4096
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


def _second(chip: str, board: str, model: str, node: str, cores: int = 1) -> Board:
    compatible = (f"rockchip,{chip}-{board}", f"rockchip,{chip}")
    return Board(chip, compatible, f"Rockchip {model} Board", node=node, cores=cores)


def _first(chip: str, board: str, model: str, hertz: int) -> Board:
    compatible = (f"rockchip,{chip}-{board}", f"rockchip,{chip}")
    return Board(
        chip,
        compatible,
        f"Rockchip {model} Board",
        generation=1,
        node="ffbc0000.npu",
        hertz=hertz,
        kernel="4.19.111",
        machine="armv7l",
        policies=((0, 1_512_000),),
        old_adbd=True,
        library="/usr/lib/librknn_runtime.so",
        version="1.7.5",
        memory=1024,
    )


def _mini(chip: str, board: str, model: str) -> Board:
    return Board(
        chip,
        (f"rockchip,{chip}g-{board}", f"rockchip,{chip}"),
        f"Rockchip {model} Board",
        hertz=500_000_000,
        kernel="5.10.110",
        machine="armv7l",
        policies=((0, 1_608_000),),
        old_adbd=True,
        library="/oem/usr/lib/librknnmrt.so",
        server="/oem/usr/bin/rknn_server",
        memory=128,
        flash=128,
    )


_ALL = (
    replace(
        _second("rk3588", "evb1-lp4-v10", "RK3588 EVB1 LP4 V10", "fdab0000.npu", 3),
        policies=((0, 1_800_000), (4, 2_256_000), (6, 2_256_000)),
        ddr_hertz=2_112_000_000,
        memory=8192,
    ),
    replace(
        _second("rk3576", "evb1-v10", "RK3576 EVB1 V10", "27700000.npu", 2),
        kernel="6.1.75",
        policies=((0, 1_800_000), (4, 2_016_000)),
        ddr_hertz=2_112_000_000,
        memory=4096,
    ),
    replace(
        _second("rk3566", "evb2-lp4x-v10", "RK3566 EVB2 LP4X V10", "fde40000.npu"),
        ddr_hertz=1_056_000_000,
    ),
    replace(
        _second("rk3568", "evb1-ddr4-v10", "RK3568 EVB1 DDR4 V10", "fde40000.npu"),
        ddr_hertz=1_560_000_000,
    ),
    replace(
        _second("rk3562", "evb1-lp4x-v10", "RK3562 EVB1 LP4X V10", "ff300000.npu"),
        policies=((0, 2_000_000),),
        ddr_hertz=1_560_000_000,
    ),
    # The name of its evaluation board has no source.
    replace(
        _second("rv1126b", "evb1-v10", "RV1126B EVB1 V10", "22000000.npu"),
        hertz=950_000_000,
        kernel="6.1.118",
        policies=((0, 1_608_000),),
    ),
    _mini("rv1106", "evb1-v11", "RV1106G EVB1 V11"),
    # Such boards name both chips: the first entry of the list is the chip.
    replace(
        _mini("rv1103", "38x38-ipc-v10", "RV1103G 38x38 IPC V10"),
        compatible=("rockchip,rv1103g-38x38-ipc-v10", "rockchip,rv1106"),
        memory=64,
    ),
    _first("rv1126", "evb-ddr3-v13", "RV1126 EVB DDR3 V13", 934_000_000),
    _first("rv1109", "evb-ddr3-v13", "RV1109 EVB DDR3 V13", 594_000_000),
    replace(
        _first("rk1808", "evb-v10", "RK1808 EVB V10", 792_000_000),
        kernel="4.4.194",
        machine="aarch64",
        policies=((0, 1_200_000),),
    ),
    # The NPU is a chip of its own behind USB: no node here. CPU clocks are those of RK3399.
    replace(
        _first("rk3399pro", "evb-v14-linux", "RK3399pro EVB V14 (Linux)", 800_000_000),
        node="",
        kernel="4.4.194",
        machine="aarch64",
        policies=((0, 1_416_000), (4, 1_800_000)),
        library="/usr/lib/librknn_api.so",
        server="/usr/bin/npu_transfer_proxy",
        memory=4096,
    ),
)

BOARDS = {board.chip: board for board in _ALL}
"""Every board by the name of its chip."""


def elf_header(machine: str) -> bytes:
    """The header of a shared library for ``aarch64`` or ``armv7l``, without anything behind it."""
    wide = machine == "aarch64"
    ident = b"\x7fELF" + bytes((2 if wide else 1, 1, 1)) + bytes(9)
    kind = (3).to_bytes(2, "little") + (183 if wide else 40).to_bytes(2, "little")
    version = (1).to_bytes(4, "little")
    return (ident + kind + version).ljust(64 if wide else 52, b"\0")
