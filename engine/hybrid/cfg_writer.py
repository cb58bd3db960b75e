"""The ``.quantization.cfg`` of hybrid quantization, written as each generation documents it.

Generation 1: [RKNN-T1 1.3.2, 3.3.2]. Generation 2: [RKNN-T2 1.1.0, 3.3.2], with the spellings of
toolkit 2.3.2 (``qtype: asym``, ``dtype: int8``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from engine.graph.ir import QuantParams, QuantTable
from engine.hybrid.layers import Layers
from engine.quantize.planning.node_properties import WeightPlan

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


FIELDS: Mapping[int, Mapping[str, str]] = MappingProxyType(
    {
        1: {
            "dtype": "scheme",
            "method": "method",
            "max_value": "maximum",
            "min_value": "minimum",
            "zero_point": "zero_point",
            "scale": "scale",
            "qtype": "dtype",
        },
        2: {
            "qtype": "scheme",
            "qmethod": "method",
            "dtype": "dtype",
            "min": "minimum",
            "max": "maximum",
            "scale": "scale",
            "zero_point": "zero_point",
            "ori_min": "observed_minimum",
            "ori_max": "observed_maximum",
        },
    }
)
"""Generation -> its keys of an entry in the order of the file, and the fields that they fill."""


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
    for entry in config.entries.values():
        lines.append(f"    {_key(entry.key)}:")
        lines += _body(entry, config.generation)
    return "\n".join(lines) + "\n"


def _layers(config: HybridConfig, comment: str) -> Iterable[str]:
    remark = f"    # {' '.join(comment.split())}" if comment else ""
    head = f"{LAYERS_KEY[config.generation]}:"
    if not config.layers:
        return [f"{head} {{}}{remark}"]
    return [f"{head}{remark}", *(f"    {_key(k)}: {_key(v)}" for k, v in config.layers.items())]


_SCHEMES_1 = MappingProxyType(
    {"asym": "asymmetric_affine", "dfp": "dynamic_fixed_point", "sym": "symmetric_affine"}
)


def _body(entry: Entry, generation: int) -> list[str]:
    if generation == 1 and not entry.dtype:
        return ["        dtype: None"]
    lines = []
    for name, own in FIELDS[generation].items():
        value = getattr(entry, own)
        if isinstance(value, tuple):
            numbers = [f"        -   {_number(v, whole=own == 'zero_point')}" for v in value]
            lines += [f"        {name}:{'' if numbers else ' []'}", *numbers]
        else:
            text = _SCHEMES_1[value] if own == "scheme" and generation == 1 else value
            lines.append(f"        {name}: {text}")
    return lines


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


# From a build to the ``.quantization.cfg`` of either generation, and back to its tensors.

# generation 1's names of integer types
_TYPES_1 = {"uint8": "u8", "int8": "i8", "int16": "i16", "int32": "i32"}


def build_config(
    layers: Layers,
    table: QuantTable,
    generation: int,
    lifted: Mapping[str, str] | None = None,
) -> HybridConfig:
    """The configuration of a build.

    Generation 2 lists activations in the order of the graph; generation 1 lists weight, bias and
    outputs of every layer, whose id is its place in the graph (ours).

    Args:
        layers: of the float graph.
        table: of the build.
        generation: whose file.
        lifted: layer -> dtype; generation 2 names them by their tensors.
    """
    chosen = [(layers.named(name), dtype) for name, dtype in (lifted or {}).items()]
    entries: dict[str, Entry] = {}
    if generation == 1:
        for key, tensor in _keys_1(layers):
            entries[key] = _entry(key, table.get(tensor), generation)
        return HybridConfig(1, {layer.id: dtype for layer, dtype in chosen}, entries)
    for tensor in _activations(layers):
        entries[tensor] = _entry(tensor, table.get(tensor), generation)
    return HybridConfig(2, {layer.tensor: dtype for layer, dtype in chosen}, entries)


def tensors_by_key(layers: Layers, generation: int) -> dict[str, str]:
    """Key of the file -> the tensor that it stands for."""
    if generation == 2:
        return {tensor: tensor for tensor in _activations(layers)}
    return dict(_keys_1(layers))


def _activations(layers: Layers) -> Iterable[str]:
    inputs = [spec.name for spec in layers.graph.inputs if spec.dtype == "float32"]
    return dict.fromkeys([*inputs, *(layer.tensor for layer in layers.all)])


def _keys_1(layers: Layers) -> Iterable[tuple[str, str]]:
    for spec in layers.graph.inputs:
        if spec.dtype == "float32":
            yield f"@{spec.name}_0:out0", spec.name
    for number, layer in enumerate(layers.all, 1):
        stem = f"@{layer.node}_{number}"
        weight: WeightPlan | None = layers.plan.weights.get(layer.node)
        if weight is not None:
            yield f"{stem}:weight", weight.weight
            yield f"{stem}:bias", weight.bias or f"{layer.node}/bias"
        for port, tensor in enumerate(layer.outputs):
            yield f"{stem}:out{port}", tensor


def _entry(key: str, params: QuantParams | None, generation: int) -> Entry:
    if params is None:
        # what is not quantized is float16 [RKNN-T2 1.1.0, 3.3.2]; generation 1 writes None
        return Entry(key, "" if generation == 1 else "float16")
    low, high = params.observed_minimum, params.observed_maximum
    entry = Entry(
        key,
        "" if generation == 1 else "float16",
        minimum=params.minimum or (),
        maximum=params.maximum or (),
        observed_minimum=() if low is None else (low,),
        observed_maximum=() if high is None else (high,),
    )
    if params.is_float:
        return entry
    dtype = _TYPES_1.get(params.dtype, params.dtype) if generation == 1 else params.dtype
    return replace(
        entry,
        dtype=dtype,
        scheme="dfp" if params.narrow and generation == 1 else "asym",
        method="layer" if params.axis is None else "channel",
        scale=params.scale,
        zero_point=tuple(map(float, params.zero_point)),
    )
