"""Detectors of advice, each over a whole model: convolutions, then operators, dtypes and sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod

from engine.cost.advice.changes import (
    JOINS,
    OPERATORS,
    RATES,
    TIPS1,
    Found,
    Model,
    as_depthwise,
    as_int8,
    dropped,
    ended_before,
    on_npu,
    with_kernels,
    with_output_channels,
    with_relu,
    with_whole_groups,
    writes_output,
)
from engine.cost.limits.remedies import MULTIPLIES
from engine.cost.lowered import ENDS, LoweredLayer
from engine.facts.npu import npu_profile

_TABLES = ("Swish", "Silu", "Gelu", "Mish", "Sigmoid", "Tanh", "Elu", "Softplus")


_CLEARLY = 0.5
"""Of their time that average pools may take as convolutions to be told: pools are known to 16 %."""


def _activations(model: Model) -> Iterator[Found]:
    layers = model.where(
        lambda layer: (
            layer.target in ("NPU", "unknown")
            and any(name in layer.op for name in _TABLES)
            and not layer.op.endswith("Softmax")
        )
    )
    inner = tuple(at for at in layers if not writes_output(model, at))
    yield Found(
        "Use ReLU in place of activations by table (SiLU, hard-swish, GELU, sigmoid)",
        f"{len(inner)} layers look their activation up for each value; ReLU and Clip are free"
        " behind a convolution. The model has to be trained again.",
        inner,
        f"{TIPS1}, 2" if model.generation == 1 else RATES,
        with_relu(model.lowered, inner),
    )


def _channels(model: Model) -> Iterator[Found]:
    npu = npu_profile(model.chip)
    dtype = model.lowered.dtype
    tile = npu.macs_out[dtype] if npu is not None else 0
    if tile == 0:
        return

    def unused(layer: LoweredLayer) -> float:
        """Share of the MAC array that output channels leave unused; 0 where one tile has them."""
        channels = prod(model.shape(layer.outputs[0])[1:2]) if layer.outputs else 0
        return 1.0 - channels / (-(-channels // tile) * tile) if channels > tile else 0.0

    layers = model.on_npu(
        "Conv", lambda candidate: not candidate.depthwise and unused(candidate) > 0.1
    )
    if layers:
        worst = max((model.lowered.layers[at] for at in layers), key=unused)
        channels = model.shape(worst.outputs[0])[1]
        yield Found(
            f"Make the output channels of convolutions multiples of {tile}",
            f"The NPU computes {tile} output channels at once: {len(layers)} convolutions leave"
            f" part of it unused, most {worst.name} with {channels} channels."
            " The gain is that of the next lower multiple.",
            layers,
            f"{TIPS1}, 4",
            with_output_channels(
                model.lowered, layers, lambda count: max(tile, count // tile * tile)
            ),
        )


def _kernels(model: Model) -> Iterator[Found]:
    large = model.where(lambda layer: _dense(layer, model) and min(_kernel(layer)) >= 5)
    stride1 = tuple(
        at
        for at in large
        if (window := model.lowered.layers[at].window) is not None and window.strides == (1, 1)
    )
    yield Found(
        "Use 3x3 kernels in a row in place of larger ones",
        f"{len(stride1)} convolutions have kernels of 5x5 or more; two 3x3 see as much as one"
        " 5x5 with 18 multiplications in place of 25, three as much as one 7x7.",
        stride1,
        f"{TIPS1}, 1",
        with_kernels(model.lowered, stride1),
    )
    if model.generation == 1:
        yield from _generation1_kernels(model)


def _generation1_kernels(model: Model) -> Iterator[Found]:
    long = model.where(_outside)
    if long:
        first = model.lowered.layers[long[0]]
        yield Found(
            "Use kernels of at most 11 x stride",
            f"{len(long)} convolutions have larger ones ({first.name}: "
            f"{'x'.join(map(str, _kernel(first)))}): they are computed outside the MAC array.",
            long,
            f"{TIPS1}, 1",
            with_kernels(model.lowered, long, most=11),
        )
    oblong = model.where(
        lambda layer: _dense(layer, model) and len(set(_kernel(layer))) > 1 and not _outside(layer)
    )
    yield Found(
        "Use square kernels",
        f"{len(oblong)} convolutions have kernels that are not square, which cost more; how"
        " much is not published.",
        oblong,
        f"{TIPS1}, 1",
    )


def _depthwise(model: Model) -> Iterator[Found]:
    layers = model.where(lambda layer: layer.depthwise)
    yield Found(
        "Use normal convolutions in place of depthwise ones",
        f"{len(layers)} depthwise convolutions cost by the channel and leave the MAC array"
        " nearly unused: a network of fewer, normal convolutions is faster at equal accuracy.",
        layers,
        f"{TIPS1}, 3",
    )


def _averages(model: Model) -> Iterator[Found]:
    layers = model.on_npu(
        "AveragePool",
        lambda layer: layer.window is not None and len(model.shape(layer.inputs[0])) == 4,
    )
    if not layers or model.generation != 2:
        return
    change = as_depthwise(model.lowered, layers)
    if sum(model.time_of(change)) < _CLEARLY * model.ms(layers):
        yield Found(
            "Use depthwise convolutions of equal weights in place of average pools",
            f"{len(layers)} average pools add the values of each window up one by one on this"
            " chip. A depthwise convolution whose weights are all 1 / (height x width) gives the"
            " same, without training.",
            layers,
            RATES,
            change,
        )


def _pools(model: Model) -> Iterator[Found]:
    writers = {name: layer for layer in model.lowered.layers for name in layer.outputs}
    layers = model.where(
        lambda layer: (
            layer.kind == "MaxPool"
            and layer.window is not None
            and layer.window.strides == (2, 2)
            and bool(layer.inputs)
            and (before := writers.get(layer.inputs[0])) is not None
            and before.kind == "Conv"
        )
    )
    yield Found(
        "Let max pools be fused into the convolution before them",
        f"{len(layers)} pools with stride 2 stand behind a convolution and are not: they need"
        " 2x2 with even sizes, or 3x3 with odd sizes and a width below 64, and no pads.",
        layers,
        f"{TIPS1}, 2",
        dropped(model.lowered, layers),
    )


def _kernel(layer: LoweredLayer) -> tuple[int, int]:
    return layer.window.kernel if layer.window is not None else (1, 1)


def _dense(layer: LoweredLayer, model: Model) -> bool:
    """A convolution of features; one of the image is another matter."""
    shape = model.shape(layer.inputs[0]) if layer.inputs else ()
    plain = layer.kind == "Conv" and not layer.depthwise and layer.target == "NPU"
    return plain and len(shape) == 4 and shape[1] > 4


def _outside(layer: LoweredLayer) -> bool:
    window = layer.window
    if window is None or layer.kind != "Conv":
        return False
    sides = zip(window.kernel, window.dilations, window.strides, strict=True)
    return any((size - 1) * gap + 1 > 11 * stride for size, gap, stride in sides)


# Advice about everything but convolutions: the CPU, resizes, outputs, dtypes, sizes.

_PROGRAMMED = ("Softmax", "LogSoftmax", "Pow", "Div")
_CLEARLY_LESS = 0.5
"""Of its time that a join of whole groups may take to be told."""
_OPEN_ENDS = ("Transpose", "Reshape", "Softmax", "exSoftmax13", "Sigmoid")


def _on_cpu(model: Model) -> Iterator[Found]:
    layers = model.where(lambda layer: layer.target == "CPU" and layer.op not in ENDS)
    by_type: dict[str, list[int]] = {}
    for at in layers:
        by_type.setdefault(model.lowered.layers[at].op, []).append(at)
    for op, places in by_type.items():
        remedy = next((model.lowered.layers[at].remedy for at in places), "")
        count = len(places)
        yield Found(
            f"Keep {op} off the CPU",
            f"{count} layers of type {op} run on the CPU, and the NPU waits. {remedy}".strip(),
            tuple(places),
            f"{OPERATORS}, 4",
            on_npu(model.lowered, places),
        )


def _joins(model: Model) -> Iterator[Found]:
    """Joins of channels that are no whole groups: the NPU puts them together by a matrix."""
    npu = npu_profile(model.chip)
    if npu is None:
        return
    group = npu.atom(model.lowered.dtype)

    def breaks(layer: LoweredLayer) -> bool:
        shapes = [model.shape(name) for name in (*layer.inputs, *layer.outputs)]
        maps = all(len(shape) == 4 for shape in shapes)
        return maps and any(shape[1] % group for shape in shapes[: len(layer.inputs)])

    joins = model.on_npu("Concat", breaks)
    even = model.time_of(with_whole_groups(model.lowered, joins, group)) if joins else ()
    slow = tuple(
        at for at, ms in zip(joins, even, strict=True) if ms < _CLEARLY_LESS * model.times[at]
    )
    if not slow:
        return
    worst = max(slow, key=lambda at: model.times[at])
    channels = model.shape(model.lowered.layers[worst].outputs[0])[1]
    why = (
        f"{len(slow)} Concat layers join channels that are no whole groups of {group}: the NPU"
        f" multiplies them by a square matrix, the largest of {channels:,} x {channels:,}, which is"
        " in the file, too."
    )
    behind = _behind(model, slow)
    if any(model.lowered.layers[at].kind in MULTIPLIES for at in behind):
        yield Found(
            f"Give each part of these Concat layers a multiple of {group} channels",
            why,
            slow,
            JOINS,
            with_whole_groups(model.lowered, slow, group),
        )
        return
    gone, change = ended_before(model.lowered, slow, behind)
    yield Found(
        "End the model before Concat layers of many rows",
        f"{why} Name their inputs as outputs (load_onnx, --outputs): the program joins them and"
        " computes what comes behind. That time on the CPU is taken off the gain.",
        gone,
        JOINS,
        change,
    )


def _behind(model: Model, layers: tuple[int, ...]) -> tuple[int, ...]:
    """All that is computed of some layers."""
    reached = {name for at in layers for name in model.lowered.layers[at].outputs}
    places = []
    for at, layer in enumerate(model.lowered.layers):
        if at not in layers and any(name in reached for name in layer.inputs):
            reached.update(layer.outputs)
            places.append(at)
    return tuple(places)


def _attention(model: Model) -> Iterator[Found]:
    layers = model.where(
        lambda layer: (layer.kind == "MatMul" and not layer.consts) or layer.kind in _PROGRAMMED
    )
    if any(model.lowered.layers[at].kind == "MatMul" for at in layers):
        yield Found(
            "Use convolutions in place of attention",
            f"{len(layers)} layers multiply two features, or divide, raise to a power or take a"
            " softmax by the value: that is done outside the MAC array.",
            layers,
            RATES,
        )


def _resizes(model: Model) -> Iterator[Found]:
    layers = model.where(lambda layer: layer.kind in ("Resize", "Upsample"))
    last = tuple(at for at in layers if writes_output(model, at))
    yield Found(
        "Enlarge the result on the CPU or GPU of the board, not in the model",
        f"{len(last)} resizes write the model's output: without them it gives a smaller output,"
        " and only what is shown need be enlarged.",
        last,
        RATES,
        dropped(model.lowered, last),
    )
    inner = tuple(at for at in layers if at not in last)
    yield Found(
        "Resize fewer channels",
        f"{len(inner)} resizes move every value: put them behind the convolution that reduces"
        " the channels.",
        inner,
        RATES,
    )


def _open_ends(model: Model) -> Iterator[Found]:
    layers = tuple(
        at
        for at, layer in enumerate(model.lowered.layers)
        if layer.kind in _OPEN_ENDS and writes_output(model, at)
    )
    ops = sorted({model.lowered.layers[at].kind for at in layers})
    yield Found(
        f"Leave {', '.join(ops)} at the outputs out of the model",
        f"{len(layers)} such layers are the last before an output: cut the model before them"
        " (outputs of load_onnx, remove_reshape) and compute only what is kept.",
        layers,
        "API Reference 2.3.0, remove_reshape",
        dropped(model.lowered, layers),
    )


def _half(model: Model) -> Iterator[Found]:
    facts = npu_profile(model.chip)
    has_int8 = facts is None or "int8" in facts.dtypes
    layers = model.where(lambda layer: layer.dtype == "float16" and layer.op not in ENDS)
    if not layers or not has_int8:
        return
    whole = model.lowered.dtype == "float16"
    yield Found(
        "Quantize the model to 8 bits" if whole else "Give fewer layers float16",
        f"{len(layers)} layers compute in float16, with a fraction of the multiplications in a"
        " cycle and twice the bytes. See the accuracy of each with the error analysis.",
        layers,
        "facts of the chip (rknntui chips)",
        as_int8(model.lowered, layers),
    )


def _small(model: Model) -> Iterator[Found]:
    usual = sorted(ms for ms in model.times if ms > 0)
    if len(usual) < 50:
        return
    floor = 2.0 * usual[len(usual) // 50]  # what starting a layer takes, nearly
    layers = tuple(at for at, ms in enumerate(model.times) if 0 < ms <= floor)
    yield Found(
        "Merge small layers",
        f"{len(layers)} layers take no more than twice the time of starting one: fewer, larger"
        " layers do the same work faster.",
        layers,
        RATES,
    )


def _input_sizes(model: Model) -> Iterator[Found]:
    for name in model.lowered.inputs:
        shape = model.shape(name)
        if len(shape) != 4 or shape[1] not in (1, 3, 4) or shape[3] % 16 == 0:
            continue
        readers = model.where(lambda layer, name=name: name in layer.inputs)  # type: ignore[misc]
        if readers and model.generation == 2:
            yield Found(
                "Make the input's width a multiple of 16",
                f"It is {shape[3]}: the input is copied to a wider buffer before each inference.",
                readers,
                f"{OPERATORS}, 5.1",
            )


DETECTORS: tuple[Callable[[Model], Iterator[Found]], ...] = (
    _activations,
    _channels,
    _kernels,
    _depthwise,
    _averages,
    _pools,
    _on_cpu,
    _joins,
    _attention,
    _resizes,
    _open_ends,
    _half,
    _small,
    _input_sizes,
)
"""Each over a whole model; what it finds in no layer is not told."""

GENERATION_1 = frozenset({_attention, _depthwise, _pools})
"""Those of chips of generation 1 alone."""
