"""Which layers of a QDQ graph truly run in integers: read from ONNX Runtime's optimised graph."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError

from engine.base.errors import OutputError, ShortOfMemoryError, SimulationError
from engine.build import LayerCoverage
from engine.graph.execute import Session
from engine.graph.ir import Graph
from engine.graph.layers import FUSED_ACTIVATIONS, Layer, LayerMap
from engine.quantize import LAYOUT, REASON, WEIGHTED, Role, layers_of, role_of, unquantized_reason

_PLUMBING = FUSED_ACTIVATIONS | {"QuantizeLinear", "DequantizeLinear", "Constant"}
# ONNX Runtime's layout pass renames the nodes that it replaces
_TOKEN = re.compile(r"(_token_\d+)+$")


def integer_coverage(graph: Graph, layers: LayerMap | None = None) -> tuple[LayerCoverage, ...]:
    """How every layer of a QDQ graph runs in the simulator, in the order of the graph.

    Left out are layers that only lay data out anew (Reshape, Transpose), a Relu or Clip alone,
    which ONNX Runtime fuses, and what gives no float tensor.

    Args:
        graph: in QDQ form.
        layers: of it; read from it when None.

    Raises:
        SimulationError: the graph does not run.
        OutputError: it runs, but ONNX Runtime could not write it down.
    """
    kernels = _kernels(_optimised(graph))
    return tuple(
        _covered(layer.id, node, kernels)
        for layer, node in _nodes(graph, layers or layers_of(graph))
    )


def _optimised(graph: Graph) -> onnx.ModelProto:
    """The graph that really runs. ONNX Runtime only gives it as a file."""
    try:
        with _place() as path:
            Session(graph, optimised_model=path)
            return onnx.load(path)
    except (OSError, DecodeError) as error:
        raise _unwritten(getattr(error, "strerror", None) or "it was cut short") from error
    except ShortOfMemoryError:
        raise
    except SimulationError as error:
        try:
            Session(graph)
        except SimulationError:
            raise error from None  # the graph is at fault
        raise _unwritten(error.what) from error


@contextlib.contextmanager
def _place() -> Iterator[Path]:
    """A file that is gone after the block: in memory, as a full disk must change no result."""
    if hasattr(os, "memfd_create") and Path("/proc/self/fd").is_dir():
        handle = os.memfd_create("optimised")
        try:
            yield Path(f"/proc/self/fd/{handle}")
        finally:
            os.close(handle)
    else:
        with tempfile.TemporaryDirectory(prefix="rknntui-") as folder:
            yield Path(folder) / "optimised.onnx"


def _unwritten(why: str) -> OutputError:
    return OutputError(
        f"Which layers run in integers could not be found out: {why}",
        cause="Memory, the folder for temporary files or the size that a file may have (ulimit -f) "
        "is used up.",
        remedy="Free memory or space, or raise the limit, and try again.",
    )


def _nodes(graph: Graph, layers: LayerMap) -> Iterable[tuple[Layer, ir.Node]]:
    for layer in layers.layers:
        node = graph.node(layer.node)
        floats = node.outputs[0].dtype in (ir.DataType.FLOAT, None)
        if floats and node.op_type not in LAYOUT | FUSED_ACTIVATIONS:
            yield layer, node


def _kernels(optimised: onnx.ModelProto) -> dict[str, tuple[str, bool]]:
    """Node or output -> (operator, whether it takes 8-bit activations), optimised graph.

    Integers spread from QuantizeLinear and the QLinear kernels through operators that take any
    type (MaxPool, Transpose); the nodes of a saved graph are in no order to rely on.
    """
    readers: dict[str, list[onnx.NodeProto]] = defaultdict(list)
    waiting: list[str] = []
    integer: set[str] = set()
    for node in optimised.graph.node:
        for name in node.input:
            readers[name].append(node)
        if _is_linear(node):
            integer.add(node.name)
        if _is_linear(node) or node.op_type == "QuantizeLinear":
            waiting.extend(node.output)
    while waiting:
        for node in readers.pop(waiting.pop(), ()):
            if not _is_linear(node) and node.op_type not in _PLUMBING:
                integer.add(node.name)
                waiting.extend(node.output)
    kernels: dict[str, tuple[str, bool]] = {}
    writers = {name: node for node in optimised.graph.node for name in node.output}
    for node in optimised.graph.node:
        if node.op_type not in _PLUMBING:
            # float convolutions run in a layout of their own, and a reordering writes their tensor
            ran = writers[node.input[0]] if node.op_type == "ReorderOutput" else node
            kernel = (ran.op_type, node.name in integer)
            # Slices that become one Split lose their names, not those of their tensors
            kernels.update((name, kernel) for name in node.output)
            kernels[_TOKEN.sub("", node.name)] = kernel
    return kernels


def _is_linear(node: onnx.NodeProto) -> bool:
    return node.op_type.startswith("QLinear") or node.op_type == "QGemm"


def _covered(layer: str, node: ir.Node, kernels: dict[str, tuple[str, bool]]) -> LayerCoverage:
    name = node.name or ""
    written = [
        use.node.outputs[0].name or ""
        for use in node.outputs[0].uses()
        if use.node.op_type == "QuantizeLinear"
    ]
    key = next((key for key in (name, *written) if key in kernels), "")
    kernel, integer = kernels.get(key, (node.op_type, False))
    reason = "" if integer else _reason(node, bool(key))
    return LayerCoverage(layer, node.op_type, integer, kernel, reason)


def _reason(node: ir.Node, has_kernel: bool) -> str:
    """Why a layer runs in float, in words."""
    noted = node.metadata_props.get(REASON)
    if noted:
        return noted
    if role_of(node.op_type) in (Role.EMULATED, Role.FLOAT):
        return unquantized_reason(node.op_type)
    data = node.inputs[0]
    producer = None if data is None else data.producer()
    if producer is None or producer.op_type != "DequantizeLinear":
        return "its input is not quantized"
    if role_of(node.op_type) is Role.PASSTHROUGH:
        return f"ONNX Runtime has no integer {node.op_type}; it only moves values, which is exact"
    if node.op_type in WEIGHTED and not _weight_is_quantized(node):
        return "its weights are not quantized"
    readers = [use.node.op_type for value in node.outputs for use in value.uses()]
    if FUSED_ACTIVATIONS.intersection(readers):
        return (
            "saturation cannot do the work of the activation behind it, whose bounds are narrower"
        )
    if "QuantizeLinear" not in readers:
        return "its output is not quantized"
    if not has_kernel:
        return "ONNX Runtime fused it with other float operators"
    return f"ONNX Runtime has no integer kernel for this form of {node.op_type}"


def _weight_is_quantized(node: ir.Node) -> bool:
    weight = node.inputs[1] if len(node.inputs) > 1 else None
    producer = None if weight is None else weight.producer()
    return producer is not None and producer.op_type == "DequantizeLinear"
