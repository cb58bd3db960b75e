"""Our reading of the vendor's files against that of the public Netron viewer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.container.vendor import VendorGraph, VendorModel, inspect_vendor
from tests.container.test_netron import shown, tools
from tests.container.vendor import build

pytestmark = pytest.mark.netron

__all__ = ["tools"]

ONE_OF_EACH = ("multiple_input_RK3588", "dual_residual_RK3562", "resize_area_toolkit1")
FILES = [
    *ONE_OF_EACH,
    *(
        pytest.param(f"{net}_{chip}", marks=pytest.mark.long)
        for net in ("pp_human_segv2", "multiple_input", "dual_residual")
        for chip in ("RK3562", "RK3566_RK3568", "RK3576", "RK3588")
        if f"{net}_{chip}" not in ONE_OF_EACH
    ),
]
TYPES = {"bool": "boolean", "": "?"}


def compare(view: dict[str, Any], model: VendorModel, *, turned: bool) -> None:
    """Layers in order, with the names, types and constants of what they take and give."""
    (graph,) = view["graphs"][:1]
    (first, *_) = layers = graph["nodes"]
    layers = first["inner"] or layers
    ours = model.graphs[0]
    assert len(layers) == len(ours.layers)
    for theirs, layer in zip(layers, ours.layers, strict=True):
        assert theirs["type"] == layer.op
        assert theirs["name"] == layer.name
        assert values(theirs["inputs"]) == [told(ours, i, turned) for i in layer.inputs]
        assert values(theirs["outputs"]) == [told(ours, i, turned) for i in layer.outputs]


def values(arguments: list[dict[str, Any]]) -> list[tuple[str, str | None, bool]]:
    return [(v["name"], v["type"], v["constant"]) for a in arguments for v in a["values"]]


def told(graph: VendorGraph, position: int, turned: bool) -> tuple[str, str | None, bool]:
    tensor = graph.tensors[position]
    shape = tensor.shape[::-1] if turned else tensor.shape
    size = f"[{','.join(map(str, shape))}]" if shape else ""
    kind = f"{TYPES.get(tensor.dtype, tensor.dtype)}{size}" if tensor.dtype else None
    return tensor.name, kind, tensor.constant


@pytest.mark.parametrize("name", FILES)
def test_files_of_the_zoo(tools: tuple[str, str], tmp_path: Path, zoo: Path, name: str) -> None:
    path = zoo / "rknn_vendor" / f"{name}.rknn"
    model = inspect_vendor(path)
    view = shown(tools, path.read_bytes(), tmp_path)
    assert view["format"] == f"RKNN v{model.toolkit.split('-')[0]}"
    assert view["runtime"] == ",".join(model.platforms)
    assert (view["name"], view["producer"]) == (model.name, model.framework)
    compare(view, model, turned=model.generation == 1)


@pytest.mark.parametrize("kind", ["npu", "npu-bare", "layers", "nbg", "rknx"])
def test_files_that_our_tests_write(tools: tuple[str, str], tmp_path: Path, kind: str) -> None:
    """What stands in for files that are missing in the zoo is one to Netron as well."""
    data = build.KINDS[kind]()
    path = tmp_path / "ours.rknn"
    path.write_bytes(data)
    model = inspect_vendor(path)
    view = shown(tools, data, tmp_path)
    if kind in ("nbg", "rknx"):
        ops = [layer.op for layer in model.graphs[0].layers]
        assert [node["type"] for node in view["graphs"][0]["nodes"]] == ops
        assert view["name"] == model.name
    else:
        compare(view, model, turned=kind == "layers")


def test_the_writer_of_the_small_form_writes_a_container(
    tools: tuple[str, str], tmp_path: Path
) -> None:
    """Netron shows the wrapper of the small form; its graph is one by itself."""
    view = shown(tools, build.mini(), tmp_path)
    assert [node["type"] for node in view["graphs"][0]["nodes"]] == ["NNBG"]
    assert (view["runtime"], view["format"]) == ("rv1106", "RKNN v2.3.2")
