"""Small Caffe nets made by code: a writer of caffemodels, and one layer run by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from engine.frontends.load import find_source, load_source
from engine.frontends.loaded import Loaded
from engine.frontends.source import LoadOptions, SourceModel
from engine.graph.execute.session import Session
from engine.graph.ir import verify

Blobs = Mapping[str, Sequence[np.ndarray]]


def varint(number: int) -> bytes:
    """A number of base 128 (protobuf's encoding document)."""
    out = bytearray()
    while True:
        out.append(number & 0x7F | (0x80 if number > 0x7F else 0))
        number >>= 7
        if not number:
            return bytes(out)


def chunk(field: int, payload: bytes) -> bytes:
    """A length-delimited field."""
    return varint(field << 3 | 2) + varint(len(payload)) + payload


def blob(array: np.ndarray, *, legacy: bool = False, double: bool = False) -> bytes:
    """A BlobProto: shape 7 and data 5, or num to width 1 to 4, or double_data 8."""
    if legacy:
        dims = [1] * (4 - array.ndim) + list(array.shape)
        head = b"".join(varint(i + 1 << 3) + varint(side) for i, side in enumerate(dims))
    else:
        head = chunk(7, chunk(1, b"".join(varint(side) for side in array.shape)))
    numbers = array.astype("<f8" if double else "<f4").tobytes()
    return head + chunk(8 if double else 5, numbers)


def caffemodel(blobs: Blobs, *, v1: bool = False, **how: bool) -> bytes:
    """A NetParameter with a layer for each entry."""
    name, kind, field, layer = (4, b"\x28\x04", 6, 2) if v1 else (1, chunk(2, b"Any"), 7, 100)
    parts = [chunk(1, b"net")]
    for title, arrays in blobs.items():
        body = chunk(name, title.encode()) + kind
        body += b"".join(chunk(field, blob(a, **how)) for a in arrays)
        parts.append(chunk(layer, body))
    return b"".join(parts)


def write(folder: Path, text: str, blobs: Blobs | bytes | None = None) -> Path:
    """Put a prototxt, and a caffemodel where there are blobs, into ``folder``."""
    (folder / "net.prototxt").write_text(text)
    if blobs is not None:
        data = blobs if isinstance(blobs, bytes) else caffemodel(blobs)
        (folder / "net.caffemodel").write_bytes(data)
    return folder / "net.prototxt"


def source_of(folder: Path, text: str, blobs: Blobs | bytes | None = None, **o: Any) -> SourceModel:
    """The source model of a net; without blobs its weights are random."""
    path = write(folder, text, blobs)
    return find_source(path, None, LoadOptions(random_weights=blobs is None, **o))


def load(folder: Path, text: str, blobs: Blobs | bytes | None = None, **options: Any) -> Loaded:
    """Load a net, and check the graph."""
    loaded = load_source(source_of(folder, text, blobs, **options))
    verify(loaded.graph)
    return loaded


def run(loaded: Loaded, *feeds: np.ndarray) -> dict[str, np.ndarray]:
    """Run a graph with an array for each input, in their order."""
    names = [spec.name for spec in loaded.graph.inputs]
    return Session(loaded.graph).run(dict(zip(names, feeds, strict=True)))


def inputs(**shapes: Sequence[int]) -> str:
    """Input layers; the parameter ``x`` becomes a blob ``x``."""
    return "\n".join(
        f'layer {{ name: "in_{name}" type: "Input" top: "{name}" input_param {{ shape {{ '
        + " ".join(f"dim: {side}" for side in shape)
        + " } } }"
        for name, shape in shapes.items()
    )


def layer(kind: str, bottoms: str, tops: str = "y", params: str = "", name: str = "it") -> str:
    """One layer; bottoms and tops are words in a row."""
    ends = [f'bottom: "{b}"' for b in bottoms.split()] + [f'top: "{t}"' for t in tops.split()]
    return f'\nlayer {{ name: "{name}" type: "{kind}" {" ".join(ends)} {params} }}'


def one(
    folder: Path,
    kind: str,
    params: str,
    *feeds: np.ndarray,
    blobs: Sequence[np.ndarray] = (),
    tops: str = "y",
    **options: Any,
) -> list[np.ndarray]:
    """What one layer gives for ``feeds``, in the order of its tops."""
    shapes = {f"x{index}": feed.shape for index, feed in enumerate(feeds)}
    text = inputs(**shapes) + layer(kind, " ".join(shapes), tops, params)
    wanted = tuple(tops.split())
    loaded = load(folder, text, {"it": blobs}, outputs=wanted, **options)
    results = run(loaded, *feeds)
    assert [tuple(spec.shape) for spec in loaded.graph.outputs] == [
        results[name].shape for name in wanted
    ]
    return [results[name] for name in wanted]


def floats(seed: int, *shape: int) -> np.ndarray:
    """Normal numbers, the same for a seed."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
