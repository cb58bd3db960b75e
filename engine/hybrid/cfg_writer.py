"""The ``.quantization.cfg`` of hybrid quantization, written as each generation documents it.

Generation 1: [RKNN-T1 1.3.2, 3.3.2]. Generation 2: [RKNN-T2 1.1.0, 3.3.2], with the spellings of
toolkit 2.3.2 (``qtype: asym``, ``dtype: int8``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

LAYERS_KEY = MappingProxyType({1: "customized_quantize_layers", 2: "custom_quantize_layers"})
"""Generation -> the key of the layers whose dtype differs from the model's."""

PARAMETERS_KEY = "quantize_parameters"

_COMMENT = (
    "# add layer name and corresponding quantized_dtype to customized_quantize_layers, "
    "e.g conv2_3: float32"
)
# What YAML reads as text without quotes, also with the slashes and colons of tensor names.
_PLAIN = re.compile(r"[A-Za-z_/](?:[\w./+\-]|:(?=[^\s])|[ ](?=[\w./(+\-]))*", re.ASCII)
_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})


@dataclass(frozen=True)
class Entry:
    """The parameters of one tensor in the file.

    Attributes:
        key: the tensor (generation 2), or ``@{layer}_{id}:weight|bias|out{port}``.
        dtype: ``int8``, ``u8``, ``i16``, ...; ``float16`` or ``float32`` where it is not quantized;
            empty for generation 1's ``dtype: None``.
        scheme: how integers stand for numbers: ``asym``, ``sym`` or ``dfp``.
        method: ``layer`` or ``channel``.
        minimum, maximum: the range used, one number per scale.
        scale, zero_point: one per tensor or per channel.
        observed_minimum, observed_maximum: what calibration saw (generation 2: ori_min, ori_max).
        line: in the file that was read; 0 in one that is written.
    """

    key: str
    dtype: str
    scheme: str = "asym"
    method: str = "layer"
    minimum: tuple[float, ...] = ()
    maximum: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()
    zero_point: tuple[float, ...] = ()
    observed_minimum: tuple[float, ...] = ()
    observed_maximum: tuple[float, ...] = ()
    line: int = 0


@dataclass(frozen=True)
class HybridConfig:
    """A ``.quantization.cfg``.

    Attributes:
        generation: whose layout.
        layers: tensor or layer -> dtype, as written.
        entries: key -> parameters, in the order of the file.
        lines: key of ``layers`` -> line in the file that was read.
    """

    generation: int
    layers: Mapping[str, str] = field(default_factory=dict)
    entries: Mapping[str, Entry] = field(default_factory=dict)
    lines: Mapping[str, int] = field(default_factory=dict)


def render_config(config: HybridConfig, comment: str = "") -> str:
    """The text of the file.

    Args:
        config: what to write; the order of its entries is kept.
        comment: put at the end of the line of the lifted layers, as the vendor's proposal does.
    """
    lines = ["%YAML 1.2", "---", _COMMENT] if config.generation == 1 else []
    lines += _layers(config, comment)
    lines.append(f"{PARAMETERS_KEY}:" + ("" if config.entries else " {}"))
    body = _body_1 if config.generation == 1 else _body_2
    for entry in config.entries.values():
        lines.append(f"    {_key(entry.key)}:")
        lines += body(entry)
    return "\n".join(lines) + "\n"


def _layers(config: HybridConfig, comment: str) -> Iterable[str]:
    remark = f"    # {' '.join(comment.split())}" if comment else ""
    head = f"{LAYERS_KEY[config.generation]}:"
    if not config.layers:
        return [f"{head} {{}}{remark}"]
    return [f"{head}{remark}", *(f"    {_key(k)}: {_key(v)}" for k, v in config.layers.items())]


def _body_2(entry: Entry) -> list[str]:
    lines = [
        f"        qtype: {entry.scheme}",
        f"        qmethod: {entry.method}",
        f"        dtype: {entry.dtype}",
    ]
    for name, values in (
        ("min", entry.minimum),
        ("max", entry.maximum),
        ("scale", entry.scale),
        ("zero_point", entry.zero_point),
        ("ori_min", entry.observed_minimum),
        ("ori_max", entry.observed_maximum),
    ):
        lines += _list(name, values, whole=name == "zero_point")
    return lines


_SCHEMES_1 = MappingProxyType(
    {"asym": "asymmetric_affine", "dfp": "dynamic_fixed_point", "sym": "symmetric_affine"}
)


def _body_1(entry: Entry) -> list[str]:
    if not entry.dtype:
        return ["        dtype: None"]
    lines = [f"        dtype: {_SCHEMES_1[entry.scheme]}", f"        method: {entry.method}"]
    lines += _list("max_value", entry.maximum)
    lines += _list("min_value", entry.minimum)
    lines += _list("zero_point", entry.zero_point, whole=True)
    lines += _list("scale", entry.scale)
    return [*lines, f"        qtype: {entry.dtype}"]


def _list(name: str, values: tuple[float, ...], *, whole: bool = False) -> list[str]:
    if not values:
        return [f"        {name}: []"]
    return [f"        {name}:", *(f"        -   {_number(v, whole=whole)}" for v in values)]


def _number(value: float, *, whole: bool) -> str:
    """As YAML 1.1 and 1.2 both read it: an exponent needs a point before it."""
    if whole:
        return str(int(value))
    text = repr(float(value))
    mantissa, mark, exponent = text.partition("e")
    if mark and "." not in mantissa:
        text = f"{mantissa}.0e{exponent}"
    return text


def _key(text: str) -> str:
    """A name as YAML text, without quotes where it can be."""
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    if text.isprintable():
        return "'" + text.replace("'", "''") + "'"
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(character: str) -> str:
    code = ord(character)
    if character in '"\\':
        return f"\\{character}"
    if character.isprintable():
        return character
    return f"\\U{code:08x}" if code > 0xFFFF else f"\\u{code:04x}"
