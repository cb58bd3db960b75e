"""The rows that the vendor's compiler printed, read from the facts beside the zoo."""

from __future__ import annotations

import csv
import gzip
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.cost.printed import PrintedLayer
from engine.wire.record import record

__all__ = ["Build", "Row", "graph_file", "read_builds", "read_rows"]

FILES = ("layers_dev.csv.gz", "published_layers.csv.gz")
ALIASES = {"net_mobilenetv2": "mobilenetv2-12", "net_yolov5s_silu": "yolov5s"}
"""Graphs whose file has another name."""

_SHAPE = re.compile(r"\((?P<sizes>[0-9, ]*)\)|\.\.\.")


@dataclass(frozen=True, slots=True)
class Build:
    """One printed table: a graph built for a chip, ``i8`` or ``fp``."""

    platform: str
    quant: str
    graph: str


@record(kw_only=True)
class Row(PrintedLayer):
    """One line of it, and whether it reads an input of the graph or writes an output."""

    first: bool
    last: bool


def read_builds(facts: Path) -> dict[Build, list[Row]]:
    """Every printed table of the facts, in the order of the files."""
    found: dict[Build, list[Row]] = defaultdict(list)
    for file in FILES:
        for build, row in read_rows(facts / "cost" / file):
            found[build].append(row)
    return dict(found)


def graph_file(zoo: Path, graph: str) -> Path | None:
    """The ONNX file of a graph of the facts; None where there is none."""
    name = ALIASES.get(graph, graph.removeprefix("net_"))
    shapes = zoo / "shapes"
    places = (shapes / "micro", shapes, shapes / "published")
    return next((f for p in places if (f := p / f"{name}.onnx").is_file()), None)


def read_rows(file: Path) -> Iterator[tuple[Build, Row]]:
    """The rows of one file, each with its build."""
    with gzip.open(file, "rt", encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            shapes = tuple(_shapes(row["in_shapes"]))
            out = next(_shapes(row["out_shape"]), None) or ()
            yield (
                Build(row["platform"], row["quant"], row["graph"]),
                Row(
                    id=int(row["layer_id"]),
                    op=row["op_type"],
                    dtype=row["dtype"],
                    target=row["target"],
                    shapes=shapes,
                    out=out,
                    ddr_cycles=int(row["ddr_cycles"]),
                    npu_cycles=int(row["npu_cycles"]),
                    total_cycles=int(row["total_cycles"]),
                    read_kb=int(row["rw_kb"]),
                    name=row["full_name"],
                    first=row["is_first"] == "1",
                    last=row["to_output"] == "1",
                ),
            )


def _shapes(text: str) -> Iterator[tuple[int, ...] | None]:
    for found in _SHAPE.finditer(text):
        sizes = found["sizes"]
        yield None if sizes is None else tuple(int(each) for each in sizes.split(",") if each)
