"""ONNX files that are damaged, and what is no ONNX file: an error with its remedy, nothing else."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from engine.base.errors import EngineError, SourceModelError
from engine.frontends.onnx import inspect_file, inspect_onnx, load_onnx
from tests.frontends.onnx.conftest import Save
from tests.fuzz.mutate import mutant
from tests.graph.models import float_net
from tests.safety import ends


def test_a_model_cut_anywhere_gives_an_engine_error(save: Save, tmp_path: Path) -> None:
    data = save(float_net(opset=13)).read_bytes()
    rng = np.random.default_rng(11)
    path = tmp_path / "cut.onnx"
    for cut in [0, 1, 2, 3, *sorted(rng.integers(4, len(data) - 1, 60).tolist())]:
        path.write_bytes(data[:cut])
        for action in (load_onnx, inspect_onnx):
            with ends(), pytest.raises(EngineError) as caught:
                action(path)
            assert caught.value.what
            assert caught.value.remedy


def test_a_model_with_changed_bytes_never_raises_anything_else(save: Save, tmp_path: Path) -> None:
    data = save(float_net(opset=13)).read_bytes()
    path = tmp_path / "changed.onnx"
    for number in range(80):
        path.write_bytes(mutant(data, number))
        with contextlib.suppress(EngineError):
            load_onnx(path)
        with contextlib.suppress(EngineError):
            look = inspect_file(path)
            for row in look.graph.nodes:
                with contextlib.suppress(EngineError):
                    look.node(row[0])
            for name in ("conv1.weight", "fc.weight", "x"):
                with contextlib.suppress(EngineError):
                    look.constant(name)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "empty file"),
        (b"hello world\n", "a text file"),
        (b"PK\x03\x04" + bytes(30) + b"archive/data.pkl" + bytes(50), "TorchScript archive"),
        (b"\x80\x02}q\x00X\x04\x00\x00\x00", "Python pickle"),
        (b"\x1c\x00\x00\x00TFL3" + bytes(50), "TensorFlow Lite"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "Git LFS pointer"),
        (b"<!DOCTYPE html><html>", "web page"),
        (bytes(range(256)) * 4, "unknown binary file"),
    ],
)
def test_what_is_no_onnx_file_is_named(tmp_path: Path, content: bytes, what: str) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(SourceModelError, match=what) as caught:
        load_onnx(path)
    assert "not an ONNX model" in caught.value.what
    assert caught.value.remedy


def test_missing_files_folders_and_files_without_permission(tmp_path: Path) -> None:
    with pytest.raises(SourceModelError, match="does not exist"):
        load_onnx(tmp_path / "no.onnx")
    with pytest.raises(SourceModelError, match="a folder"):
        load_onnx(tmp_path)
    with pytest.raises(SourceModelError, match="device, pipe or socket"):
        load_onnx("/dev/zero")


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (lambda m: m.ClearField("opset_import"), "names no opset"),
        (lambda m: m.graph.ClearField("node"), "no node"),
        (lambda m: setattr(m.opset_import[0], "version", 999), "opset 999"),
        (lambda m: setattr(m, "ir_version", 99), "IR version 99"),
        (lambda m: first(m).dims.append(1 << 40), "'w1'.*instead of"),
        (lambda m: first(m).dims.__setitem__(0, -6), "'w1'.*dimension -6"),
        (
            lambda m: setattr(first(m), "raw_data", first(m).raw_data[:-4]),
            "'w1'.*holds 644 bytes instead of 648",
        ),
        (lambda m: setattr(first(m), "data_type", 77), "'w1'.*unknown type 77"),
        (lambda m: first(m).ClearField("raw_data"), "'w1'.*holds 0 numbers instead of 162"),
    ],
)
def test_models_and_constants_that_do_not_hold_what_they_say(
    save: Save, damage: Callable[[onnx.ModelProto], object], what: str
) -> None:
    model = float_net()
    damage(model)
    with pytest.raises(SourceModelError, match=what):
        load_onnx(save(model))


def test_a_tensor_that_is_computed_twice_is_no_circle(save: Save) -> None:
    path = save(
        onnx.parser.parse_model(
            """<ir_version: 10, opset_import: ["": 21]>
            twice (float[3] x) => (float[3] y)
            {a = Relu (x) b = Relu (a) a = Relu (b) y = Neg (a)}"""
        )
    )
    with pytest.raises(SourceModelError, match="'a' has been used as output names multiple times"):
        load_onnx(path)
    assert "no-order" not in {finding.code for finding in inspect_onnx(path)[0].findings}


def first(model: onnx.ModelProto) -> onnx.TensorProto:
    """Its first constant."""
    tensor: onnx.TensorProto = model.graph.initializer[0]
    return tensor


def test_a_file_above_two_gibibytes_is_refused_without_reading_it(tmp_path: Path) -> None:
    path = tmp_path / "huge.onnx"
    size = 3 << 30
    head = b"\x08\x08\x3a" + b"".join(
        bytes([(size >> shift & 0x7F) | (0x80 if shift < 28 else 0)]) for shift in range(0, 35, 7)
    )
    with path.open("wb") as stream:
        stream.write(head)
        stream.truncate(len(head) + size)  # sparse: takes no room
    with pytest.raises(SourceModelError, match="is read up to 2147483647"):
        load_onnx(path)
