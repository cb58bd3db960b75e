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
from tests.frontends.caffe.reference import windows

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


def pooled(
    x: np.ndarray,
    size: int,
    stride: tuple[int, int],
    padding: int,
    reduce: Callable[..., Any],
) -> np.ndarray:
    """Windows from ``i * stride - padding / 2`` on (maxpool_layer.c), clipped to the input."""
    outs = [(n + padding - size) // s + 1 for n, s in zip(x.shape[2:], stride, strict=True)]
    out = np.zeros((*x.shape[:2], *outs))
    for i, j, _, inside in windows(x, outs, (size, size), stride, [padding // 2] * 2, (0, 0)):
        out[:, :, i, j] = reduce(x[inside], axis=(2, 3))
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
