"""Files of the vendor, of every kind and age: recognised by their bytes, read as far as known.

Nothing is run, code in a file is neither shown nor touched, and every size and offset is checked.
Which fact has which source: docs/vendor-files.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from engine.base.errors import ContainerError
from engine.base.files import sha256_of
from engine.base.findings import Finding
from engine.base.plain import JsonObject
from engine.container.magic import MAGIC
from engine.container.vendor.bounded_reader import BoundedReader, open_bounded
from engine.container.vendor.layer_list import NBG_OP, LayerList, read_layer_list
from engine.container.vendor.model import (
    CustomSection,
    VendorGraph,
    VendorMemory,
    VendorModel,
    VendorPort,
    VendorTensor,
)
from engine.container.vendor.npu import IDENTIFIER, NpuModel, read_mini, read_npu
from engine.container.vendor.package import is_package, read_custom_sections, read_package
from engine.container.vendor.rknx import NBG_MAGIC, RKNX_MAGIC, NbgModel, read_nbg, read_rknx
from engine.container.vendor.values import as_floats, as_mapping, as_text, read_json
from engine.facts import chip, chips

# Inputs and outputs of a compiled graph, joined with what the file's tables say of them.


def ports_of(
    graph: VendorGraph,
    positions: tuple[int, ...],
    facts: JsonObject | None = None,
    runtime: JsonObject | None = None,
) -> tuple[VendorPort, ...]:
    """The ports at these positions.

    Args:
        graph: its tensors.
        positions: of the ports' tensors.
        facts: the table ``attrs``: name -> ``{layout, dtype, mean, std, rgb2bgr, ...}``.
        runtime: name -> ``{dtype, layout}``.
    """
    attrs = as_mapping((facts or {}).get("attrs"))
    return tuple(_port(graph.tensors[i], attrs, runtime or {}) for i in positions)


def _port(tensor: VendorTensor, attrs: JsonObject, runtime: JsonObject) -> VendorPort:
    entry, outside = as_mapping(attrs.get(tensor.name)), as_mapping(runtime.get(tensor.name))
    swapped = entry.get("rgb2bgr")
    return VendorPort(
        tensor,
        layout=as_text(entry.get("layout")).upper(),
        runtime_dtype=as_text(outside.get("dtype")),
        runtime_layout=as_text(outside.get("layout")).upper(),
        source_dtype=as_text(entry.get("dtype")),
        mean=as_floats(entry.get("mean", ())),
        std=as_floats(entry.get("std", ())),
        rgb2bgr=swapped if isinstance(swapped, bool) else None,
    )


def add_observed(graph: VendorGraph, facts: JsonObject) -> VendorGraph:
    """The graph with the observed ranges of the table ``quant_tab`` beside the ranges used."""
    table = as_mapping(facts.get("quant_tab"))
    tensors = list(graph.tensors)
    for position, tensor in enumerate(tensors):
        entry = as_mapping(table.get(tensor.name))
        low, high = as_floats(entry.get("ori_min", ())), as_floats(entry.get("ori_max", ()))
        if tensor.quant is not None and len(low) == len(high) == 1:
            quant = replace(tensor.quant, observed=(low[0], high[0]))
            tensors[position] = replace(tensor, quant=quant)
    return replace(graph, tensors=tuple(tensors))


_CONTAINER_MAGIC = b"RKNN"
_CRYPT_MAGIC = b"CYPTRKNN"
_CRYPT_HEAD = 288
_RESERVED = 40
_SMALL_FORM = 0x10
_KNOWN_VERSIONS = (1, 2, 6, 0x1004)


def inspect_vendor(path: Path) -> VendorModel:
    """Everything that is known how to read of a file of the vendor.

    Raises:
        ContainerError: missing or unreadable; no file of the vendor, or a container of this
            program; damaged.
    """
    return replace(_inspected(path), sha256=_digest(path))


def _digest(path: Path) -> str:
    try:
        return sha256_of(path)
    except OSError as error:
        raise ContainerError(
            f"{path} could not be read: {error.strerror or error}.",
            remedy="Check that you have permission to read it.",
        ) from error


def vendor_origin(path: Path) -> str:
    """Where a file of the vendor comes from and belongs, in words; empty where it does not tell.

    ``for rk3588, by toolkit 1.6.2-source_code``
    """
    try:
        model = _inspected(path)
    except ContainerError:
        return ""
    words = [f"for {', '.join(model.platforms)}"] if model.platforms else []
    if model.toolkit:
        words.append(f"by toolkit {model.toolkit}")
    return ", ".join(words)


def _inspected(path: Path) -> VendorModel:
    with open_bounded(path) as span:
        base = VendorModel(str(path), span.size, "", "npu")
        head = span.head(64)
        for matches, read in _KINDS:
            if matches(head):
                return _finished(read(span, base))
        return _finished(_read_bare_json(span, base))


def _finished(model: VendorModel) -> VendorModel:
    """The chips' own names, the generation that they tell, and what is odd about them."""
    known = [(name, chip(name)) for name in model.platforms]
    unknown = [name for name, recognised in known if recognised is None]
    recognised = [known_chip for _, known_chip in known if known_chip is not None]
    generation = model.generation
    if generation is None and recognised:
        generation = recognised[0].generation
    findings = [
        Finding(
            "platform-unknown",
            "warning",
            "target_platform",
            f"{name} is not a chip that is known here.",
            remedy=f"Known are {', '.join(known_chip.name for known_chip in chips())}.",
        )
        for name in unknown
    ]
    names = tuple(dict.fromkeys(known_chip.name for known_chip in recognised))
    everything = (*model.findings, *findings)
    return replace(model, chips=names, generation=generation, findings=everything)


def _read_package(span: BoundedReader, base: VendorModel) -> VendorModel:
    package = read_package(span)
    return replace(
        base,
        kind="op-package",
        platforms=(package.target_platform,) if package.target_platform else (),
        generation=1,
        container_version=2,
        framework=package.framework,
        name=package.name,
        memory=VendorMemory(sections=package.sections),
        custom_operators=(
            CustomSection(package.name, package.inputs, package.outputs, package.params),
        ),
    )


def _read_encrypted(span: BoundedReader, base: VendorModel) -> VendorModel:
    _, level, size = span.unpack("3Q", 8, "the head")
    findings = []
    if size != span.size - _CRYPT_HEAD:
        what = f"Its head tells of {size} bytes behind it, but there are {span.size - _CRYPT_HEAD}."
        findings.append(
            Finding("encrypted-size", "warning", "head", what, "It may have been cut off.")
        )
    findings.append(
        Finding(
            "encrypted",
            "info",
            "file",
            "It is encrypted: platform, versions, layers and names cannot be seen.",
            remedy="Inspect the model that it was made from.",
        )
    )
    return replace(base, kind="encrypted", encryption_level=level, findings=tuple(findings))


def _read_rknx(span: BoundedReader, base: VendorModel) -> VendorModel:
    model = read_rknx(span)
    graph = model.graphs[0] if model.graphs else None
    return replace(
        base,
        kind="rknx",
        platforms=(model.hardware,) if model.hardware else (),
        generation=3,
        toolkit=model.toolkit,
        compiler=model.compiler,
        name=model.name,
        graphs=model.graphs,
        inputs=() if graph is None else ports_of(graph, graph.inputs),
        outputs=() if graph is None else ports_of(graph, graph.outputs),
        findings=tuple(model.findings),
    )


def _read_nbg(span: BoundedReader, base: VendorModel) -> VendorModel:
    model = read_nbg(span)
    return replace(
        base,
        kind="nbg",
        generation=1,
        compiler=f"VPMN {model.version}",
        name=model.name,
        graphs=(model.graph,),
        findings=(_names_only(),),
    )


def _names_only() -> Finding:
    return Finding(
        "names-only",
        "info",
        "graph",
        "A precompiled graph holds the names of its layers; how they are linked, and platform and "
        "types, are not established.",
    )


def _read_bare_npu(span: BoundedReader, base: VendorModel) -> VendorModel:
    part = span.inner(0, span.size, "the graph")
    return _with_npu(replace(base, kind="npu-bare", generation=2), read_npu(part))


def _read_bare_json(span: BoundedReader, base: VendorModel) -> VendorModel:
    if span.head(64).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] != b"{":
        raise ContainerError(
            f"{span.name} is not a file of the vendor.",
            cause="It starts with none of the bytes that the vendor's files start with.",
            remedy="Check the path.",
        )
    part = span.inner(0, span.size, "the layer list")
    data = as_mapping(read_json(part))
    if not data.get("network_platform"):
        raise part.damaged_error(
            "there is no network_platform, which every model of the vendor has"
        )
    layers = read_layer_list(data, part)
    return _with_list(replace(base, kind="layers-bare"), layers)


@dataclass(frozen=True)
class _Frame:
    """The parts of a container."""

    version: int
    data: BoundedReader
    json: BoundedReader
    end: int


def _frame(span: BoundedReader) -> _Frame:
    """Head, data, JSON: ``RKNN``, u32, u64 version, u64 D, 40 bytes, D bytes, u64 J, J bytes."""
    version, size = span.unpack("QQ", 8, "the head")
    if version >> 8 not in (0, _SMALL_FORM):
        raise span.damaged_error(f"its container has version {version}, which is not known")
    start = 24 + (_RESERVED if version & 0xFF > 1 and size else 0)
    data = span.inner(start, size, "the compiled model")
    place = start + size
    (count,) = span.unpack("Q", place, "the length of the layer list")
    json = span.inner(place + 8, count, "the layer list")
    return _Frame(version, data, json, place + 8 + count)


def _read_container(span: BoundedReader, base: VendorModel) -> VendorModel:
    frame = _frame(span)
    layers = read_layer_list(read_json(frame.json), frame.json)
    head = frame.data.head(8)
    model = replace(base, container_version=frame.version)
    if frame.version >> 8 == _SMALL_FORM:
        npu = read_mini(frame.data)
        model = _with_npu(replace(model, kind="npu-mini", generation=2), npu, layers)
    elif head[4:8] == IDENTIFIER:
        npu = read_npu(frame.data)
        model = _with_npu(replace(model, kind="npu", generation=2), npu, layers)
    elif head[:4] == NBG_MAGIC:
        model = _with_nbg(_with_list(model, layers), read_nbg(frame.data))
    else:
        model = _with_list(replace(model, kind="layers"), layers)
        if frame.data.size:
            what = f"{frame.data.size} bytes of compiled model are of no kind that is known."
            model = _noting(model, Finding("data-unknown", "warning", "compiled model", what))
    if frame.version not in _KNOWN_VERSIONS:
        what = f"Its container has version {frame.version}; the form is taken for a known one."
        model = _noting(model, Finding("container-version", "warning", "head", what))
    model = _with_sections(model, (("compiled model", frame.data), ("layer list", frame.json)))
    return _with_tail(model, span, frame, layers.first_generation)


def _with_sections(model: VendorModel, parts: tuple[tuple[str, BoundedReader], ...]) -> VendorModel:
    sizes = tuple((name, part.size) for name, part in parts)
    memory = replace(model.memory, sections=(*sizes, *model.memory.sections))
    return replace(model, memory=memory)


def _noting(model: VendorModel, finding: Finding) -> VendorModel:
    return replace(model, findings=(*model.findings, finding))


def _with_tail(model: VendorModel, span: BoundedReader, frame: _Frame, first: bool) -> VendorModel:
    """What follows the layer list: generation 1's custom operators, else nothing that is known."""
    rest = span.size - frame.end
    if not rest:
        return model
    if not first:
        what = f"{rest} bytes follow the layer list; what they are is not known."
        return _noting(model, Finding("trailing-bytes", "warning", "end of the file", what))
    operators, code = read_custom_sections(span, frame.end)
    sections = (*model.memory.sections, ("code of custom operators", code))
    memory = replace(model.memory, sections=sections)
    return replace(model, custom_operators=operators, memory=memory)


def _with_list(model: VendorModel, layers: LayerList) -> VendorModel:
    return replace(
        model,
        platforms=layers.platforms,
        generation=1 if layers.first_generation else model.generation,
        toolkit=layers.toolkit,
        framework=layers.framework,
        name=layers.name,
        graphs=(layers.graph,),
        inputs=layers.inputs,
        outputs=layers.outputs,
    )


def _with_nbg(model: VendorModel, nbg: NbgModel) -> VendorModel:
    """The precompiled layers stand behind the node that holds them."""
    graph = model.graphs[0]
    if not any(layer.op == NBG_OP for layer in graph.layers):
        what = "It holds a precompiled graph, but no layer of its list stands for it."
        model = _noting(model, Finding("nbg-unused", "warning", "compiled model", what))
    whole = replace(graph, layers=(*graph.layers, *nbg.graph.layers))
    return replace(
        model,
        kind="layers-nbg",
        generation=1,
        compiler=f"VPMN {nbg.version}",
        graphs=(whole,),
        findings=(*model.findings, _names_only()),
    )


def _with_npu(model: VendorModel, npu: NpuModel, layers: LayerList | None = None) -> VendorModel:
    graphs = tuple(add_observed(graph, npu.facts) for graph in npu.graphs)
    first = graphs[0]
    listed = layers.platforms if layers else ()
    findings = list(npu.findings)
    if listed and npu.platform and npu.platform not in listed:
        findings.append(_disagreement("platform", ", ".join(listed), npu.platform))
    version = layers.toolkit if layers else ""
    if version and npu.toolkit and version != npu.toolkit:
        findings.append(_disagreement("toolkit version", version, npu.toolkit))
    return replace(
        model,
        platforms=(npu.platform,) if npu.platform else listed,
        npu=npu.npu,
        toolkit=npu.toolkit or version,
        compiler=npu.compiler,
        framework=npu.framework or (layers.framework if layers else ""),
        name=layers.name if layers else "",
        custom_string=npu.custom_string,
        inputs=ports_of(first, first.inputs, npu.facts, npu.runtime),
        outputs=ports_of(first, first.outputs, npu.facts, npu.runtime),
        graphs=graphs,
        dynamic=npu.dynamic,
        memory=npu.memory,
        findings=(*model.findings, *findings),
    )


def _disagreement(what: str, listed: str, compiled: str) -> Finding:
    return Finding(
        "parts-disagree",
        "warning",
        what,
        f"The layer list has the {what} {listed}, the compiled model {compiled}.",
        "The file was put together from two.",
    )


def _read_ours(span: BoundedReader, _base: VendorModel) -> VendorModel:
    raise ContainerError(
        f"{span.name} is a container of this program, not a file of the vendor.",
        remedy="Open it as a model.",
    )


_Read = Callable[[BoundedReader, VendorModel], VendorModel]


def _starts(magic: bytes, offset: int = 0) -> Callable[[bytes], bool]:
    return lambda head: head[offset : offset + len(magic)] == magic


def _package(head: bytes) -> bool:
    return is_package(BoundedReader(head, 0, len(head), "", ""))


# in the order in which the viewer Netron asks; an own container and a package start as models do
_KINDS: tuple[tuple[Callable[[bytes], bool], _Read], ...] = (
    (lambda head: head[:4] == _CONTAINER_MAGIC and head[24:32] == MAGIC, _read_ours),
    (_package, _read_package),
    (_starts(_CONTAINER_MAGIC), _read_container),
    (_starts(RKNX_MAGIC), _read_rknx),
    (_starts(_CRYPT_MAGIC), _read_encrypted),
    (_starts(IDENTIFIER, 4), _read_bare_npu),
    (_starts(NBG_MAGIC), _read_nbg),
)
