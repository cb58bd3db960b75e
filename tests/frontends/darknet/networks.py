"""Networks of Darknet made by code, and darknet's layers in numpy, written from their definitions.

The functions of this module follow the loops of darknet's own source (the file stands at each) and
share nothing with the front end that they test.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from engine.frontends.load import load_source
from engine.frontends.loaded import Loaded
from engine.frontends.sniff import Recognised
from engine.frontends.source import LoadOptions, SourceModel
from engine.graph.execute.session import Session
from engine.graph.ir.verify import verify

HEADER = struct.pack("<3iq", 0, 2, 5, 32000)


def source(
    folder: Path, cfg: str, floats: np.ndarray | bytes | None, **options: Any
) -> SourceModel:
    """A network on disk; ``floats`` None for one without weights, bytes for a whole file."""
    model, weights = folder / "net.cfg", folder / "net.weights"
    model.write_text(cfg)
    if isinstance(floats, bytes):
        weights.write_bytes(floats)
    elif floats is not None:
        weights.write_bytes(HEADER + floats.astype("<f4").tobytes())
    recognised = Recognised("darknet", "Darknet configuration", "")
    return SourceModel(
        "darknet", model, None if floats is None else weights, recognised, LoadOptions(**options)
    )


def head(channels: int, height: int, width: int) -> str:
    return f"[net]\nbatch=1\nchannels={channels}\nheight={height}\nwidth={width}\n"


def run(loaded: Loaded, x: np.ndarray) -> list[np.ndarray]:
    verify(loaded.graph)
    return list(Session(loaded.graph).run({"data": x}).values())


def computed(
    folder: Path, body: str, x: np.ndarray, floats: np.ndarray | None = None, **options: Any
) -> np.ndarray:
    """The last output of a network of ``body`` on ``x``."""
    given = np.zeros(0) if floats is None else floats
    loaded = load_source(source(folder, head(*x.shape[1:]) + body, given, **options))
    return run(loaded, x)[-1]


def convolved(
    x: np.ndarray,
    weights: np.ndarray,
    *,
    stride: tuple[int, int] = (1, 1),
    pad: int = 0,
    dilation: int = 1,
    groups: int = 1,
) -> np.ndarray:
    """im2col and a product, per group (convolutional_layer.c)."""
    filters, depth, size, _ = weights.shape
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad))).astype(np.float64)
    reach = dilation * (size - 1) + 1
    rows = range(0, padded.shape[2] - reach + 1, stride[0])
    columns = range(0, padded.shape[3] - reach + 1, stride[1])
    out = np.zeros((x.shape[0], filters, len(rows), len(columns)))
    for number in range(filters):
        group = number // (filters // groups)
        channels = slice(group * depth, (group + 1) * depth)
        for i, top in enumerate(rows):
            for j, left in enumerate(columns):
                window = padded[
                    :, channels, top : top + reach : dilation, left : left + reach : dilation
                ]
                out[:, number, i, j] = (window * weights[number]).sum((1, 2, 3))
    return out


def pooled(
    x: np.ndarray,
    size: int,
    stride: tuple[int, int],
    padding: int,
    reduce: Callable[[np.ndarray], float],
) -> np.ndarray:
    """Windows from ``i * stride - padding / 2`` on (maxpool_layer.c), clipped to the input."""
    _, channels, height, width = x.shape
    out_h = (height + padding - size) // stride[0] + 1
    out_w = (width + padding - size) // stride[1] + 1
    out = np.zeros((1, channels, out_h, out_w))
    for c in range(channels):
        for i in range(out_h):
            for j in range(out_w):
                top, left = i * stride[0] - padding // 2, j * stride[1] - padding // 2
                window = x[
                    0, c, max(0, top) : max(0, top + size), max(0, left) : max(0, left + size)
                ]
                out[0, c, i, j] = reduce(window)
    return out


def reorganised(x: np.ndarray, stride: int, reverse: bool) -> np.ndarray:
    """reorg_old_layer.c: ``reorg_cpu`` with the input's own width, height and channels."""
    _, c, h, w = x.shape
    flat = x.reshape(-1)
    out = np.zeros_like(flat)
    inner = c // (stride * stride)
    for k in range(c):
        for j in range(h):
            for i in range(w):
                here = i + w * (j + h * k)
                across = i * stride + (k // inner) % stride
                down = j * stride + (k // inner) // stride
                there = across + w * stride * (down + h * stride * (k % inner))
                if reverse:
                    out[there] = flat[here]
                else:
                    out[here] = flat[there]
    if reverse:
        return out.reshape(1, c // stride**2, h * stride, w * stride)
    return out.reshape(1, c * stride**2, h // stride, w // stride)
