"""Our structures against those of the vendor's headers, as two cross compilers lay them out."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.export.codegen import write
from tests.devices.agent.test_abi_in_c import FACTS
from tests.devices.real.conftest import CROSS
from tests.devices.real.layouts import layouts

pytestmark = pytest.mark.boards

MINIMAL = Path(write.__file__).parent / "templates" / "cpp" / "include" / "rknn_minimal.h.in"

_INIT = {"rknn_init_extend"}
_BEFORE_1_5 = _INIT | {"rknn_input_range"}
_BEFORE_1_4 = _BEFORE_1_5 | {"rknn_mem_size"}
_BEFORE_1_3 = _BEFORE_1_4 | {"rknn_tensor_attr"}
DIFFER = {
    "v1.0.0.h": _BEFORE_1_3 | {"rknn_run_extend"},
    "v1.2.0.h": _BEFORE_1_3,
    "v1.3.0.h": _BEFORE_1_4,
    "v1.4.0.h": _BEFORE_1_5,
    "v1.4.0mrt.h": _BEFORE_1_5,
    **dict.fromkeys(("v1.5.0.h", "v1.5.2.h", "v1.6.0.h", "v2.0.0b0.h"), _INIT),
}
"""Structures that a header lays out otherwise or does not have; those of the others are ours."""


def fields(generation: int) -> dict[str, list[str]]:
    """The fields of the structures in ``abi.json``, by the name of the header."""
    structures = FACTS[f"rknpu{generation}"]["structs"]
    return {name: [field[0] for field in facts["fields"]] for name, facts in structures.items()}


def ours(generation: int, bits: int) -> dict[str, dict[str, int]]:
    """What ``abi.json`` says, which the structures of the agent are held to."""
    size, offset = ("size", 2) if bits == 64 else ("size_arm32", 3)
    return {
        name: {"": facts[size]} | {field[0]: field[offset] for field in facts["fields"]}
        for name, facts in FACTS[f"rknpu{generation}"]["structs"].items()
    }


def generation_of(header: Path) -> int:
    return 1 if header.name.startswith("g1") else 2


def test_those_that_tests_stand_on(headers: list[Path]) -> None:
    assert len(headers) >= 13
    assert DIFFER.keys() <= {header.name for header in headers}
    for header in headers:
        generation = generation_of(header)
        differ = set()
        for bits, board in ((64, "arm64"), (32, "armhf")):
            theirs = layouts(CROSS[board], header, fields(generation))
            for name, facts in ours(generation, bits).items():
                if any(theirs.get(name, {}).get(key) != value for key, value in facts.items()):
                    differ.add(name)
        assert differ == DIFFER.get(header.name, set()), header.name


@pytest.mark.parametrize("board", CROSS)
def test_those_of_generated_projects(headers: list[Path], board: str, tmp_path: Path) -> None:
    for header in headers:
        generation = generation_of(header)
        copy = tmp_path / "rknn_minimal.h"
        copy.write_text(f"#define RKNN_GENERATION {generation}\n{MINIMAL.read_text()}")
        asked = fields(generation)
        if generation == 1:
            del asked["rknn_tensor_mem"]  # these projects have it in generation 2 alone
        found = layouts(CROSS[board], copy, asked)
        theirs = layouts(CROSS[board], header, fields(generation))
        assert len(found) >= 6
        differ = {
            name
            for name, facts in found.items()
            if any(theirs.get(name, {}).get(key) != value for key, value in facts.items())
        }
        assert differ == DIFFER.get(header.name, set()) & found.keys(), header.name
