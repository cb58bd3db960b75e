"""The columns of Deploy and the texts of its figures: those of the compiler beside ours."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rknntui.screens.chips.text import change, percent, size
from rknntui.widgets.records import Field, Record, name_text
from rknntui.widgets.table import Column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.wire.compile import Compiled, CompiledLayer
    from engine.wire.vendor import ToolkitEnvironment

__all__ = [
    "Compared",
    "agreement_fields",
    "agreement_records",
    "chip_fields",
    "chip_record",
    "compared",
    "layer_fields",
    "layer_records",
    "state_style",
    "toolkit_fields",
    "toolkit_record",
    "toolkit_sign",
]

TOLERATED = 1.0
"""Percent that printed and estimated cycles of a layer may differ without a sign."""
_TOOLKIT_SIGNS = {
    "ready": ("✓", "good"),
    "unchecked": ("?", "accent"),
    "unfinished": ("!", "warn"),
    "broken": ("✗", "bad"),
    "missing": ("✗", "bad"),
}
_STATE_STYLES = {"✓": "good", "✗": "bad", "▶": "accent", "!": "warn"}


def state_style(text: object) -> str:
    """The style of a state, by the sign that it begins with."""
    return _STATE_STYLES.get(str(text)[:1], "dim")


def toolkit_sign(state: str) -> tuple[str, str]:
    """Sign and style of the state of a toolkit."""
    return _TOOLKIT_SIGNS.get(state, ("?", "accent"))


def _difference_style(value: float | None) -> str:
    return "" if value is None or abs(value) <= TOLERATED else "warn"


def _count(value: Any) -> str:
    return f"{value:,}"


def _cycles(title: str, name: str) -> Column:
    return Column(title, 10, right=True, text=_count, name=name)


def _difference(title: str) -> Column:
    return Column(title, 8, right=True, text=change, style=_difference_style)


# ------------------------------------------------------------------------------------------- chips
def chip_fields() -> tuple[Field, ...]:
    """Mark, chip, toolkit, state, size, cycles printed and estimated, memory, findings, file."""
    return (
        Field("mark", Column("", 1, style=lambda _: "accent", name="mark")),
        Field("chip", Column("chip", 8)),
        Field("toolkit", Column("toolkit", 9, text=name_text, style=state_style), 72),
        Field("state", Column("state", 10, text=str, style=state_style)),
        Field("size", Column("size", 8, right=True, text=size), 50),
        Field("cycles", _cycles("cycles", "cycles, printed"), 78),
        Field("estimated", _cycles("estimated", "cycles, estimated"), 78),
        Field("difference", _difference("diff."), 78),
        Field("weights", Column("weights", 8, right=True, text=size), 118),
        Field("internal", Column("internal", 8, right=True, text=size), 118),
        Field("quantizer", Column("quantized", 9, name="quantized by"), 130),
        Field("findings", Column("!", 3, right=True, style=lambda _: "warn", name="findings"), 60),
        Field("sha256", Column("SHA-256", 12, text=lambda v: str(v)[:12]), 150),
        Field("path", Column("file", 10, grow=1, text=name_text), 110),
    )


def chip_record(
    name: str, *, marked: bool, toolkit: str, state: str, found: Compiled | None
) -> Record:
    """A chip as a record.

    Args:
        name: of the chip.
        marked: whether it is compiled for.
        toolkit: what would compile for it, with its sign.
        state: of its compilation, with its sign.
        found: what became of it; None before.
    """
    record: dict[str, Any] = {
        "mark": "●" if marked else " ",
        "chip": name,
        "toolkit": toolkit,
        "state": state,
    }
    if found is not None and not found.problem:
        known = compared(found.layers)
        record |= {
            "size": found.size or None,
            "cycles": found.total_cycles,
            "estimated": known.estimated if known else None,
            "difference": percent(known.printed, known.estimated) if known else None,
            "weights": found.weight_bytes,
            "internal": found.internal_bytes,
            "quantizer": found.quantized_by,
            "sha256": found.sha256 or None,
            "path": found.path or None,
        }
    if found is not None:
        record["findings"] = len(found.findings) or None
    return record


@dataclass(frozen=True)
class Compared:
    """Cycles of the layers that have them printed and estimated, and how many layers that are."""

    printed: int
    estimated: int
    layers: int
    of: int


def compared(layers: Sequence[CompiledLayer]) -> Compared | None:
    """The sums over the layers of both tables; None where there is none.

    A layer that only one of them has would count as a difference in cycles otherwise.
    """
    pairs = [
        (row.total_cycles, row.estimated_total_cycles)
        for row in layers
        if row.total_cycles is not None and row.estimated_total_cycles is not None
    ]
    if not pairs:
        return None
    of = sum(row.total_cycles is not None for row in layers)
    return Compared(sum(p for p, _ in pairs), sum(e for _, e in pairs), len(pairs), of)


# ------------------------------------------------------------------------------------------ layers
def layer_fields() -> tuple[Field, ...]:
    """Sign, layer, op, dtype, targets and cycles, each printed and estimated, and what it reads."""

    def sign_style(sign: str) -> str:
        return "bad" if sign == "✗" else "warn"

    def target_style(text: str | None) -> str:
        return "" if text in (None, "NPU") else "warn"

    return (
        Field("sign", Column("", 1, style=sign_style, name="disagreement")),
        Field("number", Column("#", 4, right=True), 60),
        Field("name", Column("layer", 10, grow=3, text=name_text)),
        Field("op", Column("op", 6, text=name_text), 90),
        Field("dtype", Column("dtype", 5, text=name_text)),
        Field("target", Column("on", 4, text=name_text, style=target_style)),
        Field("estimated_target", Column("est.", 4, text=name_text, name="on, estimated"), 110),
        Field("npu_cycles", _cycles("NPU cycles", "NPU cycles, printed"), 130),
        Field("estimated_npu", _cycles("estimated", "NPU cycles, estimated"), 130),
        Field("npu_difference", _difference("diff."), 130),
        Field("total_cycles", _cycles("cycles", "cycles, printed")),
        Field("estimated_total", _cycles("estimated", "cycles, estimated"), 64),
        Field("difference", _difference("diff.")),
        Field("read_kb", Column("read KB", 8, right=True, text=_count), 120),
    )


def layer_records(layers: Sequence[CompiledLayer]) -> list[Record]:
    """The rows of a compiler's table, those that disagree with our estimate first."""
    often = Counter(row.id for row in layers)
    records = [
        _layer_record(number, row, row.id if often[row.id] == 1 else row.name)
        for number, row in enumerate(layers, 1)
    ]
    return sorted(records, key=_disagreement)


def _layer_record(number: int, row: CompiledLayer, name: str) -> dict[str, Any]:
    other = row.estimated_target is not None and row.estimated_target != row.target
    npu = percent(row.npu_cycles, row.estimated_npu_cycles)
    total = percent(row.total_cycles, row.estimated_total_cycles)
    off = any(value is not None and abs(value) > TOLERATED for value in (npu, total))
    return {
        "sign": "✗" if other else "≠" if off else " ",
        "number": number,
        "id": row.id,
        "name": name or row.name,
        "aliases": (row.id, row.name),
        "printed": row.name,
        "op": row.op,
        "dtype": row.dtype or None,
        "target": row.target or None,
        "estimated_target": row.estimated_target,
        "npu_cycles": row.npu_cycles,
        "estimated_npu": row.estimated_npu_cycles,
        "npu_difference": npu,
        "total_cycles": row.total_cycles,
        "estimated_total": row.estimated_total_cycles,
        "difference": total,
        "read_kb": row.read_kb,
    }


def _disagreement(record: Record) -> tuple[int, float, int]:
    """The order: another target, then the cycles that differ most, then as compiled."""
    values = [record["npu_difference"], record["difference"]]
    most = max((abs(value) for value in values if value is not None), default=0.0)
    rank = {"✗": 0, "≠": 1}.get(record["sign"], 2)
    return rank, -most if rank < 2 else 0.0, record["number"]


# --------------------------------------------------------------------------------------- agreement
def agreement_fields() -> tuple[Field, ...]:
    """Chip, output, and how near the vendor's simulator is to ours; both are simulated."""

    def equal_style(value: float | None) -> str:
        return "" if value is None else "good" if value >= 99.9 else "warn"

    return (
        Field("chip", Column("chip", 8)),
        Field("name", Column("output", 10, grow=1, text=name_text)),
        Field("samples", Column("samples", 7, right=True), 70),
        Field("equal", Column("equal %", 8, right=True, text=_share, style=equal_style)),
        Field("max_steps", Column("max steps", 9, right=True, text=_count)),
        Field("cosine", Column("cosine", 9, right=True, text=lambda v: f"{v:.6f}")),
        Field("ours", _decibels("ours dB", "SQNR of our simulator"), 60),
        Field("vendor", _decibels("vendor dB", "SQNR of the vendor's simulator"), 60),
    )


def _decibels(title: str, name: str) -> Column:
    return Column(title, 9, right=True, text=lambda value: f"{value:.2f}", name=name)


def _share(value: float) -> str:
    """``100``, ``99.98``, ``<100``: what is not all is not shown as all."""
    return "100" if value == 100 else "<100" if value > 99.995 else f"{value:.2f}"


def agreement_records(found: Sequence[Compiled]) -> list[Record]:
    """The outputs of all chips."""
    return [
        {
            "chip": chip.chip,
            "name": f"{row.name} at {row.shapes}" if row.shapes else row.name,
            "samples": row.samples,
            "equal": 100 * row.equal,
            "max_steps": row.max_steps,
            "cosine": row.cosine,
            "ours": row.our_sqnr_db,
            "vendor": row.sqnr_db,
        }
        for chip in found
        for row in chip.outputs
    ]


# ---------------------------------------------------------------------------------------- toolkits
def toolkit_fields() -> tuple[Field, ...]:
    """Default, name, state, version, generation, Python, size, folder."""

    def style(text: object) -> str:
        return dict(_TOOLKIT_SIGNS.values()).get(str(text)[:1], "")

    return (
        Field("default", Column("", 1, style=lambda _: "accent", name="default")),
        Field("name", Column("toolkit", 10, text=name_text)),
        Field("state", Column("state", 12, style=style)),
        Field("version", Column("version", 7, text=name_text)),
        Field("generation", Column("gen.", 4, right=True, name="generation")),
        Field("python", Column("Python", 7, text=name_text)),
        Field("how", Column("", 7, name="managed or adopted"), 76),
        Field("size", Column("size", 8, right=True, text=size), 70),
        Field("folder", Column("folder", 12, grow=1, text=name_text)),
    )


def toolkit_record(row: ToolkitEnvironment) -> Record:
    """An environment as a record."""
    return {
        "default": "●" if row.default else " ",
        "name": row.name,
        "state": f"{toolkit_sign(row.state)[0]} {row.state}",
        "version": row.version or None,
        "generation": row.generation,
        "python": row.python_version or None,
        "how": "managed" if row.managed else "adopted",
        "size": row.size or None,
        "folder": row.folder,
    }


def bytes_pair(label: str, printed: int | None, estimated: int | None) -> str:
    """``weights 117 KiB printed, 116 KiB estimated``; empty where nothing is known."""
    if printed is None and estimated is None:
        return ""
    parts = [
        f"{size(value)} {word}"
        for value, word in ((printed, "printed"), (estimated, "estimated"))
        if value is not None
    ]
    return f"{label} {', '.join(parts)}"
