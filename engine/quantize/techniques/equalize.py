"""Equalization by activation ranges: every channel of a tensor fills the tensor's one scale.

Nagel et al. (2019), "Data-free quantization through weight equalization and bias correction",
equalize the ranges of weights. With a weight scale per output channel that gains nothing; what
remains per tensor is the activation, whose channels differ in range. So the factors here come from
the ranges of activations, as in SmoothQuant (Xiao et al. 2023, eq. 4):
``f = range^a / weight^(1 - a)``, with a chosen per tensor by the sum of both noises.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from engine.graph.ir import Graph
from engine.graph.ir.spec import array_of
from engine.quantize.planning.node_properties import weight_axes
from engine.quantize.techniques.channels import (
    Channels,
    Consumer,
    input_axis_scaled,
    join_groups,
    output_axis_scaled,
)

# A channel whose noise counts less than this share of the average channel's gets a wider range: it
# costs little (at most 10 log10(1 + share) dB), and what fires rarely is clipped less.
_LEAST_NOISE = 0.4**2

# Share of the noise of plainly rounded weights that error feedback and bias correction leave.
_LEFT_OF_WEIGHT_NOISE = 0.1

_EXPONENTS = (1.0, 0.8, 0.6, 0.4)
_SPLITS = np.linspace(0.05, 0.95, 19)


@dataclass(frozen=True)
class ChannelRange:
    """The range of every channel of one tensor, (channels,), with low <= 0 <= high."""

    low: np.ndarray
    high: np.ndarray


@dataclass(frozen=True)
class ConsumerNoise:
    """How noise in its input channels reaches the outputs of a consumer."""

    groups: np.ndarray
    """(inputs,): group of every input channel."""
    largest: np.ndarray
    """(outputs, inputs): largest absolute weight; (1, inputs) for one scale per input channel."""
    gain: np.ndarray
    """(inputs,): noise power at the outputs, relative to their power, per unit of noise."""
    output: np.ndarray
    """(outputs,): 1 / power of the outputs."""
    spread: np.ndarray
    """(inputs,): variance of the inputs."""
    per_channel: bool


_Local = tuple[ConsumerNoise, np.ndarray]
"""A reader and the position of each of its channels among the labels of a component."""


def consumer_noise(
    graph: Graph,
    channels: Channels,
    power: Mapping[str, np.ndarray],
    variance: Mapping[str, np.ndarray],
) -> list[ConsumerNoise]:
    """The noise figures of all consumers.

    Args:
        graph: the float graph.
        channels: of this graph.
        power: tensor -> (channels,) mean square; also of outputs of weighted nodes, where known.
        variance: tensor -> (channels,) variance.
    """
    return [_reader(graph, channels, consumer, power, variance) for consumer in channels.consumers]


def noise_gains(channels: Channels, readers: list[ConsumerNoise]) -> np.ndarray:
    """(groups,): noise power at the consumers' outputs per unit of noise power in a group."""
    gains = np.zeros(channels.count)
    for reader in readers:
        np.add.at(gains, reader.groups, reader.gain)
    return gains


def equalization_factors(
    channels: Channels,
    readers: list[ConsumerNoise],
    ranges: Mapping[str, ChannelRange],
    shares: Mapping[str, float],
) -> np.ndarray:
    """The factor of every group of channels, float64, 1 where it is frozen.

    Args:
        channels: of the float graph.
        readers: of its channels.
        ranges: of every quantized tensor that has a scale of its own.
        shares: tensor -> share of its noise power that reaches the next layer, where not 1.
    """
    factors = np.ones(channels.count)
    gains = noise_gains(channels, readers)
    for tensors in _components(channels, ranges):
        labels = np.unique(np.concatenate([channels.groups[name] for name in tensors]))
        free = ~channels.frozen[labels]
        if not free.any():
            continue
        gain = gains[labels] if gains[labels].any() else np.ones(labels.size)
        own = [
            (reader, np.searchsorted(labels, reader.groups))
            for reader in readers
            if np.isin(reader.groups, labels).all()
        ]
        group_ranges = np.stack(
            [_needed(ranges[name], channels.groups[name], labels, gain) for name in tensors]
        )
        share = np.array([shares.get(name, 1.0) for name in tensors])
        factors[labels[free]] = _best(group_ranges, share, gain, own, free)[free]
    return factors


def _components(channels: Channels, ranges: Mapping[str, ChannelRange]) -> Iterator[list[str]]:
    """Sets of tensors that share groups, each tensor with a range once."""
    with_channels = {name: groups for name, groups in channels.groups.items() if groups.size}
    links = [
        (groups, np.broadcast_to(groups[0], groups.shape)) for groups in with_channels.values()
    ]
    labels = join_groups(channels.count, links)
    members: dict[int, list[str]] = {}
    for name, groups in with_channels.items():
        if name in ranges:
            members.setdefault(int(labels[groups[0]]), []).append(name)
    yield from members.values()


def _needed(
    span: ChannelRange, groups: np.ndarray, labels: np.ndarray, gain: np.ndarray
) -> np.ndarray:
    """(labels,): the factors at which the tensor's range has width 1; 0 where it has no channel."""
    local = np.searchsorted(labels, groups)
    low, high = np.zeros(labels.size), np.zeros(labels.size)
    np.maximum.at(low, local, -span.low)
    np.maximum.at(high, local, span.high)
    if not low.any() or not high.any():
        width = np.maximum(high, low)
    else:
        splits = _SPLITS[:, None]
        widths = np.maximum(high / splits, low / (1 - splits))
        width = widths[(gain * widths**2).sum(axis=1).argmin()]
    present = np.unique(local)
    noise = (gain * width**2)[present].mean()
    least = np.sqrt(_LEAST_NOISE * noise / np.maximum(gain[present], 1e-6 * gain.max()))
    width[present] = np.maximum(width[present], np.minimum(least, width.max()))
    return width


def _best(
    ranges: np.ndarray,
    share: np.ndarray,
    gain: np.ndarray,
    readers: list[_Local],
    free: np.ndarray,
) -> np.ndarray:
    """(labels,): the candidate with the least noise.

    Args:
        wanted: (tensors, labels).
        share: (tensors,): of the noise power of each that reaches the readers.
        gain: (labels,).
        readers: of the component.
        free: (labels,): which may have a factor.
    """
    largest = ranges.max(axis=1, keepdims=True)
    relative = ranges / np.where(largest > 0, largest, 1.0)
    present = np.maximum((ranges > 0).sum(axis=0), 1)
    bases = [*relative]
    if len(relative) > 1:
        bases += [relative.max(axis=0), np.sqrt((relative**2).sum(axis=0) / present)]
    weight = np.zeros(ranges.shape[1])
    for reader, local in readers:
        if not reader.per_channel:
            rows = reader.largest / np.maximum(reader.largest.max(axis=1, keepdims=True), 1e-30)
            np.maximum.at(weight, local, rows.max(axis=0))
    unit = np.ones(ranges.shape[1])
    best, least = unit, _noise(unit, ranges, share, gain, readers)
    for base in bases:
        for exponent in _EXPONENTS if weight.any() else (1.0,):
            factors = _floored(base) ** exponent
            if exponent < 1.0:
                factors = factors / _floored(weight) ** (1.0 - exponent)
            factors = _anchored(factors, ranges, free)
            noise = _noise(factors, ranges, share, gain, readers)
            if noise < least:
                best, least = factors, noise
    return best


def _floored(values: np.ndarray) -> np.ndarray:
    """Positive values; a channel that is nearly 0 gets no factor that float32 could not bear."""
    largest = float(values.max(initial=0.0))
    if largest <= 0:
        return np.ones_like(values)
    floored: np.ndarray = np.maximum(values, 1e-4 * largest)
    return floored


def _anchored(factors: np.ndarray, ranges: np.ndarray, free: np.ndarray) -> np.ndarray:
    """The factors times a constant that keeps the tensors' largest range, with 1 where frozen."""
    with np.errstate(divide="ignore", invalid="ignore"):
        now = (ranges / factors).max(axis=1)
        frozen = ranges[:, ~free].max(axis=1, initial=0.0)
    goal = np.where(frozen > 0, frozen, ranges.max(axis=1))
    known = (now > 0) & (goal > 0)
    if known.any():
        factors = factors * np.exp(np.log(now[known] / goal[known]).mean())
    return np.where(free, factors, 1.0)


def _noise(
    factors: np.ndarray,
    ranges: np.ndarray,
    share: np.ndarray,
    gain: np.ndarray,
    readers: list[_Local],
) -> float:
    """Noise power at the consumers' outputs, relative to their power, of activations and weights.

    A step s makes noise s^2 / 12 (Widrow, Kollar 2008).
    """
    steps = (ranges / factors).max(axis=1) / 255.0
    total = float((share * steps**2).sum() / 12 * (gain * factors**2).sum())
    for reader, local in readers:
        own = factors[local]
        if reader.per_channel:
            continue
        scales = (reader.largest * own).max(axis=1) / 127.0
        noise = float((reader.output * scales**2).sum() / 12 * (reader.spread / own**2).sum())
        total += _LEFT_OF_WEIGHT_NOISE * noise
    return total


def _reader(
    graph: Graph,
    channels: Channels,
    consumer: Consumer,
    power: Mapping[str, np.ndarray],
    variance: Mapping[str, np.ndarray],
) -> ConsumerNoise:
    node = graph.node(consumer.node)
    groups = channels.groups[consumer.tensor]
    weight = graph.constant(consumer.weights.weight)
    if weight is None:
        raise ValueError(f"{consumer.weights.weight} is not a constant")
    kernel, largest = _kernel_power(node, weight)
    output = 1.0 / np.maximum(_output_power(channels, consumer.node, graph, power, kernel), 1e-30)
    spread = variance.get(consumer.tensor)
    if spread is None or spread.size != groups.size:
        spread = np.ones(groups.size)
    if consumer.per_channel:
        shared = kernel.reshape(groups.size, -1).sum(axis=1)
        gain = (kernel.reshape(groups.size, -1) * output.reshape(groups.size, -1)).sum(axis=1)
        largest = shared[None]
    elif kernel.shape[1] != groups.size:  # groups of several channels
        count = groups.size // kernel.shape[1]
        parts = zip(np.split(kernel, count), np.split(output, count), strict=True)
        gain = np.concatenate([own_out @ own for own, own_out in parts])
        wide = np.zeros((kernel.shape[0], groups.size))
        rows, width = kernel.shape[0] // count, kernel.shape[1]
        for i in range(count):
            block = slice(i * rows, (i + 1) * rows)
            wide[block, i * width : (i + 1) * width] = largest[block]
        largest = wide
    else:
        gain = output @ kernel
    return ConsumerNoise(
        groups=groups,
        largest=largest,
        gain=gain / output.size,
        output=output / output.size,
        spread=spread,
        per_channel=consumer.per_channel,
    )


def _kernel_power(node: ir.Node, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(outputs, inputs of a group): sums of squares and largest values over kernel positions."""
    matrix = np.swapaxes(weight, 0, 1) if weight_axes(node)[0] else weight
    flat = matrix.reshape(*matrix.shape[:2], -1).astype(np.float64)
    return (flat**2).sum(axis=2), np.abs(flat).max(axis=2)


def _output_power(
    channels: Channels,
    node: str,
    graph: Graph,
    power: Mapping[str, np.ndarray],
    kernel: np.ndarray,
) -> np.ndarray:
    """(outputs,): mean square of a layer's results, as its tensor or the Relu behind has it."""
    name = channels.producers.get(node, "")
    channel_power = power.get(name)
    if channel_power is None and name:
        for reader in graph.consumers(name):
            channel_power = power.get(reader.outputs[0].name or "")
            if channel_power is not None:
                break
    if channel_power is None or channel_power.size != kernel.shape[0]:
        return np.ones(kernel.shape[0])
    floored: np.ndarray = np.maximum(channel_power, 1e-6 * channel_power.max())
    return floored


def scaled_graph(graph: Graph, channels: Channels, factors: np.ndarray) -> Graph:
    """A copy with every channel divided by its factor; the same outputs within float rounding."""
    copy = graph.copy()
    into = {consumer.node: channels.groups[consumer.tensor] for consumer in channels.consumers}
    for node in copy.nodes:
        name = node.name or ""
        produced = channels.producers.get(name)
        if produced is None:
            continue
        weight = array_of(node.inputs[1])
        if weight is None:
            raise ValueError(f"the weight of {name} is not a constant")
        scaled = weight
        if name in into:
            scaled = input_axis_scaled(node, scaled, factors[into[name]])
        out = 1.0 / factors[channels.groups[produced]]
        scaled = output_axis_scaled(node, scaled, out)
        _replace(node.inputs[1], scaled)
        bias = node.inputs[2] if len(node.inputs) > 2 else None
        if bias is not None:
            array = array_of(bias)
            if array is None:
                raise ValueError(f"the bias of {name} is not a constant")
            flat = array.astype(np.float64).reshape(-1) * out
            _replace(bias, flat.reshape(array.shape).astype(np.float32))
    return Graph(copy.model)


def _replace(value: ir.Value | None, array: np.ndarray) -> None:
    """Give a constant another array of the same shape."""
    if value is None:
        raise ValueError("there is no constant")
    producer = value.producer()
    tensor = ir.Tensor(np.ascontiguousarray(array), name=value.name)
    value.const_value = tensor
    if producer is not None:  # a Constant node holds the array itself
        producer.attributes["value"] = ir.AttrTensor("value", tensor)
