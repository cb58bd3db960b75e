"""Containers that are damaged, hostile, foreign or newer: each is told, nothing else is read."""

from __future__ import annotations

import json
import resource
import struct
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

from engine.base.errors import ContainerError
from engine.container import blob, other_format, read_container, write_container
from engine.container.blob import pack, unpack
from engine.graph.ir import QuantParams, QuantTable
from tests.container.build import content
from tests.fuzz.mutate import mutant
from tests.safety import ends

GOOD = write_container(content())


def refused(data: bytes, says: str) -> ContainerError:
    with pytest.raises(ContainerError, match=says) as caught:
        read_container(data)
    assert caught.value.cause
    assert caught.value.remedy
    return caught.value


def test_every_truncation_is_refused() -> None:
    for size in [0, 1, 3, 8, 24, 40, 63, 64, 100, 700, len(GOOD) // 2, len(GOOD) - 1]:
        with pytest.raises(ContainerError):
            read_container(GOOD[:size])
    refused(GOOD[:-1], "cut short")
    refused(GOOD[:80], "cut short")
    refused(GOOD + b"x", "damaged")


def test_mutants() -> None:
    """Each is refused, in bounded time and memory."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(300):
        data = mutant(GOOD, number)
        if data != GOOD:
            with ends(), pytest.raises(ContainerError):
                read_container(data)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KiB


def test_mutants_with_right_checksums() -> None:
    """As a hostile writer makes them: each loads, or is refused by the container's error."""
    sections = unpack(GOOD, "good").sections
    names, refusals = sorted(sections), 0
    for number in range(150):
        name = names[number % len(names)]
        try:
            read_container(repacked(**{name: mutant(bytes(sections[name]), number)}))
        except ContainerError:
            refusals += 1
    assert refusals > 150 // 4


def repacked(data: bytes = GOOD, **changes: bytes | None) -> bytes:
    """A container with other sections; None leaves one out."""
    frame = unpack(data, "good")
    parts = {name: bytes(part) for name, part in frame.sections.items()} | changes
    kept = {name: part for name, part in parts.items() if part is not None}
    return pack(kept, bytes(frame.layers))


def test_there_are_at_most_64_sections() -> None:
    many = {f"s{at}": b"" for at in range(65)}
    with pytest.raises(ValueError, match="not section names"):
        pack(many, b"{}")
    whole = bytearray(pack(dict(list(many.items())[:64]), b"{}"))
    assert len(unpack(bytes(whole), "64").sections) == 64
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blob, "_MOST_SECTIONS", 65)
        whole = bytearray(pack(many, b"{}"))
    with pytest.raises(ContainerError, match="its section table"):
        unpack(bytes(whole), "65")


@pytest.mark.parametrize("section", ["about", "recipe", "provenance", "graph", "weights"])
def test_needed_sections(section: str) -> None:
    refused(repacked(**{section: None}), section)


@pytest.mark.parametrize(
    ("section", "text"),
    [
        ("recipe", b"[]"),
        ("recipe", b"{"),
        ("recipe", b"NaN"),
        ("recipe", b"[" * 100_000),
        ("about", b'{"name": 3, "quantized": true}'),
        ("about", b'{"name": "n", "quantized": 1}'),
        ("provenance", b'{"tool": "x"}'),
        ("segments", b'{"after": [[-1, "x"]]}'),
        ("segments", b'{"after": [["x", 1]]}'),
        ("segments", b'{"after": 3}'),
        ("custom_string", b"3"),
        ("quant_table", b'[["x", {"dtype": "int8", "scale": [0], "zero_point": [0]}]]'),
        ("quant_table", b"3"),
        ("quant_table", b"[[3, {}]]"),
        ("quant_table", b'[["x", 3]]'),
        ("quant_table", b'[["x", {"dtype": "int8", "scale": {"at": 0}, "zero_point": [0]}]]'),
        ("quant_values", b"x"),
        ("graph", b"\xff\xff"),
        ("weights", b""),
    ],
)
def test_sections_that_make_no_sense(section: str, text: bytes) -> None:
    refused(repacked(**{section: text}), "damaged")


def test_lists_of_the_quant_table_cannot_share_or_leave_their_section() -> None:
    wide = QuantParams("int8", tuple(0.5 + i for i in range(6)), (0,) * 6, 0)
    data = write_container(content(table=QuantTable({"a": wide, "b": wide})))
    table = bytes(unpack(data, "good").sections["quant_table"])
    assert json.loads(table)[1][1]["scale"] == {"at": 30, "count": 6, "type": "f4"}
    assert read_container(data).table == QuantTable({"a": wide, "b": wide})
    for field, value in (("at", 0), ("count", 7), ("count", 2**60), ("type", "f8"), ("type", "O")):
        changed = json.loads(table)
        changed[1][1]["scale"][field] = value
        refused(repacked(data, quant_table=json.dumps(changed).encode()), "quant_table")


def test_short_lists_of_the_quant_table_have_one_form() -> None:
    """Up to four numbers stand in the JSON; a place of raw ones for them is refused."""
    four = QuantParams("int8", (0.5, 1.0, 1.5, 2.0), (0,) * 4, 0)
    data = write_container(content(table=QuantTable({"a": four})))
    sections = unpack(data, "good").sections
    table = json.loads(bytes(sections["quant_table"]))
    assert table[0][1]["scale"] == list(four.scale)
    assert bytes(sections["quant_values"]) == b""
    table[0][1]["scale"] = {"at": 0, "count": 4, "type": "f4"}
    changed, values = json.dumps(table).encode(), struct.pack("<4f", *four.scale)
    refused(repacked(data, quant_table=changed, quant_values=values), "quant_table")


def _attribute(model: onnx.ModelProto) -> onnx.AttributeProto:
    return model.graph.node[-1].attribute.add(name="value")


HIDDEN: list[Callable[[onnx.ModelProto], onnx.TensorProto]] = [
    lambda model: _attribute(model).t,
    lambda model: _attribute(model).tensors.add(),
    lambda model: _attribute(model).sparse_tensor.values,
    lambda model: _attribute(model).g.initializer.add(),
    lambda model: _attribute(model).graphs.add().node.add().attribute.add(name="inner").t,
    lambda model: model.graph.sparse_initializer.add().indices,
    lambda model: model.functions.add().node.add().attribute.add(name="value").t,
]
"""Where else than among the initializers a tensor can stand."""


def test_a_tensor_cannot_name_a_file_of_the_reader(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(1000))
    proto = onnx.ModelProto.FromString(bytes(unpack(GOOD, "good").sections["graph"]))

    def external(tensor: onnx.TensorProto, location: str) -> None:
        tensor.ClearField("raw_data")
        tensor.ClearField("external_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=location)

    for location in (str(secret), "../secret", "weights"):
        hostile = onnx.ModelProto()
        hostile.CopyFrom(proto)
        external(hostile.graph.initializer[0], location)
        refused(repacked(graph=hostile.SerializeToString()), "tensor")
        for hide in HIDDEN:
            hostile.CopyFrom(proto)
            tensor = hide(hostile)
            tensor.data_type, tensor.dims[:] = 1, [250]
            external(tensor, location)
            refused(repacked(graph=hostile.SerializeToString()), "names a file")


def test_tensors_cannot_share_or_leave_the_weights() -> None:
    sections = unpack(GOOD, "good").sections
    for key, value in (("offset", "64"), ("length", "1"), ("offset", "-1"), ("length", "9" * 30)):
        proto = onnx.ModelProto.FromString(bytes(sections["graph"]))
        (tensor,) = [t for t in proto.graph.initializer if t.name == "w"]
        (entry,) = [e for e in tensor.external_data if e.key == key]
        entry.value = value
        refused(repacked(graph=proto.SerializeToString()), "place of a tensor")
    proto = onnx.ModelProto.FromString(bytes(sections["graph"]))
    proto.graph.initializer[0].dims[0] = 2**62
    refused(repacked(graph=proto.SerializeToString()), "place of a tensor")
    refused(repacked(weights=bytes(sections["weights"]) + b"x"), "size of the weights")


def test_newer_versions_say_so() -> None:
    newer = bytearray(GOOD)
    struct.pack_into("<I", newer, 32, 2)
    assert "Update" in refused(bytes(newer), "container version 2").remedy


@pytest.mark.parametrize(
    ("head", "says"),
    [
        (b"", "empty"),
        (b"CYPTRKNN" + struct.pack("<QQ", 1, 3), "encrypted model of the vendor .level 3"),
        (b"CYPTRKNN", "encrypted"),
        (b"VPMN" + bytes(60), "VPMN"),
        (b"RKNX" + bytes(60), "RKNX"),
        (b"\x18\x00\x00\x00RKNN" + bytes(60), "FlatBuffer"),
        (b"RKNN" + bytes(20) + b"SHDR" + bytes(40), "rknnop"),
        (b"RKNN" + bytes(60), "compiled model of the vendor"),
        (b"RKNN", "compiled model of the vendor"),
        (b"\x08\x0a\x12\x07pytorch" + bytes(60), "no .rknn file"),
    ],
)
def test_foreign_files_are_named(head: bytes, says: str) -> None:
    refused(head, says)
    refused(head + bytes(5000), says if head else "no .rknn")


def test_vendor_files_of_the_zoo_are_named_without_reading_them(zoo: Path) -> None:
    files = sorted((zoo / "rknn_vendor").iterdir())
    kinds = {path.name: other_format(path.read_bytes()[:64]) for path in files}
    assert {name.rpartition(".")[2] for name, kind in kinds.items() if "operator" in kind} == {
        "rknnop"
    }
    for path in files:
        with pytest.raises(ContainerError, match="vendor") as caught:
            read_container(path)
        assert path.name in caught.value.what


def test_paths_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ContainerError, match="does not exist"):
        read_container(tmp_path / "none.rknn")
    with pytest.raises(ContainerError, match="could not be read"):
        read_container(tmp_path)
    path = tmp_path / "a.rknn"
    path.write_bytes(GOOD)
    assert write_container(read_container(path)) == GOOD
