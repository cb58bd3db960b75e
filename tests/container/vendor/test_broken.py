"""Broken and hostile files of the vendor's: an error of ours, within bounds."""

from __future__ import annotations

import contextlib
import json
import struct
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import ContainerError
from engine.container.vendor import inspect_op_package, inspect_vendor
from engine.container.vendor.values import BoundedReader, flat_root, read_bson, read_literal
from tests.container.build import within
from tests.container.vendor import build
from tests.container.vendor.flat import Vec, flat, i32, ints

BYTES = 1 << 30


# of these kinds every proper part is damaged; of the others what comes last is not needed
WHOLE = sorted(build.KINDS.keys() - {"npu-bare", "rknx", "encrypted"})


@pytest.mark.parametrize("kind", WHOLE)
def test_cut_anywhere(refused: Any, kind: str) -> None:
    data = build.KINDS[kind]()
    boundaries = {0, 1, 4, 7, 8, 15, 16, 23, 24, 63, 64, 65, len(data) - 1, len(data) - 2}
    boundaries |= set(range(0, len(data), max(1, len(data) // 60)))
    boundaries |= {place + by for place in _lengths(data) for by in (-1, 0, 1, 8, 9)}
    for size in sorted(boundaries):
        # a model of generation 1 is whole without the operators behind its layer list
        if not 0 <= size < len(data) or (kind == "layers" and size == _list_end(data)):
            continue
        refused(data[:size])


def _lengths(data: bytes) -> list[int]:
    """Where the parts of a container start."""
    if data[:4] != b"RKNN" or data[24:28] == b"SHDR":
        return [16]
    version, size = struct.unpack_from("<QQ", data, 8)
    start = 64 if size and version & 0xFF > 1 else 24
    return [start, start + size, _list_end(data)]


def _list_end(data: bytes) -> int:
    version, size = struct.unpack_from("<QQ", data, 8)
    start = (64 if size and version & 0xFF > 1 else 24) + size
    return start + 8 + struct.unpack_from("<Q", data, start)[0]


@pytest.mark.parametrize("kind", ["npu-bare", "rknx", "encrypted"])
def test_cut_anywhere_is_an_error_or_told(inspected: Any, kind: str) -> None:
    data = build.KINDS[kind]()
    for size in range(1, len(data), max(1, len(data) // 150)):
        with contextlib.suppress(ContainerError):
            assert kind == "npu-bare" or inspected(data[:size]).findings, size


@pytest.mark.parametrize("length", [1 << 63, (1 << 64) - 1, 1 << 32, 1 << 20])
@pytest.mark.parametrize("kind", ["npu", "npu-mini", "layers", "layers-nbg"])
def test_lengths_that_lie(refused: Any, kind: str, length: int) -> None:
    data = build.KINDS[kind]()
    start = struct.unpack_from("<Q", data, 16)[0]
    places = [16, (64 if start else 24) + start]
    if kind == "layers":
        places.append(_list_end(data))
    for place in places:
        broken = bytearray(data)
        struct.pack_into("<Q", broken, place, length)
        refused(bytes(broken), "damaged")


@pytest.mark.parametrize("length", [1 << 63, (1 << 64) - 1, 1 << 20, 0])
def test_lengths_of_a_package_that_lie(refused: Any, tmp_path: Path, length: int) -> None:
    broken = bytearray(build.package())
    struct.pack_into("<Q", broken, 16, length)
    refused(bytes(broken), "damaged")
    with pytest.raises(ContainerError):
        inspect_op_package(tmp_path / "a.rknn")


def test_the_equation_of_the_small_form(refused: Any) -> None:
    for field in (0, 4, 12, 20, 24):
        data = bytearray(build.mini_data())
        (value,) = struct.unpack_from("<I", data, field)
        for wrong in (value + 1, 0xFFFFFFFF):
            struct.pack_into("<I", data, field, wrong)
            refused(build.container(0x1004, bytes(data), build.wrapper()), "which is not the")
    refused(build.container(0x1004, b"short", build.wrapper()), "head of the small form")
    newer = build.mini_data({**build.mini_model(), 0: i32(7)})
    refused(build.container(0x1004, newer, build.wrapper()), "schema version")


def test_every_offset_that_points_outside(inspected: Any) -> None:
    """Each 4 bytes of the compiled graph, set to values that lead out of it or back into it."""
    data = build.npu()
    refused = 0
    for place in range(64, 64 + 400, 4):
        for value in (0xFFFFFFFF, 0x7FFFFFFF, 0x80000000, 0):
            broken = bytearray(data)
            struct.pack_into("<I", broken, place, value)
            try:
                inspected(broken)
            except ContainerError:
                refused += 1
    assert refused > 150


def _span(data: bytes) -> BoundedReader:
    return BoundedReader(data, 0, len(data), "a.rknn", "the graph")


def test_offsets_in_a_circle_end(refused: Any, inspected: Any) -> None:
    """Layers that are the tensors, lists that start at the field that names them, wrapping back."""
    data = bytearray(flat({0: i32(6), 2: [{0: [{}], 1: [{}]}]}))
    (graph,) = flat_root(_span(bytes(data))).tables(2)
    tensors, layers = (graph._place + offset for offset in graph._offsets[:2])
    (distance,) = struct.unpack_from("<I", data, tensors)
    struct.pack_into("<I", data, layers, tensors + distance - layers)
    assert len(inspected(data).graphs[0].layers) == 1
    struct.pack_into("<I", data, tensors, 0)  # the list's length is the distance to it
    assert inspected(data).graphs[0].tensors == ()
    struct.pack_into("<I", data, tensors, (1 << 32) - tensors + graph._place)
    refused(bytes(data), "damaged")


def test_a_table_of_a_vtable_that_lies() -> None:
    good = flat({0: i32(5)})
    (table,) = struct.unpack_from("<I", good, 0)
    vtable = table - struct.unpack_from("<i", good, table)[0]
    for field, value in ((0, 0xFFFE), (0, 3), (0, 5), (2, 0xFFFF), (2, 0), (4, 0xFFFF), (4, 2)):
        broken = bytearray(good)
        struct.pack_into("<H", broken, vtable + field, value)
        with pytest.raises(ContainerError, match="damaged"):
            flat_root(_span(bytes(broken))).number(0)


@pytest.mark.parametrize("count", [1 << 31, (1 << 32) - 1, 1 << 28, 200_000])
def test_counts_that_lie(refused: Any, count: int) -> None:
    class Lying(Vec):
        def __init__(self) -> None:
            self.data = struct.pack("<I4i", count, 1, 2, 3, 4)

    graph = build.graph()
    graph[2] = Lying()
    refused(build.npu(s2=[graph]), "damaged")
    for slot in (3, 12):
        refused(build.npu(**{f"s{slot}": Lying()}), "damaged")
    graph = build.graph()
    graph[0][1][4] = Lying()
    refused(build.npu(s2=[graph]), "damaged")


def test_positions_of_tensors_that_do_not_exist(refused: Any) -> None:
    for slot in (2, 3):
        for position in (6, -1, 1 << 30):
            refused(build.npu(s2=[{**build.graph(), slot: ints(position)}]), "is named")
    graph = build.graph()
    graph[1][1][4] = ints(77)
    refused(build.npu(s2=[graph]), "tensor 77")


def shared_tensor(count: int, letters: int) -> bytes:
    """A graph with a list of very many offsets to one tensor."""
    data = bytearray(flat({2: [{0: [{5: "n" * letters}]}], 0: i32(6)}))
    root = flat_root(_span(bytes(data)))
    (graph,) = root.tables(2)
    (tensor,) = graph.tables(0)
    field = graph._place + graph._offsets[0]
    vector = len(data)
    struct.pack_into("<I", data, field, vector - field)
    data += struct.pack("<I", count)
    # offsets are unsigned: the tensor must lie behind the list that names it
    end = vector + 4 + 4 * count
    data += struct.pack(f"<{count}I", *(end - (vector + 4 + 4 * i) + 4 for i in range(count)))
    back = end + 4 - (tensor._place - struct.unpack_from("<i", data, tensor._place)[0])
    data += struct.pack("<Ii", 0, back)
    data += bytes(tensor._size - 4)
    name = end + 4 + tensor._offsets[5]
    struct.pack_into("<I", data, name, len(data) - name)
    return bytes(data + struct.pack("<I", letters) + b"n" * letters)


@pytest.mark.long
def test_there_are_only_so_many_tensors(refused: Any) -> None:
    refused(shared_tensor(150_001, 1), "more than 150000 tensors")


def test_one_table_that_many_offsets_share_is_bounded(refused: Any) -> None:
    """The name of the tensor is long, too."""
    data = shared_tensor(1_000_000, 5000)
    with within(BYTES // 4):
        refused(data, "more tables and lists than a model can have")


def test_shapes_with_too_many_dimensions(refused: Any) -> None:
    graph = build.graph()
    graph[0][1][4] = ints(*range(1, 40))
    refused(build.npu(s2=[graph]), "39 dimensions")
    listed = build.first_generation()
    listed["norm_tensor"][0]["size"] = [1] * 40
    refused(build.layers(listed), "40 dimensions")


LISTS: list[tuple[bytes, str]] = [
    (b"[" * 100_000, "nested more than 64 deep"),
    (b'{"a":' * 70 + b"1" + b"}" * 70, "nested more than 64 deep"),
    (b'"\\"' * 1_000_000, "no valid JSON"),
    (b"[" + b"[]," * 1_500_000 + b"[]]", "more values in its JSON"),
    (b'["",' * 1 + b'"",' * 1_000_000, "more values in its JSON"),
    (b'"' + b"\\" * 99_999, "no valid JSON"),
    (b'{"version": ' + b"1" * 10_000 + b"}", "no valid JSON"),
    (b"{}", "no list of layers"),
    (b"[]", "no list of layers"),
    (b"nothing", "no valid JSON"),
    (b"\xff\xfe{", "no valid JSON"),
    (b'{"version": "1", "nodes": {}}', "no list of layers"),
    (b'{"version": "1", "nodes": [1]}', "something else than tables"),
    (b" " * ((8 << 20) + 1), "are read"),
]
PACKAGES: list[tuple[bytes, str]] = [
    (b"- a\n- b\n", "does not name the operator"),
    (b"x" * 70_000, "70000 bytes"),
    (b"[" * 900, "not YAML"),
    (b"[" * 5_000, "too many brackets"),
    (b"d: 2020-99-99\nname: x", "not YAML"),
    (b"name: !!python/object/apply:os.system ['true']\n", "not YAML"),  # constructs nothing
]
OPERATORS: list[tuple[dict[str, Any], str]] = [
    ({"vx_kernel_bin_offset": 20}, "the kernel would lie at 20"),
    ({"op_lib_x86_len": 1 << 63}, "host library x86"),
    ({"op_lib_x86_offset": -1}, "host library x86"),
    ({"op_lib_x86_offset": "0"}, "not a number"),
    ({"inputs": {str(i): {} for i in range(1001)}}, "more than 1000 arguments"),
]
PORTS: list[tuple[str, str]] = [
    ("[" * 100_000, "nested too deep"),
    ("{'a': " * 100 + "1" + "}" * 100, "nested too deep"),
    ("'" + "x" * (1 << 19), "characters"),
    ("[" + "1," * 60_000 + "]", "too many values"),
]
REFUSED: list[tuple[bytes, str]] = [
    *((build.layers(text), says) for text, says in LISTS),
    *((build.package(text), says) for text, says in PACKAGES),
    (build.package() + build.sections(b"more"), "7 parts"),
    (build.package() + build.sections(*[b""] * 20), "more than 16"),
    *((build.layers(tail=build.custom_tail(**change)), says) for change, says in OPERATORS),
    (build.layers(tail=build.sections(b"[]")), "1 parts follow"),
    (build.layers(tail=build.sections(b"no", b"x")), "no valid JSON"),
    *((build.npu(s3=text), says) for text, says in PORTS),
    (build.npu(s12="[" * 1000), "nested"),
    (build.npu(s13=json.dumps({"y": 1})[:-1]), "no valid JSON"),
    (build.npu(s2=[]), "no graph"),
    (build.npu(s2=[{}] * 300), "more than 256 graphs"),
]


@pytest.mark.parametrize(("data", "says"), REFUSED, ids=range(len(REFUSED)))
def test_what_no_file_can_hold(refused: Any, data: bytes, says: str) -> None:
    refused(data, says)


def test_many_small_values_of_json_take_bounded_memory(refused: Any) -> None:
    bomb = b'{"version": "1", "nodes": [' + b"{}," * 100_000 + b"{}]}"
    with within(BYTES):
        refused(build.layers(bomb), "more than 50000 entries")


LINKS: list[tuple[str, str, Any, str]] = [
    ("connection", "node_id", 9, "node_id '9'"),
    ("connection", "node_id", -1, "node_id"),
    ("connection", "node_id", True, "node_id"),
    ("connection", "node_id", 10**400, "node_id"),
    ("connection", "left", "middle", "neither input nor output"),
    ("connection", "right_tensor", None, "node_id 'None'"),
    ("connection", "right_tensor", {"type": "norm_tensor", "tensor_id": "x"}, "tensor_id 'x'"),
    ("graph", "left", "side", "a port of the graph"),
]


@pytest.mark.parametrize(("part", "field", "value", "says"), LINKS)
def test_links_that_lead_nowhere(
    refused: Any, part: str, field: str, value: Any, says: str
) -> None:
    listed = build.first_generation()
    listed[part][0][field] = value
    refused(build.layers(listed), says)


@pytest.mark.parametrize("count", [4, 50_001, 0xFFFFFFFF])
@pytest.mark.parametrize("major", [1, 4])
def test_precompiled_graphs_that_lie(refused: Any, major: int, count: int) -> None:
    data = bytearray(build.nbg(major))
    struct.pack_into("<I", data, 76, count)
    refused(bytes(data), "layers")
    data = bytearray(build.nbg(major))
    offset = 80 + (32 if major == 1 else 296) + 16
    struct.pack_into("<I", data, offset, 0xFFFFFF00)
    refused(bytes(data), "list of layers")


@pytest.mark.parametrize(
    "text",
    [
        "1+1",
        "{'a': 1-1}",
        "{'a': 1 -1}",
        "-" * 500 + "1",
        "+".join("1" * 500),
        "{'a': x}",
        "{'a': f'{1}'}",
        "{'a': 'b' 'c'}",
        "{'a': b'c'}",
        "{[]: 1}",
        "{'a': 'b}",
        "{'a': '\0'}",
        "{'a': " + "9" * 5000 + "}",
        "{'a': 1_0}",
        "{'a': 0x10}",
        "{'a': lambda: 1}",
        "[1, 2]",
        "{'a': 1",
        "{'a' 1}",
        "'" * 3,
    ],
)
def test_what_is_no_dict_of_literals_is_not_evaluated(text: str) -> None:
    assert read_literal(text, _span(b"")) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{}", {}),
        (
            " {'a': [1, -2.5e3, True, None], \"b'\": ('x\\'y',)} ",
            {"a": [1, -2500.0, True, None], "b'": ("x'y",)},
        ),
        ("{'a': nan, 'b': -inf}", {"a": None, "b": float("-inf")}),
        ("{1: {'information': 'inf'}}", {1: {"information": "inf"}}),
    ],
)
def test_dicts_of_literals(text: str, value: Any) -> None:
    assert read_literal(text, _span(b"")) == value


def test_bson_that_is_none() -> None:
    good = build.bson({"a": {"b": [1, 2.5, "x"]}, "c": "t"})
    assert read_bson(good) == {"a": {"b": [1, 2.5, "x"]}, "c": "t"}
    for size in range(len(good)):
        assert read_bson(good[:size]) is None
    for place in range(len(good)):
        for value in (0, 1, 2, 3, 0x7F, 0xFF):
            read_bson(good[:place] + bytes([value]) + good[place + 1 :])
    deep: dict[str, Any] = {}
    for _ in range(20):
        deep = {"a": deep}
    assert read_bson(build.bson(deep)) is None
    assert read_bson(build.bson({str(i): 1 for i in range(10_001)})) is None


def test_numbers_that_are_no_quantization(inspected: Any) -> None:
    nan = float("nan")
    for slot, value in ((10, (0.0,)), (10, (nan,)), (10, (1.0, 2.0)), (8, (nan,)), (10, (-1.0,))):
        graph = build.graph()
        graph[0][1] |= {slot: Vec("f", value)}
        model = inspected(build.npu(s2=[graph]))
        assert [finding.code for finding in model.findings] == ["quantization-odd"]
        assert model.inputs[0].tensor.quant is None


def test_places_that_are_no_files(tmp_path: Path) -> None:
    empty = tmp_path / "empty.rknn"
    empty.touch()
    text = tmp_path / "text.rknn"
    text.write_text("hello")
    for path, says in (
        (tmp_path / "none", "does not exist"),
        (tmp_path, "is not a file"),
        (empty, "empty"),
        (text, "not a file of the vendor"),
        (Path("/dev/null"), "is not a file"),
    ):
        with pytest.raises(ContainerError, match=says):
            inspect_vendor(path)
