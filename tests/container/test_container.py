"""The container: every content comes back, in the documented layout, the same everywhere."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings

from engine.base.errors import ContainerError
from engine.build import BuildSummary
from engine.container import (
    ContainerContent,
    portable_summary,
    read_container,
    write_container,
)
from engine.container.graphs import split_graph
from engine.graph.ir import Graph
from tests.container.build import content, contents, qdq_graph, within

GOOD = write_container(content())


def arrays(graph: Graph) -> dict[str, Any]:
    return {
        name: (value.const_value.numpy().tolist(), value.dtype)
        for name, value in graph.model.graph.initializers.items()
        if value.const_value is not None
    }


# ------------------------------------------------------------------------------------- contents


def test_everything_comes_back() -> None:
    wanted = content(float_graph=qdq_graph(2))
    data = write_container(wanted)
    got = read_container(data)
    fields = ("name", "quantized", "recipe", "provenance", "table", "layers", "summary")
    for field in (*fields, "custom_string", "target_platform"):
        assert getattr(got, field) == getattr(wanted, field), field
    assert list(got.table or {}) == list(wanted.table or {})
    assert arrays(got.graph) == arrays(wanted.graph)
    assert got.graph.to_bytes() == wanted.graph.to_bytes()
    assert got.float_graph is not None
    assert got.float_graph.to_bytes() == qdq_graph(2).to_bytes()
    assert got.size == len(data)
    assert got.sha256 == hashlib.sha256(data).hexdigest()
    assert dict(got.sections)["weights"] >= 4 * 3 * 3 * 3


def test_sections_that_do_not_exist_are_absent() -> None:
    bare = content(table=None, layers=None, summary=None, custom_string=None, target_platform=None)
    got = read_container(write_container(bare))
    assert (got.table, got.layers, got.summary, got.custom_string) == (None,) * 4
    assert got.float_graph is None
    names = [name for name, _ in got.sections]
    assert names == ["about", "recipe", "provenance", "graph", "weights"]


@given(contents())
@settings(max_examples=40, deadline=None)
def test_any_content_comes_back(wanted: ContainerContent) -> None:
    data = write_container(wanted)
    got = read_container(data)
    assert write_container(got) == data
    assert arrays(got.graph) == arrays(wanted.graph)
    for field in ("name", "recipe", "provenance", "table", "summary", "custom_string"):
        assert getattr(got, field) == getattr(wanted, field), field


def test_layout_is_the_documented_one() -> None:
    """docs/container.md."""
    magic, zero, version, size = struct.unpack_from("<4sIQQ", GOOD)
    assert (magic, zero, version) == (b"RKNN", 0, 6)
    assert size % 64 == 0
    assert GOOD[24:36] == b"OPENMODL" + struct.pack("<I", 1)
    assert GOOD[36:64] == bytes(28)
    blob = GOOD[64 : 64 + size]
    assert blob[:8] == b"OPENMODL"
    (json_size,) = struct.unpack_from("<Q", GOOD, 64 + size)
    layers = GOOD[64 + size + 8 :]
    assert len(layers) == json_size
    count = struct.unpack_from("<I", blob, 12)[0]
    for index in range(count):
        name, offset, length, digest = struct.unpack_from("<32sQQ32s", blob, 64 + 80 * index)
        assert offset % 64 == 0
        assert hashlib.sha256(blob[offset : offset + length]).digest() == digest, name


def test_weights_are_stored_once_and_layers_point_at_them() -> None:
    size = struct.unpack_from("<Q", GOOD, 16)[0]
    blob, layers = GOOD[64 : 64 + size], json.loads(GOOD[64 + size + 8 :])
    (weight,) = [t for t in layers["const_tensor"] if t["url"] == "w"]
    raw = qdq_graph().constant("w").tobytes()  # type: ignore[union-attr]
    assert blob[weight["offset"] : weight["offset"] + weight["byte_size"]] == raw
    assert GOOD.count(raw) == 1


def test_equal_content_gives_equal_bytes_in_every_process(tmp_path: Path) -> None:
    script = (
        "import hashlib; from tests.container.build import content;"
        "from engine.container import write_container;"
        "print(hashlib.sha256(write_container(content())).hexdigest())"
    )
    environment = os.environ | {
        "PYTHONHASHSEED": "1",
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "HOME": str(tmp_path / "home"),
    }
    digest = subprocess.check_output(
        [sys.executable, "-c", script], cwd=tmp_path, env=environment, text=True
    )
    assert digest.strip() == hashlib.sha256(GOOD).hexdigest()


def test_layer_list_folds_pairs_and_keeps_sorted_keys() -> None:
    size = struct.unpack_from("<Q", GOOD, 16)[0]
    text = GOOD[64 + size + 8 :]
    layers = json.loads(text)
    assert json.dumps(layers, sort_keys=True, separators=(",", ":")).encode() == text
    assert [node["op"] for node in layers["nodes"]] == ["Conv", "Clip", "Reshape", "LeakyRelu"]
    assert [node["lid"] for node in layers["nodes"]] == ["conv", "conv", "reshape", "leaky"]
    conv = layers["nodes"][0]["nn"]["attributes"]
    assert conv["pads"] == [1, 1, 1, 1]
    assert "output_scale" not in conv  # the Clip behind it is what is quantized
    assert conv["input1_zero_point"] == "0 (4 channels)"
    clip = layers["nodes"][1]["nn"]["attributes"]
    assert (clip["output_scale"], clip["output_zero_point"]) == (0.1, -128)
    assert layers["nodes"][3]["nn"]["attributes"]["alpha"] == 0.1
    urls = [tensor["url"] for tensor in layers["norm_tensor"]]
    assert urls == ["x", "c", "c6", "flat", "leaky"]
    types = [tensor["type"] for tensor in layers["norm_tensor"]]
    assert types == ["int8", "float32", "int8", "int8", "float32"]
    assert layers["target_platform"] == ["rk3588"]


def test_numbers_that_json_lacks_are_refused_by_name() -> None:
    with pytest.raises(ContainerError, match="summary"):
        write_container(content(summary={"sqnr": float("nan")}))


def test_summary_loses_times_and_paths() -> None:
    summary = BuildSummary(
        key="k",
        name="n",
        quantized=False,
        quantized_dtype="w8a8",
        quantized_algorithm="normal",
        quantized_method="channel",
        samples=0,
        float_bytes=1,
        quantized_bytes=None,
        container_bytes=5,
        nodes=1,
        layers=(),
        outputs=(),
        worst=(),
        findings=(),
        stages=(),
        next_command="rknntui simulate /home/me/x.rknn",
    )
    kept = portable_summary(summary)
    assert "/home" not in json.dumps(kept)
    assert {"stages", "container_bytes", "next_command"}.isdisjoint(kept)
    assert kept["name"] == "n"


def test_large_weights_are_not_copied_over_and_over() -> None:
    array = np.zeros((1 << 20,), np.float32)
    proto = onnx.ModelProto.FromString(qdq_graph().to_bytes())
    proto.graph.initializer.append(onnx.numpy_helper.from_array(array, "big"))
    graph = Graph.from_proto(proto)
    with within(4 * array.nbytes):
        data = write_container(content(graph=graph))
        read_container(data)
    assert len(data) < len(GOOD) + 4.5 * (1 << 20)


@pytest.mark.parametrize(("channels", "apart"), [(15, False), (16, True)])
def test_tensors_of_64_bytes_lie_among_the_weights(channels: int, apart: bool) -> None:
    """A smaller one stays in the structure; the scales have four bytes each."""
    places = split_graph(qdq_graph(channels))[2]
    assert ("w_scale" in places) == apart
