"""Generation 2: the FlatBuffer with the compiled graph, in its full and its small form.

The full form (version 6) is for RK3562, RK3566/68, RK3576, RK3588 and RV1126B, the small one for
RV1103/1106 and their B variants. Slot numbers: :mod:`engine.container.vendor.slots`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from engine.base.findings import Finding
from engine.base.formats.flatbuffers import FlatTable
from engine.base.plain import JsonObject
from engine.container.vendor.bounded_reader import BoundedReader, flat_root
from engine.container.vendor.model import (
    VendorGraph,
    VendorLayer,
    VendorMemory,
    VendorQuant,
    VendorTensor,
)
from engine.container.vendor.slots import (
    DTYPES,
    FULL_MODEL,
    FULL_TENSOR,
    KINDS,
    LAYOUTS,
    MINI_MODEL,
    MINI_TENSOR,
    SCHEMAS,
    UNIONS,
    TensorSlots,
)
from engine.container.vendor.values import (
    as_mapping,
    checked_shape,
    read_bson,
    read_json,
    read_literal,
)

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


@dataclass
class NpuModel:
    """What the FlatBuffer tells; see :class:`engine.container.vendor.model.VendorModel`.

    ``facts`` is the table of inputs and outputs, ``runtime`` name -> ``{dtype, layout}`` of the
    runtime's side.
    """

    npu: str = ""
    toolkit: str = ""
    compiler: str = ""
    platform: str = ""
    framework: str = ""
    custom_string: str = ""
    graphs: tuple[VendorGraph, ...] = ()
    facts: JsonObject = field(default_factory=dict)
    runtime: JsonObject = field(default_factory=dict)
    dynamic: bool = False
    memory: VendorMemory = field(default_factory=VendorMemory)
    findings: list[Finding] = field(default_factory=list)


def read_npu(span: BoundedReader) -> NpuModel:
    """The full form.

    Of a file with another schema version only that is read which Netron reads of every version.

    Raises:
        ContainerError: it is damaged.
    """
    root = flat_root(span, IDENTIFIER)
    schema, slots = root.number(0), FULL_MODEL
    known = schema in SCHEMAS
    model = NpuModel(
        npu=root.text(1), platform=root.text(slots.platform), framework=root.text(slots.framework)
    )
    if not known:
        model.findings.append(
            Finding(
                "schema-unknown",
                "warning",
                span.part,
                f"Its FlatBuffer has schema version {schema}; quantization, attributes and memory "
                f"are established for the versions {_KNOWN} and are left out.",
                "Another toolkit wrote it than those whose files were compared.",
                "What is shown was read as the public Netron viewer reads every version.",
            )
        )
    model.toolkit, model.compiler = _versions(root.text(slots.versions))
    model.runtime = {**_ports(root, slots.inputs, span), **_ports(root, slots.outputs, span)}
    if known:
        model.custom_string = root.text(slots.custom_string)
        model.facts = _facts(root, slots.facts, span, model.findings)
        model.dynamic = root.text(slots.shapes or 0) == "dynamic_shape"
        model.memory = _memory(root, slots.memory or 0)
    reader = _GraphReader(span, FULL_TENSOR if known else None, known, model.findings)
    model.graphs = reader.graphs(root)
    model.dynamic = model.dynamic or len(model.graphs) > 1
    return model


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


def read_mini(span: BoundedReader) -> NpuModel:
    """The small form. Attributes of layers are not established there and stay empty.

    Raises:
        ContainerError: it is damaged.
    """
    part, memory = mini_parts(span)
    root, slots = flat_root(part, IDENTIFIER), MINI_MODEL
    model = NpuModel(
        npu=root.text(1),
        platform=root.text(slots.platform),
        framework=root.text(slots.framework),
        custom_string=root.text(slots.custom_string),
        memory=memory,
    )
    model.toolkit, model.compiler = _versions(root.text(slots.versions))
    model.facts = _facts(root, slots.facts, part, model.findings)
    if root.number(0) != _MINI_SCHEMA:
        raise part.damaged_error(f"the schema version is {root.number(0)}, not {_MINI_SCHEMA}")
    model.findings.append(
        Finding(
            "attributes-not-established",
            "info",
            part.part,
            "Where the small form keeps the attributes of layers is not established; they are not "
            "shown.",
        )
    )
    model.graphs = _GraphReader(part, MINI_TENSOR, False, model.findings).graphs(root)
    model.dynamic = len(model.graphs) > 1
    return model


def _versions(text: str) -> tuple[str, str]:
    """(toolkit, compiler) of ``2.3.2(compiler version: 2.3.2 (hash@date))``."""
    match = _VERSIONS.fullmatch(text)
    return (match["toolkit"].strip(), match["compiler"].strip()) if match else (text, "")


def _facts(root: FlatTable, slot: int, span: BoundedReader, findings: list[Finding]) -> JsonObject:
    text = root.text(slot)
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


def _memory(root: FlatTable, slot: int) -> VendorMemory:
    table = root.table(slot)
    if table is None:
        return VendorMemory()
    weights, internal, copies = (table.number(i, "Q") for i in range(3))
    return VendorMemory(weights, internal, copies)


class _GraphReader:
    """Tables into layers and tensors."""

    def __init__(
        self, span: BoundedReader, slots: TensorSlots | None, unions: bool, findings: list[Finding]
    ) -> None:
        self._span = span
        self._slots = slots
        self._unions = unions
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
        layout = LAYOUTS.get(table.number(1, "b"), "")
        return VendorTensor(
            name=name,
            shape=checked_shape(table.numbers(4), self._span),
            dtype=words,
            kind=role,
            native_layout=layout,
            native_shape=table.numbers(3) if layout else (),
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
            dtype=qtype or DTYPES.get(table.number(0, "b"), ""),
            method="" if slots.method is None else table.text(slots.method),
            scale=scale,
            zero_point=zero,
            minimum=low,
            maximum=high,
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
