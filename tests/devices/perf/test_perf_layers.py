"""Rows of a report find the layers of our graph by their names, and by nothing else."""

from __future__ import annotations

import pytest

from engine.devices.measure.layer_times import layer_rows, unmatched_note
from engine.devices.measure.perf_report import PerfReport, PerfRow
from engine.graph.layers import Layer, LayerMap


def _layer(
    name: str, tensor: str, op: str = "Conv", *, more: str = "", sources: tuple[str, ...] = ()
) -> Layer:
    nodes = (name, more) if more else (name,)
    return Layer(name, op, "weighted", nodes, (), (tensor,), sources)


LAYERS = LayerMap(
    (
        _layer("conv1", "conv1_out", more="relu1"),
        _layer("/model/pool", "pool_out", "GlobalAveragePool"),
        _layer("split_a", "a", sources=("both",)),
        _layer("split_b", "b", sources=("both",)),
        _layer("shared", "x", "Conv"),
        _layer("add", "shared_out", "Add", sources=("net/Relu6",)),
        _layer("unused", "u"),
    )
)


def _report(*rows: PerfRow) -> PerfReport:
    return PerfReport("generation 2, from 1.6", rows)


@pytest.mark.parametrize(
    ("name", "layer", "found"),
    [
        ("Conv:conv1", "conv1", "name"),
        ("Relu:relu1", "conv1", "name"),
        ("conv1", "conv1", "name"),
        ("Conv:conv1_out", "conv1", "name"),
        ("Conv:conv1_tile0", "conv1", "ending"),
        ("Add:add#1", "add", "ending"),
        ("Conv:/model/pool_2conv1", "/model/pool", "ending"),
        ("Conv:/model/pool_2conv0_tile1", "/model/pool", "ending"),
        ("Relu:net/Relu6", "add", "name"),
        ("Conv:conv1_ConvAddRelu", "conv1", "ending"),
        ("Conv:conv1_branch0_ConvAdd", "conv1", "ending"),
        ("Conv:/model/pool_2dw_split", "/model/pool", "ending"),
        ("Reshape:conv1-rs", "conv1", "ending"),
        # of a tensor: a step before or behind its layer, which one is not known
        ("exMatMul:conv1_out_rs_mm", None, "nothing"),
        ("Conv:conv1_out_gavg_2conv0", None, "nothing"),
        ("Conv:conv10", None, "nothing"),
        ("Conv:both", None, "nothing"),
        ("", None, "nothing"),
    ],
)
def test_names(name: str, layer: str | None, found: str) -> None:
    (row,) = layer_rows(_report(PerfRow(1, op="Conv", name=name)), LAYERS)
    assert (row.layer, row.found) == (layer, found)


@pytest.mark.parametrize(
    ("name", "layer", "also"),
    [
        ("Conv:conv1+Relu:relu1", "conv1", ()),
        ("Conv:conv1+relu1", "conv1", ()),
        ("Conv+Relu:conv1+relu1", "conv1", ()),
        ("Conv:conv1_tile0+Add:add", "conv1", ("add",)),
        ("Conv+Add:lost+add", "add", ()),
        ("Conv:both+other", None, ()),
        # what stands before the colon is an operator, also where a layer has that name
        ("unused+Conv:lost", None, ()),
    ],
)
def test_rows_of_several_nodes(name: str, layer: str | None, also: tuple[str, ...]) -> None:
    (row,) = layer_rows(_report(PerfRow(1, op="Conv", name=name)), LAYERS)
    assert (row.layer, row.also) == (layer, also)


def test_generation_1_names() -> None:
    rows = _report(
        PerfRow(0, op="TENSOR_TRANS", name="net/Relu6_1_RKNN_mark_perm_60_0", uid=60),
        PerfRow(2, op="CONVOLUTION", name="net/Relu6_5_2", uid=5),
        PerfRow(3, op="CONVOLUTION", name="net/Relu6_5_2", uid=6),
        PerfRow(4, op="CONVOLUTION", name="convolution.relu.pooling.layer2_2"),
    )
    assert [row.layer for row in layer_rows(rows, LAYERS)] == ["add", "add", None, None]


def test_a_name_of_a_node_and_of_a_foreign_tensor_goes_by_the_operator() -> None:
    layers = LayerMap((_layer("x", "y", "Conv"), _layer("pool", "x", "MaxPool")))
    rows = _report(
        PerfRow(1, op="ConvRelu", name="Conv:x"), PerfRow(2, op="MaxPool", name="MaxPool:x")
    )
    assert [row.layer for row in layer_rows(rows, layers)] == ["x", "pool"]


def test_what_is_left_is_told() -> None:
    rows = layer_rows(
        _report(
            PerfRow(1, op="InputOperator", name="InputOperator:data"),
            PerfRow(2, op="ConvRelu", name="Conv:conv1_tile0"),
            PerfRow(3, op="ConvRelu", name="Conv:conv1_tile1"),
            PerfRow(4, op="Add", name="Add:add"),
            PerfRow(5, op="Pad", name="Pad:lost"),
            PerfRow(6, op="Pad", name="Pad:both"),
            PerfRow(7, op="OutputOperator", name="OutputOperator:conv1"),
            PerfRow(8, op="exDataConvert", name="exDataConvert:conv1"),
        ),
        LAYERS,
    )
    found = ["input", "ending", "ending", "name", "nothing", "nothing", "output", "conversion"]
    assert [row.found for row in rows] == found
    assert [row.layer for row in rows if row.layer] == ["conv1", "conv1", "add"]
    told = "2 of 8 rows belong to no layer known here: Pad:lost, Pad:both."
    assert (unmatched_note(rows), unmatched_note(rows[:4])) == (told, "")
