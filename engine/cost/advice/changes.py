"""What a detector of advice looks at and finds, and layers as they would be after a change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from engine.cost.lowered import Lowered, LoweredLayer, LoweredTensor, Window

_TABLES = (
    *("ExSwish", "HardSwish", "HardSigmoid", "Softplus", "Sigmoid", "ExGelu", "ExMish"),
    *("Swish", "Gelu", "Mish", "Tanh", "Elu"),
)


_Shapes = dict[str, tuple[int, ...]]
"""Tensors by name, with the shape that they would have."""

TimeOf = Callable[[Lowered], Sequence[float]]
"""Milliseconds of each layer, in their order."""


def dropped(lowered: Lowered, layers: Iterable[int]) -> Lowered:
    """Without some layers: none of them is left."""
    return replace(lowered, layers=())


def on_npu(lowered: Lowered, layers: Iterable[int]) -> Lowered:
    """Layers of the CPU as if the NPU had them."""
    own = (replace(lowered.layers[at], target="NPU") for at in layers)
    return replace(lowered, layers=tuple(own))


def ended_before(
    lowered: Lowered, layers: Iterable[int], behind: Iterable[int]
) -> tuple[tuple[int, ...], Lowered]:
    """A model that ends where some layers begin; a program on the CPU does them and the rest.

    Args:
        lowered: all of it.
        layers: that the model ends before.
        behind: all that is computed of them.

    Returns:
        What changes, and what it would be.
    """
    first = tuple(layers)
    gone = tuple(sorted({*first, *behind}))
    parts = dict.fromkeys(name for at in first for name in lowered.layers[at].inputs)
    ends = tuple(
        LoweredLayer("OutputOperator", "OutputOperator", name, (name,), (), (), lowered.dtype)
        for name in parts
    )
    own = (lowered.layers[at] for at in gone)
    program = (replace(layer, target="CPU") for layer in own if layer.op != "OutputOperator")
    return gone, replace(lowered, layers=(*ends, *program))


def as_depthwise(lowered: Lowered, layers: Iterable[int]) -> Lowered:
    """Average pools as depthwise convolutions of equal weights."""
    program: list[LoweredLayer] = []
    tensors: dict[str, LoweredTensor] = {}
    for at in layers:
        layer = lowered.layers[at]
        if layer.window is None:
            continue
        name = f"{layer.name}/weights"
        channels = lowered.shape(layer.inputs[0])[1]
        tensors[name] = LoweredTensor(name, (1, channels, *layer.window.kernel), layer.dtype, True)
        window = replace(layer.window, group=channels)
        changed = replace(layer, op="Conv", kind="Conv", consts=(name,), depthwise=True)
        program.append(replace(changed, window=window))
    return _changed(lowered, program, tensors)


def with_whole_groups(lowered: Lowered, layers: Iterable[int], group: int) -> Lowered:
    """Joins of channels whose parts have whole groups of them."""

    def change(layer: LoweredLayer) -> tuple[LoweredLayer, _Shapes, int]:
        shapes: _Shapes = {}
        for name in layer.inputs:
            batch, channels, *size = lowered.shape(name)
            shapes[name] = (batch, -(-channels // group) * group, *size)
        count = sum(shapes[name][1] for name in layer.inputs)
        (batch, _, *size) = lowered.shape(layer.outputs[0])
        return layer, {**shapes, layer.outputs[0]: (batch, count, *size)}, 1

    return _reshaped(lowered, layers, change)


def with_relu(lowered: Lowered, layers: Iterable[int]) -> Lowered:
    """Layers whose activation is ReLU; an activation of its own goes into the layer before it."""
    program = []
    for at in layers:
        layer = lowered.layers[at]
        if layer.op.startswith(("Conv", "Gemm")):
            program.append(replace(layer, op=_relu(layer.op)))
    return replace(lowered, layers=tuple(program))


def _relu(op: str) -> str:
    for name in _TABLES:
        at = op.find(name, 4)
        if at >= 0:
            return f"{op[:at]}Relu{op[at + len(name) :]}"
    return op


def with_output_channels(
    lowered: Lowered, layers: Iterable[int], channels: Callable[[int], int]
) -> Lowered:
    """Convolutions with another number of output channels; what reads them stays."""

    def change(layer: LoweredLayer) -> tuple[LoweredLayer, _Shapes, int]:
        out = layer.outputs[0]
        batch, before, *size = lowered.shape(out)
        count = channels(before)
        shapes: _Shapes = {
            name: (count, *lowered.shape(name)[1:])
            for name in layer.consts
            if lowered.shape(name)[:1] == (before,)
        }
        return layer, {**shapes, out: (batch, count, *size)}, 1

    return _reshaped(lowered, layers, change)


def with_kernels(lowered: Lowered, layers: Iterable[int], most: int = 3) -> Lowered:
    """Convolutions with kernels of at most ``most``; with 3, as many in a row as see as much."""

    def change(layer: LoweredLayer) -> tuple[LoweredLayer, _Shapes, int]:
        window = layer.window or Window()
        kernel = (min(window.kernel[0], most), min(window.kernel[1], most))
        shapes: _Shapes = {
            name: (*lowered.shape(name)[:2], *kernel)
            for name in layer.consts
            if len(lowered.shape(name)) == 4
        }
        times = (max(window.kernel) - 1) // 2 if most == 3 else 1
        smaller = replace(window, kernel=kernel, dilations=(1, 1))
        return replace(layer, window=smaller), shapes, times

    windowed = [at for at in layers if lowered.layers[at].window is not None]
    return _reshaped(lowered, windowed, change)


def as_int8(lowered: Lowered, layers: Iterable[int]) -> Lowered:
    """Layers of float16 in 8 bits, with their features."""
    chosen = [lowered.layers[at] for at in layers]
    tensors = {
        name: replace(tensor, dtype="int8")
        for layer in chosen
        for name in (*layer.inputs, *layer.consts, *layer.outputs)
        if (tensor := lowered.tensors.get(name)) is not None and tensor.dtype == "float16"
    }
    changed = _changed(lowered, [replace(layer, dtype="int8") for layer in chosen], tensors)
    return replace(changed, dtype="int8")


def _changed(
    lowered: Lowered, layers: list[LoweredLayer], tensors: Mapping[str, LoweredTensor]
) -> Lowered:
    """Layers alone, over the tensors that they would have."""
    return replace(lowered, layers=tuple(layers), tensors={**lowered.tensors, **tensors})


def _reshaped(
    lowered: Lowered,
    layers: Iterable[int],
    change: Callable[[LoweredLayer], tuple[LoweredLayer, _Shapes, int]],
) -> Lowered:
    """Layers alone as ``change`` makes them: over tensors of other shapes, and how many times."""
    program: list[LoweredLayer] = []
    tensors: dict[str, LoweredTensor] = {}
    for at in layers:
        layer, shapes, times = change(lowered.layers[at])
        names = {name: f"{name}/changed{at}" for name in shapes}
        for name, other in names.items():
            tensors[other] = replace(lowered.tensors[name], name=other, shape=shapes[name])
        inputs, consts, outputs = (
            tuple(names.get(name, name) for name in own)
            for own in (layer.inputs, layer.consts, layer.outputs)
        )
        program += [replace(layer, inputs=inputs, consts=consts, outputs=outputs)] * times
    return _changed(lowered, program, tensors)


TIPS1 = "Trouble Shooting 1.4.0, 6.1"
OPERATORS = "operator list of the compiler 2.3.2"
JOINS = "layers of rknn-toolkit2 2.3.2, docs/estimates/derivation.md"
RATES = "published frame rates, docs/estimates/derivation.md"
"""Sources of the tips."""


@dataclass(frozen=True)
class Found:
    """What a detector found: the layers, and what they would be; None where that is not known."""

    title: str
    why: str
    layers: tuple[int, ...]
    source: str
    change: Lowered | None = None


@dataclass(frozen=True)
class Model:
    """What the detectors look at."""

    lowered: Lowered
    chip: str
    generation: int
    times: tuple[float, ...]
    time_of: TimeOf

    @property
    def total(self) -> float:
        """Milliseconds of the model."""
        return sum(self.times)

    def where(self, test: Callable[[LoweredLayer], bool]) -> tuple[int, ...]:
        """Indexes of the layers that a test holds for."""
        return tuple(at for at, layer in enumerate(self.lowered.layers) if test(layer))

    def on_npu(
        self, kind: str, test: Callable[[LoweredLayer], bool] = lambda layer: True
    ) -> tuple[int, ...]:
        """Those of a kind on the NPU alone."""
        return self.where(
            lambda candidate: (
                candidate.kind == kind and candidate.target == "NPU" and test(candidate)
            )
        )

    def ms(self, layers: Iterable[int]) -> float:
        """Milliseconds of some layers."""
        return sum(self.times[at] for at in layers)

    def shape(self, name: str) -> tuple[int, ...]:
        """Of a tensor; empty where it is not known."""
        tensor = self.lowered.tensors.get(name)
        return tensor.shape if tensor is not None else ()


def writes_output(model: Model, at: int) -> bool:
    """Whether a layer writes an output of the model, itself or by the compiler's own layer."""
    return any(name in model.lowered.outputs for name in model.lowered.layers[at].outputs)
