"""Quantization parameters of tensors, and the table of them that a build carries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import onnx_ir as ir

from engine.base.errors import QuantizationError
from engine.base.plain import JsonObject, JsonValue
from engine.base.text import did_you_mean, sanitize
from engine.graph.ir.spec import array_of, input_at
from engine.wire.codec import typed

# dtype -> (lowest, highest) value of the integers
QUANT_DTYPES: Mapping[str, tuple[int, int]] = MappingProxyType(
    {
        "int4": (-8, 7),
        "uint4": (0, 15),
        "int8": (-128, 127),
        "uint8": (0, 255),
        "int16": (-32768, 32767),
        "uint16": (0, 65535),
        "int32": (-(1 << 31), (1 << 31) - 1),
    }
)

_HALF = "float16"
# Whole numbers below it are exact in float32.
_EXACT = 1 << 24

_HALF_LIMITS = (-65504, 65504)

# numpy has no integers of 4 bits: they are held in the next wider type
_HELD_IN = MappingProxyType({"int4": "int8", "uint4": "uint8"})


@dataclass(frozen=True)
class QuantParams:
    """How one tensor is quantized: ``real = (q - zero_point) * scale`` (ONNX DequantizeLinear).

    A tensor in half precision has the dtype ``float16``, scale 1 and zero point 0.

    Attributes:
        dtype: ``int4``, ``uint4``, ``int8``, ``uint8``, ``int16``, ``uint16``, ``int32`` or
            ``float16``.
        scale: positive and finite, one per channel along ``axis``, or one.
        zero_point: as many as scales, within the range of ``dtype``.
        axis: the channel axis, or None for one scale per tensor.
        minimum, maximum: the range used, one per scale, in units of the tensor; None where the
            scale does not come from a range (biases).
        observed_minimum, observed_maximum: the smallest and largest value seen in calibration.
        narrow: whether the lowest integer of a signed dtype never occurs, as in dynamic fixed
            point: -127..127, -32767..32767.

    Raises:
        QuantizationError: on construction with values that break these rules.
    """

    dtype: str
    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int | None = None
    minimum: tuple[float, ...] | None = None
    maximum: tuple[float, ...] | None = None
    observed_minimum: float | None = None
    observed_maximum: float | None = None
    narrow: bool = False

    def __post_init__(self) -> None:
        fault = self._fault()
        if fault:
            raise QuantizationError(
                f"Quantization parameters are inconsistent: {fault}.",
                remedy="Correct the range or scale where it was given, or export the file again.",
            )

    def _fault(self) -> str:
        limits = _HALF_LIMITS if self.is_float else QUANT_DTYPES.get(self.dtype)
        if limits is None:
            return f"{self.dtype!r} is not an integer type of a quantized tensor"
        if not self.scale or len(self.scale) != len(self.zero_point):
            return f"{len(self.scale)} scales and {len(self.zero_point)} zero points"
        if self.axis is None and len(self.scale) != 1:
            return f"{len(self.scale)} scales without a channel axis"
        scale = np.asarray(self.scale, dtype=np.float64)
        if not (np.isfinite(scale).all() and (scale > 0).all()):
            return "a scale is not a positive number"
        if self.is_float and (set(self.scale) != {1.0} or set(self.zero_point) != {0}):
            return "half precision has neither scale nor zero point"
        if min(self.zero_point) < limits[0] or max(self.zero_point) > limits[1]:
            return f"a zero point is outside {limits[0]}..{limits[1]}"
        for bound in (self.minimum, self.maximum):
            if bound is not None and len(bound) != len(self.scale):
                return f"{len(bound)} range ends for {len(self.scale)} scales"
        return ""

    @property
    def limits(self) -> tuple[int, int]:
        """Lowest and highest number that is stored."""
        low, high = _HALF_LIMITS if self.is_float else QUANT_DTYPES[self.dtype]
        return (-high if self.narrow else low), high

    @property
    def representable_range(self) -> tuple[float, float] | None:
        """The values that the integers hold, half a step beyond their ends, so that rounding alone
        brings none there; None in half precision and for a scale per channel.
        """
        if self.is_float or len(self.scale) != 1:
            return None
        (scale,), (zero,), (low, high) = self.scale, self.zero_point, self.limits
        return (low - zero - 0.5) * scale, (high - zero + 0.5) * scale

    @property
    def is_float(self) -> bool:
        """Whether the tensor is in half precision."""
        return self.dtype == _HALF

    def quantize(self, array: np.ndarray) -> np.ndarray:
        """Real values to what is stored.

        To integers: divide, round half to even, add the zero point, saturate; those of 4 bits come
        as int8 or uint8. To half precision: round half to even; beyond 65504 lies infinity.
        """
        if self.is_float:
            with np.errstate(over="ignore"):
                return array.astype(np.float16)
        scale, zero = self._shaped(array.ndim)
        low, high = self.limits
        # ONNX Runtime divides in float32; the same here keeps ties the same
        steps = np.rint(array.astype(np.float32, copy=False) / scale)
        if zero.any() or high >= _EXACT:
            steps = steps.astype(np.float64) + zero
        integers: np.ndarray = np.clip(steps, low, high).astype(
            _HELD_IN.get(self.dtype, self.dtype)
        )
        return integers

    def dequantize(self, array: np.ndarray) -> np.ndarray:
        """What is stored to float32."""
        if self.is_float:
            return array.astype(np.float32)
        scale, zero = self._shaped(array.ndim)
        steps = array.astype(np.int64) - zero if zero.any() else array
        real: np.ndarray = steps.astype(np.float32) * scale
        return real

    def _shaped(self, rank: int) -> tuple[np.ndarray, np.ndarray]:
        scale = np.asarray(self.scale, dtype=np.float32)
        zero = np.asarray(self.zero_point, dtype=np.int64)
        if self.axis is None:
            return scale.reshape(()), zero.reshape(())
        shape = [1] * rank
        shape[self.axis] = -1
        return scale.reshape(shape), zero.reshape(shape)

    def to_json(self) -> JsonObject:
        """Plain data; absent fields are left out."""
        data: dict[str, JsonValue] = {
            "dtype": self.dtype,
            "scale": list(self.scale),
            "zero_point": list(self.zero_point),
        }
        for name in ("axis", "observed_minimum", "observed_maximum"):
            if getattr(self, name) is not None:
                data[name] = getattr(self, name)
        if self.narrow:
            data["narrow"] = True
        for name in ("minimum", "maximum"):
            if getattr(self, name) is not None:
                data[name] = list(getattr(self, name))
        return data

    @classmethod
    def from_json(cls, data: JsonObject) -> QuantParams:
        """Rebuild :meth:`to_json`.

        Raises:
            QuantizationError: a field is missing, of the wrong type or inconsistent.
        """
        try:
            params = typed(cls, data)
            seen = (params.observed_minimum or 0.0, params.observed_maximum or 0.0)
            for number in (*params.scale, *(params.minimum or ()), *(params.maximum or ()), *seen):
                float(number)  # a whole number of JSON may be larger than any float
            return params
        except (TypeError, OverflowError) as error:
            raise QuantizationError(
                f"Quantization parameters are malformed: {sanitize(repr(error), 200)}.",
                cause="The quant table was damaged or written by another program.",
                remedy="Export the file again.",
            ) from error


class QuantTable(Mapping[str, QuantParams]):
    """Tensor name -> :class:`QuantParams`, frozen, in the order of the graph."""

    __slots__ = ("_entries",)

    def __init__(
        self,
        entries: Mapping[str, QuantParams] | Iterable[tuple[str, QuantParams]] = (),
    ) -> None:
        self._entries: Mapping[str, QuantParams] = MappingProxyType(dict(entries))

    def __getitem__(self, tensor: str) -> QuantParams:
        return self._entries[tensor]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __hash__(self) -> int:
        return hash(tuple(self._entries.items()))

    def __repr__(self) -> str:
        return f"QuantTable({len(self)} tensors)"

    def __reduce__(self) -> tuple[object, ...]:
        return (QuantTable, (dict(self._entries),))

    def params(self, tensor: str) -> QuantParams:
        """Like ``table[tensor]``, but raises :class:`QuantizationError` with the nearest names."""
        params = self._entries.get(tensor)
        if params is None:
            raise QuantizationError(
                f"Tensor {sanitize(tensor)!r} is not quantized in this build.",
                remedy=did_you_mean(tensor, self._entries),
            )
        return params

    def to_json(self) -> JsonObject:
        """Plain data in the table's order; floats survive JSON unchanged (they are doubles)."""
        return {name: params.to_json() for name, params in self._entries.items()}

    @classmethod
    def from_json(cls, data: Mapping[str, JsonObject]) -> QuantTable:
        """Rebuild :meth:`to_json`; raises :class:`QuantizationError` when malformed."""
        if not isinstance(data, Mapping):
            raise QuantizationError(
                "The quant table is malformed: it is not a mapping.",
                remedy="Export the file again.",
            )
        return cls((str(name), QuantParams.from_json(params)) for name, params in data.items())


def params_of(node: ir.Node) -> QuantParams | None:
    """What a Q or DQ node, or the Cast that gives half precision back in float32, says.

    None where its parameters are no constants, or have no such form (a scale per block).
    """
    source = node.inputs[0]
    if node.op_type == "Cast":
        half = source is not None and source.dtype == ir.DataType.FLOAT16
        return QuantParams(_HALF, (1.0,), (0,)) if half else None
    scale, zero = (array_of(input_at(node, index)) for index in (1, 2))
    if scale is None or scale.ndim > 1 or scale.dtype != np.float32:
        return None
    if zero is None:
        stored = None
        if source is not None and node.op_type == "DequantizeLinear":
            stored = source.dtype
        zero = np.zeros(scale.shape, np.uint8 if stored is None else stored.numpy())
    if str(zero.dtype) not in QUANT_DTYPES:
        return None
    return QuantParams(
        dtype=str(zero.dtype),
        scale=tuple(scale.reshape(-1).tolist()),
        zero_point=tuple(map(int, zero.reshape(-1))),
        axis=node.attributes.get_int("axis", 1) if scale.ndim else None,
    )
