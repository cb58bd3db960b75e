"""The structures are laid out as in the vendor's headers, byte by byte, for both widths."""

from __future__ import annotations

import ctypes
import json
from pathlib import Path
from typing import Any

import pytest

from engine.devices.agent.far_side import abi

FACTS = json.loads(Path(__file__).with_name("abi.json").read_text("utf-8"))
CASES = [
    (generation, name)
    for generation in (1, 2)
    for name in sorted(FACTS[f"rknpu{generation}"]["structs"])
]


def narrow(structure: Any) -> Any:
    """The structure as ARM of 32 bits lays it out: pointers and contexts have four bytes."""
    fields = []
    for name, kind in structure._fields_:
        short = kind is ctypes.c_void_p or (structure is abi.rknn_init_extend and name == "ctx")
        fields.append((name, ctypes.c_uint32 if short else kind))
    return type("Narrow", (ctypes.Structure,), {"_fields_": fields})


@pytest.mark.parametrize(("generation", "name"), CASES)
@pytest.mark.parametrize("bits", [64, 32])
def test_every_structure_is_that_of_the_header(generation: int, name: str, bits: int) -> None:
    facts = FACTS[f"rknpu{generation}"]["structs"][name]
    structure, wide, short = abi.GENERATIONS[generation][name]
    size, offset = ("size", 2) if bits == 64 else ("size_arm32", 3)
    assert (wide, short) == (facts["size"], facts["size_arm32"])
    laid_out = structure if bits == abi.POINTER_BITS else narrow(structure)
    assert ctypes.sizeof(laid_out) == facts[size]
    ours = [(field, getattr(laid_out, field).offset) for field, *_ in laid_out._fields_]
    assert ours == [(field[0], field[offset]) for field in facts["fields"]]
    if bits == 64:
        sizes = [getattr(laid_out, field).size for field, _ in ours]
        assert sizes == [field[4] for field in facts["fields"]]
    signed = {"int8_t": -1, "int32_t": -1, "int64_t": -1, "uint32_t": 2**32 - 1, "uint8_t": 255}
    for field, c_type, *_ in facts["fields"]:
        if c_type in signed:
            one = structure()
            setattr(one, field, -1)
            assert getattr(one, field) == signed[c_type], field


def test_no_structure_is_missing() -> None:
    for generation, structures in abi.GENERATIONS.items():
        assert set(structures) == set(FACTS[f"rknpu{generation}"]["structs"])


def test_a_structure_of_another_size_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert abi.check_sizes() is None
    wrong = {2: {"rknn_input": (abi.rknn_input, 33, 25)}}
    monkeypatch.setattr(abi, "GENERATIONS", wrong)
    assert abi.check_sizes() == "rknn_input"


def values(generation: int, enum: str, prefix: str) -> dict[str, int]:
    found = FACTS[f"rknpu{generation}"]["enums"][enum]
    return {name.removeprefix(prefix): value for name, value in found.items()}


@pytest.mark.parametrize("generation", [1, 2])
def test_numbers_of_the_header(generation: int) -> None:
    queries = values(generation, "rknn_query_cmd", "RKNN_QUERY_")
    ours = {name: value for name, value in vars(abi.Query).items() if name.isupper()}
    if generation == 1:  # 6 is another command there, and nothing after it exists
        ours = {name: value for name, value in ours.items() if value < queries["PRE_COMPILE"]}
    assert ours == {name: queries[name] for name in ours}
    for names, enum, prefix in (
        (abi.TYPES, "rknn_tensor_type", "RKNN_TENSOR_"),
        (abi.LAYOUTS, "rknn_tensor_format", "RKNN_TENSOR_"),
        (abi.QUANTIZATIONS, "rknn_tensor_qnt_type", "RKNN_TENSOR_QNT_"),
    ):
        short = {"AFFINE_ASYMMETRIC": "AFFINE"}
        for name, value in values(generation, enum, prefix).items():
            if not name.endswith("MAX"):
                assert names[value] == short.get(name, name)
    defines = FACTS[f"rknpu{generation}"]["defines"]
    assert defines["RKNN_FLAG_COLLECT_PERF_MASK"] == abi.FLAG_COLLECT_PERF
    assert (defines["RKNN_MAX_DIMS"], defines["RKNN_MAX_NAME_LEN"]) == (abi.MAX_DIMS, abi.MAX_NAME)
    errors = {value: name for name, value in defines.items() if name.startswith("RKNN_ERR_")}
    assert errors == {code: abi.ERRORS[code] for code in errors}


def test_numbers_that_are_newer_keep_their_value() -> None:
    assert abi.name_of(abi.TYPES, 10) == "INT4"
    assert abi.name_of(abi.TYPES, 77) == "77"
    assert abi.name_of(abi.TYPES, -1) == "-1"
