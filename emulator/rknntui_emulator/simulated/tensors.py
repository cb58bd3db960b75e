"""Inputs and outputs of a container as a runtime library describes them, and their bytes.

Inputs of four dimensions are NHWC, as every runtime takes them. Outputs keep the model's own order,
NCHW; the smallest library gives those of the NPU, NHWC. A tensor that the graph has in integers is
of that type with its scale and zero point, one of half precision is that, others are floats.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from engine.base.errors import DeviceError, SimulationError
from engine.base.text import sanitize, shape_text
from engine.dataset import passed_through, prepare_array
from engine.graph.ir import QuantParams, params_of
from rknntui_emulator.runtime.answers import TensorFacts

if TYPE_CHECKING:
    import onnx_ir as ir

    from engine.container import Container
    from engine.dataset import InputPlan
    from engine.dataset.preprocess import Layout
    from engine.graph.ir import TensorSpec
    from engine.graph.layers import LayerMap

_MOST_TENSORS = 1000
_NAMES = {
    "float32": "FLOAT32", "float64": "FLOAT32", "float16": "FLOAT16", "int8": "INT8",
    "uint8": "UINT8", "int16": "INT16", "uint16": "UINT16", "int32": "INT32", "uint32": "UINT32",
    "int64": "INT64", "bool": "BOOL",
}  # fmt: skip
_STORED = frozenset({"int8", "uint8", "int16", "uint16", "float16"})
_DTYPES = {name: dtype for dtype, name in _NAMES.items() if dtype != "float64"}
_CHANNELS_LAST, _CHANNELS_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
_STEPS = 32
"""Operators between an output and what quantized it."""


@dataclass(frozen=True)
class GivenInput:
    """What a program has set an input to.

    Attributes:
        content: the values, little endian.
        dtype, layout: as the program says, such as ``UINT8`` and ``NHWC``.
        pass_through: whether the library must not convert it.
    """

    content: bytes
    dtype: str
    layout: str
    pass_through: bool


@dataclass(frozen=True)
class SimulatedInput:
    """An input of a container.

    Attributes:
        plan: its preprocessing.
        facts: as the library tells of it.
        params: where it is quantized.
    """

    plan: InputPlan
    facts: TensorFacts
    params: QuantParams | None

    def array(self, given: GivenInput) -> np.ndarray:
        """What the simulator is fed, as :meth:`RKNN.inference` of the simulator does it.

        Raises:
            DeviceError: type or size do not fit.
            DatasetError: the values do not.
        """
        dtype = np.dtype(_DTYPES.get(given.dtype, "O"))
        shape = self.facts.dims
        if given.layout == "NCHW" and self.facts.layout == "NHWC":
            shape = tuple(shape[axis] for axis in _CHANNELS_FIRST)
        if dtype.hasobject or len(given.content) != math.prod(shape) * dtype.itemsize:
            raise DeviceError(
                f"The bytes of input {sanitize(self.plan.name, 80)} are no {given.dtype[:20]} of "
                f"{shape_text(shape)}.",
                remedy="Give it in a shape and dtype that the board tells of the input.",
            )
        array = np.frombuffer(given.content, dtype.newbyteorder("<")).astype(dtype, copy=False)
        if not self.plan.shape:
            shape = ()
        array = array.reshape(shape)
        layout: Layout = "NCHW" if given.layout == "NCHW" else "NHWC"
        if given.pass_through:
            return passed_through(array, self.plan, layout, self.params)
        return prepare_array(array, self.plan, layout)


@dataclass(frozen=True)
class SimulatedOutput:
    """An output of a container.

    Attributes:
        name: of its tensor.
        facts: as the library tells of it.
        params: where it is quantized.
    """

    name: str
    facts: TensorFacts
    params: QuantParams | None

    def content(self, array: np.ndarray) -> bytes:
        """The bytes of a simulated output, in its type.

        Raises:
            SimulationError: it has values that its type cannot hold, or another shape.
        """
        values = array
        if self.params is not None:
            values = self.params.quantize(array)
            back = self.params.dequantize(values)
            if not np.array_equal(back, array, equal_nan=True):
                raise SimulationError(
                    f"Output {sanitize(self.name, 80)} is not what its quantization says.",
                    remedy="Build the model again; report it if that does not help.",
                )
        if self.facts.layout == "NHWC":
            values = values.transpose(_CHANNELS_LAST)
        if (values.shape or (1,)) != self.facts.dims:
            raise SimulationError(
                f"Output {sanitize(self.name, 80)} has the shape {shape_text(values.shape)}, "
                f"and the model says {shape_text(self.facts.dims)}.",
                remedy="Build the model with fixed shapes.",
            )
        dtype = np.dtype(_DTYPES[self.facts.dtype]).newbyteorder("<")
        return np.ascontiguousarray(values, dtype).tobytes()


def inputs_of(
    plans: Sequence[InputPlan], specs: Sequence[TensorSpec], layers: LayerMap
) -> tuple[SimulatedInput, ...]:
    """The inputs of a container.

    Raises:
        DeviceError: no library could describe one.
    """
    inputs = []
    for plan, spec in zip(plans, specs, strict=True):
        stored = layers.stored.get(spec.name)
        params = None if stored is None else stored.params
        dims, layout = _laid_out(spec.shape, "NHWC", turned=plan.layout != "NHWC")
        if spec.quant is not None:
            scale, zero = spec.quant
            params = QuantParams(spec.dtype, (scale,), (zero,))
        inputs.append(SimulatedInput(plan, _facts(spec, dims, layout, params), params))
    _check_count("inputs", inputs)
    return tuple(inputs)


def outputs_of(
    container: Container, layers: LayerMap, *, channels_last: bool
) -> tuple[SimulatedOutput, ...]:
    """The outputs of a container.

    Args:
        container: of ours.
        layers: of its graph.
        channels_last: whether those of four dimensions are NHWC.

    Raises:
        DeviceError: no library could describe one.
    """
    outputs = []
    for value, spec in zip(
        container.graph.model.graph.outputs, container.graph.outputs, strict=True
    ):
        params = _stored_params(value, container.table or {}, layers)
        layout = "NHWC" if channels_last else "NCHW"
        dims, layout = _laid_out(spec.shape, layout, turned=channels_last)
        facts = _facts(spec, dims, layout, params)
        outputs.append(SimulatedOutput(spec.name, facts, params))
    _check_count("outputs", outputs)
    return tuple(outputs)


def _laid_out(shape: tuple[int, ...], layout: str, *, turned: bool) -> tuple[tuple[int, ...], str]:
    """The dimensions that a library tells of a tensor of NCHW, and their layout."""
    if len(shape) != 4:
        return shape, "UNDEFINED"
    return tuple(shape[axis] for axis in _CHANNELS_LAST) if turned else shape, layout


def _check_count(what: str, tensors: Sequence[object]) -> None:
    if not 0 < len(tensors) <= _MOST_TENSORS:
        raise DeviceError(
            f"The model has {len(tensors)} {what}, which no runtime library takes.",
            remedy=f"Build it with 1 to {_MOST_TENSORS} of them.",
        )


def _facts(
    spec: TensorSpec,
    dims: tuple[int, ...],
    layout: str,
    params: QuantParams | None,
) -> TensorFacts:
    name = spec.name
    if not spec.static or 0 in spec.shape or spec.dtype not in _NAMES:
        raise DeviceError(
            f"{sanitize(name, 80)} is {spec.dtype} of {shape_text(spec.shape)}.",
            cause="A runtime library has inputs and outputs of fixed sizes alone.",
            remedy="Set input_size_list, or cut the part off with 'outputs'.",
        )
    dims = dims or (1,)
    if params is None or params.is_float:
        kind = spec.dtype if params is None else params.dtype
        return TensorFacts(name, dims, _NAMES[kind], layout, "NONE")
    dtype, scale = _NAMES[params.dtype], float(np.float32(params.scale[0]))
    length = -math.log2(scale)
    if params.narrow and length.is_integer() and -128 <= length <= 127:
        return TensorFacts(name, dims, dtype, layout, "DFP", int(length))
    zero = params.zero_point[0]
    return TensorFacts(name, dims, dtype, layout, "AFFINE", 0, zero, scale)


def _stored_params(
    value: ir.Value, table: Mapping[str, QuantParams], layers: LayerMap
) -> QuantParams | None:
    """The parameters of an output that the graph has in 8 or 16 bits."""
    name = value.name or ""
    stored = layers.stored.get(name)
    params = table.get(name) if stored is None else stored.params
    if params is None or params.dtype not in _STORED or len(params.scale) != 1:
        return None
    return params if _on_grid(value, params, layers, _STEPS) else None


def _on_grid(value: ir.Value, params: QuantParams, layers: LayerMap, steps: int) -> bool:
    """Whether a value was rounded with these parameters, and at most moved since."""
    node = value.producer()
    if node is None or not steps:
        return False
    if node.op_type in ("DequantizeLinear", "Cast"):
        grid = params_of(node)
        return grid is not None and (grid.dtype, grid.scale, grid.zero_point) == (
            params.dtype,
            tuple(float(np.float32(scale)) for scale in params.scale),
            params.zero_point,
        )
    layer = layers.by_node.get(node.name or "")
    if layer is None or layer.kind != "move":
        return False
    sources = node.inputs if node.op_type == "Concat" else node.inputs[:1]
    return all(
        source is not None and _on_grid(source, params, layers, steps - 1) for source in sources
    )
