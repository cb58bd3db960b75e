"""Make the limit tables of ``engine/facts`` from the collected facts.

    python scripts/make_limit_tables.py FACTS

FACTS is the folder with ``npu_limits.csv``, ``cpu_ops.csv`` and ``op_support.csv``. Rows that are
the same for several groups of chips become one; rows that no layer can be judged by stay out.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

from engine import facts

PACKAGE = Path(facts.__file__).parent
JUDGED = frozenset(
    {"dtype", "npu_support", "kernel", "kernel_h", "kernel_w", "stride_h", "stride_w"}
    | {"pad_top", "pad_left", "pad_bottom", "pad_right", "dilation_h", "dilation_w"}
    | {"width", "height", "channel", "group", "k", "scale", "perm_consts"}
)
"""Parameters that a layer tells."""

SLIP = ("MaxPool", "3.7.29")
"""Limits the input to 7x7 in the source, and the compiler takes every usual size."""
NOTED = ("mode=reflect", "broadcast [", "axis=", "when axis")
"""Notes of rows that hold for a case that a layer does not tell."""


def read(path: Path) -> list[dict[str, str]]:
    """The rows of a table."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write(name: str, head: str, rows: list[list[str]]) -> None:
    """Write a table of the package."""
    with (PACKAGE / name).open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(head.split())
        out.writerows(rows)


def limits(rows: list[dict[str, str]]) -> list[list[str]]:
    """Limits of the NPU: chips and sections of one limit side by side."""
    places: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    for row in rows:
        name, note = row["parameter"], row["note"]
        if (row["op"], row["doc_section"]) == SLIP and name in ("height", "width"):
            continue
        if name not in JUDGED and not name.startswith("perm=["):
            continue
        if note.startswith(NOTED) or (row["scope"].startswith("output") and name != "dtype"):
            continue
        dtypes = row["allowed"] if name == "dtype" else row["dtype"]
        allowed = "" if name == "dtype" else row["allowed"]
        chips = " ".join(each.lower() for each in row["chip_group"].split("/"))
        if name == "npu_support" and "lowers it" in note:
            continue  # the compiler makes other operators of it
        if name in ("dtype", "npu_support"):
            note = ""
        key = (row["op"], name, row["min"], row["max"], allowed, dtypes.replace("|", " "), note)
        if (chips, row["doc_section"]) not in places.setdefault(key, []):
            places[key].append((chips, row["doc_section"]))
    return [
        [*key, "; ".join(chips for chips, _ in where), "; ".join(section for _, section in where)]
        for key, where in places.items()
    ]


def operators(rows: list[dict[str, str]]) -> list[list[str]]:
    """CPU operators, names as in the NPU's table."""
    spelled = {
        "Convolution": "Conv",
        "ConvTranspose/Deconvolution": "ConvTranspose",
        "where": "Where",
        "SpaceToDetph": "SpaceToDepth",
    }
    limits_of: dict[str, list[str]] = {}
    for row in rows:
        name = spelled.get(row["op"], row["op"])
        chips = row["chips"].replace("|", " ").lower()
        limits_of.setdefault(name, [name, row["limit"], chips, row["doc_section"]])
    return list(limits_of.values())


def support(rows: list[dict[str, str]]) -> list[list[str]]:
    """Operators of the frameworks, by generation."""
    table_rows, seen = [], set()
    for row in rows:
        generation = "2" if "toolkit2" in row["toolkit"] else "1"
        if generation == "1" and row["framework"] == "pytorch":
            continue  # the same rows as those of onnx
        key = (row["framework"], row["op"], generation)
        if key not in seen:
            seen.add(key)
            source = row["source"].replace(".xlsx", "")
            table_rows.append(
                [row["framework"], row["op"], generation, row["supported"], row["limit"]]
            )
            table_rows[-1].append(source)
    return table_rows


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("facts", type=Path)
    facts = parser.parse_args().facts
    head = "op parameter min max allowed dtypes note chips sections"
    write("npu_limits.csv", head, limits(read(facts / "npu_limits.csv")))
    write("cpu_operators.csv", "op limit chips section", operators(read(facts / "cpu_ops.csv")))
    head = "framework op generation supported limit source"
    write("support.csv", head, support(read(facts / "op_support.csv")))


if __name__ == "__main__":
    main()
