"""A source model is found by either half, and what is none says what it is and what to do."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from engine.base.errors import SourceModelError
from engine.frontends.load import find_source
from engine.frontends.source import LoadOptions

CFG = b"[net]\nwidth=8\n"
WEIGHTS = struct.pack("<3iQ", 0, 2, 5, 0) + bytes(40)


def write(folder: Path, **files: bytes) -> None:
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_bytes(content)


def test_either_half_finds_the_other(tmp_path: Path) -> None:
    write(tmp_path, a__cfg=CFG, a__weights=WEIGHTS, b__weights=WEIGHTS)
    for given in ("a.cfg", "a.weights"):
        found = find_source(tmp_path / given)
        assert (found.framework, found.model.name) == ("darknet", "a.cfg")
        assert found.weights is not None
        assert found.weights.name == "a.weights"


def test_the_only_other_half_is_taken_and_several_are_not_guessed(tmp_path: Path) -> None:
    write(tmp_path, net__cfg=CFG, final__weights=WEIGHTS)
    found = find_source(tmp_path / "net.cfg")
    assert found.weights == tmp_path / "final.weights"
    write(tmp_path, other__weights=WEIGHTS)
    with pytest.raises(SourceModelError, match=r"not clear: final\.weights, other\.weights"):
        find_source(tmp_path / "net.cfg")
    named = find_source(tmp_path / "net.cfg", tmp_path / "other.weights")
    assert named.weights == tmp_path / "other.weights"


def test_a_name_that_begins_with_the_other_is_taken_among_several(tmp_path: Path) -> None:
    write(tmp_path, yolo__cfg=CFG, yolo_final__weights=WEIGHTS, other__weights=WEIGHTS)
    found = find_source(tmp_path / "yolo.cfg")
    assert found.weights == tmp_path / "yolo_final.weights"


def test_mxnet_names_of_epochs_belong_together(tmp_path: Path) -> None:
    symbol = b'{"nodes": [{"op": "null", "name": "data"}]}'
    params = struct.pack("<3Q", 0x112, 0, 0)
    (tmp_path / "det1-symbol.json").write_bytes(symbol)
    for name in ("det1-0001.params", "det2-0001.params"):
        (tmp_path / name).write_bytes(params)
    found = find_source(tmp_path / "det1-symbol.json")
    assert found.weights == tmp_path / "det1-0001.params"


def test_no_weights_are_looked_for_where_they_are_to_be_random(tmp_path: Path) -> None:
    (tmp_path / "n.prototxt").write_text('layer {\n name: "a"\n}')
    (tmp_path / "n.caffemodel").write_bytes(b"\n\x03net\xa2\x06\x05\n\x03abc")
    options = LoadOptions(random_weights=True)
    assert find_source(tmp_path / "n.prototxt", None, options).weights is None


@pytest.mark.parametrize(
    ("content", "what", "remedy"),
    [
        (b"\x80\x02}q\x00" + bytes(40), "pickle", "torch.jit.trace"),
        (b"\x08\x01\x12\x02\n\x00", "SavedModel", "convert_variables_to_constants_v2"),
        (b"", "an empty file", "TorchScript"),
        (b"RKNX" + bytes(60), "RKNX", "inspect"),
    ],
)
def test_what_is_no_model_gets_an_explanation(
    tmp_path: Path, content: bytes, what: str, remedy: str
) -> None:
    (tmp_path / "m.onnx").write_bytes(content)
    with pytest.raises(SourceModelError, match=what) as caught:
        find_source(tmp_path / "m.onnx")
    assert remedy in caught.value.remedy


def test_a_recipe_that_is_none_is_told_how_to_be_one(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("model: net.onnx\n")
    with pytest.raises(SourceModelError) as caught:
        find_source(path)
    assert "rknntui recipe check" in caught.value.remedy


def test_half_a_model_alone(tmp_path: Path) -> None:
    write(tmp_path, a__weights=WEIGHTS)
    with pytest.raises(SourceModelError, match="one half of a model"):
        find_source(tmp_path / "a.weights")


def test_a_model_with_its_own_weights_takes_none(tmp_path: Path) -> None:
    write(tmp_path, m__tflite=bytes(4) + b"TFL3" + bytes(60), a__weights=WEIGHTS)
    with pytest.raises(SourceModelError, match="holds its own weights"):
        find_source(tmp_path / "m.tflite", tmp_path / "a.weights")


def test_a_git_lfs_pointer_says_how_to_get_the_file(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n")
    with pytest.raises(SourceModelError, match="it is a Git LFS pointer") as caught:
        find_source(path)
    assert "`git lfs pull`" in caught.value.remedy
