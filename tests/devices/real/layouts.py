"""Sizes and offsets of structures, as a cross compiler lays them out from a header."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

__all__ = ["declared", "layouts"]

_VALUE = re.compile(r"\.(?:word|4byte)\s+(\d+)")


def declared(header: str, name: str) -> str:
    """What stands between the braces of a structure; empty where the header has none."""
    body, end, _ = header.partition(f"}} {name};")
    return body.rpartition("{")[2] if end else ""


def layouts(
    compiler: str, header: Path, structures: Mapping[str, Iterable[str]]
) -> dict[str, dict[str, int]]:
    """Of each structure the bytes, under ``""``, and the offset of each field that it has.

    Args:
        compiler: a cross compiler.
        header: what declares them.
        structures: fields by the name of the structure.
    """
    text = header.read_text("utf-8", "replace")
    asked = [
        (name, field)
        for name, fields in structures.items()
        if (body := declared(text, name))
        for field in ("", *fields)
        if not field or re.search(rf"\b{field}\b", body)
    ]
    # one more than each: a compiler writes zeros otherwise
    values = [
        f"1 + offsetof({name}, {field})" if field else f"1 + sizeof({name})"
        for name, field in asked
    ]
    source = (
        f"#include <stddef.h>\n#include <stdint.h>\n#include <stdbool.h>\n"
        f'#include "{header}"\nconst unsigned laid_out[] = {{{", ".join(values)}}};\n'
    )
    done = subprocess.run(
        [compiler, "-std=gnu11", "-w", "-S", "-x", "c", "-", "-o", "-"],
        input=source,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    numbers = _VALUE.findall(done.stdout.partition("laid_out:")[2])
    found: dict[str, dict[str, int]] = {}
    for (name, field), number in zip(asked, numbers, strict=True):
        found.setdefault(name, {})[field] = int(number) - 1
    return found
