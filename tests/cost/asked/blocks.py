"""Blocks of networks that the vendor's compiler was asked about, by name."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx

from tests.cost.asked.maker import Maker

__all__ = ["BLOCKS"]

BLOCKS: dict[str, Callable[[], onnx.ModelProto]] = {}
"""Name -> what makes it."""


# -------------------------------------------------------------------------------------- attention
def _psa(channels: int, heads: int, side: int, depth: int = 32) -> None:
    """The attention of YOLO11: values come out of a Split and are read as a map, too."""

    def make() -> onnx.ModelProto:
        m = Maker((1, channels, side, side))
        wide = channels // heads
        first = m.conv("x", channels, channels, 1, then="Relu", name="c1")
        packed = m.conv(first, channels, heads * (2 * depth + wide), 1, name="qkv")
        packed = m.add("Reshape", packed, m.whole(1, heads, 2 * depth + wide, side * side))
        parts = m.split(packed, m.whole(depth, depth, wide), count=3, axis=2)
        query = m.add("Transpose", parts[0], perm=[0, 1, 3, 2])
        scale = m.constant(np.array(depth**-0.5, np.float32))
        scores = m.add("Mul", m.add("MatMul", query, parts[1]), scale)
        scores = m.add("Transpose", m.add("Softmax", scores, axis=-1), perm=[0, 1, 3, 2])
        shape = m.whole(1, channels, side, side)
        found = m.add("Reshape", m.add("MatMul", parts[2], scores), shape)
        place = m.conv(m.add("Reshape", parts[2], shape), channels, channels, group=channels)
        last = m.conv(m.add("Add", found, place), channels, channels, 1, name="proj")
        return m.model(m.conv(m.add("Add", first, last), channels, 16, 1, name="last"))

    BLOCKS[f"psa_{channels}_{heads}_{side}"] = make


_psa(128, 2, 20)
_psa(96, 3, 7, 16)
_psa(64, 1, 10)


# ------------------------------------------------------------------------------ filters in halves
def _wide(name: str, *layers: tuple[int, int, int]) -> None:
    """Convolutions side by side: channels, kernel, outputs."""

    def make() -> onnx.ModelProto:
        m = Maker(*((1, channels, 4, 4) for channels, _, _ in layers))
        ends = [
            m.conv(f"x{at or ''}", channels, out, kernel, name=f"c{channels}_{kernel}_{out}")
            for at, (channels, kernel, out) in enumerate(layers)
        ]
        return m.model(*ends)

    BLOCKS[name] = make


_wide(
    "filters_of_one_group",
    *((channels, 3, 16) for channels in (640, 672, 680, 682, 688, 712, 720)),
    *((channels, 3, 32) for channels in (656, 676, 717)),
    *((704, 3, out) for out in (14, 15)),
    *((768, 3, out) for out in (12, 15)),
)
_wide(
    "filters_of_more_groups",
    *((channels, 3, out) for channels in (512, 528, 560) for out in (17, 33, 40, 64, 72, 96)),
    (512, 3, 256),
    (5120, 1, 32),
    (4608, 1, 64),
)
