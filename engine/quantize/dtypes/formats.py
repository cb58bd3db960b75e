"""The quantized dtypes of both generations: their number formats, as data.

Sources: the vendor's manuals for generation 1 (asymmetric u8, dynamic fixed point) and generation 2
(w8a8 and the others). What they leave open is decided here and said in ``docs/dtypes.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeVar

from engine.base.errors import QuantizationError
from engine.base.findings import Finding
from engine.base.text import did_you_mean, sanitize
from engine.facts import Chip, chip, chips

T = TypeVar("T")
Kind = Literal["affine", "symmetric", "dynamic_fixed_point", "float"]

HALF_LIMIT = 65504.0
"""The largest finite number of IEEE half precision."""


@dataclass(frozen=True)
class Format:
    """How the numbers of one tensor are stored.

    Attributes:
        kind: ``affine`` (scale and zero point), ``symmetric`` (zero point 0),
            ``dynamic_fixed_point`` (scale a power of two, zero point 0) or ``float``.
        bits: width.
        dtype: of the stored numbers, as :class:`engine.graph.ir.QuantParams` names it.
        low, high: smallest and largest number that is stored (integers; of ``float`` its limits).
    """

    kind: Kind
    bits: int
    dtype: str
    low: int
    high: int

    @property
    def is_float(self) -> bool:
        """Whether the numbers are floating point."""
        return self.kind == "float"


_U8 = Format("affine", 8, "uint8", 0, 255)
_I8 = Format("affine", 8, "int8", -128, 127)
_I8_SYMMETRIC = Format("symmetric", 8, "int8", -127, 127)
_I16 = Format("affine", 16, "int16", -32768, 32767)
_I4 = Format("affine", 4, "int4", -8, 7)
_DFP8 = Format("dynamic_fixed_point", 8, "int8", -127, 127)
_DFP16 = Format("dynamic_fixed_point", 16, "int16", -32767, 32767)
_F16 = Format("float", 16, "float16", -65504, 65504)


@dataclass(frozen=True)
class Scheme:
    """A quantized dtype: what a layer stores and computes with.

    Attributes:
        name: the vendor's name of the quantized dtype.
        generation: of the toolkit that has the name.
        weight, activation: formats.
        share: the largest share of values that differed between the simulator and the numpy
            reference, layer by layer on the same inputs, over all layers of the nets measured;
            ``tests/simulate`` holds it.
        difference: the largest difference that was measured there, in steps of the output's format.
    """

    name: str
    generation: int
    weight: Format
    activation: Format
    share: float
    difference: int = 1

    @property
    def integer(self) -> bool:
        """Whether ONNX Runtime has integer kernels for it, so that the simulator computes integer
        sums; otherwise float kernels run between tensors of this format.
        """
        return self.activation.bits == 8

    @property
    def bias(self) -> Literal["int32", "float32", "float16"]:
        """The dtype of biases; ``int32`` is at the scale of the accumulator.

        No manual says how wide they are beside tensors of 16 bits: they stay float32 here.
        """
        if self.activation.is_float:
            return "float16"
        return "int32" if self.integer else "float32"

    @property
    def per_channel(self) -> bool:
        """Whether weights may have a scale per output channel."""
        return self.generation == 2 and self.weight.kind != "dynamic_fixed_point"


SCHEMES: Mapping[str, Scheme] = MappingProxyType(
    {
        scheme.name: scheme
        for scheme in (
            Scheme("asymmetric_quantized-u8", 1, _U8, _U8, 1.1e-5),
            Scheme("dynamic_fixed_point-8", 1, _DFP8, _DFP8, 4.5e-4),
            Scheme("dynamic_fixed_point-16", 1, _DFP16, _DFP16, 5.8e-4),
            Scheme("w8a8", 2, _I8_SYMMETRIC, _I8, 2.6e-7),
            Scheme("w8a16", 2, _I8, _F16, 5.7e-4),
            Scheme("w4a16", 2, _I4, _F16, 5.7e-4),
            Scheme("w4a8", 2, _I4, _I8, 5.2e-7),
            Scheme("w16a16i", 2, _I16, _I16, 5.3e-4),
            Scheme("w16a16i_dfp", 2, _DFP16, _DFP16, 5.8e-4),
            Scheme("asymmetric_quantized-8", 2, _I8_SYMMETRIC, _I8, 2.6e-7),
            Scheme("asymmetric_quantized-16", 2, _I16, _I16, 5.3e-4),
            Scheme("float16", 2, _F16, _F16, 5.1e-4),
        )
    }
)
"""Every quantized dtype by its name, and float16."""

_RENAMED: Mapping[str, str] = MappingProxyType({"asymmetric_quantized-8": "w8a8"})
"""Names that a newer chip takes for another: the vendor renamed the dtype."""


@dataclass(frozen=True)
class LayerDtype:
    """A dtype that a single layer can be given (hybrid quantization).

    Attributes:
        name: as it stands in the vendor's ``.quantization.cfg``.
        generation: whose file has it.
        scheme: what the layer then computes with.
        listed: the chips' own name for it (:attr:`engine.facts.Chip.dtypes`); empty where no chip
            is documented to have it in a hybrid model.
    """

    name: str
    generation: int
    scheme: Scheme
    listed: str


LAYER_DTYPES: Mapping[str, LayerDtype] = MappingProxyType(
    {
        name: LayerDtype(name, generation, SCHEMES[scheme], listed)
        for name, generation, scheme, listed in (
            ("float16", 2, "float16", "float16"),
            ("int16", 2, "w16a16i", ""),
            ("int8", 2, "w8a8", "w8a8"),
            # generation 1 spells it float32 and computes in float16
            ("float32", 1, "float16", "float16"),
            ("asymmetric_affine-u8", 1, "asymmetric_quantized-u8", "asymmetric_quantized-u8"),
            ("dynamic_fixed_point-i8", 1, "dynamic_fixed_point-8", "dynamic_fixed_point-8"),
            ("dynamic_fixed_point-i16", 1, "dynamic_fixed_point-16", "dynamic_fixed_point-16"),
        )
    }
)
"""Every dtype of a single layer by its name in the vendor's file."""


def scheme_of(dtype: str) -> Scheme:
    """The scheme of a quantized dtype.

    Raises:
        QuantizationError: there is no such dtype.
    """
    return _named(
        SCHEMES,
        dtype,
        f"Quantization dtype {sanitize(dtype, 60)!r} is not available.",
        "There are",
        "w8a8",
    )


def layer_dtype(name: str) -> LayerDtype:
    """The dtype of a single layer by its name.

    Raises:
        QuantizationError: there is no such dtype.
    """
    what = f"A layer cannot have the dtype {sanitize(name, 60)!r}."
    return _named(LAYER_DTYPES, name, what, "A layer can have", "float16")


def _named(known: Mapping[str, T], name: str, what: str, there_are: str, usual: str) -> T:
    value = known.get(name)
    if value is None:
        raise QuantizationError(
            what,
            cause=f"{there_are} {', '.join(known)}.",
            remedy=did_you_mean(name, known) or f"Choose {usual}.",
        )
    return value


def resolve_dtype(dtype: str, target: str | None = None) -> str:
    """The name of a dtype on a chip: ``asymmetric_quantized-8`` is ``w8a8`` on newer chips."""
    capabilities = _target(target)
    renamed = _RENAMED.get(dtype)
    if capabilities is None or renamed is None or dtype in capabilities.dtypes:
        return dtype
    return renamed


def check_dtype(dtype: str, target: str | None = None) -> tuple[Finding, ...]:
    """Whether a model may have a quantized dtype.

    Args:
        dtype: of the whole model.
        target: the chip; with None everything simulates.

    Returns:
        A finding where no chip has the dtype, nothing otherwise.

    Raises:
        QuantizationError: there is no such dtype or chip, or the chip does not have the dtype.
    """
    scheme_of(dtype)
    having = _having(lambda one: dtype in one.dtypes)
    capabilities = _target(target)
    if capabilities is None:
        return () if having else (_nowhere("quantized_dtype", dtype),)
    if resolve_dtype(dtype, target) not in capabilities.dtypes:
        raise _refused(dtype, capabilities, having, capabilities.dtypes)
    return ()


def check_layer_dtype(dtype: str, target: str | None = None) -> tuple[Finding, ...]:
    """Whether a layer may have a dtype of its own; like :func:`check_dtype`."""
    layer = layer_dtype(dtype)

    def has(one: Chip) -> bool:
        return one.generation == layer.generation and layer.listed in one.dtypes

    having = _having(has)
    capabilities = _target(target)
    if capabilities is None:
        return () if having else (_nowhere("layers", dtype),)
    if not has(capabilities):
        known = [
            other.name
            for other in LAYER_DTYPES.values()
            if other.generation == capabilities.generation and other.listed in capabilities.dtypes
        ]
        raise _refused(dtype, capabilities, having, known)
    return ()


def _target(name: str | None) -> Chip | None:
    if name is None:
        return None
    capabilities = chip(name)
    if capabilities is None:
        names = [one.name for one in chips()]
        raise QuantizationError(
            f"There is no chip {sanitize(name, 60)!r}.",
            remedy=did_you_mean(name, names) or f"Chips: {', '.join(names)}.",
        )
    return capabilities


def _having(has: Callable[[Chip], bool]) -> list[str]:
    return [one.name for one in chips() if has(one)]


def _refused(dtype: str, one: Chip, having: list[str], known: Iterable[str]) -> QuantizationError:
    others = f"Chips with it: {', '.join(having)}." if having else "No chip has it."
    cause = f"It has {', '.join(known)}. {others}"
    remedy = "Choose one of these, another chip, or no chip: without one everything simulates."
    if set(known) == {"float16"}:  # no choice of quantized_dtype: such a chip takes float builds
        cause = f"It computes in float16 only. {others}"
        remedy = "Set do_quantization to no (--no-quantize), or choose another chip."
    what = f"{one.name} does not have the dtype {dtype}."
    return QuantizationError(what, cause=cause, remedy=remedy)


def _nowhere(where: str, dtype: str) -> Finding:
    return Finding(
        code="no-chip-has-dtype",
        severity="warning",
        where=where,
        what=f"No chip has the dtype {dtype}: it only simulates.",
        cause="The vendor's manuals name it and list no chip that supports it.",
        remedy="For a chip choose a dtype that it has: docs/dtypes.md lists them.",
    )
