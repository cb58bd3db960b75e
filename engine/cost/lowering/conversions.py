"""Layers of another dtype than the model's: where they begin and end, features are converted.

Source: the tables of rknn-toolkit2 2.3.2. A Softmax that ends an int8 model is computed in
float16, since its results are read by the program; so are a GRU, and layers that hybrid
quantization leaves in float16. An input of the graph that only GRU layers read is float16. A
conversion is a layer ``exDataConvert`` named after the feature that it converts.
"""

from __future__ import annotations

from dataclasses import replace

from engine.cost.lowering.graph import LoweringGraph
from engine.cost.lowering.node import Node
from engine.cost.lowering.rules import Context
from engine.facts.npu import NpuDtype

KIND = "exDataConvert"
_WHOLE_GRU = ("rv1106", "rv1106b", "rk2118")
"""Families that leave a GRU in the model's dtype; the others compute it in float16."""
GRU = ("GRU", "exGRU")
SOFTMAX = ("Softmax", "exSoftmax13")
MOVES = ("Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze")
"""What may stand between such a Softmax and the end of the model, in its dtype."""


def convert_types(work: LoweringGraph, context: Context) -> None:
    """Give every node its dtype, and put a conversion wherever a feature changes it."""
    asked = {node: dtype for node in work if (dtype := context.own_dtype(node)) is not None}
    dtypes = {node: dtype for node, dtype in asked.items() if dtype != context.dtype}
    if context.dtype == "int8" and context.family != "rv1106b":
        for node in work:
            if node.kind in SOFTMAX:
                dtypes.update(dict.fromkeys(_ending(node, work), "float16"))
    if context.dtype == "int8" and context.family not in _WHOLE_GRU:
        dtypes.update({node: "float16" for node in work if node.kind in GRU})
    if not dtypes:
        return
    for name in work.inputs:
        if all(node.kind in GRU and node in dtypes for node in work.readers(name)):
            work.tensors[name] = replace(work.tensors[name], dtype="float16")
    for node in work:
        if node in dtypes:
            node.dtype = dtypes[node]
            for name in node.outputs:
                if name in work.tensors:
                    work.tensors[name] = replace(work.tensors[name], dtype=node.dtype)
    for node in work:
        _convert_inputs(node, dtypes, work, context)


def _ending(node: Node, work: LoweringGraph) -> list[Node]:
    """A node and what follows it, if that only moves numbers to one output of the graph."""
    chain, ends = [node], set(work.outputs)
    while (output := chain[-1].outputs[0]) not in ends:
        reader = work.only_reader(output)
        if reader is None or reader.kind not in MOVES:
            return []
        chain.append(reader)
    return chain


def _convert_inputs(
    node: Node, dtypes: dict[Node, NpuDtype], work: LoweringGraph, context: Context
) -> None:
    reads = dtypes.get(node, context.dtype)
    inputs = list(node.inputs)
    for at, name in enumerate(inputs):
        producer = work.producer(name)
        if not name or work.is_const(name) or (producer is not None and producer.kind == KIND):
            continue
        written = dtypes.get(producer, context.dtype) if producer is not None else context.dtype
        if producer is None and work.tensors[name].dtype == "float16":
            written = "float16"
        if written == reads:
            continue
        # converted once for all that read it so
        inputs[at] = converted = f"{name}__cvt_{written}_{reads}"
        if converted not in work.tensors:
            work.add_tensor(converted, work.shape(name), reads)
            work.put(KIND, converted, [name], [converted], before=node, dtype=written)
    if inputs != node.inputs:
        work.rewire(node, inputs=inputs)
