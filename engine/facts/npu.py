"""The NPU of each chip of toolkit generation 2, as its vendor's compiler counts with it.

Sources: the tables that rknn-toolkit2 2.3.2 prints (``build`` with ``verbose=True``), from which
every figure was fitted; see docs/estimates/derivation.md. One core each, also where a chip has
several.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

from engine.facts import rows

NpuDtype = Literal["int8", "float16"]


@dataclass(frozen=True)
class NpuProfile:
    """How the compiler counts for one family of chips.

    Attributes:
        family: its first chip; what one chip of it prints, the others print.
        chips: of this family.
        macs_in: input channels that are multiplied in one cycle, by dtype; 0 where the NPU
            does not have the dtype.
        macs_out: output channels at once.
        depthwise: channels of a depthwise convolution in one cycle.
        write_channels: output channels that are written in one cycle.
        bytes_per_cycle: of the memory bus.
        atom_bytes: channels of a pixel lie in groups of so many bytes (C2 of NC1HWC2).
    """

    family: str
    chips: tuple[str, ...]
    macs_in: dict[NpuDtype, int]
    macs_out: dict[NpuDtype, int]
    depthwise: dict[NpuDtype, int]
    write_channels: int
    bytes_per_cycle: float
    atom_bytes: int
    dtypes: tuple[NpuDtype, ...]

    def group(self, size: int) -> int:
        """Channels in a group of values of so many bytes."""
        return max(self.atom_bytes // size, 1)

    def tile(self, size: int) -> int:
        """Output channels at once, of values of one byte or more."""
        return max(self.macs_out["int8" if size == 1 else "float16"], 1)

    def atom(self, dtype: NpuDtype) -> int:
        """Channels in a group (C2) of this dtype."""
        return self.atom_bytes // (1 if dtype == "int8" else 2)


@cache
def npu_profiles() -> tuple[NpuProfile, ...]:
    """All families in the order of the data file."""
    return tuple(_profile(row) for row in rows("engine.facts", "npu.csv"))


@cache
def npu_profile(chip: str) -> NpuProfile | None:
    """The family of a chip of generation 2, by the chip's name; None for every other."""
    return next((profile for profile in npu_profiles() if chip in profile.chips), None)


def _profile(row: dict[str, str]) -> NpuProfile:
    def by_dtype(name: str) -> dict[NpuDtype, int]:
        return {"int8": int(row[f"{name}_int8"]), "float16": int(row[f"{name}_fp16"])}

    dtypes: tuple[NpuDtype, ...] = ("int8", "float16")
    return NpuProfile(
        family=row["family"],
        chips=tuple(row["chips"].split()),
        macs_in=by_dtype("macs_in"),
        macs_out=by_dtype("macs_out"),
        depthwise=by_dtype("depthwise"),
        write_channels=int(row["write_channels"]),
        bytes_per_cycle=int(row["bus_megabytes"]) / int(row["bus_megahertz"]),
        atom_bytes=int(row["atom_bytes"]),
        dtypes=tuple(dtype for dtype in dtypes if row[dtype] == "1"),
    )
