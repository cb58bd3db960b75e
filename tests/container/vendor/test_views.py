"""Files of the vendor as plain data for screens."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.base.errors import GraphError
from engine.container.vendor import (
    vendor_graph_view,
    vendor_node_detail,
    vendor_view,
)
from engine.wire.codec import encode
from tests.container.vendor import build
from tests.container.vendor.flat import flat, i8, i32


def _plain(record: object) -> Any:
    return json.loads(json.dumps(encode(record), allow_nan=False))


@pytest.mark.parametrize("kind", build.KINDS)
def test_views_of_every_kind_are_plain_json(inspected: Any, kind: str) -> None:
    found = inspected(build.KINDS[kind]())
    view, graph = (_plain(seen(found)) for seen in (vendor_view, vendor_graph_view))
    assert (view["kind"], view["name"], len(view["sha256"])) == ("rknn_vendor", "a.rknn", 64)
    assert view["nodes"] == len(graph["nodes"]) == sum(view["operators"].values())
    for name, op, *_ in graph["nodes"]:
        detail = _plain(vendor_node_detail(found, name))
        assert (detail["name"], detail["op"]) == (name, op)


def test_the_model_view(inspected: Any) -> None:
    view = _plain(vendor_view(inspected(build.dynamic())))
    assert view["format"] == "vendor RKNN model, generation 2"
    assert view["inputs"][0]["shape"] == [1, 3, 16, 16]
    assert view["inputs"][0]["quant"]["zero_point"] == [-14]
    assert view["operators"] == {
        "ConvRelu": 1,
        "InputOperator": 1,
        "LeakyRelu": 1,
        "OutputOperator": 1,
    }
    assert (view["parameters"], view["weights_bytes"]) == (4 * 3 * 3 * 3, 1000)
    vendor = view["vendor"]
    assert (vendor["chips"], vendor["custom_string"]) == (["rk3588"], "hello")
    assert vendor["memory"]["internal"] == 2000
    assert vendor["quantization"] == {
        "tensors": 2,
        "dtypes": {"int8": 2},
        "methods": {"layer": 2},
    }
    sizes = [each["inputs"][0]["shape"][2] for each in vendor["shape_sets"]]
    assert (vendor["dynamic"], sizes) == (True, [16, 8])


def test_weights_are_summed_where_the_file_declares_no_sum(inspected: Any) -> None:
    root = {slot: value for slot, value in build.npu_model(s0=i32(1)).items() if slot < 15}
    view = vendor_view(inspected(build.container(2, flat(root), build.wrapper())))
    assert view.weights_bytes == 64


def test_the_graph_view_groups_by_the_sources_names(inspected: Any) -> None:
    view = _plain(vendor_graph_view(inspected(build.npu())))
    assert view["nodes"][1] == ["Conv:/a/b/conv", "ConvRelu", "c", "1x4x4x4", "int8", 1]
    assert view["nodes"][2] == ["LeakyRelu:/a/act", "LeakyRelu", "y", "1x4x4x4", "float16", 2]
    assert view["groups"] == ["", "/a/b", "/a"]
    assert view["outputs"] == [{"name": "y", "shape": [1, 4, 4, 4], "dtype": "float16"}]


def test_details_show_both_paddings_where_the_compiler_changed_it(inspected: Any) -> None:
    detail = _plain(vendor_node_detail(inspected(build.npu()), "Conv:/a/b/conv"))
    attributes = dict(detail["attributes"])
    assert attributes["pads"] == "[0, 0, 1, 1]"
    assert attributes["pads (source)"] == "[1, 1, 1, 1]"
    assert "group (source)" not in attributes
    feature, weight = detail["inputs"]
    assert (feature["kind"], weight["kind"]) == ("input", "constant")
    assert feature["quant"]["observed"] == [-1.5, 2.5]
    assert detail["outputs"][0]["quant"]["scale"] == pytest.approx([0.0235])


def test_layers_without_a_name_and_equal_names_have_keys_of_their_own(inspected: Any) -> None:
    graph = build.graph()
    layers = [build.node("Conv", name, (1,), (3,)) for name in ("", "", "x", "x")]
    found = inspected(build.npu(s2=[{**graph, 1: layers}]))
    names = [row[0] for row in vendor_graph_view(found).nodes]
    assert names == ["Conv_0", "Conv_1", "x", "x_1"]
    with pytest.raises(GraphError, match="not a layer") as caught:
        vendor_node_detail(found, "Conv_9")
    assert "Conv_0" in caught.value.remedy


def test_texts_of_files_are_made_safe(inspected: Any) -> None:
    graph = build.graph()
    graph[0][3] |= {0: i8(99), 5: "\x1b[31mred"}
    view = _plain(vendor_view(inspected(build.npu(s2=[graph], s11="a\x1b[2Jb", s8="rk\u202e3588"))))
    assert view["vendor"]["custom_string"] == "a[2Jb"
    assert "\x1b" not in json.dumps(view["findings"], ensure_ascii=False)
    assert "\u202e" not in json.dumps(view, ensure_ascii=False)
