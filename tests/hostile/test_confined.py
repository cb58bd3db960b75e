"""Numbers outside a model's folder stay there, wherever in the file they are asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from engine.base.errors import EngineError, GraphError, SourceModelError
from engine.frontends.load import find_source, inspect_source
from engine.frontends.onnx import inspect_file, load_onnx
from engine.frontends.source import LoadOptions
from engine.graph.ir import Graph
from tests.hostile.models import DOMAIN, IMPORTS, model

SECRET = np.arange(3, dtype=np.float32)


def elsewhere(location: str) -> TensorProto:
    tensor = TensorProto(name="secret", data_type=TensorProto.FLOAT, dims=[3])
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    return tensor


def constant(location: str) -> onnx.NodeProto:
    return helper.make_node("Constant", [], ["c"], value=elsewhere(location))


def in_function(location: str) -> onnx.ModelProto:
    nodes = [constant(location), helper.make_node("Add", ["x", "c"], ["y"])]
    function = helper.make_function(DOMAIN, "f", ["x"], ["y"], nodes, IMPORTS)
    return model([helper.make_node("f", ["x"], ["y"], domain=DOMAIN)], functions=[function])


def in_node(location: str) -> onnx.ModelProto:
    return model([constant(location), helper.make_node("Add", ["x", "c"], ["y"])])


def sparse(location: str) -> onnx.ModelProto:
    proto = model([helper.make_node("Add", ["x", "secret"], ["y"])])
    found = proto.graph.sparse_initializer.add(dims=[3])
    found.values.CopyFrom(elsewhere(location))
    found.indices.CopyFrom(helper.make_tensor("at", TensorProto.INT64, [3], [0, 1, 2]))
    return proto


PLACES = {"function": in_function, "node": in_node, "sparse": sparse}


@pytest.mark.parametrize("place", PLACES)
def test_a_file_outside_the_folder_is_never_read(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_bytes(SECRET.tobytes())
    folder = tmp_path / "models"
    folder.mkdir()
    monkeypatch.chdir(folder)
    path = folder / "m.onnx"
    path.write_bytes(PLACES[place]("../secret").SerializeToString())
    with pytest.raises(SourceModelError, match="outside its own folder"):
        load_onnx(path)
    inspect_file(path)
    shown = inspect_source(find_source(path, None, LoadOptions()))
    assert "2.0" not in str(shown)


@pytest.mark.parametrize("place", PLACES)
def test_a_file_inside_the_folder_is_read(place: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(SECRET.tobytes())
    path = tmp_path / "m.onnx"
    path.write_bytes(PLACES[place]("secret").SerializeToString())
    graph = load_onnx(path).graph
    found = [graph.constant(name) for name in graph.values]
    assert any(array is not None and np.array_equal(array, SECRET) for array in found)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("location", [".ssh/id_rsa", "sub/w", ".netrc", "link", "linked/w"])
def test_what_is_hidden_or_deeper_is_never_read(location: str, place: str, tmp_path: Path) -> None:
    for folder in (".ssh", "sub"):
        (tmp_path / folder).mkdir()
    for name in (".ssh/id_rsa", "sub/w", ".netrc"):
        (tmp_path / name).write_bytes(SECRET.tobytes())
    (tmp_path / "link").symlink_to(".netrc")
    (tmp_path / "linked").symlink_to("sub")
    path = tmp_path / "m.onnx"
    path.write_bytes(PLACES[place](location).SerializeToString())
    with pytest.raises(SourceModelError, match="hidden or in a subfolder"):
        load_onnx(path)


def test_files_that_a_model_pulls_in_are_listed(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_bytes(SECRET.tobytes())
    path = tmp_path / "m.onnx"
    path.write_bytes(in_node("notes.txt").SerializeToString())
    seen = (
        load_onnx(path).findings,
        inspect_file(path).model.findings,
        inspect_source(find_source(path, None, LoadOptions())).findings,
    )
    for findings in seen:
        (told,) = [each for each in findings if each.code == "external-weights"]
        assert "'notes.txt'" in told.what


@pytest.mark.parametrize("location", ["x" * 5000, "x/" * 2000, "loop/x"])
def test_names_that_no_file_can_have(location: str, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    path = tmp_path / "m.onnx"
    path.write_bytes(in_node(location).SerializeToString())
    with pytest.raises(SourceModelError, match=r"keeps weights in|in a subfolder"):
        load_onnx(path)


def test_a_graph_of_ours_has_no_numbers_elsewhere() -> None:
    proto = in_node("secret")
    with pytest.raises(GraphError, match="another file"):
        Graph.from_proto(proto)


@pytest.mark.parametrize("kind", [TensorProto.INT16, TensorProto.INT64, TensorProto.BFLOAT16])
def test_numbers_in_the_field_of_another_type(kind: int, tmp_path: Path) -> None:
    proto = model(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        [helper.make_tensor("w", TensorProto.FLOAT, [3], [1.0, 2.0, 3.0])],
    )
    proto.graph.initializer[0].data_type = kind
    path = tmp_path / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    for read in (inspect_file, load_onnx):
        with pytest.raises(EngineError, match="float_data"):
            read(path)
