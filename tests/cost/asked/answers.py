"""What the vendor's compiler (rknn-toolkit2 2.3.2) printed of the graphs of this folder.

``layers.csv.gz`` has a row a layer with the columns of the facts, ``totals.csv`` a row a build.
``scripts/ask_compiler.py`` writes both; asked on 2026-11-26, on x86-64.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.cost.printed import PrintedLayer
from tests.cost.against_compiler.facts import Build, read_rows

__all__ = ["Answer", "read_answers", "write_answers"]

LAYERS = Path(__file__).with_name("layers.csv.gz")
TOTALS = Path(__file__).with_name("totals.csv")
KEYS = ("platform", "quant", "graph")


@dataclass(frozen=True)
class Answer:
    """One build: its table, and the bytes of features and of constants."""

    rows: list[PrintedLayer]
    internal: int
    weight: int


def read_answers() -> dict[Build, Answer]:
    """All of them."""
    rows: dict[Build, list[PrintedLayer]] = {}
    for build, row in read_rows(LAYERS):
        rows.setdefault(build, []).append(row)
    with TOTALS.open(encoding="utf-8", newline="") as stream:
        return {
            (build := Build(each["platform"], each["quant"], each["graph"])): Answer(
                rows[build], int(each["internal_bytes"]), int(each["weight_bytes"])
            )
            for each in csv.DictReader(stream)
        }


def write_answers(answers: Mapping[Build, Answer]) -> None:
    """Write both files; the same answers give the same bytes."""
    ordered = sorted(answers, key=lambda build: (build.graph, build.quant, build.platform))
    layers = io.StringIO(newline="")
    table = csv.writer(layers, lineterminator="\n")
    names = ("layer_id", "op_type", "dtype", "target", "in_shapes", "out_shape", "ddr_cycles")
    names += ("npu_cycles", "total_cycles", "rw_kb", "full_name", "is_first", "to_output")
    table.writerow((*KEYS, *names))
    for build in ordered:
        key = (build.platform, build.quant, build.graph)
        for row in answers[build].rows:
            shapes = ",".join("..." if each is None else _text(each) for each in row.shapes)
            sizes = (row.ddr_cycles, row.npu_cycles, row.total_cycles, row.read_kb)
            ends = (row.op, row.dtype, row.target, shapes, _text(row.out))
            table.writerow((*key, row.id, *ends, *sizes, row.name, 0, 0))
    with LAYERS.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, 0) as packed:
        packed.write(layers.getvalue().encode("utf-8"))
    with TOTALS.open("w", encoding="utf-8", newline="") as stream:
        table = csv.writer(stream, lineterminator="\n")
        table.writerow((*KEYS, "internal_bytes", "weight_bytes"))
        for build in ordered:
            found = answers[build]
            key = (build.platform, build.quant, build.graph)
            table.writerow((*key, found.internal, found.weight))


def _text(shape: tuple[int, ...]) -> str:
    return f"({','.join(map(str, shape))})"
