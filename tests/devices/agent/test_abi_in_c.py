"""The structures of the agent in C and of the stand-ins lie as in the vendor's headers.

The compiler says so field by field, and nothing is linked: it can say so for 32 bits as well.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from engine.devices.emulator.runtime import build as stand_in
from engine.devices.emulator.runtime.build import compiler
from tests.devices.agent.conftest import NATIVE

pytestmark = pytest.mark.cc

FACTS = json.loads(Path(__file__).with_name("abi.json").read_text("utf-8"))
WIDTHS = {
    64: (),
    # ARM of 32 bits, by a compiler for x86: pointers of 4 bytes, 8 bytes aligned to 8
    32: ("-m32", "-malign-double", "-D__arm__"),
}

AGENT = {
    "rknn_input_output_num": "struct counts",
    "rknn_tensor_attr": "struct attr",
    "rknn_perf_detail": "struct perf_detail",
    "rknn_perf_run": "struct perf_run",
    "rknn_sdk_version": "struct sdk_version",
    "rknn_mem_size": "struct mem_size",
    "rknn_custom_string": "struct custom_string",
    "rknn_tensor_mem": "struct tensor_mem",
    "rknn_input": "struct input",
    "rknn_output": "struct output",
}
ENDS_EARLIER = {"rknn_tensor_attr": "w_stride"}
"""Where that of generation 1 ends in the agent's, which has one structure for both."""
GENERATION_2_ALONE = {"rknn_tensor_mem"}
"""Laid out otherwise in generation 1, whose agent does not call what takes it."""


def asserted(facts: Mapping[str, Any], name: str, end: str, bits: int) -> Iterator[str]:
    """What the compiler has to find true of one structure."""
    size, offset = ("size", 2) if bits == 64 else ("size_arm32", 3)
    whole = f"offsetof({name}, {end})" if end else f"sizeof({name})"
    yield f'_Static_assert({whole} == {facts[size]}, "{name}");'
    for field in facts["fields"]:
        member = f"{name}.{field[0]}"
        yield f'_Static_assert(offsetof({name}, {field[0]}) == {field[offset]}, "{member}");'
        if bits == 64:
            held = f"sizeof((({name} *)0)->{field[0]})"
            yield f'_Static_assert({held} == {field[4]}, "{member} has another size");'


def check(bits: int, header: Path, lines: list[str], *words: str) -> str:
    """What the compiler says; nothing where all is true."""
    cc = compiler()
    if cc is None:
        pytest.skip("there is no C compiler")
    command = [cc, "-std=gnu11", "-ffreestanding", "-fsyntax-only", *WIDTHS[bits], *words]
    source = "\n".join([f'#include "{header}"', *lines])
    for content in ("#include <stdint.h>\n", source):
        done = subprocess.run(
            [*command, "-x", "c", "-"], input=content, capture_output=True, text=True, check=False
        )
        if content is not source and done.returncode:
            pytest.skip(f"{cc} does not compile for {bits} bits here")
    return done.stderr


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("generation", [1, 2])
def test_the_agents(generation: int, bits: int) -> None:
    structures = FACTS[f"rknpu{generation}"]["structs"]
    lines: list[str] = []
    for structure, name in AGENT.items():
        if structure in structures and (generation == 2 or structure not in GENERATION_2_ALONE):
            end = ENDS_EARLIER.get(structure, "") if generation == 1 else ""
            lines += asserted(structures[structure], name, end, bits)
    assert len(lines) > 30
    header = NATIVE / "runtime.h"
    assert check(bits, header, lines) == ""
    wrong = lines[1].replace("== 0", "== 4")
    assert "struct counts.n_input" in check(bits, header, [wrong])  # it does look


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("generation", [1, 2])
def test_those_of_the_stand_ins(generation: int, bits: int) -> None:
    structures = FACTS[f"rknpu{generation}"]["structs"]
    header = Path(stand_in.__file__).with_name("facts.h")
    declared = header.read_text()
    lines = [
        line
        for name, facts in structures.items()
        if f"}} {name};" in declared
        for line in asserted(facts, name, "", bits)
    ]
    assert len(lines) > 30
    assert check(bits, header, lines, f"-DGENERATION={generation}") == ""
