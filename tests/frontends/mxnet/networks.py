"""Networks of MXNet made by code: a writer of symbols and of every form of parameters."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from engine.frontends.load import load_source
from engine.frontends.loaded import Loaded
from engine.frontends.sniff import Recognised
from engine.frontends.source import LoadOptions, SourceModel
from engine.graph.execute.session import Session
from engine.graph.ir.verify import verify

FLAGS = {"float32": 0, "float64": 1, "float16": 2, "uint8": 3, "int32": 4, "int8": 5, "int64": 6}


class Network:
    """A symbol in the making; ``variable`` and ``add`` give (node, output)."""

    def __init__(self) -> None:
        self.nodes: list[dict[str, Any]] = []

    def variable(self, name: str, **attributes: object) -> tuple[int, int]:
        return self.add("null", name, [], **attributes)

    def add(
        self, op: str, name: str, inputs: Sequence[tuple[int, int]], **attributes: object
    ) -> tuple[int, int]:
        node: dict[str, Any] = {"op": op, "name": name, "inputs": [[*i, 0] for i in inputs]}
        if attributes:
            node["attrs"] = {key: str(value) for key, value in attributes.items()}
        self.nodes.append(node)
        return len(self.nodes) - 1, 0

    def text(self, *heads: tuple[int, int], version: int | None = 10901) -> str:
        content = {
            "nodes": self.nodes,
            "arg_nodes": [i for i, node in enumerate(self.nodes) if node["op"] == "null"],
            "node_row_ptr": list(range(len(self.nodes) + 1)),
            "heads": [[*head, 0] for head in heads],
        }
        if version is not None:
            content["attrs"] = {"mxnet_version": ["int", version]}
        return json.dumps(content)


def array_bytes(array: np.ndarray, form: str = "V2") -> bytes:
    """One dense array as NDArray::Save writes it, or as earlier versions did."""
    rank = array.ndim
    if form == "legacy":
        start = struct.pack(f"<I{rank}I", rank, *array.shape)
    elif form == "V1":
        start = struct.pack(f"<Ii{rank}q", 0xF993FAC8, rank, *array.shape)
    else:
        tag = 0xF993FAC9 if form == "V2" else 0xF993FACA
        start = struct.pack(f"<Iii{rank}q", tag, 0, rank, *array.shape)
    device_and_type = struct.pack("<iii", 1, 0, FLAGS[array.dtype.name])
    return start + device_and_type + np.ascontiguousarray(array).tobytes()


def params_bytes(arrays: Mapping[str, np.ndarray | bytes], form: str = "V2") -> bytes:
    """A file of arrays; bytes stand for themselves."""
    parts = [struct.pack("<QQQ", 0x112, 0, len(arrays))]
    parts += [a if isinstance(a, bytes) else array_bytes(a, form) for a in arrays.values()]
    parts.append(struct.pack("<Q", len(arrays)))
    parts += [struct.pack("<Q", len(name.encode())) + name.encode() for name in arrays]
    return b"".join(parts)


def source(
    folder: Path, symbol: str, params: bytes | Mapping[str, np.ndarray] | None, **options: Any
) -> SourceModel:
    model, weights = folder / "net-symbol.json", folder / "net-0000.params"
    model.write_text(symbol)
    if params is not None:
        weights.write_bytes(params if isinstance(params, bytes) else params_bytes(params))
    recognised = Recognised("mxnet", "MXNet symbol (JSON)", "")
    given = None if params is None else weights
    return SourceModel("mxnet", model, given, recognised, LoadOptions(**options))


def run(loaded: Loaded, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    verify(loaded.graph)
    return list(Session(loaded.graph).run(dict(feeds)).values())


def operate(
    folder: Path,
    op: str,
    attributes: Mapping[str, object] | str,
    feeds: Sequence[np.ndarray],
    params: Sequence[np.ndarray] = (),
) -> list[np.ndarray]:
    """The outputs of one operator on ``feeds``, with ``params`` as its inputs behind them.

    Its attributes are texts in the file: ``axis=1 keepdims=True``.
    """
    if isinstance(attributes, str):
        attributes = dict(attribute.split("=") for attribute in attributes.split())
    net = Network()
    inputs = [net.variable(f"x{i}") for i in range(len(feeds))]
    inputs += [net.variable(f"p{i}") for i in range(len(params))]
    number, _ = net.add(op, "op", inputs, **attributes)
    count = int(str(attributes.get("num_outputs", 1)))
    symbol = net.text(*((number, index) for index in range(count)))
    arrays = {f"arg:p{i}": array for i, array in enumerate(params)}
    sizes = tuple(feed.shape for feed in feeds)
    loaded = load_source(source(folder, symbol, arrays, input_size_list=sizes))
    return run(loaded, {f"x{i}": feed for i, feed in enumerate(feeds)})
