"""The structures of the agent and of the stand-ins lie as in the vendor's headers.

The compiler says so field by field, and nothing is linked: it can say so for 32 bits as well.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from rknntui_emulator.runtime import build as stand_in
from rknntui_emulator.runtime.build import compiler
from tests.devices.agent.conftest import NATIVE, compiled

pytestmark = pytest.mark.cc

FACTS = json.loads(Path(__file__).with_name("abi.json").read_text("utf-8"))
WIDTHS = {
    64: (),
    # ARM of 32 bits, by a compiler for x86: pointers of 4 bytes, 8 bytes aligned to 8
    32: ("-m32", "-malign-double", "-D__arm__"),
}

_NAMED = ("runtime.c", "noise.c", "board_root.c")
"""The sources that give names to numbers, and what they need."""

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
"""Laid out otherwise in generation 1, where neither side calls what takes it."""


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
        if f"}} {name};" in declared and (generation == 2 or name not in GENERATION_2_ALONE)
        for line in asserted(facts, name, "", bits)
    ]
    assert len(lines) > 30
    assert check(bits, header, lines, f"-DGENERATION={generation}") == ""


def values(generation: int, enum: str, prefix: str) -> dict[str, int]:
    found = FACTS[f"rknpu{generation}"]["enums"][enum]
    return {name.removeprefix(prefix): value for name, value in found.items()}


@pytest.mark.parametrize("generation", [1, 2])
def test_numbers_of_queries(generation: int) -> None:
    queries = values(generation, "rknn_query_cmd", "RKNN_QUERY_")
    header = NATIVE / "runtime.h"
    ours = re.findall(r"^  QUERY_(\w+),$", header.read_text("utf-8"), re.MULTILINE)
    # 6 is another command in generation 1, and nothing after it exists there
    known = [name for name in ours if generation == 2 or queries.get(name, 6) < 6]
    assert len(known) >= 6
    lines = [f'_Static_assert(QUERY_{name} == {queries[name]}, "{name}");' for name in known]
    defines = FACTS[f"rknpu{generation}"]["defines"]
    for name, value in (
        ("FLAG_COLLECT_PERF", defines["RKNN_FLAG_COLLECT_PERF_MASK"]),
        ("MOST_DIMS", defines["RKNN_MAX_DIMS"]),
        ("sizeof(((struct attr *)0)->name)", defines["RKNN_MAX_NAME_LEN"]),
    ):
        lines.append(f'_Static_assert({name} == {value}, "{name}");')
    assert check(64, header, lines) == ""
    assert "is wrong" in check(64, header, ['_Static_assert(QUERY_PERF_RUN == 3, "is wrong");'])


_NAMES = """
#include <stdio.h>
#include "runtime.h"
int main(void) {
  char number[16];
  for (int i = -1; i < 80; i++)
    printf("%d %s %s %s\\n", i, type_name(i, number), layout_name(i, number),
           quantization_name(i, number));
  for (int i = -1; i > -20; i--) printf("%d %s\\n", i, error_name(i));
  return 0;
}
"""


def test_names_of_numbers(tmp_path: Path) -> None:
    """Also numbers that are newer than the lists."""
    source = tmp_path / "names.c"
    source.write_text(_NAMES)
    parts = [path for path in sorted(NATIVE.glob("*.c")) if path.name in _NAMED]
    program = compiled(tmp_path / "names", "-std=gnu11", f"-I{NATIVE}", source, *parts)
    told = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    rows = [line.split(" ", 1) for line in told.splitlines()]
    types, errors = rows[:81], {int(number): name for number, name in rows[81:]}
    names = {int(number): text.split(" ") for number, text in types}
    assert names[77] == ["77"] * 3
    assert names[-1] == ["-1"] * 3
    assert names[10][0] == "INT4"
    for generation in (1, 2):
        for place, enum, prefix in (
            (0, "rknn_tensor_type", "RKNN_TENSOR_"),
            (1, "rknn_tensor_format", "RKNN_TENSOR_"),
            (2, "rknn_tensor_qnt_type", "RKNN_TENSOR_QNT_"),
        ):
            short = {"AFFINE_ASYMMETRIC": "AFFINE"}
            for name, value in values(generation, enum, prefix).items():
                if not name.endswith("MAX"):
                    assert names[value][place] == short.get(name, name)
        defines = FACTS[f"rknpu{generation}"]["defines"]
        known = {value: name for name, value in defines.items() if name.startswith("RKNN_ERR_")}
        assert known == {code: errors[code] for code in known}
    assert errors[-19] == "an unknown error"
