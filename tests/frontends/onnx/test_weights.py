"""Where weights may lie: sparse, in files beside the model, more than protobuf takes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from engine.base.errors import EngineError, SourceModelError
from engine.frontends.onnx import load_onnx
from engine.frontends.onnx.read import MAX_PROTO_BYTES
from engine.graph.execute import Session
from engine.graph.ir import verify
from tests.frontends.onnx.conftest import Save
from tests.graph.models import finish, nodes_of, tensor

DENSE = np.array([[0, 2.5, 0], [0, 0, -1]], np.float32)


def _sparse(indices: np.ndarray, values: list[float], dims: list[int]) -> onnx.SparseTensorProto:
    numbers = numpy_helper.from_array(np.array(values, np.float32), "w")
    places = numpy_helper.from_array(np.asarray(indices, np.int64), "w_indices")
    return helper.make_sparse_tensor(numbers, places, dims)


def _net(nodes: str, size: tuple[int, ...]) -> onnx.ModelProto:
    return finish(nodes_of(nodes), [tensor("x", *size)], [tensor("y", *size)])


def _adds(sparse: onnx.SparseTensorProto) -> onnx.ModelProto:
    model = _net("y = Add (x, w)", (2, 3))
    model.graph.sparse_initializer.append(sparse)
    return model


def _holds(sparse: onnx.SparseTensorProto) -> onnx.ModelProto:
    """The same with a Constant node."""
    model = _net("w = Constant (); y = Add (x, w)", (2, 3))
    model.graph.node[0].attribute.append(helper.make_attribute("sparse_value", sparse))
    return model


@pytest.mark.parametrize(
    ("model", "indices"),
    [(_adds, [1, 5]), (_adds, [[0, 1], [1, 2]]), (_holds, [1, 5])],
    ids=["flat", "by axis", "node"],
)
def test_sparse_constants_become_dense(
    model: Callable[[Any], onnx.ModelProto], indices: list[int], save: Save
) -> None:
    graph = load_onnx(save(model(_sparse(np.array(indices), [2.5, -1], [2, 3])))).graph
    verify(graph)
    got = Session(graph).run({"x": np.zeros((2, 3), np.float32)})["y"]
    np.testing.assert_array_equal(got, DENSE)


@pytest.mark.parametrize(
    ("indices", "dims", "what"),
    [
        ([1, 6], [2, 3], "lies outside"),
        ([[0, 1], [1, 3]], [2, 3], "lies outside"),
        ([1], [2, 3], "2 numbers have indices"),
        ([0, 1], [1 << 20, 1 << 20], "more than 256.00 MiB"),
    ],
)
def test_sparse_constants_that_are_damaged_or_huge(
    indices: list[int], dims: list[int], what: str, tmp_path: Path
) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(_adds(_sparse(np.array(indices), [2.5, -1], dims)).SerializeToString())
    with pytest.raises(SourceModelError) as error:
        load_onnx(path)
    assert what in error.value.what


def _outside(name: str, dims: list[int], offset: int, length: int) -> onnx.TensorProto:
    made = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=dims)
    made.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "w.bin"), ("offset", offset), ("length", length)):
        made.external_data.add(key=key, value=str(value))
    return made


def _huge(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """A model of two products: the first with 4 MiB of weights, the second with 2 GiB of holes."""
    rng = np.random.default_rng(0)
    first = rng.normal(size=(1024, 1024)).astype(np.float32)
    with path.with_name("w.bin").open("wb") as stream:
        stream.write(first.tobytes())
        stream.truncate(first.nbytes + (1 << 31))
    nodes = nodes_of("h = MatMul (x, w1); y = MatMul (h, w2)")
    model = finish(nodes, [tensor("x", 1, 1024)], [tensor("y", 1, 1 << 19)], opset=17)
    model.graph.initializer.append(_outside("w1", [1024, 1024], 0, first.nbytes))
    model.graph.initializer.append(_outside("w2", [1024, 1 << 19], first.nbytes, 1 << 31))
    path.write_bytes(model.SerializeToString())
    return rng.normal(size=(1, 1024)).astype(np.float32), first


@pytest.mark.long
def test_weights_of_more_than_two_gibibytes_stay_in_their_file(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    x, first = _huge(path)
    graph = load_onnx(path).graph
    assert graph.outputs[0].shape == (1, 1 << 19)
    weights = graph.constant("w2")
    assert weights is not None
    assert weights.nbytes > MAX_PROTO_BYTES
    part = load_onnx(path, outputs=["h"]).graph
    verify(part)
    assert len(part.to_bytes()) > first.nbytes  # whole, not as a reference to the file
    got = Session(part).run({"x": x})["h"]
    np.testing.assert_allclose(got, x @ first, rtol=1e-4, atol=1e-4)


def test_weights_of_other_lengths_than_their_shapes_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    model = _net("y = Add (x, w)", (4,))
    model.graph.initializer.append(_outside("w", [4], 0, 12))
    path.write_bytes(model.SerializeToString())
    path.with_name("w.bin").write_bytes(bytes(16))
    with pytest.raises(EngineError, match="holds 12 bytes instead of 16"):
        load_onnx(path)
