"""Layers of another dtype than the model's: where they begin and end, features are converted.

Source: the tables of rknn-toolkit2 2.3.2. A Softmax that ends an int8 model is computed in
float16, since its results are read by the program; so are a GRU, and layers that hybrid
quantization leaves in float16. An input of the graph that only GRU layers read is float16. A
conversion is a layer ``exDataConvert`` named after the feature that it converts.
"""

from __future__ import annotations

from dataclasses import replace

from engine.cost.lowering.graph import LoweringGraph, Node
from engine.cost.lowering.rules import Context
from engine.facts.npu import NpuDtype

__all__ = ["convert_types"]

KIND = "exDataConvert"
_WHOLE_GRU = ("rv1106", "rv1106b", "rk2118")
"""Families that leave a GRU in the model's dtype; the others compute it in float16."""
SOFTMAX = ("Softmax", "exSoftmax13")
MOVES = ("Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze")
"""What may stand between such a Softmax and the end of the model, in its dtype."""


def convert_types(work: LoweringGraph, context: Context) -> None:
    """Give every node its dtype, and put a conversion wherever a feature changes it."""
    dtypes = _asked(work, context)
    if context.dtype == "int8" and context.family != "rv1106b":
        for node in work.nodes:
            if node.kind in SOFTMAX:
                dtypes.update(dict.fromkeys(_ending(node, work), "float16"))
    if context.dtype == "int8" and context.family not in _WHOLE_GRU:
        dtypes.update({node: "float16" for node in work.nodes if node.kind in ("GRU", "exGRU")})
    if not dtypes:
        return
    for name in work.inputs:
        if all(node.kind in ("GRU", "exGRU") and node in dtypes for node in work.readers(name)):
            work.tensors[name] = replace(work.tensors[name], dtype="float16")
    for node in work:
        if node in dtypes:
            node.dtype = dtypes[node]
            for name in node.outputs:
                if name in work.tensors:
                    work.tensors[name] = replace(work.tensors[name], dtype=node.dtype)
    for node in work:
        _convert_inputs(node, dtypes, work, context)


def _asked(work: LoweringGraph, context: Context) -> dict[Node, NpuDtype]:
    if not context.layer_dtypes:
        return {}
    found: dict[Node, NpuDtype] = {}
    for node in work.nodes:
        asked = next(
            (context.layer_dtypes[n] for n in node.sources if n in context.layer_dtypes), None
        )
        if asked is not None and asked != context.dtype:
            found[node] = asked
    return found


def _ending(node: Node, work: LoweringGraph) -> list[Node]:
    """A node and what follows it, if that only moves numbers to one output of the graph."""
    chain, ends = [node], set(work.outputs)
    while True:
        output = chain[-1].outputs[0]
        if output in ends:
            return chain
        reader = work.only_reader(output)
        if reader is None or reader.kind not in MOVES:
            return []
        chain.append(reader)


def _convert_inputs(
    node: Node, dtypes: dict[Node, NpuDtype], work: LoweringGraph, context: Context
) -> None:
    wanted = dtypes.get(node, context.dtype)
    inputs = list(node.inputs)
    for at, name in enumerate(inputs):
        producer = work.producer(name)
        if not name or work.is_const(name) or (producer is not None and producer.kind == KIND):
            continue
        given = dtypes.get(producer, context.dtype) if producer is not None else context.dtype
        if producer is None and work.tensors[name].dtype == "float16":
            given = "float16"
        if given != wanted:
            inputs[at] = _converted(name, given, wanted, node, work)
    if inputs != node.inputs:
        work.rewire(node, inputs=inputs)


def _converted(
    name: str, given: NpuDtype, wanted: NpuDtype, node: Node, work: LoweringGraph
) -> str:
    """The name of a feature in another dtype; it is converted once for all that read it so."""
    made = f"{name}__cvt_{given}_{wanted}"
    if made not in work.tensors:
        work.add_tensor(made, work.shape(name), wanted)
        work.insert(
            Node(KIND, made, KIND, [name], [made], sources=node.sources, dtype=given), before=node
        )
        work.rewrites["converts_types"] += 1
    return made
