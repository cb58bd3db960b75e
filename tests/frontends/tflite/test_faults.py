"""Damaged and hostile files: an error that says so, never another exception, never a hang."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import flatbuffers
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import EngineError, SourceModelError
from engine.base.formats.flatbuffers import FlatBuffer, FlatError
from engine.frontends.load import inspect_source, load_source
from engine.frontends.sniff import Recognised
from engine.frontends.source import SourceModel
from engine.frontends.tflite.schema import OPTIONS, parse_model
from engine.graph.ir import verify
from tests.frontends.tflite import op_cases, quant_cases, recurrent_cases
from tests.frontends.tflite.tflite_models import (
    Case,
    In,
    Writer,
    ints,
    load_bytes,
    single,
    write_case,
)
from tests.fuzz.mutate import mutant
from tests.safety import ends

_CASES = (*op_cases.CASES, *quant_cases.CASES, *recurrent_cases.CASES)
_SMALL = write_case(single("RESHAPE", In((2, 3)), ints(3, 2)))
_EVIL = (b"\xff\xff\xff\x7f", b"\xff\xff\xff\xff", b"\x00\x00\x00\x80", b"\x00\x00\x00\x00")


def _try(data: bytes, path: Path) -> None:
    """Look and load; an EngineError is right, another exception fails the test."""
    path.write_bytes(data)
    source = SourceModel("tflite", path, None, Recognised("tflite", "", ""))
    for step in (inspect_source, load_source):
        try:
            result = step(source)
        except EngineError:
            continue
        if step is load_source:
            verify(result.graph)  # type: ignore[union-attr]


def test_every_truncation_is_an_error() -> None:
    for size in range(len(_SMALL)):
        with pytest.raises(SourceModelError):
            parse_model(_SMALL[:size], "cut.tflite")


@pytest.mark.parametrize(
    "evil",
    [_EVIL[0], *(pytest.param(value, marks=pytest.mark.long) for value in _EVIL[1:])],
    ids=lambda value: value.hex(),
)
def test_no_word_of_a_file_can_break_the_reader(evil: bytes, tmp_path: Path) -> None:
    for place in range(8, len(_SMALL) - 4, 4):
        _try(_SMALL[:place] + evil + _SMALL[place + 4 :], tmp_path / "m.tflite")


def _mutate(count: int, seed: int, path: Path) -> None:
    rng = random.Random(seed)
    files = [write_case(case) for case in rng.sample(_CASES, 40)]
    for _ in range(count):
        data = mutant(rng.choice(files), rng.getrandbits(32))
        with ends():
            _try(data, path)


@pytest.mark.parametrize(
    ("count", "seed"), [(60, 1), *(pytest.param(500, n, marks=pytest.mark.long) for n in range(4))]
)
def test_mutants_are_refused_or_load(count: int, seed: int, tmp_path: Path) -> None:
    _mutate(count, seed, tmp_path / "m.tflite")


@given(st.binary(min_size=4, max_size=120))
def test_any_bytes_are_read_within_bounds(data: bytes) -> None:
    try:
        table = FlatBuffer(data, 1 << 16).root()
        for field in range(6):
            table.view(field, 4)
            table.numbers(field)
            table.text(field)
            list(table.tables(field))
    except FlatError:
        pass


def test_a_table_that_points_to_itself_ends(tmp_path: Path) -> None:
    # every offset of a vector of tables leads to the vector's own start
    data = bytearray(_SMALL)
    words = np.frombuffer(bytes(data[: len(data) // 4 * 4]), "<u4")
    for place in np.flatnonzero(words < len(data)):
        data[4 * place : 4 * place + 4] = struct.pack("<i", 0)
        if place > 1:
            _try(bytes(data), tmp_path / "m.tflite")
            data = bytearray(_SMALL)


def test_one_vector_read_many_times_is_bounded() -> None:
    # 4,000 tensors that share one table: the file is small, what it says is not
    writer = Writer()
    x = writer.tensor(In((2,)), "x" * 60000)
    writer.ends([x], [x])
    data = bytearray(writer.data())
    builder = flatbuffers.Builder(1 << 20)
    name = builder.CreateString("x" * 60000)
    schema.TensorStart(builder)
    schema.TensorAddName(builder, name)
    tensor = schema.TensorEnd(builder)
    schema.SubGraphStartTensorsVector(builder, 4000)
    for _ in range(4000):
        builder.PrependUOffsetTRelative(tensor)
    tensors = builder.EndVector()
    schema.SubGraphStart(builder)
    schema.SubGraphAddTensors(builder, tensors)
    graph = schema.SubGraphEnd(builder)
    schema.ModelStartSubgraphsVector(builder, 1)
    builder.PrependUOffsetTRelative(graph)
    graphs = builder.EndVector()
    schema.ModelStart(builder)
    schema.ModelAddVersion(builder, 3)
    schema.ModelAddSubgraphs(builder, graphs)
    builder.Finish(schema.ModelEnd(builder), file_identifier=b"TFL3")
    data = bytearray(builder.Output())
    with pytest.raises(SourceModelError, match="more tables and lists than a model can have"):
        parse_model(bytes(data), "shared.tflite")


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (single("RESHAPE", In((2, 3)), ints(4, 2)), "does not fit"),
        (single("TILE", In((2, 3)), ints(2**30, 2**30)), "would have the shape"),
        (single("ONE_HOT", In((2,), "int32"), ints(2**31 - 1), ints(1), ints(0), axis=-1,
                out=[In(dtype="int32")]), "constant of 2147483647"),
        (single("CONCATENATION", In((2, 3)), In((3, 2)), axis=0), "does not fit"),
        (single("SPLIT", ints(7), In((2, 3)), numSplits=1), "axis 7"),
        (single("MAX_POOL_2D", In((1, 4, 4, 1)), strideH=0), "stride"),
        (single("DEPTH_TO_SPACE", In((1, 4, 4, 6)), blockSize=2), "blocks of 2 out of 6 channels"),
        (single("SPACE_TO_DEPTH", In((1, 4, 4)), blockSize=2), "not enough values"),
    ],
    ids=lambda value: value.op if isinstance(value, Case) else "",
)  # fmt: skip
def test_numbers_that_do_not_fit_name_the_layer(case: Case, words: str, tmp_path: Path) -> None:
    with pytest.raises(SourceModelError, match=words) as caught:
        load_bytes(write_case(case), tmp_path)
    assert "y0" in caught.value.what


def test_a_constant_that_its_data_do_not_fill(tmp_path: Path) -> None:
    case = single("ADD", In((2, 3)), In((2, 3), raw=b"\x00" * 20))
    with pytest.raises(SourceModelError, match="has 20 bytes of data; its shape and type need 24"):
        load_bytes(write_case(case), tmp_path)


@pytest.mark.parametrize(
    ("quant", "words"),
    [
        ({"scale": 0.0}, "not a positive number"),
        ({"scale": float("nan")}, "not a positive number"),
        ({"scale": 0.1, "zero": 300}, "zero point outside"),
        ({"scale": [0.1, 0.2], "axis": 1}, "2 scales along axis 1"),
    ],
)
def test_parameters_that_cannot_be(quant: dict[str, object], words: str, tmp_path: Path) -> None:
    x = In((2, 3), "int8", **quant)  # type: ignore[arg-type]
    case = single("RELU", x, out=[In(dtype="int8", scale=0.1)])
    with pytest.raises(SourceModelError, match=words):
        load_bytes(write_case(case), tmp_path)


@pytest.mark.parametrize("kind", OPTIONS)
def test_options_are_read_as_the_schema_writes_them(kind: str) -> None:
    """Every field of our tables, written by the schema's own classes with another value each."""
    table = OPTIONS[kind]
    options = getattr(schema, f"{table.name}T")()
    slots = [name for name in vars(options) if name != "quantSpec"]
    values: dict[str, object] = {}
    for field, slot in zip(table.fields, _named(table.fields, slots), strict=True):
        count = 1 + field.number
        value: object = {
            "f": 0.5 + count,
            "?": not field.default,
            "i*": [count, 7],
            "f*": [1.5],
            "s": f"name {count}",
        }.get(field.kind, count)
        setattr(options, slot, value)
        values[field.name] = tuple(value) if isinstance(value, list) else value
    writer = Writer()
    x = writer.tensor(In((1,)))
    fields = {slot: getattr(options, slot) for slot in slots}
    writer.op(kind, [x], [x], **fields)
    writer.ends([x], [x])
    (operator,) = parse_model(writer.data(), "m.tflite").subgraphs[0].operators
    assert operator.type == kind
    assert dict(operator.options) == values


def _named(fields: tuple[object, ...], slots: list[str]) -> list[str]:
    """The attribute of the schema's class for each field, by its number in the schema."""
    # deprecated fields have no attribute; what is left stands in the schema's order
    numbers = [field.number for field in fields]  # type: ignore[attr-defined]
    first = min(numbers, default=0) if len(slots) == len(numbers) else 0
    return [slots[number - first] for number in numbers]
