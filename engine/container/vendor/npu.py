"""Generation 2: the FlatBuffer with the compiled graph, in its full and its small form.

The full form (version 6) is for RK3562, RK3566/68, RK3576, RK3588 and RV1126B, the small one for
RV1103/1106 and their B variants. Slot numbers: :mod:`engine.container.vendor.slots`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from engine.base.findings import Finding
from engine.base.formats.flatbuffers import FlatTable
from engine.base.plain import JsonObject
from engine.base.text import sanitize
from engine.container.vendor.model import (
    VendorGraph,
    VendorLayer,
    VendorMemory,
    VendorModel,
    VendorPort,
    VendorTensor,
)
from engine.container.vendor.slots import (
    DTYPES,
    FULL_MODEL,
    KINDS,
    LAYOUTS,
    MINI_MODEL,
    SCHEMAS,
    UNIONS,
    UNKNOWN_MODEL,
    ModelSlots,
    TensorSlots,
)
from engine.container.vendor.values import (
    BoundedReader,
    as_floats,
    as_mapping,
    as_text,
    checked_shape,
    flat_root,
    read_bson,
    read_json,
    read_literal,
)
from engine.wire.model import VendorQuant

IDENTIFIER = b"RKNN"
_MINI_HEAD = 64
_MINI_SCHEMA = 6
_KNOWN = " and ".join(map(str, sorted(SCHEMAS)))
_MOST_GRAPHS = 256
_MOST_LAYERS = 50_000
_MOST_TENSORS = 150_000
_NO_TENSOR = -1
"""An input or output that a layer has and the model leaves out: an LSTM whose Y nobody reads."""
_COMPILERS_OWN = frozenset({6, 7, 8, 9, 10})
_VERSIONS = re.compile(r"(?P<toolkit>[^(]*)\(compiler version:\s*(?P<compiler>.*)\)\s*", re.DOTALL)


def read_npu(span: BoundedReader, base: VendorModel) -> VendorModel:
    """The full form.

    Of a file with another schema version only that is read which Netron reads of every version.

    Args:
        span: the FlatBuffer.
        base: what the layer list around it tells, if there is one.

    Raises:
        ContainerError: it is damaged.
    """
    root = flat_root(span, IDENTIFIER)
    schema = root.number(0)
    if schema in SCHEMAS:
        return _model(root, span, FULL_MODEL, base)
    unknown = Finding(
        "schema-unknown",
        "warning",
        span.part,
        f"Its FlatBuffer has schema version {schema}; quantization, attributes and memory are "
        f"established for the versions {_KNOWN} and are left out.",
        "Another toolkit wrote it than those whose files were compared.",
        "What is shown was read as the public Netron viewer reads every version.",
    )
    return _model(root, span, UNKNOWN_MODEL, base, unknown)


def mini_parts(span: BoundedReader) -> tuple[BoundedReader, VendorMemory]:
    """(FlatBuffer, memory) of the small form: a head of 64 bytes, four blobs, the FlatBuffer.

    Head, u32 each: 0 size of the FlatBuffer, 1 and 3 sizes of blobs that are not established, 4
    bytes of internal tensors, 5 weights and 6 further copies, which are blobs too. The FlatBuffer
    ends the data, and lies behind the blobs.

    Raises:
        ContainerError: the sizes do not add up to the data's.
    """
    head = span.unpack("7I", 0, "the head of the small form")
    flat, first, _, second, internal, weights, copies = head
    offset = _MINI_HEAD + first + second + weights + copies
    if offset + flat != span.size:
        raise span.damaged_error(
            f"the parts have {offset} and {flat} bytes, which is not the {span.size} of the data"
        )
    sections = ("blob 1", first), ("blob 2", second), ("weights", weights), ("copies", copies)
    memory = VendorMemory(weights, internal, copies, (*sections, ("graph", flat)))
    return span.inner(offset, flat, "the graph of the small form"), memory


def read_mini(span: BoundedReader, base: VendorModel) -> VendorModel:
    """The small form. Attributes of layers are not established there and stay empty.

    Raises:
        ContainerError: it is damaged.
    """
    part, memory = mini_parts(span)
    root = flat_root(part, IDENTIFIER)
    if root.number(0) != _MINI_SCHEMA:
        raise part.damaged_error(f"the schema version is {root.number(0)}, not {_MINI_SCHEMA}")
    unknown = Finding(
        "attributes-not-established",
        "info",
        part.part,
        "Where the small form keeps the attributes of layers is not established; they are not "
        "shown.",
    )
    return replace(_model(root, part, MINI_MODEL, base, unknown), kind="npu-mini", memory=memory)


def _model(
    root: FlatTable, span: BoundedReader, slots: ModelSlots, base: VendorModel, *known: Finding
) -> VendorModel:
    """The model of a root table; where it does not tell, ``base`` does."""
    findings = [*base.findings, *known]
    runtime = {**_ports(root, slots.inputs, span), **_ports(root, slots.outputs, span)}
    facts = _facts(root, slots.facts, span, findings)
    graphs = _GraphReader(span, slots, findings).graphs(root)
    graphs = tuple(_with_observed(graph, as_mapping(facts.get("quant_tab"))) for graph in graphs)
    attrs, first = as_mapping(facts.get("attrs")), graphs[0]
    platform = root.text(slots.platform)
    toolkit, compiler = _versions(root.text(slots.versions))
    if platform and base.platforms and platform not in base.platforms:
        findings.append(_disagreement("platform", ", ".join(base.platforms), platform))
    if toolkit and base.toolkit not in ("", toolkit):
        findings.append(_disagreement("toolkit version", base.toolkit, toolkit))
    shapes = "" if slots.shapes is None else root.text(slots.shapes)
    return replace(
        base,
        generation=2,
        platforms=(platform,) if platform else base.platforms,
        npu=root.text(1),
        toolkit=toolkit or base.toolkit,
        compiler=compiler,
        framework=root.text(slots.framework) or base.framework,
        custom_string="" if slots.custom_string is None else root.text(slots.custom_string),
        inputs=tuple(_port(first.tensors[i], attrs, runtime) for i in first.inputs),
        outputs=tuple(_port(first.tensors[i], attrs, runtime) for i in first.outputs),
        graphs=graphs,
        dynamic=shapes == "dynamic_shape" or len(graphs) > 1,
        memory=_memory(root, slots.memory),
        findings=tuple(findings),
    )


def _disagreement(what: str, listed: str, compiled: str) -> Finding:
    return Finding(
        "parts-disagree",
        "warning",
        what,
        f"The layer list has the {what} {listed}, the compiled model {compiled}.",
        "The file was put together from two.",
    )


def _port(tensor: VendorTensor, attrs: JsonObject, runtime: JsonObject) -> VendorPort:
    """A port with what the file's tables say of it.

    Args:
        tensor: of the port.
        attrs: name -> ``{layout, dtype, mean, std, rgb2bgr, ...}``.
        runtime: name -> ``{dtype, layout}`` of the runtime's side.
    """
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


def _with_observed(graph: VendorGraph, ranges: JsonObject) -> VendorGraph:
    """The graph with the observed ranges of the table ``quant_tab`` beside the ranges used."""
    tensors = list(graph.tensors)
    for position, tensor in enumerate(tensors):
        entry = as_mapping(ranges.get(tensor.name))
        low, high = as_floats(entry.get("ori_min", ())), as_floats(entry.get("ori_max", ()))
        if tensor.quant is not None and len(low) == len(high) == 1:
            quant = replace(tensor.quant, observed=(low[0], high[0]))
            tensors[position] = replace(tensor, quant=quant)
    return replace(graph, tensors=tuple(tensors))


def _versions(text: str) -> tuple[str, str]:
    """(toolkit, compiler) of ``2.3.2(compiler version: 2.3.2 (hash@date))``."""
    match = _VERSIONS.fullmatch(text)
    return (match["toolkit"].strip(), match["compiler"].strip()) if match else (text, "")


def _facts(
    root: FlatTable, slot: int | None, span: BoundedReader, findings: list[Finding]
) -> JsonObject:
    """The table of inputs and outputs."""
    text = "" if slot is None else root.text(slot)
    if not text:
        return {}
    facts = read_literal(text, span)
    if facts is None:
        findings.append(
            Finding(
                "facts-unreadable",
                "warning",
                span.part,
                "Its table of inputs and outputs holds more than plain values: mean, std and "
                "layouts are not shown.",
            )
        )
    return facts or {}


def _ports(root: FlatTable, slot: int | None, span: BoundedReader) -> JsonObject:
    text = b"" if slot is None else root.raw(slot)
    if not text.strip(b"\0 \n"):
        return {}
    part = BoundedReader(text, 0, len(text), span.name, "the table of the runtime's types")
    return as_mapping(read_json(part))


def _memory(root: FlatTable, slot: int | None) -> VendorMemory:
    table = None if slot is None else root.table(slot)
    if table is None:
        return VendorMemory()
    weights, internal, copies = (table.number(i, "Q") for i in range(3))
    return VendorMemory(weights, internal, copies)


class _GraphReader:
    """Tables into layers and tensors."""

    def __init__(self, span: BoundedReader, slots: ModelSlots, findings: list[Finding]) -> None:
        self._span = span
        self._slots, self._unions = slots.tensor, slots.unions
        self._findings = findings
        self._layers = self._tensors = 0
        self._unknown: dict[str, str] = {}
        self._odd: list[str] = []

    def graphs(self, root: FlatTable) -> tuple[VendorGraph, ...]:
        """All graphs, the largest shape set first."""
        graphs = tuple(self._graph(table) for table in islice(root.tables(2), _MOST_GRAPHS + 1))
        if not 1 <= len(graphs) <= _MOST_GRAPHS:
            what = f"there are more than {_MOST_GRAPHS} graphs" if graphs else "there is no graph"
            raise self._span.damaged_error(what)
        for code, example in self._unknown.items():
            self._findings.append(
                Finding("code-unknown", "info", example, f"{code} is not established.")
            )
        if self._odd:
            what = f"{len(self._odd)} tensors have scales and zero points that are no quantization."
            self._findings.append(Finding("quantization-odd", "warning", self._odd[0], what))
        return graphs

    def _graph(self, table: FlatTable) -> VendorGraph:
        tensors = tuple(self._tensor(entry, i) for i, entry in enumerate(table.tables(0)))
        count = len(tensors)
        absent = 0 if tensors and tensors[0].kind == "none" else count
        layers = tuple(self._layer(entry, count, absent) for entry in table.tables(1))
        if any(count in (*layer.inputs, *layer.outputs) for layer in layers):
            tensors += (VendorTensor("", kind="none"),)
        inputs = self._positions(table.numbers(2), count)
        return VendorGraph(layers, tensors, inputs, self._positions(table.numbers(3), count))

    def _positions(
        self, ids: tuple[int, ...], count: int, absent: int | None = None
    ) -> tuple[int, ...]:
        """Positions that exist; -1 is ``absent``, the tensor that stands for none."""
        for number in ids:
            if not 0 <= number < count and (absent is None or number != _NO_TENSOR):
                raise self._span.damaged_error(f"tensor {number} is named, but there are {count}")
        return tuple(absent if absent is not None and n == _NO_TENSOR else n for n in ids)

    def _tensor(self, table: FlatTable, position: int) -> VendorTensor:
        self._tensors += 1
        if self._tensors > _MOST_TENSORS:
            raise self._span.damaged_error(f"there are more than {_MOST_TENSORS} tensors")
        name = table.text(5) or ("" if position == 0 else f"#{position}")
        dtype, kind = table.number(0, "b"), table.number(2, "b")
        slots = self._slots
        size = None if slots is None else table.number(slots.bytes, "I")
        words = self._known(DTYPES, dtype, "tensor type", name)
        role = self._known(KINDS, kind, "tensor kind", name)
        if kind in _COMPILERS_OWN:  # most of a large model's tensors; no layer names them
            return VendorTensor(name, dtype=words, kind=role, bytes=size)
        native = table.number(1, "b") in LAYOUTS
        return VendorTensor(
            name=name,
            shape=checked_shape(table.numbers(4), self._span),
            dtype=words,
            kind=role,
            native_shape=table.numbers(3) if native else (),
            bytes=size,
            quant=None if slots is None else self._quant(table, slots, name),
        )

    def _known(self, names: Mapping[int, str], code: int, what: str, where: str) -> str:
        if code not in names:
            self._unknown.setdefault(f"{what} {code}".capitalize(), where)
        return names.get(code, f"code {code}")

    def _quant(self, table: FlatTable, slots: TensorSlots, name: str) -> VendorQuant | None:
        scale, zero = table.reals(slots.scale), table.numbers(slots.zero_point)
        qtype = "" if slots.qtype is None else table.text(slots.qtype)
        if not scale and not qtype:
            return None
        low = () if slots.minimum is None else table.reals(slots.minimum)
        high = () if slots.maximum is None else table.reals(slots.maximum)
        sound = all(s > 0 for s in scale) and all(map(math.isfinite, (*scale, *low, *high)))
        if len(scale) != len(zero) or not sound:
            self._odd.append(name)
            return None
        return VendorQuant(
            dtype=sanitize(qtype or DTYPES.get(table.number(0, "b"), "")),
            method="" if slots.method is None else sanitize(table.text(slots.method)),
            axis=None,
            scale=scale,
            zero_point=zero,
            minimum=low,
            maximum=high,
            observed=None,
            fraction=None,
        )

    def _layer(self, table: FlatTable, tensors: int, absent: int) -> VendorLayer:
        self._layers += 1
        if self._layers > _MOST_LAYERS:
            raise self._span.damaged_error(f"there are more than {_MOST_LAYERS} layers")
        op, name = table.text(1), table.text(2)
        attributes: tuple[tuple[str, Any], ...] = ()
        source: tuple[tuple[str, Any], ...] = ()
        note = ""
        if self._unions:
            attributes = self._union(table, name or op)
            raw = table.raw(9)
            document = read_bson(raw)
            source = _source_attributes(document or {})
            note = _note(raw) if document is None else ""
        return VendorLayer(
            name=name,
            op=op,
            inputs=self._positions(table.numbers(4), tensors, absent),
            outputs=self._positions(table.numbers(5), tensors, absent),
            attributes=attributes,
            source_attributes=source,
            note=note,
        )

    def _union(self, node: FlatTable, where: str) -> tuple[tuple[str, Any], ...]:
        tag = node.number(7, "B")
        table = node.table(8) if tag else None
        if table is None:
            return ()
        if tag not in UNIONS:
            self._unknown.setdefault(f"Table {tag} of attributes", where)
            return ()
        read: dict[str, Callable[[int], Any]] = {
            "text": table.text,
            "int": table.number,
            "ints": table.numbers,
            "real": table.real,
        }
        return tuple(
            (entry[0], read[entry[1]](slot))
            for slot, entry in enumerate(UNIONS[tag])
            if entry is not None and table.present(slot)
        )


def _source_attributes(document: JsonObject) -> tuple[tuple[str, Any], ...]:
    """``{name: {dtype, value}}`` of the compiler's note, sorted by name."""
    values = [(k, v["value"]) for k, v in document.items() if isinstance(v, dict) and "value" in v]
    return tuple((k, tuple(v) if isinstance(v, list) else v) for k, v in sorted(values))


def _note(raw: bytes) -> str:
    """The note where it is text; it may be binary, or zeros."""
    try:
        text = raw.decode("utf-8").strip("\0")
    except UnicodeDecodeError:
        return ""
    return text if text.isprintable() else ""
