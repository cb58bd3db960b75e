"""Inspects a TorchScript file without torch and without executing anything of it."""

from __future__ import annotations

from dataclasses import dataclass

from engine.base.errors import EngineError, UnsupportedOperatorError
from engine.base.findings import Finding
from engine.base.text import sanitize
from engine.frontends.pytorch.code import Argument, Call, Code, Unparsable
from engine.frontends.pytorch.pickles import (
    Archive,
    Made,
    Unreadable,
    all_tensors,
    read_values,
)
from engine.frontends.pytorch.screen import refusal_of, screen
from engine.frontends.source import SourceModel
from engine.frontends.summary import SourceLayer, SourceSummary, SourceTensor

_MAX_PICKLE = 64 << 20
_MAX_CODE = 6 << 20
_MAX_VERSION = 64
_READS = "1 to 10"


def inspect(source: SourceModel) -> SourceSummary:
    """The pre-flight of a TorchScript file.

    Raises:
        SourceModelError: it is damaged.
    """
    with Archive(source.model) as archive:
        model = _read(archive)
        digest = archive.digest()
        unsafe = _unsafe(archive)
    layers = _layers(model.calls)
    tensors = [tensor for _, tensor in all_tensors(model.root)]
    return SourceSummary(
        framework="pytorch",
        format=f"TorchScript ({'traced' if model.traced else 'scripted'}), "
        f"file format {model.version}",
        version=(("file format", model.version, _READS),),
        files=((source.model.name, digest),),
        inputs=_inputs(model),
        outputs=_outputs(model.result),
        layers=layers,
        findings=(*(_problems(layers) or unsafe), *([] if unsafe else model.findings)),
        parameters=sum(tensor.elements for tensor in tensors),
        weights_bytes=sum(tensor.bytes for tensor in tensors),
        notes=_notes(model),
    )


def _unsafe(archive: Archive) -> list[Finding]:
    """What :func:`screen` refuses, which also sees what ``forward`` does not call."""
    try:
        screen(archive.path.name, archive.records.items(), archive.read)
    except EngineError as error:
        refused = isinstance(error, UnsupportedOperatorError)
        code = "operator-refused" if refused else "torchscript-unclear"
        return [Finding.of_error(code, sanitize(archive.path.name), error)]
    return []


def traced_inputs(archive: Archive) -> list[tuple[list[int], str]]:
    """(shape, dtype) of each input that a traced model was traced with; empty where unknown."""
    if "traced_inputs.pkl" not in archive.records:
        return []
    try:
        value = read_values(archive.read("traced_inputs.pkl", _MAX_PICKLE))
    except Unreadable:
        return []
    known = value.get("forward") if isinstance(value, dict) else None
    return [(list(tensor.shape), tensor.dtype) for _, tensor in all_tensors(known)]


@dataclass
class _Found:
    version: str
    root: Made
    arguments: list[Argument]
    result: str
    calls: list[Call]
    traced: list[tuple[list[int], str]]
    findings: list[Finding]


def _read(archive: Archive) -> _Found:
    name = sanitize(archive.path.name)
    model = _Found(_version(archive), Made("?"), [], "", [], traced_inputs(archive), [])
    try:
        root = read_values(archive.read("data.pkl", _MAX_PICKLE))
        if not isinstance(root, Made):
            raise Unreadable("data.pkl describes no module")
        model.root = root
        code = _code(archive)
        model.arguments, model.result = code.forward(root)
        model.calls, cut = code.calls(root)
    except (Unreadable, Unparsable, RecursionError) as error:
        model.findings.append(
            Finding(
                code="torchscript-unclear",
                severity="warning",
                where=name,
                what=f"A part of the file could not be read without torch: {sanitize(str(error))}",
                cause="It is damaged, or of a version whose form is not known here.",
                remedy="Load it: torch may still read it.",
            )
        )
        return model
    if cut:
        model.findings.append(
            Finding(
                code="torchscript-long",
                severity="info",
                where=name,
                what=f"Only the first {len(model.calls)} operators are listed.",
            )
        )
    return model


def _version(archive: Archive) -> str:
    for record in ("version", ".data/version"):
        if record in archive.records:
            text = archive.read(record, _MAX_VERSION).decode("ascii", "replace").strip()
            return sanitize(text, 20)
    return "unknown"


def _code(archive: Archive) -> Code:
    code = Code()
    names = [n for n in archive.records if n.startswith("code/") and n.endswith(".py")]
    if sum(archive.records[n] for n in names) > _MAX_CODE:
        raise Unparsable(f"its code has more than {_MAX_CODE >> 20} MiB")
    for name in names:
        text = archive.read(name, _MAX_CODE).decode("utf-8", "replace")
        code.add(name.removeprefix("code/").removesuffix(".py").replace("/", "."), text)
    return code


def _layers(calls: list[Call]) -> tuple[SourceLayer, ...]:
    counts: dict[str, int] = {}
    layers = []
    for call in calls:
        kind = call.op.partition("::")[2]
        base = f"{call.module}.{kind}" if call.module else kind
        counts[base] = counts.get(base, 0) + 1
        number = counts[base]
        layers.append(
            SourceLayer(
                name=sanitize(base if number == 1 else f"{base}_{number}", 200),
                op=sanitize(call.op, 100),
                attributes=(("arguments", sanitize(", ".join(call.arguments), 300)),)
                if call.arguments
                else (),
                refused=sanitize(refusal_of(call.op, graph=True), 200),
            )
        )
    return tuple(layers)


def _problems(layers: tuple[SourceLayer, ...]) -> list[Finding]:
    first: dict[str, SourceLayer] = {}
    for layer in layers:
        if layer.refused:
            first.setdefault(layer.op, layer)
    return [
        Finding(
            code="operator-refused",
            severity="error",
            where=layer.name,
            what=f"{layer.op} is refused: {layer.refused}.",
            remedy="Trace the part of the network before it.",
        )
        for layer in first.values()
    ]


def _inputs(model: _Found) -> tuple[SourceTensor, ...]:
    """The arguments of ``forward``; a traced model tells the sizes that it was traced with."""
    sizes = list(model.traced)
    single = [a for a in model.arguments if a.kind in ("Tensor", "Optional[Tensor]")]
    matched = len(single) == len(sizes) == len(model.arguments)
    tensors = []
    for index, argument in enumerate(model.arguments):
        shape, dtype = sizes[index] if matched else (None, "")
        tensors.append(
            SourceTensor(
                sanitize(argument.name),
                tuple(shape) if shape is not None else None,
                dtype or (argument.kind if argument.kind != "Tensor" else ""),
            )
        )
    return tuple(tensors)


def _outputs(result: str) -> tuple[SourceTensor, ...]:
    """Names as a load gives them, where the type of the result tells how many there are."""
    inside = result.removeprefix("Tuple[").removesuffix("]")
    parts = [part.strip() for part in inside.split(",")]
    if result.startswith("Tuple[") and all(part == "Tensor" for part in parts):
        return tuple(SourceTensor(f"output{i}", None, "") for i in range(len(parts)))
    return (SourceTensor("output", None, "" if result == "Tensor" else sanitize(result, 80)),)


def _notes(model: _Found) -> tuple[str, ...]:
    notes = []
    if model.traced:
        shapes = [shape for shape, _ in model.traced]
        notes.append(f"It was traced with input_size_list {shapes}.")
    elif model.arguments:
        notes.append("The file does not have the sizes of its inputs: give input_size_list.")
    integers = any(tensor.dtype.startswith("q") for _, tensor in all_tensors(model.root))
    if integers or any(call.op.startswith("quantized::") for call in model.calls):
        notes.append("It computes in integers: its scales are kept.")
    elif any("fake_quant" in call.op for call in model.calls):
        notes.append("It has fake quantization: its scales are kept.")
    return tuple(notes)
