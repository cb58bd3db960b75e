"""All rewrites in their order, and the frozen result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from engine.cost.lowered import Lowered, LoweredLayer, LoweredTensor, Node, Tensor, Window
from engine.cost.lowering.attention import (
    flatten_scores,
    join_masks,
    make_attention,
    make_other_attention,
)
from engine.cost.lowering.blocks import (
    make_gated,
    make_gelu,
    make_hardswish,
    make_layer_norms,
    make_length_norms,
    make_mish,
    make_quick_gelu,
    make_swish,
    make_windows,
    make_written_hardswish,
    spell_layer_norms,
)
from engine.cost.lowering.channels import (
    channels_to_convolutions,
    find_picks,
    find_shuffles,
    merge_picks,
    scale_and_shift,
)
from engine.cost.lowering.ends import hold_ends, make_recurrent, release_ends
from engine.cost.lowering.fours import restore_softmax, widen, widen_rows
from engine.cost.lowering.fuse import (
    convert_types,
    fuse_activations,
    fuse_sums,
    has_int4,
    scale_images,
)
from engine.cost.lowering.graph import LoweringGraph
from engine.cost.lowering.heads import split_heads, split_packed
from engine.cost.lowering.instances import spell_instance_norms, turn_whole_maps
from engine.cost.lowering.large import (
    pad_widely,
    pick_rows,
    shorten_strides,
    split_kernels,
    spread_transposed,
)
from engine.cost.lowering.layouts import push_norms, settle_convolutions, settle_layouts
from engine.cost.lowering.maps import drop_zero_sums, join_early, lift_positions, turn_shared
from engine.cost.lowering.matrix import make_convolutions
from engine.cost.lowering.merge import (
    add_biases,
    divide_by_multiplying,
    drop_dead,
    drop_idle,
    drop_repeated,
    merge_branches,
    merge_constants,
    merge_flattening,
    merge_scales_forward,
    shift_rows,
)
from engine.cost.lowering.movement import make_reshapes, tidy_early, work_early
from engine.cost.lowering.order import in_order
from engine.cost.lowering.placement import input_target, output_target, place
from engine.cost.lowering.pooling import (
    rewrite_average_pools,
    rewrite_global_pools,
    rewrite_max_pools,
)
from engine.cost.lowering.reduce import (
    expand_divisors,
    make_channel_sums,
    make_divisions,
    make_einsums,
    make_means,
    make_slices,
    spell_lengths,
)
from engine.cost.lowering.rules import Context, Rule, sort_nodes
from engine.cost.lowering.slices import (
    drop_doubles,
    find_rolls,
    join_rolls,
    join_slices,
    merge_channel_pads,
    merge_cuts,
    merge_pads,
)
from engine.cost.lowering.spelled import spell_elementwise, spell_focus, spell_running_sums
from engine.cost.lowering.tiles import halve_filters, rewrite_groups, tile_filters, write_groups
from engine.cost.memory.layout import settled
from engine.facts.npu import NpuDtype, NpuProfile

RULES: tuple[Rule, ...] = (
    drop_idle,
    drop_dead,
    drop_repeated,
    make_mish,
    make_written_hardswish,
    # groups of nodes that are one layer, before anything else changes their parts
    restore_softmax,
    make_layer_norms,
    make_gelu,
    make_quick_gelu,
    make_gated,
    make_length_norms,
    spell_elementwise,
    spell_running_sums,
    spell_focus,
    divide_by_multiplying,
    shift_rows,
    make_swish,
    make_hardswish,
    work_early,
    merge_cuts,
    widen_rows,
    merge_pads,
    drop_doubles,
    join_slices,
    find_rolls,
    join_rolls,
    find_shuffles,
    find_picks,
    merge_constants,
    scale_and_shift,
    merge_scales_forward,
    rewrite_groups,
    merge_branches,
    merge_channel_pads,
    spread_transposed,
    # matrices, attention and norms, behind the folding and before activations are fused
    lift_positions,
    turn_shared,
    drop_zero_sums,
    make_reshapes,
    hold_ends,
    make_recurrent,
    split_heads,
    split_packed,
    make_windows,
    join_masks,
    make_attention,
    flatten_scores,
    tidy_early,
    join_early,
    push_norms,
    make_other_attention,
    make_slices,
    spell_lengths,
    make_channel_sums,
    make_means,
    make_divisions,
    make_einsums,
    spell_layer_norms,
    spell_instance_norms,
    widen,
    expand_divisors,
    settle_layouts,
    make_convolutions,
    settle_convolutions,
    release_ends,
    turn_whole_maps,
    drop_dead,
    sort_nodes,
    channels_to_convolutions,
    merge_picks,
    rewrite_average_pools,
    rewrite_max_pools,
    rewrite_global_pools,
    merge_constants,
    split_kernels,
    join_slices,
    shorten_strides,
    pick_rows,
    pad_widely,
    tile_filters,
    merge_flattening,
    write_groups,
    add_biases,
    halve_filters,
    fuse_activations,
    fuse_sums,
    convert_types,
    scale_images,
    place,
)
"""In the order in which they run."""


def lower(
    graph: LoweringGraph,
    npu: NpuProfile,
    dtype: NpuDtype,
    *,
    layer_dtypes: Mapping[str, NpuDtype] | None = None,
    op_target: Mapping[str, str] | None = None,
    int4: bool = False,
) -> Lowered:
    """The compiler's layers of a graph; the graph is left as it is.

    Args:
        graph: of :func:`engine.cost.lowering.read.read_graph`.
        npu: the family of chips.
        dtype: that the model is compiled in.
        layer_dtypes: source node -> dtype of the layers that have another one.
        op_target: source node -> ``cpu`` or ``npu``, as the option of that name.
        int4: whether weights have 4 bits (``w4a16``, whose features are float16).
    """
    context = Context(npu, dtype, dict(layer_dtypes or {}), dict(op_target or {}), int4)
    work = graph.copy()
    for rule in RULES:
        rule(work, context)
    return in_order(settled(_frozen(work, context)), npu)


def _frozen(work: LoweringGraph, context: Context) -> Lowered:
    layers = [_end("InputOperator", name, work, context) for name in work.inputs]
    layers += [
        frozen_layer(
            node,
            work,
            context.layer_dtypes,
            context.dtype,
            int4=context.int4 and has_int4(node),
        )
        for node in work.nodes
    ]
    layers += [_end("OutputOperator", name, work, context) for name in work.outputs]
    ends = (*work.inputs, *work.outputs)

    def dtype_of(name: str, tensor: Tensor) -> str:
        float32 = name in ends and tensor.dtype == "float32"
        return context.dtype if float32 else tensor.dtype

    return frozen_graph(work, context.family, context.dtype, layers, dtype_of)


def frozen_graph(
    work: LoweringGraph,
    family: str,
    dtype: NpuDtype,
    layers: Sequence[LoweredLayer],
    dtype_of: Callable[[str, Tensor], str],
) -> Lowered:
    """A graph of either generation as it is laid out, with the tensors that its layers name.

    Args:
        work: after all rewrites.
        family, dtype, layers: as of :class:`engine.cost.lowered.Lowered`.
        dtype_of: name and tensor -> what it has on the chip. Without Q/DQ an output may be a
            tensor of another name.
    """
    used = {name for layer in layers for name in (*layer.inputs, *layer.consts, *layer.outputs)}
    used.update(work.inputs, work.outputs)
    kept = {name: work.tensors[name] for name in used if name in work.tensors}
    return Lowered(
        family=family,
        dtype=dtype,
        layers=tuple(layers),
        tensors={
            name: LoweredTensor(name, tensor.shape, dtype_of(name, tensor), tensor.const)
            for name, tensor in kept.items()
        },
        inputs=tuple(work.inputs),
        outputs=tuple(work.outputs),
    )


def frozen_layer(
    node: Node,
    work: LoweringGraph,
    layer_dtypes: Mapping[str, NpuDtype],
    dtype: NpuDtype,
    *,
    int4: bool = False,
) -> LoweredLayer:
    """A node as a layer, of either generation.

    Args:
        node: of ``work``, after all rewrites.
        work: the graph.
        layer_dtypes: source node -> dtype of the layers that have another one than the model's.
        dtype: of the model.
        int4: whether its weight has 4 bits.
    """
    own = (layer_dtypes[name] for name in node.sources if name in layer_dtypes)
    return LoweredLayer(
        op=node.op + "".join(node.fused),
        kind=node.kind,
        name=node.name,
        inputs=tuple(work.features(node)),
        consts=tuple(tensor for tensor in node.inputs if tensor and work.is_const(tensor)),
        outputs=tuple(tensor for tensor in node.outputs if tensor),
        dtype=node.dtype or next(own, dtype),
        target="CPU" if node.target == "CPU" else "none" if node.target == "none" else "NPU",
        reason=node.reason,
        remedy=node.remedy,
        window=window_of(node, work),
        depthwise=bool(node.attributes.get("depthwise")),
        sources=node.sources,
        late_bias=bool(node.attributes.get("late_bias")),
        int4=int4,
        perm=node.ints("perm", ()) if node.kind == "Transpose" else (),
        mode=str(node.attributes.get("mode", "")) if node.kind == "Resize" else "",
    )


def window_of(node: Node, work: LoweringGraph) -> Window | None:
    """The window of a convolution or pool; one of a single dimension has a height of 1."""
    convolution = node.kind in ("Conv", "ConvTranspose")
    if not convolution and not node.kind.endswith("Pool"):
        return None
    if node.kind.startswith("Global"):
        return Window(kernel=_two(work.shape(node.inputs[0])[2:]))
    weight = work.shape(node.inputs[1]) if convolution and len(node.inputs) > 1 else ()
    pads = node.ints("pads")
    if len(pads) == 2:
        pads = (0, pads[0], 0, pads[1])
    elif len(pads) != 4:
        # what SAME comes to is not needed: only whether there is a pad
        same = str(node.attributes.get("auto_pad", "")).startswith("SAME")
        pads = (0, 0, 1, 1) if same else (0, 0, 0, 0)
    return Window(
        kernel=_two(weight[2:] or node.ints("kernel_shape")),
        strides=_two(node.ints("strides")),
        pads=(pads[0], pads[1], pads[2], pads[3]),
        dilations=_two(node.ints("dilations")),
        group=max(1, node.int("group", 1)),
    )


def _two(values: tuple[int, ...]) -> tuple[int, int]:
    """Height and width, of which a single one is the width."""
    height, width = (1, 1, *values)[-2:] if len(values) < 2 else values[:2]
    return max(1, height), max(1, width)


def _end(op: str, name: str, work: LoweringGraph, context: Context) -> LoweredLayer:
    """The layer that brings an input or output of the graph into another layout."""
    if op == "InputOperator":
        dtype, target = work.tensors[name].dtype, input_target(name, work, context)
        return LoweredLayer(
            op, op, name, (), (), (name,), dtype if dtype == "float16" else context.dtype, target
        )
    producer, target = work.producer(name), output_target(name, work, context)
    dtype = producer.dtype if producer is not None else ""
    return LoweredLayer(op, op, name, (name,), (), (), dtype or context.dtype, target)
