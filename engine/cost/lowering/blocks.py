"""Groups of nodes that the compiler takes as one: layer normalization, GELU."""

from __future__ import annotations

import math

from engine.cost.lowering.graph import LoweringGraph, Node
from engine.cost.lowering.movement import add_reshape, add_transpose, fresh
from engine.cost.lowering.rules import Context

__all__ = [
    "make_gated",
    "make_gelu",
    "make_layer_norms",
    "make_length_norms",
    "make_quick_gelu",
    "spell_layer_norms",
]


def _scalar(graph: LoweringGraph, tensor: str) -> float | None:
    """A constant of one element; None of everything else."""
    if not graph.is_const(tensor) or math.prod(graph.shape(tensor)) != 1:
        return None
    array = graph.array(tensor)
    return None if array is None else float(array.reshape(-1)[0])


def _other(graph: LoweringGraph, node: Node, tensor: str) -> str:
    """The other of two inputs."""
    found = [each for each in node.inputs if each != tensor]
    return found[0] if len(found) == 1 else ""


def _next(graph: LoweringGraph, node: Node, op: str) -> Node | None:
    """The only reader of a node, if it is of this type."""
    reader = graph.only_reader(node.outputs[0])
    return reader if reader is not None and reader.op == op else None


def _replace(graph: LoweringGraph, old: list[Node], new: Node) -> None:
    """Put a node where the last of a group was, and take the group out."""
    new.sources = tuple(dict.fromkeys(each for node in old for each in node.sources))
    graph.insert(new, before=old[-1])
    for node in old:
        graph.remove(node)


# ---------------------------------------------------------------------------------------- functions
def make_gelu(graph: LoweringGraph, context: Context) -> None:
    """``x * (1 + erf(x / sqrt 2)) / 2`` -> exGelu, named ``_2gelu`` behind its last node."""
    for node in graph:
        if node.op == "Erf":
            found = _gelu(graph, node)
            if found is not None:
                group, x = found
                last = group[-1]
                new = Node("exGelu", f"{last.name}_2gelu", "exGelu", [x], list(last.outputs))
                _replace(graph, group, new)
                graph.rewrites["replace_torch_gelu"] += 1


def _gelu(graph: LoweringGraph, erf: Node) -> tuple[list[Node], str] | None:
    scale = graph.producer(erf.inputs[0])
    if scale is None or scale.op not in ("Div", "Mul") or len(scale.inputs) != 2:
        return None
    x = next((each for each in scale.inputs if not graph.is_const(each)), "")
    factor = _scalar(graph, _other(graph, scale, x))
    wanted = math.sqrt(2) if scale.op == "Div" else math.sqrt(0.5)
    if factor is None or not math.isclose(factor, wanted, rel_tol=1e-3):
        return None
    plus = _next(graph, erf, "Add")
    times = _next(graph, plus, "Mul") if plus is not None else None
    if plus is None or times is None or _scalar(graph, _other(graph, plus, erf.outputs[0])) != 1:
        return None
    other = _other(graph, times, plus.outputs[0])
    half = graph.producer(other)
    if other == x:
        last = _next(graph, times, "Mul")
        if last is None or _scalar(graph, _other(graph, last, times.outputs[0])) != 0.5:
            return None
        return [scale, erf, plus, times, last], x
    if half is None or half.op != "Mul" or x not in half.inputs:
        return None
    return ([scale, erf, plus, half, times], x) if _half(graph, half, x) else None


def _half(graph: LoweringGraph, node: Node, x: str) -> bool:
    return _scalar(graph, _other(graph, node, x)) == 0.5


def make_quick_gelu(graph: LoweringGraph, context: Context) -> None:
    """``x * sigmoid(1.702 x)`` -> exSwish, named ``_2swish`` behind the Sigmoid."""
    for node in graph:
        if node.op != "Sigmoid":
            continue
        scale = graph.producer(node.inputs[0])
        last = _next(graph, node, "Mul")
        if scale is None or scale.op != "Mul" or last is None:
            continue
        x = next((each for each in scale.inputs if not graph.is_const(each)), "")
        if not x or _scalar(graph, _other(graph, scale, x)) is None:
            continue
        if graph.only_reader(scale.outputs[0]) is node and x in last.inputs:
            name = f"{node.name}_2swish"
            new = Node("exSwish", name, "exSwish", [x], list(last.outputs))
            _replace(graph, [scale, node, last], new)
            graph.rewrites["replace_exswish2"] += 1


def make_gated(graph: LoweringGraph, context: Context) -> None:
    """``a * sigmoid(b)`` of the halves of a tensor -> exGlu ``_2glu`` of the Sigmoid.

    Along the channels of a map at once, else over a map of them: ``T_rs_exglu``. The gate is the
    second half; in the other order the compiler keeps the three nodes.
    """
    for node in graph:
        if node.op != "Sigmoid" or node not in graph:
            continue
        split = graph.producer(node.inputs[0])
        last = _next(graph, node, "Mul")
        if split is None or last is None or split.op != "Split" or len(split.outputs) != 2:
            continue
        other, gate = split.outputs
        if gate != node.inputs[0] or set(last.inputs) != {other, node.outputs[0]}:
            continue
        alone = graph.only_reader(other) is last and graph.only_reader(node.inputs[0]) is node
        if alone and graph.shape(other) == graph.shape(node.inputs[0]):
            _gate(graph, split, node, last)
            graph.rewrites["fuse_split_sigmoid_mul_to_glu"] += 1


def _gate(graph: LoweringGraph, split: Node, sigmoid: Node, last: Node) -> None:
    x, result = split.inputs[0], last.outputs[0]
    shape, out = graph.shape(x), graph.shape(result)
    rank = len(shape)
    axis = split.int("axis") % rank
    name = f"{sigmoid.name}_2glu"
    turned = rank == 3 and axis == 2  # what comes of a matrix has its channels last
    wide, half = shape, out
    if turned:
        x = add_transpose(graph, x, (0, 2, 1), fresh(graph, f"{x}_tp"), before=last)
        wide = (shape[0], shape[2], 1, shape[1])
    elif rank == 3 and axis == 1:
        wide = (shape[0], shape[1], 1, shape[2])
    elif (rank, axis) != (4, 1):
        wide = (math.prod(shape[:axis]), math.prod(shape[axis:]), 1, 1)
    made = result
    if wide != shape:
        name = fresh(graph, f"{split.inputs[0]}_rs_exglu")
        x = add_reshape(graph, x, wide, fresh(graph, f"{split.inputs[0]}_rs"), before=last)
        half = (wide[0], wide[1] // 2, *wide[2:])
        made = graph.add_tensor(name, half, graph.tensors[result].dtype)
    new = Node("exGlu", name, "exGlu", [x], [made])
    _replace(graph, [split, sigmoid, last], new)
    if made == result:
        return
    following = graph.following(new)
    if turned:
        flat = (out[0], out[2], out[1])
        end = add_reshape(graph, made, flat, f"{name}_rs", before=following)
        add_transpose(graph, end, (0, 2, 1), f"{name}_tp", result, before=following)
    else:
        add_reshape(graph, made, out, f"{name}_rs", result, before=following)


# ------------------------------------------------------------------------------------------- norms
def make_layer_norms(graph: LoweringGraph, context: Context) -> None:
    """Layer normalization of nine nodes -> exNorm, named ``_2ln`` behind its first ReduceMean."""
    for node in graph:
        if node.op != "ReduceMean" or node not in graph:
            continue
        found = _layer_norm(graph, node)
        if found is not None:
            group, consts = found
            _norm(graph, group, f"{node.name}_2ln", _axis(graph, node), consts)
            graph.rewrites["replace_torch_layernorm"] += 1


def _layer_norm(graph: LoweringGraph, mean: Node) -> tuple[list[Node], list[str]] | None:
    x = mean.inputs[0]
    if not x or _axis(graph, mean) is None:
        return None
    minus = _next(graph, mean, "Sub")
    if minus is None or minus.inputs[0] != x:
        return None
    power = next(
        (each for each in graph.readers(minus.outputs[0]) if each.op in ("Pow", "Mul")), None
    )
    if power is None or (power.op == "Mul" and set(power.inputs) != {minus.outputs[0]}):
        return None
    group = [mean, minus, power]
    for op in ("ReduceMean", "Add", "Sqrt", "Div"):
        following = _next(graph, group[-1], op)
        if following is None:
            return None
        group.append(following)
    if group[-1].inputs[0] != minus.outputs[0]:
        return None
    consts = []
    for op in ("Mul", "Add"):
        following = _next(graph, group[-1], op)
        other = _other(graph, following, group[-1].outputs[0]) if following else ""
        if following is None or not graph.is_const(other):
            break
        group.append(following)
        consts.append(other)
    return group, consts


def _axis(graph: LoweringGraph, node: Node) -> int | None:
    """The one axis that a Reduce works on, counted from the front; None of several."""
    axes = list(node.ints("axes"))
    if not axes and len(node.inputs) > 1:
        given = graph.array(node.inputs[1])
        axes = [int(each) for each in given.reshape(-1)] if given is not None else []
    rank = len(graph.shape(node.inputs[0]))
    return axes[0] % rank if len(axes) == 1 and rank else None


def spell_layer_norms(graph: LoweringGraph, context: Context) -> None:
    """LayerNormalization over the last axis -> exNorm ``X#1``."""
    for node in graph:
        if node.op != "LayerNormalization":
            continue
        rank = len(graph.shape(node.inputs[0]))
        axis = node.int("axis", -1) % rank
        if axis == rank - 1:
            consts = [each for each in node.inputs[1:] if each]
            _norm(graph, [node], f"{node.name}#1", axis, consts)
            graph.rewrites["convert_layernorm_to_exnorm"] += 1


def make_length_norms(graph: LoweringGraph, context: Context) -> None:
    """``x / |x|`` -> exNorm, named ``_2lpnorm2`` behind the ReduceL2."""
    for node in graph:
        if node.op != "ReduceL2":
            continue
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
            graph.rewrites["fuse_reducel2_div_to_lpnormalization2"] += 1


def _norm(
    graph: LoweringGraph, group: list[Node], name: str, axis: int | None, consts: list[str]
) -> None:
    """An exNorm over channels with the movements that bring them there and back."""
    first, last = group[0], group[-1]
    x, result = first.inputs[0], last.outputs[0]
    shape = graph.shape(x)
    rank = len(shape)
    dtype = graph.tensors[x].dtype
    axis = rank - 1 if axis is None else axis
    perm = [each for each in range(rank) if each != axis]
    perm.insert(min(1, rank - 1), axis)
    moves = perm != list(range(rank))
    start = x
    if moves:
        start = add_transpose(graph, x, tuple(perm), fresh(graph, f"{x}_tp"), before=last)
        _put_off(graph, start, first)
    turned = graph.shape(start)
    wide = _channels(turned)
    if moves and len(turned) == 4 and first.op == "LayerNormalization":
        wide = (*turned[:2], 1, math.prod(turned[2:]))
    data = start
    if wide != turned:
        data = add_reshape(graph, start, wide, fresh(graph, f"{start}_rs"), before=last)
    made = graph.add_tensor(name, wide, dtype)
    channels = wide[1]
    inputs = [data]
    for number, each in enumerate(consts):
        kept = graph.tensors[each]
        label = f"{name}_c{number}"
        inputs.append(graph.add_tensor(label, (1, channels, 1, 1), kept.dtype, kept.values))
    end = made
    if wide != turned:
        label = f"{name}_rs"
        end = add_reshape(graph, made, turned, label, "" if moves else result, before=last)
    if moves:
        back = tuple(perm.index(each) for each in range(rank))
        end = add_transpose(graph, end, back, f"{end}_tp", result, before=last)
        _put_off(graph, end, first)
    new = Node("exNorm", name, "exNorm", inputs, [made if end != made or moves else result])
    new.sources = tuple(each for node in group for each in node.sources)
    graph.insert(new, before=last)
    for node in group:
        graph.remove(node)


def _put_off(graph: LoweringGraph, turned: str, first: Node) -> None:
    """A Transpose of a norm that one node gave gets four dimensions behind the others."""
    maker = graph.producer(turned)
    if maker is not None and first.op == "LayerNormalization":
        maker.attributes["late"] = 1


def _channels(shape: tuple[int, ...]) -> tuple[int, ...]:
    """As four dimensions with the channels second."""
    if len(shape) == 3:
        return (shape[0], shape[1], 1, shape[2])
    if len(shape) == 2:
        return (*shape, 1, 1)
    if len(shape) > 4:
        return (shape[0], shape[1], 1, math.prod(shape[2:]))
    return shape
