"""Which published limits a layer breaks, with the number that breaks them.

The conditions of a transposition are products of the input's dimensions, with limits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import permutations

from engine.cost.lowered import Lowered, LoweredLayer
from engine.facts.limits import Limit, npu_limits, npu_operators

_PADS = ("pad_top", "pad_left", "pad_bottom", "pad_right")
_ALIASES = {"exMatMul": "MatMul", "Gemm": "Conv", "exLayerNorm": "exNorm"}
_FUSED = (
    *("LeakyRelu", "HardSigmoid", "HardSwish", "ExSwooshL", "ExSwooshR", "Softplus", "MaxPool"),
    *("ExSwish", "ExGelu", "ExMish", "Sigmoid", "PRelu", "Swish", "Relu", "Clip", "Tanh", "Gelu"),
    *("Mish", "Add", "Elu"),
)
"""What may stand behind an operator in a printed type, a longer name before its ending."""
_TERM = re.compile(r"^(?P<left>[a-z0-9*]+?)(?:%(?P<by>\d+)=0|<(?P<right>[a-z0-9*]+)|=(?P<is>\d+))$")


@dataclass(frozen=True, slots=True)
class Broken:
    """A limit that a layer breaks.

    Attributes:
        parameter: of :class:`engine.facts.limits.Limit`.
        words: the rule with the layer's number, a sentence.
        source: where it is published.
    """

    parameter: str
    words: str
    source: str


def broken_limits(layer: LoweredLayer, lowered: Lowered, chip: str) -> tuple[Broken, ...]:
    """Published limits of the NPU that a layer breaks; empty where none is known.

    Args:
        layer: one of ``lowered``.
        lowered: the graph that has its shapes.
        chip: a chip of generation 2 by name.
    """
    op = base_operator(layer)
    rules = npu_limits(chip).get(op, ())
    broken = [
        Broken(rule.parameter, words, _source(rule))
        for rule in rules
        if _applies(rule, layer) and (words := _breaks(rule, op, layer, lowered)) is not None
    ]
    if op == "Transpose":
        broken += _transposed(rules, layer, lowered)
    if "Conv" in op:
        broken += _first(layer, lowered, chip)
    return tuple(broken)


def base_operator(layer: LoweredLayer) -> str:
    """The operator of a layer as the tables have it, without what is fused into it."""
    op = _stripped(layer.op)
    if op == "Conv" and layer.depthwise:
        return "DepthwiseConv"
    return _ALIASES.get(op, op)


@cache
def _stripped(op: str) -> str:
    known = npu_operators()
    name = op
    while name not in known and name not in _ALIASES:
        tail = next((ending for ending in _FUSED if name.endswith(ending) and name != ending), None)
        if tail is None:
            return op
        name = name.removesuffix(tail)
    return name


def _applies(rule: Limit, layer: LoweredLayer) -> bool:
    return not rule.dtypes or rule.parameter == "dtype" or layer.dtype in rule.dtypes


def _breaks(rule: Limit, op: str, layer: LoweredLayer, lowered: Lowered) -> str | None:
    name = rule.parameter
    if name == "npu_support":
        return f"The NPU has no {op}."
    if name == "dtype":
        if layer.dtype in rule.dtypes or layer.dtype not in ("int8", "int16", "float16"):
            return None
        return f"{op} is there in {' and '.join(rule.dtypes)}, and this layer is in {layer.dtype}."
    if name == "kernel":
        one = layer.window is not None and layer.window.kernel == (1, 1)
        return f"{op} with a 1x1 kernel is not there." if one else None
    if name == "scale":
        return _scaled(rule, layer, lowered)
    for value, what in _values(name, layer, lowered):
        if rule.high is not None and value > rule.high:
            return f"{what} of {op} is {value}, and at most {rule.high:.0f} is possible."
        if rule.low is not None and value < rule.low:
            return f"{what} of {op} is {value}, and at least {rule.low:.0f} is needed."
        if rule.allowed and str(value) not in rule.allowed:
            return f"{what} of {op} is {value}, and only {', '.join(rule.allowed)} are possible."
    return None


def _values(name: str, layer: LoweredLayer, lowered: Lowered) -> Iterator[tuple[int, str]]:
    """The layer's numbers that a parameter is about, with their names."""
    window = layer.window
    shape = _input(layer, lowered)
    if name in ("channel", "height", "width") and len(shape) == 4:
        spread = name == "width" and window is not None and "Conv" in layer.op
        if not spread or (window and (window.kernel[0] - 1) * window.dilations[0] > 0):
            yield shape[("channel", "height", "width").index(name) + 1], f"The input's {name}"
    elif name == "k" and len(shape) >= 2:
        yield shape[1] if len(shape) == 4 else shape[-1], "The inner dimension"
    elif window is not None and name == "group" and not layer.depthwise:
        yield window.group, "The number of groups"
    elif window is not None and name in _PADS:
        yield window.pads[_PADS.index(name)], f"The pad ({name.removeprefix('pad_')})"
    elif window is not None:
        axis = 1 if name.endswith("_w") else 0
        side = "width" if axis else "height"
        named = {
            "kernel": (window.kernel, f"The kernel's {side}"),
            "stride": (window.strides, f"The stride along the {side}"),
            "dilation": (window.dilations, f"The dilation along the {side}"),
        }
        stem = name[:-2]
        if stem in named:
            values, what = named[stem]
            yield values[axis], what


def _scaled(rule: Limit, layer: LoweredLayer, lowered: Lowered) -> str | None:
    before = _input(layer, lowered)
    after = lowered.shape(layer.outputs[0]) if layer.outputs else ()
    if len(before) != 4 or len(after) != 4 or before[2:] == (1, 1):
        return None
    for old, new in zip(before[2:], after[2:], strict=True):
        factor = new / old
        if factor != 1.0 and (factor != int(factor) or not 2 <= factor <= (rule.high or 8)):
            return (
                f"Resize from {old} to {new} is by {factor:.4g}, and only whole factors from 2 to"
                f" {rule.high or 8:.0f} are possible."
            )
    return None


def _first(layer: LoweredLayer, lowered: Lowered, chip: str) -> Iterator[Broken]:
    """A convolution of an image, which is read as it is, has a limit of its own."""
    shape = _input(layer, lowered)
    if len(shape) != 4 or shape[1] not in (1, 3, 4) or layer.inputs[0] not in lowered.inputs:
        return
    for rule in npu_limits(chip).get("ModelInput", ()):
        most = rule.high
        if rule.parameter != "width" or layer.dtype not in rule.dtypes or most is None:
            continue
        if shape[3] > most:
            words = (
                f"The model's input is {shape[3]} wide, and a first layer of {shape[1]} channels"
                f" takes at most {most:.0f}."
            )
            yield Broken("width", words, _source(rule))


def _transposed(
    rules: tuple[Limit, ...], layer: LoweredLayer, lowered: Lowered
) -> Iterator[Broken]:
    """A transposition is broken where every permutation that fits its shapes is."""
    before = _input(layer, lowered)
    after = lowered.shape(layer.outputs[0]) if layer.outputs else ()
    of_chip = next((constants(r.note) for r in rules if r.parameter == "perm_consts"), {})
    broken: list[Broken] = []
    for perm in perms_between(before, after):
        name = f"perm=[{','.join(map(str, perm))}]"
        rows = [rule for rule in rules if rule.parameter == name and _applies(rule, layer)]
        said = [_permuted(rule, before, of_chip) for rule in rows]
        if not rows or any(sentence is None for sentence in said):
            return
        words = next(sentence for sentence in said if sentence is not None)
        broken.append(Broken(name, f"Transpose {name}: {words}.", _source(rows[0])))
    yield from broken[:1]


def _permuted(rule: Limit, shape: tuple[int, ...], of_chip: dict[str, int]) -> str | None:
    if "any" in rule.allowed:
        return None
    if "none" in rule.allowed:
        return "the NPU has no such permutation"
    return broken_condition(rule.note, shape, of_chip)


def _input(layer: LoweredLayer, lowered: Lowered) -> tuple[int, ...]:
    return lowered.shape(layer.inputs[0]) if layer.inputs else ()


def _source(rule: Limit) -> str:
    return f"operator list of the compiler 2.3.2, {rule.section}"


def perms_between(
    before: tuple[int, ...], after: tuple[int, ...]
) -> tuple[tuple[int, int, int, int], ...]:
    """Permutations of four dimensions that give the one shape from the other."""
    if len(before) != 4 or len(after) != 4:
        return ()
    return tuple(
        (a, b, c, d)
        for a, b, c, d in permutations(range(4))
        if (before[a], before[b], before[c], before[d]) == after
    )


def constants(note: str) -> dict[str, int]:
    """``p`` and ``q`` of a chip, from the row that states them."""
    return {name: int(value) for name, value in re.findall(r"\b([pq])=(\d+)", note)}


def broken_condition(text: str, shape: tuple[int, ...], of_chip: Mapping[str, int]) -> str | None:
    """The first condition that a shape does not fulfil, with its numbers; None where all hold.

    Args:
        text: ``c1*h1*w1<p, w1%16=0``, as in the table.
        shape: of the input: n, c, h, w.
        of_chip: what ``p`` and ``q`` are.
    """
    names = dict(zip(("n1", "c1", "h1", "w1"), shape, strict=True)) | dict(of_chip)
    for term in _terms(text):
        alternatives = [_broken(part, names) for part in term]
        if all(reason is not None for reason in alternatives):
            return next(reason for reason in alternatives if reason is not None)
    return None


@cache
def _terms(text: str) -> tuple[tuple[tuple[str, ...], ...], ...]:
    """Conditions that must all hold: each a choice of groups, whose terms must hold together."""
    plain = re.sub(r"\([a-z][^()=<>%]*\blacks\b[^()]*\)", "", text)  # a remark about the source
    either = re.search(r"\(([^()]*)\) or \(([^()]*)\)", plain)
    terms: list[tuple[tuple[str, ...], ...]] = []
    if either:
        terms.append(tuple(tuple(_split(part)) for part in either.groups()))
        plain = plain.replace(either.group(0), "")
    terms += [((part,),) for part in _split(plain)]
    return tuple(terms)


def _split(text: str) -> list[str]:
    return [piece for part in text.split(",") if (piece := part.strip().replace(" ", ""))]


def _broken(group: tuple[str, ...], names: Mapping[str, int]) -> str | None:
    for term in group:
        if term == "h1=w1=1" or term == "n1=h1=1":
            first, second = term.split("=")[:2]
            if names[first] != 1 or names[second] != 1:
                return f"{first} and {second} must be 1, and are {names[first]} and {names[second]}"
            continue
        match = _TERM.match("n1" + term[1:] if re.match(r"^n<", term) else term)
        if match is None:
            continue
        left = _product(match["left"], names)
        if match["by"] and left % int(match["by"]):
            return f"{_words(match['left'])} = {left} is no multiple of {match['by']}"
        if match["right"] and left >= (most := _product(match["right"], names)):
            return f"{_words(match['left'])} = {left} is not below {most}"
    return None


def _product(text: str, names: Mapping[str, int]) -> int:
    value = 1
    for factor in text.split("*"):
        value *= names[factor] if factor in names else int(factor)
    return value


def _words(text: str) -> str:
    spelled = {"n1": "N", "c1": "C", "h1": "H", "w1": "W"}
    return " x ".join(spelled.get(factor, factor) for factor in text.split("*"))
