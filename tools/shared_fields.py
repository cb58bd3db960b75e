"""List the classes that share 60 % of five or more fields: one of them should hold the other.

    python tools/shared_fields.py [--check]

A field is an annotated name in the body of a class of ``engine`` or ``rknntui``. Fields that a
class inherits are not its own. With ``--check`` the command fails where a pair is in no row of
:data:`ALLOWED`, or a row names a class that shares with no other of it.
"""

from __future__ import annotations

import argparse
import ast
import sys
from itertools import combinations
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FEWEST, SHARE = 5, 0.6
ALLOWED: dict[str, str] = {
    "More Option": "typing needs the keywords of a TypedDict beside the attributes themselves",
    "Node SourceLayer VendorLayer NodeDetail LoweredLayer Layer LayerAccuracy": (
        "a node of a file, of our graph or of a compiler: name, operator and tensors are all that "
        "they have in common; each is of its own format and room"
    ),
    "QuantParams Entry TensorSlots RangeRow": (
        "quantization as our arrays, a vendor's two files, its slots and our table have it: the "
        "same words over checked values, texts, offsets and plain numbers"
    ),
    "MeasuredPoint PerfLook": (
        "a point of a run when it is over, and a look at it while it runs: the last has no interval"
    ),
    "VendorModel ModelFacts": (
        "a model of a vendor's file, and what decides whether a board can run it"
    ),
    "VendorPort Port": "as the file has it, and as the wire shows it: cleaned",
    "SourceSummary Preflight": "a source model before a load, and what the wire tells of it",
    "Timings MeasuredPoint": "of runs that there are; on the wire of a point that may have failed",
    "Timings Channel": "of runs, and of a channel's pixels: minimum, mean and their like in common",
    "Effect CurvePoint RoundingSensitivity": (
        "simulated over so many samples, each: outputs and times of a choice, of a step of a "
        "search, and of other roundings"
    ),
    "JobRecord JobProgress": "a job on disk, and what its events told while it runs",
    "RKNNLite RKNN": "the vendor's two classes, whose attributes are theirs",
    "Plan ToolkitInstallParams": "what was asked, and what is done after it was resolved",
    "QuantizedGraph Quantized": "of a stage's result on disk, and of the quantizer",
    "Preprocess InputPlan TensorSpec": "preparation as asked, as planned for one input, its tensor",
    "ContainerContent Runnable": "what is written into a container, and what runs of one",
    "Chip ChipFacts": "facts with their sources, and what a table shows of them",
    "BoardIdentity BoardFacts": "as probed, and with what else the wire tells of a board",
    "NetTime ChipEstimate": "the time of a network, which is a part of its estimate",
    "CostSettings WhatIf": "checked, and as asked: texts and options that may be missing",
}
"""Classes that may share fields -> why they stay apart."""


def fields_of(node: ast.ClassDef) -> frozenset[str]:
    """The names that a class annotates itself."""
    return frozenset(
        line.target.id
        for line in node.body
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)
    )


def pairs(root: Path = ROOT) -> list[tuple[int, str, str]]:
    """How many fields two classes share, and where each of them stands; most shared first."""
    classes = [
        (f"{path.relative_to(root)}:{node.lineno} {node.name}", fields)
        for package in ("engine", "rknntui")
        for path in sorted((root / package).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and len(fields := fields_of(node)) >= FEWEST
    ]
    return sorted(
        (
            (len(common), one, other)
            for (one, some), (other, more) in combinations(classes, 2)
            if len(common := some & more) >= max(FEWEST, SHARE * min(len(some), len(more)))
        ),
        reverse=True,
    )


def name_of(place: str) -> str:
    """The class of ``path:line Class``."""
    return place.rpartition(" ")[2]


def unexplained(alike: list[tuple[int, str, str]]) -> list[str]:
    """What no row of :data:`ALLOWED` explains, and classes of rows that share nothing any more."""
    rows = [frozenset(names.split()) for names in ALLOWED]
    found = [{name_of(one), name_of(other)} for _, one, other in alike]
    new = [
        f"no reason is given: {one} = {other}"
        for (_, one, other), names in zip(alike, found, strict=True)
        if not any(names <= row for row in rows)
    ]
    idle = [
        f"no other class of its row shares fields with it: {name}"
        for row in rows
        for name in sorted(row)
        if not any(name in names and names <= row for names in found)
    ]
    return new + idle


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="fail where a pair has no reason")
    check = parser.parse_args().check
    alike = pairs()
    for common, one, other in alike:
        print(f"{common:3}  {one}  =  {other}")
    wrong = unexplained(alike)
    print(f"{len(alike)} pairs in {len(ALLOWED)} rows", *wrong, sep="\n")
    return 1 if check and wrong else 0


if __name__ == "__main__":
    sys.exit(main())
