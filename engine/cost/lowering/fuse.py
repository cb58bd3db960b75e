"""What a layer does beside its work: activations, sums, features of another dtype.

The output stage does the first two.

With weights of 4 bits (``w4a16``) it does less. Source: the tables that rknn-toolkit2 2.3.2 prints
for RK3576, the only chip that it compiles ``w4a16`` for. Features stay in float16. Depthwise and
transposed convolutions, pools and products of two features are as in a float16 model. A dense
convolution has a bias always, and its output stage takes in no activation but Relu and Clip.

An image whose scale no convolution can take in its weights is scaled by a 1 x 1 convolution, which
has no name in the table: one of 4 bits cannot, nor can what is no convolution.
"""

from __future__ import annotations

from dataclasses import replace

from engine.cost.lowered import Node
from engine.cost.lowering.graph import LoweringGraph
from engine.cost.lowering.rules import Context
from engine.facts.npu import NpuDtype

_SUFFIX = {
    **{each: each for each in ("Clip", "Elu", "HardSigmoid", "HardSwish", "LeakyRelu", "PRelu")},
    **{each: each for each in ("Relu", "Sigmoid", "Softplus", "Tanh")},
    "exGelu": "ExGelu",
    "exMish": "ExMish",
    "exSwish": "ExSwish",
}
"""Operator -> how the compiler prints it behind the layer that does it."""

_SMALL_CHIPS = {
    "rv1106b": frozenset({"Clip", "LeakyRelu", "Relu"}),
    "rk2118": frozenset({"Clip", "LeakyRelu", "PRelu", "Relu"}),
}
"""Families whose output stage has no table of a function: what it can do."""

_NO_SUM = frozenset({"rk2118"})
"""Families whose output stage adds no feature."""

_BEFORE_SUM = frozenset({"Relu", "LeakyRelu", "PRelu"})
"""Activations behind which a convolution can still add, where the family can at all."""

_DEPTHWISE_SUM = frozenset({"rk3576", "rv1126b"})
"""Families whose depthwise convolutions add a feature."""


def fuse_activations(graph: LoweringGraph, context: Context) -> None:
    """Conv and ConvTranspose + activation."""
    for node in graph.breadth_first():
        if node.op not in ("Conv", "ConvTranspose") or node.fused:
            continue
        follower = graph.only_reader(node.outputs[0])
        if follower is None or not _can_do(node, follower, context):
            continue
        name = follower.op if node.op == "ConvTranspose" else _SUFFIX[follower.op]
        graph.absorb(node, follower, fused=name)
        if follower.op == "PRelu":
            graph.rewire(node, inputs=[*node.inputs, *follower.inputs[1:]])


def fuse_sums(graph: LoweringGraph, context: Context) -> None:
    """Conv + Add or Mul of a feature of the same shape; then Add + Relu, Conv + Add + Relu."""
    queue, order = graph.breadth_first(), _levels(graph)
    for node in queue:
        if node.op in ("Add", "Mul") and len(node.inputs) == 2 and not node.fused:
            home = _home(graph, node, order, context)
            if home is not None:
                _into(graph, home, node)
    for node in graph.breadth_first():
        summed = node.op == "Add" and (len(graph.features(node)) == 2 or _adds_columns(graph, node))
        scaled = node.op == "BatchNormalization" and not node.fused
        # halves in float16 are made int8 again before anything else
        own = not node.dtype or node.dtype == context.dtype
        joined = node.op == "Conv" and node.fused == ["Add"] and own
        joined = joined and context.family != "rv1106b"
        follower = graph.reader(node.outputs[0], "Relu") if summed or joined or scaled else None
        if follower is not None:
            graph.absorb(node, follower, fused="Relu")
            node.name += "Relu" if joined else f"_{node.op}Relu"


def _levels(graph: LoweringGraph) -> dict[Node, tuple[int, int]]:
    """How many layers a node waits for one after the other, and its place in the graph.

    What the compiler made has its place in the queue.
    """
    place = {node: at for at, node in enumerate(graph)}
    levels: dict[Node, tuple[int, int]] = {}
    for at, node in enumerate(graph.breadth_first()):
        makers = (graph.producer(tensor) for tensor in node.inputs)
        before = [levels[maker][0] for maker in makers if maker in levels]
        own = node.name in node.sources
        levels[node] = (1 + max(before, default=0), place[node] if own else at)
    return levels


def _adds_columns(graph: LoweringGraph, node: Node) -> bool:
    """Whether a sum has a constant for each column, the bias of a norm over pixels."""
    maker = graph.maker(node.inputs[0], "Mul")
    before = graph.producer(maker.inputs[0]) if maker is not None else None
    pixels = before is not None and bool(before.attributes.get("pixels"))
    return pixels and len(graph.features(node)) == 1


def _can_do(node: Node, follower: Node, context: Context) -> bool:
    able = _SMALL_CHIPS.get(context.family, _SUFFIX)
    if node.op == "ConvTranspose" and context.family == "rk2118":
        able = _SUFFIX
    known = follower.op in _SUFFIX and follower.op in able
    return known and takes_in(node, follower, context)


def _home(
    graph: LoweringGraph, node: Node, order: dict[Node, tuple[int, int]], context: Context
) -> Node | None:
    """The convolution that takes an Add or Mul in: of two the one that runs first.

    Of the parts of a large kernel it is the later one, but the first where that has a bias in int8.
    """
    first, second = node.inputs
    if first == second or graph.shape(first) != graph.shape(second):
        return None
    makers = [graph.producer(tensor) for tensor in node.inputs]
    if context.family in _NO_SUM or None in makers:
        return None
    fitting = [
        maker
        for maker in makers
        if maker is not None
        and maker.op == "Conv"
        and graph.only_reader(maker.outputs[0]) is node
        and _can_sum(maker, node, context)
    ]
    if len(fitting) > 1 and all("part" in candidate.attributes for candidate in fitting):
        one, later = sorted(fitting, key=lambda candidate: candidate.int("part"))
        return one if context.dtype == "int8" and one.attributes["biased"] else later
    return min(fitting, key=order.__getitem__) if fitting else None


def _can_sum(home: Node, node: Node, context: Context) -> bool:
    if home.attributes.get("depthwise") and context.family not in _DEPTHWISE_SUM:
        return False
    if not home.fused:
        return True
    return (
        node.op == "Add"
        and len(home.fused) == 1
        and home.fused[0] in _BEFORE_SUM
        and context.family != "rv1106b"
    )


def _into(graph: LoweringGraph, home: Node, node: Node) -> None:
    other = next(tensor for tensor in node.inputs if tensor != home.outputs[0])
    if not home.fused:
        home.name += f"_Conv{node.op}"
    # it runs when the other feature is there, too
    graph.remove(home)
    graph.insert(home, before=node)
    graph.absorb(home, node, fused=node.op)
    graph.rewire(home, inputs=[*home.inputs, other])


_IMAGE_CHANNELS = (1, 3, 4)
_TAKEN_IN = ("Clip", "Relu")
"""Activations that the output stage of a convolution with weights of 4 bits does."""


def has_int4(node: Node) -> bool:
    """Whether a node's weight would be stored in 4 bits: that of a dense convolution is."""
    rewritten = any(node.attributes.get(attribute) for attribute in ("depthwise", "scales"))
    return node.kind == "Conv" and len(node.inputs) > 1 and not rewritten


def takes_in(node: Node, follower: Node, context: Context) -> bool:
    """Whether the weights of a convolution leave it the activation behind it."""
    return not (context.int4 and has_int4(node)) or follower.op in _TAKEN_IN


def scale_images(graph: LoweringGraph, context: Context) -> None:
    """Images that something else reads than convolutions are scaled by one before."""
    for name in graph.inputs:
        shape, readers = graph.shape(name), graph.readers(name)
        image = len(shape) == 4 and shape[1] in _IMAGE_CHANNELS
        plain = [reader for reader in readers if reader.kind == "Conv"]
        if not image or not readers or (len(plain) == len(readers) and not context.int4):
            continue
        scaled = graph.add_tensor(f"{name}_scaled", shape, graph.tensors[name].dtype)
        graph.replace_reads(name, scaled)
        channels, label = shape[1], f"Pre_weight{name}"
        inputs = [name, graph.add_unknown(label, (channels, channels, 1, 1), "float32")]
        if context.dtype == "int8":
            inputs.append(graph.add_unknown(f"Pre_bias{name}", (channels,), "float32"))
        graph.put("Conv", label, inputs, [scaled], {"scales": 1}, before=readers[0])


# Layers of another dtype than the model's: where they begin and end, features are converted.
#
# Source: the tables of rknn-toolkit2 2.3.2. A Softmax that ends an int8 model is computed in
# float16, since its results are read by the program; so are a GRU, and layers that hybrid
# quantization leaves in float16. An input of the graph that only GRU layers read is float16. A
# conversion is a layer ``exDataConvert`` named after the feature that it converts.

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
