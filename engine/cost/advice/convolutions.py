"""Advice about convolutions: activations, channels, kernels, depthwise ones, pools behind them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod

from engine.cost.advice.changes import (
    RATES,
    TIPS1,
    Found,
    Model,
    as_depthwise,
    dropped,
    with_kernels,
    with_output_channels,
    with_relu,
    writes_output,
)
from engine.cost.lowered import LoweredLayer
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
    if inner:
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
    if stride1:
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
    if oblong:
        yield Found(
            "Use square kernels",
            f"{len(oblong)} convolutions have kernels that are not square, which cost more; how"
            " much is not published.",
            oblong,
            f"{TIPS1}, 1",
        )


def _depthwise(model: Model) -> Iterator[Found]:
    if model.generation != 1:
        return
    layers = model.where(lambda layer: layer.depthwise)
    if layers:
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
    if model.generation != 1:
        return
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
    if layers:
        yield Found(
            "Let max pools be fused into the convolution before them",
            f"{len(layers)} pools with stride 2 stand behind a convolution and are not: they need"
            " 2x2 with even sizes, or 3x3 with odd sizes and a width below 64, and no pads.",
            layers,
            f"{TIPS1}, 2",
            dropped(model.lowered, layers),
        )


CONVOLUTIONS: tuple[Callable[[Model], Iterator[Found]], ...] = (
    _activations,
    _channels,
    _kernels,
    _depthwise,
    _averages,
    _pools,
)
"""Detectors, each over a whole model."""


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
