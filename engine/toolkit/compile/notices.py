"""Warnings and errors of the vendor's toolkit in words that a user understands.

Each row below was seen with toolkit 2.3.2, and what it means was found by what the compiled file
has. What no row knows is told as it was printed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable
from dataclasses import replace

from engine.base.findings import Finding
from engine.base.text import sanitize, some_of

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_LINE = re.compile(
    r"^(?P<level>[WE]) (?:RKNN: \[[0-9:.]+\] |(?:(?P<method>\w{1,40}): )?)(?P<text>.*)$"
)
_MOST_LINES = 2_000_000
_MOST_KINDS = 40
_NAMES = 6


_HARMLESS = (
    r"Unkown op target: 0",
    r"LayoutMatchManager: recursion_depth=\d+",
    # of what the compiler adds itself: shapes of a Reshape and the like
    r"Warning: Tensor \S*(?:_rs|-rs|_i\d+|ints\S*|tempMC\S*|exSecondary)\S* need parame",
    # empty inputs of a Resize, and the shape of what has no dimensions
    r"Warning: Tensor (?:scales|roi|empty_placeholder_\d+) need parameter qtype",
    r"Model initializer tensor data is empty",
    # parts of a Split that nothing reads
    r"Can not found output tensor: \S+_invalid\d+$",
    r"TRANSPOSE: mismatch input dims size and perm size",
    r"Unknow dtype to get bits",
    r"rknn-toolkit\d? version: ",
    r"=+ WARN\(\d+\) =+",
    r"(?:load_\w+: )?The config\.(?:mean|std)_values is None",
    # the first lines of a Python error, whose last line is told by who asked
    r"Traceback \(most recent call last\)",
    # told by our own finding, where it makes a difference
    r"The QAT model is loaded, but the config\.optimization_level",
    # of dynamic_input: a pass that is left out, and that there is a graph for each set of shapes
    r"The 'dynamic_input' function is enabled, disable",
    r"subgraphs in rknn greater than 1",
    r"The quant_img_RGB2BGR of input",
)
"""Patterns of lines that are not told."""
_KNOWN = {
    (
        r"The default (?P<end>input|output) dtype of '(?P<name>.*?)' is changed from "
        r"'(?P<old>\w+)' to '(?P<new>\w+)'"
    ): Finding(
        "compiled-port-dtype",
        "info",
        "compiler",
        "The compiled model has integers or float16 at its ends: {names}.",
        "The compiler keeps conversions out of the model, as they cost time.",
        "A program that asks the runtime for float gets float; zero-copy programs read the "
        "type from the file.",
    ),
    r"The output shape of '(?P<name>.*?)' is changed from (?P<shapes>.*) in rknn": Finding(
        "compiled-output-shape",
        "warning",
        "compiler",
        "Outputs have another shape than in the source model: {names}.",
        "remove_reshape is set.",
        "Let the program that runs it take that shape, or set remove_reshape to no.",
    ),
    r"Warning: Tensor (?P<name>\S+) need parameter qtype, type is set to float16": Finding(
        "compiled-in-float16",
        "info",
        "compiler",
        "Tensors without quantization parameters are float16: {names}.",
        "Layers such as Softmax are not quantized.",
    ),
    r"REGTASK: The bit width of field value exceeds the limit": Finding(
        "registers-overflow",
        "warning",
        "compiler",
        "A layer is larger than the NPU's registers can say. On a board it may compute something "
        "else than in the simulator.",
        "A side or a step of it is above 8,191, for instance: a Conv1d over a long signal.",
        "Compile a smaller input size, or reshape the layer so that no side is that long. Compare "
        "on a board: rknntui compare.",
    ),
    r"The quantize_weight function is about to be deprecated": Finding(
        "quantize-weight-old",
        "info",
        "compiler",
        "The toolkit calls quantize_weight deprecated: quantized_dtype w8a16 is its new name.",
        remedy="Set quantized_dtype to w8a16, with a dataset, where a later toolkit refuses it.",
    ),
    r"Please make sure the model can be dynamic when enable": Finding(
        "dynamic-input-unchecked",
        "info",
        "compiler",
        "The toolkit does not check whether the model can take the shapes of dynamic_input.",
        "The second opinion ran its simulator with each of them (--samples 0: it did not).",
    ),
}
"""Pattern of a line behind its time -> what it means; its group ``name`` is one of ``{names}``."""
_KINDS = (
    *((re.compile(pattern), None) for pattern in _HARMLESS),
    *((re.compile(pattern), finding) for pattern, finding in _KNOWN.items()),
)


def notice_findings(
    log: str | Iterable[str],
    told: Callable[[str], str] = str,
    integers: Container[str] = frozenset(),
) -> tuple[Finding, ...]:
    """Findings of what a toolkit printed with the levels W and E.

    Args:
        log: the text, or its lines; with or without colours.
        told: gives a text of the toolkit the user's names.
        integers: tensors that hold whole numbers, such as shapes: the toolkit calls them float16.

    Returns:
        One finding for each kind of notice, which names what it is about.
    """
    named: dict[str, tuple[Finding, list[str]]] = {}
    unknown: dict[tuple[str, str], list[str]] = {}
    for at, line in enumerate(log.splitlines() if isinstance(log, str) else log):
        if at >= _MOST_LINES:
            break
        match = _LINE.match(_COLOUR.sub("", line[:4096]).rstrip())
        if match is None or not match["text"].strip(" =-"):
            continue
        text = match["text"].strip()
        for pattern, kind in _KINDS:
            about = pattern.match(text)
            if about is not None:
                if kind and told(about.groupdict().get("name") or "") not in integers:
                    named.setdefault(kind.code, (kind, []))[1].append(_about(about, told))
                break
        else:
            # of one kind are those that differ by numbers alone
            key = (match["level"], re.sub(r"\d+", "N", text))
            if key in unknown or len(unknown) < _MOST_KINDS:
                unknown.setdefault(key, []).append(told(text))
    findings = [_naming(kind, about) for kind, about in named.values()]
    findings += [_as_printed(level, texts) for (level, _), texts in unknown.items()]
    return tuple(findings)


def _about(match: re.Match[str], restore: Callable[[str], str]) -> str:
    groups = match.groupdict()
    name = sanitize(restore(groups.get("name") or ""), 80)
    if groups.get("new"):
        return f"{name} ({groups['new']})"
    if groups.get("shapes"):
        return f"{name} ({sanitize(groups['shapes'], 80)})"
    return name


def _as_printed(level: str, texts: list[str]) -> Finding:
    times = f" ({len(texts)} times)" if len(texts) > 1 else ""
    return Finding(
        "compiler-error" if level == "E" else "compiler-notice",
        "warning",
        "compiler",
        f"The compiler said: {sanitize(texts[0], 300)}{times}",
        "It is not known here what this means for the model.",
        "Compare on a board: rknntui compare. The simulator's outputs stand above.",
    )


def _naming(kind: Finding, about: list[str]) -> Finding:
    names = list(dict.fromkeys(name for name in about if name))
    return replace(kind, what=kind.what.replace("{names}", some_of(names, _NAMES)))
