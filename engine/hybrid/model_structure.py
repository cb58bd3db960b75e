"""The structure file of step 1: ``.model`` of generation 2, ``.json`` of generation 1.

``.model`` is the optimised graph as ONNX, as the vendor's is. The layout of generation 1's
``.json`` is not documented, only named [RKNN-T1 1.3.2, 3.6.12]: ours lists the layers to read, and
holds the graph in protobuf's own JSON form; its large weights lie in the ``.data`` file, as they do
with the vendor.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx
from google.protobuf import json_format  # type: ignore[import-untyped, unused-ignore]

from engine.base.content import reading
from engine.base.errors import EngineError, RecipeError, SourceModelError
from engine.base.files import read_bounded
from engine.base.text import sanitize
from engine.graph.ir import CustomOperators, Graph, verify
from engine.graph.ir.weightless import strip_weights
from engine.hybrid.layers import Layers

_FORMAT = "rknntui-hybrid-structure"
_VERSION = 1
_LIMIT = 4 << 30
_WEIGHTS = "weights"


def structure_json(layers: Layers) -> tuple[bytes, dict[str, bytes]]:
    """The ``.json`` of generation 1, and the weights that go into its ``.data``.

    Returns:
        the text, and name of a file below ``weights/`` -> a serialised tensor.
    """
    proto = layers.graph.to_proto()
    weights = strip_weights(proto.graph)
    files = {
        f"{_WEIGHTS}/{number}.pb": tensor.SerializeToString()
        for number, tensor in enumerate(weights.values())
    }
    data = {
        "format": _FORMAT,
        "version": _VERSION,
        "note": "The layout of this file is RKNN TUI's own; the vendor's is not documented.",
        "layers": [
            {
                "id": number,
                "name": layer.id,
                "op": layer.op,
                "output": layer.tensor,
                "source": list(layer.sources),
            }
            for number, layer in enumerate(layers.all, 1)
        ],
        "graph": json_format.MessageToDict(proto),
    }
    return json.dumps(data, indent=1).encode("ascii"), files


def read_structure(
    path: Path,
    weights: Mapping[str, bytes],
    operators: CustomOperators | None = None,
) -> Graph:
    """The graph of a structure file of either generation.

    Args:
        path: of the ``.model`` or ``.json`` file, told apart by content.
        weights: the files below ``weights/`` of the ``.data``.
        operators: its custom operators, whose code no file holds.

    Raises:
        RecipeError: missing, damaged, or of another program.
    """
    try:
        content = read_bounded(path, _LIMIT, "a structure file")
        with reading(lambda why: _damaged(path, why)):
            if content[:1] == b"{":
                graph = _from_json(content, weights, operators)
            else:
                graph = Graph.from_bytes(content, operators=operators)
            if not len(graph):
                raise ValueError("it has no layers")
            verify(graph)
            return graph
    except RecipeError:
        raise
    except SourceModelError as error:
        raise RecipeError(error.what, cause=error.cause, remedy=error.remedy) from error
    except EngineError as error:
        raise _damaged(path, error.what) from error


def _from_json(
    content: bytes, weights: Mapping[str, bytes], operators: CustomOperators | None
) -> Graph:
    data: Any = json.loads(content)
    if not isinstance(data, dict) or data.get("format") != _FORMAT:
        raise ValueError("it does not say what it is")
    if data.get("version") != _VERSION:
        raise ValueError(f"it has version {data.get('version')!r}")
    proto = json_format.ParseDict(data["graph"], onnx.ModelProto(), max_recursion_depth=64)
    tensors = [onnx.TensorProto.FromString(weights[name]) for name in weights]
    return Graph.from_proto(proto, {t.name: t for t in tensors}, operators=operators)


def _damaged(path: Path, why: str) -> RecipeError:
    return RecipeError(
        f"{sanitize(str(path), 300)} is not a structure file of hybrid quantization: {why}",
        cause="It was truncated, damaged, or written by another program.",
        remedy="Run hybrid step 1 again, or give the .model or .json file that it wrote.",
    )
