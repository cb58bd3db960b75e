"""Groups of nodes that the compiler takes as one: norms, windows, activations."""

from __future__ import annotations

import math

from engine.cost.lowered import Node
from engine.cost.lowering.graph import LoweringGraph
from engine.cost.lowering.rules import Context, on
from engine.cost.lowering.views import four


def _other(node: Node, tensor: str) -> str:
    """The other of two inputs."""
    others = [name for name in node.inputs if name != tensor]
    return others[0] if len(others) == 1 else ""


def _replace(
    graph: LoweringGraph, old: list[Node], op: str, name: str, x: str, result: str
) -> Node:
    """Put a node where the last of a group was, and take the group out."""
    sources = tuple(dict.fromkeys(source for node in old for source in node.sources))
    new = graph.put(op, name, [x], [result], before=old[-1], sources=sources)
    for node in old:
        graph.remove(node)
    return new


# ---------------------------------------------------------------------------------------- functions
@on("Erf")
def make_gelu(graph: LoweringGraph, node: Node, context: Context) -> None:
    """``x * (1 + erf(x / sqrt 2)) / 2`` -> exGelu, named ``_2gelu`` behind its last node."""
    group = _gelu(graph, node)
    if group:
        last, (x, _) = group[-1], graph.operands(group[0])
        _replace(graph, group, "exGelu", f"{last.name}_2gelu", x, last.outputs[0])


def _gelu(graph: LoweringGraph, erf: Node) -> list[Node]:
    """The five nodes, the one that scales first; none where it is something else."""

    def adds(node: Node | None, tensor: str, number: float) -> bool:
        return node is not None and graph.number(_other(node, tensor)) == number

    scale = graph.maker(erf.inputs[0], "Div", "Mul")
    x, number = graph.operands(scale) if scale is not None else ("", "")
    factor = graph.number(number)
    plus = graph.reader(erf.outputs[0], "Add")
    times = graph.reader(plus.outputs[0], "Mul") if plus is not None else None
    if scale is None or factor is None or plus is None or times is None:
        return []
    root = math.sqrt(2) if scale.op == "Div" else math.sqrt(0.5)
    if not math.isclose(factor, root, rel_tol=1e-3) or not adds(plus, erf.outputs[0], 1):
        return []
    other = _other(times, plus.outputs[0])
    if other == x:
        last = graph.reader(times.outputs[0], "Mul")
        half = adds(last, times.outputs[0], 0.5)
        return [scale, erf, plus, times, last] if half and last is not None else []
    before = graph.maker(other, "Mul")
    half = before is not None and x in before.inputs and adds(before, x, 0.5)
    return [scale, erf, plus, before, times] if half and before is not None else []


@on("Sigmoid")
def make_quick_gelu(graph: LoweringGraph, node: Node, context: Context) -> None:
    """``x * sigmoid(1.702 x)`` -> exSwish, named ``_2swish`` behind the Sigmoid."""
    scale = graph.maker(node.inputs[0], "Mul", alone=True)
    last = graph.reader(node.outputs[0], "Mul")
    x, number = graph.operands(scale) if scale is not None else ("", "")
    if scale is not None and last is not None and x in last.inputs and graph.is_number(number):
        name, group = f"{node.name}_2swish", [scale, node, last]
        _replace(graph, group, "exSwish", name, x, last.outputs[0])


@on("Sigmoid")
def make_gated(graph: LoweringGraph, node: Node, context: Context) -> None:
    """``a * sigmoid(b)`` of the halves of a tensor -> exGlu ``_2glu`` of the Sigmoid.

    Along the channels of a map at once, else over a map of them: ``T_rs_exglu``. The gate is the
    second half; in the other order the compiler keeps the three nodes.
    """
    split = graph.maker(node.inputs[0], "Split")
    last = graph.reader(node.outputs[0], "Mul")
    if split is None or last is None or len(split.outputs) != 2:
        return
    other, gate = split.outputs
    if gate != node.inputs[0] or set(last.inputs) != {other, node.outputs[0]}:
        return
    alone = graph.only_reader(other) is last and graph.only_reader(node.inputs[0]) is node
    if alone and graph.shape(other) == graph.shape(node.inputs[0]):
        _glu(graph, split, node, last)


def _glu(graph: LoweringGraph, split: Node, sigmoid: Node, last: Node) -> None:
    x, result = split.inputs[0], last.outputs[0]
    shape, out = graph.shape(x), graph.shape(result)
    rank = len(shape)
    axis = split.int("axis") % rank
    name = f"{sigmoid.name}_2glu"
    turned = rank == 3 and axis == 2  # what comes of a matrix has its channels last
    wide, half = shape, out
    if turned:
        x = graph.transpose(x, (0, 2, 1), before=last)
        wide = (shape[0], shape[2], 1, shape[1])
    elif rank == 3 and axis == 1:
        wide = (shape[0], shape[1], 1, shape[2])
    elif (rank, axis) != (4, 1):
        wide = (math.prod(shape[:axis]), math.prod(shape[axis:]), 1, 1)
    gated = result
    if wide != shape:
        name = graph.unique(f"{split.inputs[0]}_rs_exglu")
        x = graph.reshape(x, wide, graph.unique(f"{split.inputs[0]}_rs"), before=last)
        half = (wide[0], wide[1] // 2, *wide[2:])
        gated = graph.add_tensor(name, half, graph.tensors[result].dtype)
    new = _replace(graph, [split, sigmoid, last], "exGlu", name, x, gated)
    if gated == result:
        return
    following = graph.following(new)
    if turned:
        flat = (out[0], out[2], out[1])
        end = graph.reshape(gated, flat, f"{name}_rs", before=following)
        graph.transpose(end, (0, 2, 1), f"{name}_tp", result, before=following)
    else:
        graph.reshape(gated, out, f"{name}_rs", result, before=following)


# ------------------------------------------------------------------------------------------- norms
@on("ReduceMean")
def make_layer_norms(graph: LoweringGraph, node: Node, context: Context) -> None:
    """Layer normalization of nine nodes -> exNorm, named ``_2ln`` behind its first ReduceMean."""
    match = _layer_norm(graph, node)
    if match is not None:
        group, consts = match
        _norm(graph, group, f"{node.name}_2ln", _axis(graph, node), consts)


def _layer_norm(graph: LoweringGraph, mean: Node) -> tuple[list[Node], list[str]] | None:
    x = mean.inputs[0]
    if not x or _axis(graph, mean) is None:
        return None
    minus = graph.reader(mean.outputs[0], "Sub")
    if minus is None or minus.inputs[0] != x:
        return None
    power = next(
        (reader for reader in graph.readers(minus.outputs[0]) if reader.op in ("Pow", "Mul")), None
    )
    if power is None or (power.op == "Mul" and set(power.inputs) != {minus.outputs[0]}):
        return None
    group = [mean, minus, power]
    for op in ("ReduceMean", "Add", "Sqrt", "Div"):
        following = graph.reader(group[-1].outputs[0], op)
        if following is None:
            return None
        group.append(following)
    if group[-1].inputs[0] != minus.outputs[0]:
        return None
    consts = []
    for op in ("Mul", "Add"):
        following = graph.reader(group[-1].outputs[0], op)
        other = _other(following, group[-1].outputs[0]) if following else ""
        if following is None or not graph.is_const(other):
            break
        group.append(following)
        consts.append(other)
    return group, consts


def _axis(graph: LoweringGraph, node: Node) -> int | None:
    """The one axis that a Reduce works on; None of several."""
    axes = graph.axes(node)
    return axes[0] if len(axes) == 1 else None


@on("LayerNormalization")
def spell_layer_norms(graph: LoweringGraph, node: Node, context: Context) -> None:
    """LayerNormalization over the last axis -> exNorm ``X#1``."""
    rank = len(graph.shape(node.inputs[0]))
    axis = node.int("axis", -1) % rank
    if axis == rank - 1:
        consts = [tensor for tensor in node.inputs[1:] if tensor]
        _norm(graph, [node], f"{node.name}#1", axis, consts)


@on("ReduceL2")
def make_length_norms(graph: LoweringGraph, node: Node, context: Context) -> None:
    """``x / |x|`` -> exNorm, named ``_2lpnorm2`` behind the ReduceL2."""
    x = node.inputs[0]
    group = [node]
    while (reader := graph.only_reader(group[-1].outputs[0])) is not None:
        if reader.op not in ("Clip", "Max", "Expand", "Add", "Div"):
            break
        group.append(reader)
        if reader.op == "Div":
            break
    if group[-1].op == "Div" and group[-1].inputs[0] == x:
        _norm(graph, group, f"{node.name}_2lpnorm2", _axis(graph, node), [])


def _norm(
    graph: LoweringGraph, group: list[Node], name: str, axis: int | None, consts: list[str]
) -> None:
    """An exNorm over channels with the movements that bring them there and back."""
    first, last = group[0], group[-1]
    x, result = first.inputs[0], last.outputs[0]
    shape = graph.shape(x)
    rank = len(shape)
    axis = rank - 1 if axis is None else axis
    perm = [place for place in range(rank) if place != axis]
    perm.insert(min(1, rank - 1), axis)
    moves = perm != list(range(rank))
    start = x
    if moves:
        start = graph.transpose(x, tuple(perm), before=last)
        _put_off(graph, start, first)
    turned = graph.shape(start)
    wide = (*turned[:2], 1, math.prod(turned[2:])) if len(turned) > 4 else four(turned)
    if moves and len(turned) == 4 and first.op == "LayerNormalization":
        wide = (*turned[:2], 1, math.prod(turned[2:]))
    inputs = [start if wide == turned else graph.reshape(start, wide, before=last)]
    normed = end = graph.add_tensor(name, wide, graph.tensors[x].dtype)
    for number, const in enumerate(consts):
        inputs.append(graph.reshaped(const, (1, wide[1], 1, 1), f"{name}_c{number}"))
    if wide != turned:
        end = graph.reshape(normed, turned, f"{name}_rs", "" if moves else result, before=last)
    if moves:
        back = tuple(perm.index(place) for place in range(rank))
        end = graph.transpose(end, back, f"{end}_tp", result, before=last)
        _put_off(graph, end, first)
    written = normed if end != normed or moves else result
    sources = tuple(source for node in group for source in node.sources)
    graph.put("exNorm", name, inputs, [written], before=last, sources=sources)
    for node in group:
        graph.remove(node)


def _put_off(graph: LoweringGraph, turned: str, first: Node) -> None:
    """A Transpose of a norm that one node gave gets four dimensions behind the others."""
    maker = graph.producer(turned)
    if maker is not None and first.op == "LayerNormalization":
        maker.attributes["late"] = 1


_SWAP = (0, 1, 3, 2, 4, 5)


@on("Transpose")
def make_windows(graph: LoweringGraph, node: Node, context: Context) -> None:
    """Reshape to (1, a, b, c, d, C) and Transpose of b and c -> exWindow, named ``_2win``.

    A map (1, H, W, C) is cut into windows, (1, C, windows, pixels) of the compiler, or put
    together again.
    """
    before = graph.maker(node.inputs[0], "Reshape", alone=True)
    after = graph.reader(node.outputs[0], "Reshape")
    if node.ints("perm") != _SWAP or before is None or after is None:
        return
    if graph.shape(node.inputs[0])[0] == 1:
        _window(graph, before, node)


def _window(graph: LoweringGraph, before: Node, turn: Node) -> None:
    x, result = before.inputs[0], turn.outputs[0]
    _, first, second, third, fourth, channels = graph.shape(turn.inputs[0])
    joins = third == fourth and _is_windows(graph.shape(x), first * second, third * fourth)
    if not joins and second != fourth:
        return
    whole = (1, first * second, third * fourth, channels)
    # Joined: windows by pixels -> a map; cut: a map -> windows by pixels.
    end = (first * third, second * fourth)
    maker = graph.maker(x, "Reshape", alone=True)
    if maker is not None:
        x = maker.inputs[0]
        graph.remove(maker)
    flat = graph.reshape(x, whole, before=turn)
    data = graph.transpose(flat, (0, 3, 1, 2), before=turn)
    name = f"{turn.name}_2win"
    sources = (*before.sources, *turn.sources)
    windowed = graph.write(
        "exWindow", name, [data], (1, channels, *end), before=turn, sources=sources
    )
    back = graph.transpose(windowed, (0, 2, 3, 1), f"{windowed}_tp", before=turn)
    graph.replace_reads(result, back)
    graph.remove(before)
    graph.remove(turn)


def _is_windows(shape: tuple[int, ...], count: int, pixels: int) -> bool:
    if len(shape) == 3:
        return shape[:2] == (count, pixels)
    return len(shape) == 4 and shape[0] == count and shape[1] * shape[2] == pixels


# Activations that the graph writes as several nodes become one of the compiler's.


@on("Sigmoid")
def make_swish(graph: LoweringGraph, node: Node, context: Context) -> None:
    """``x * sigmoid(x)`` -> ``exSwish``, named ``_2swish`` behind the Sigmoid."""
    _gate(graph, node, [node], "exSwish", "2swish")


@on("HardSigmoid")
def make_hardswish(graph: LoweringGraph, node: Node, context: Context) -> None:
    """``x * hardsigmoid(x)`` -> ``HardSwish``, named ``_2hardswish`` behind the HardSigmoid."""
    sixth = math.isclose(_number(node, "alpha", 0.2), 1 / 6, rel_tol=1e-3)
    if sixth and _number(node, "beta", 0.5) == 0.5:
        _gate(graph, node, [node], "HardSwish", "2hardswish")


@on("Softplus")
def make_mish(graph: LoweringGraph, node: Node, context: Context) -> None:
    """``x * tanh(softplus(x))`` -> ``exMish``, named ``_2exmish`` behind the Softplus."""
    curve = graph.reader(node.outputs[0], "Tanh")
    if curve is not None:
        _gate(graph, node, [node, curve], "exMish", "2exmish")


@on("Add")
def make_written_hardswish(graph: LoweringGraph, node: Node, context: Context) -> None:
    """``x * clip(x + 3, 0, 6) / 6`` -> ``HardSwish``, named ``_2hs`` behind the Add."""
    clip = graph.reader(node.outputs[0], "Clip")
    first = graph.only_reader(clip.outputs[0]) if clip is not None else None
    second = graph.only_reader(first.outputs[0]) if first is not None else None
    if clip is None or first is None or second is None or not _holds(graph, node, 3):
        return
    x, _ = graph.operands(node)
    product, scale = (first, second) if x in first.inputs else (second, first)
    if (
        [graph.number(tensor) for tensor in clip.inputs[1:3] if tensor] == [0, 6]
        and product.op == "Mul"
        and x in product.inputs
        and len(set(product.inputs)) == 2
        and scale.op in ("Div", "Mul")
        and _holds(graph, scale, 6 if scale.op == "Div" else 1 / 6)
    ):
        graph.rewire(node, inputs=[x])
        _become(graph, [node, clip, first, second], "HardSwish", "2hs")


def _gate(graph: LoweringGraph, node: Node, curve: list[Node], op: str, suffix: str) -> None:
    """Join ``f(x) * x`` into one node where nobody else reads ``f(x)``, the last of a curve."""
    product = graph.reader(curve[-1].outputs[0], "Mul")
    gated = sorted((node.inputs[0], curve[-1].outputs[0]))
    if product is not None and sorted(product.inputs) == gated:
        _become(graph, [*curve, product], op, suffix)


def _become(graph: LoweringGraph, chain: list[Node], op: str, suffix: str) -> None:
    """Take a chain of nodes into its first."""
    node, *followers = chain
    for follower in followers:
        graph.absorb(node, follower)
    graph.become(node, op, f"{node.name}_{suffix}", inputs=node.inputs[:1], attributes={})


def _holds(graph: LoweringGraph, node: Node, number: float) -> bool:
    """Whether a node of two inputs has one constant, this number; of a Div what divides."""
    data, other = graph.operands(node)
    value = graph.number(other) if node.op != "Div" or node.inputs[0] == data else None
    return value is not None and math.isclose(value, number, rel_tol=1e-3)


def _number(node: Node, name: str, default: float) -> float:
    value = node.attributes.get(name)
    return float(value) if isinstance(value, int | float) else default
