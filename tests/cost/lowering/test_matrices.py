"""Matrices, norms and attention: the names and shapes that the vendor's compiler prints.

The expected tables are its own, of the same graphs.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.cost.lowering.small_nets import Net, layer_of, names, shapes


def weight(net: Net, name: str, *shape: int) -> str:
    return net.constant(name, np.ones(shape, np.float32))


def linear(net: Net, name: str, data: str, wide: int, out: int) -> str:
    product = net.add("MatMul", f"{name}/MatMul", data, weight(net, f"{name}_w", wide, out))
    return net.add("Add", f"{name}/Add", weight(net, f"{name}_b", out), product)


def packed(net: Net, batch: int, rows: int, mask: np.ndarray | None) -> str:
    """Two heads of 32, queries, keys and values beside each other in each head."""
    size = net.constant("size", np.array([batch, rows, 2, 96]))
    seen = net.add("Reshape", "view", linear(net, "qkv", "x", 64, 192), size)
    sizes = net.constant("sizes", np.array([32, 32, 32]))
    net.add("Split", "split", seen, sizes, outputs=["q", "k", "v"], axis=3)
    query = net.add("Transpose", "q_turn", "q", perm=[0, 2, 1, 3])
    key = net.add("Transpose", "k_turn", "k", perm=[0, 2, 3, 1])
    value = net.add("Transpose", "v_turn", "v", perm=[0, 2, 1, 3])
    factor = net.constant("s", np.array(0.125, np.float32))
    scores = net.add("Mul", "scale", net.add("MatMul", "score", query, key), factor)
    if mask is not None:
        scores = net.add("Add", "mask", scores, net.constant("m", mask.astype(np.float32)))
    return attended(net, scores, value, batch, rows, 64)


def in_five(net: Net, data: str, batch: int, rows: int, heads: int) -> str:
    """Heads of 32, queries, keys and values first in five dimensions."""
    width = heads * 32
    size = net.constant("size", np.array([batch, rows, 3, heads, 32]))
    seen = net.add("Reshape", "view", linear(net, "qkv", data, width, 3 * width), size)
    turned = net.add("Transpose", "turn", seen, perm=[2, 0, 3, 1, 4])
    query, key, value = (
        net.add("Gather", f"g{at}", turned, net.constant(f"i{at}", np.array(at)), axis=0)
        for at in range(3)
    )
    key = net.add("Transpose", "key", key, perm=[0, 1, 3, 2])
    return attended(net, net.add("MatMul", "score", query, key), value, batch, rows, width)


def attended(net: Net, scores: str, value: str, *shape: int) -> str:
    """What scores make of values, all heads beside each other, in one more matrix."""
    mixed = net.add("MatMul", "mix", net.add("Softmax", "softmax", scores, axis=-1), value)
    turned = net.add("Transpose", "merge", mixed, perm=[0, 2, 1, 3])
    joined = net.add("Reshape", "join", turned, net.constant("whole", np.array(shape)))
    return linear(net, "o", joined, shape[-1], shape[-1])


def test_heads_of_windows_are_batches_where_no_attention_is_fused() -> None:
    net = Net(4, 16, 64)
    mask = np.arange(2 * 16 * 16).reshape(1, 2, 16, 16)
    found = net.lower("rk3566", packed(net, 4, 16, mask), dtype="float16")
    assert shapes(found, "Reshape:view") == [(4, 192, 1, 16), (24, 32, 1, 16)]
    assert shapes(found, "Gather:view_tp_gather") == [(24, 32, 1, 16)] * 2
    assert shapes(found, "Split:split")[1:] == [(8, 32, 1, 16)] * 3
    assert shapes(found, "Transpose:v_tp") == [(8, 32, 1, 16), (8, 16, 1, 32)]
    for name in ("Add:mask", "exSoftmax13:softmax"):
        assert shapes(found, name) == [(8, 16, 1, 16)] * 2
    assert found.shape(layer_of(found, "Add:mask").consts[0]) == (8, 16, 1, 16)
    moves = [each for each in names(found) if each.startswith(("Reshape", "Transpose"))]
    assert len(moves) == 7, "no movement between the scores and the second matrix"


def test_a_mask_of_all_heads_stays_one_and_one_of_zeros_does_nothing() -> None:
    net = Net(4, 16, 64)
    found = net.lower("rk3566", packed(net, 4, 16, np.ones((1, 1, 16, 16))), dtype="float16")
    assert found.shape(layer_of(found, "Add:mask").consts[0]) == (1, 16, 1, 16)
    for batch, rows in ((4, 16), (1, 64)):
        net = Net(batch, rows, 64)
        zeros = np.zeros((batch, 2, rows, rows))
        found = net.lower("rk3566", packed(net, batch, rows, zeros), dtype="float16")
        assert "Add:mask" not in names(found)
        assert "exSoftmax13:softmax" in names(found)


def test_one_window_is_split_along_its_channels() -> None:
    net = Net(1, 16, 64)
    mask = np.arange(2 * 16 * 16).reshape(1, 2, 16, 16)
    found = net.lower("rk3566", packed(net, 1, 16, mask), dtype="float16")
    assert not [each for each in names(found) if each.startswith("Gather")]
    after = names(found).index("exSoftmax13:softmax")
    assert names(found)[after - 1] == "Add:mask", "the mask is turned, not the scores"
    assert shapes(found, "Add:mask") == [(2, 16, 1, 16)] * 2


def test_five_dimensions_of_several_in_a_batch_are_turned_on_the_cpu() -> None:
    net = Net(4, 49, 64)
    found = net.lower("rk3588", in_five(net, "start", 4, 49, 2), dtype="float16")
    assert shapes(found, "Conv:qkv/MatMul#2") == [(1, 64, 4, 49), (1, 192, 4, 49)]
    assert shapes(found, "Reshape:view") == [(4, 49, 1, 192), (4, 49, 3, 2, 32)]
    assert shapes(found, "Transpose:turn") == [(4, 49, 3, 2, 32), (3, 4, 2, 49, 32)]
    assert shapes(found, "Split:g2_2sl_2sp")[0] == (24, 32, 1, 49)
    targets = {each.name: each.target for each in found.layers if each.kind == "Transpose"}
    assert [name for name, target in targets.items() if target == "CPU"] == ["turn"]


def rows_first(net: Net, *, turned: bool) -> str:
    """A block over (16, 1, 64) of an input (1, 16, 64)."""
    net.nodes = []
    x = net.add("Transpose", "turn", "x", perm=[1, 0, 2])
    first = net.add("Relu", "relu", linear(net, "a", x, 64, 64))
    total = net.add("Add", "sum", x, linear(net, "b", first, 64, 64))
    gain, shift = weight(net, "gain", 64), weight(net, "shift", 64)
    last = net.add("LayerNormalization", "norm", total, gain, shift, axis=-1)
    return net.add("Transpose", "back", last, perm=[1, 0, 2]) if turned else last


@pytest.mark.parametrize("turned", [True, False])
@pytest.mark.parametrize(("chip", "target"), [("rk3566", "CPU"), ("rk3588", "NPU")])
def test_rows_that_come_first_are_turned_at_both_ends(chip: str, target: str, turned: bool) -> None:
    net = Net(1, 16, 64)
    end = rows_first(net, turned=turned)
    found = net.lower(chip, end, dtype="float16")
    assert names(found) == [
        "Reshape:x_rs",
        "Transpose:turn_tp",
        "Conv:a/MatMul#2",
        "Conv:b/MatMul#2_ConvAdd",
        "exNorm:norm#1",
        "Transpose:norm#1_rs_tp",
        f"Reshape:{end}-rs",
    ]
    assert shapes(found, "Reshape:x_rs") == [(1, 16, 64), (16, 1, 1, 64)]
    assert shapes(found, "Transpose:turn_tp") == [(16, 1, 1, 64), (1, 64, 1, 16)]
    assert shapes(found, "Transpose:norm#1_rs_tp") == [(1, 64, 1, 16), (16, 1, 1, 64)]
    moves = [each for each in found.layers if each.kind == "Transpose"]
    assert [each.target for each in moves] == [target] * 2


def test_a_softmax_works_along_channels_or_width() -> None:
    net = Net(1, 8, 6, 10)
    net.add("Softmax", "height", "x", axis=2)
    found = net.lower("rk3588", "height", dtype="float16")
    assert shapes(found, "exSoftmax13:height#1") == [(8, 6, 1, 10)] * 2


def test_heads_of_one_matrix_are_split_along_channels() -> None:
    net = Net(1, 17, 96)
    found = net.lower("rk3588", in_five(net, "x", 1, 17, 3), dtype="float16")
    assert names(found)[2:] == [
        "Conv:qkv/MatMul#3",
        "Reshape:qkv/MatMul_mm_tp_sw_gather_rs",
        "Split:turn-rs_split",
        "exSDPAttention:mix_2sdpa",
        "Reshape:join_rs",
        "Conv:o/MatMul#2",
        "Transpose:o/MatMul_mm_tp",
        "Reshape:o/Add-rs",
    ]


def test_windows_are_cut_from_a_map_and_their_pixels_stay_one_batch() -> None:
    net = Net(1, 16, 16, 32)
    six = net.add("Reshape", "six", "x", net.constant("s6", np.array([1, 2, 8, 2, 8, 32])))
    turned = net.add("Transpose", "turn", six, perm=[0, 1, 3, 2, 4, 5])
    flat = net.add("Reshape", "flat", turned, net.constant("s3", np.array([4, 64, 32])))
    found = net.lower("rk3588", linear(net, "fc", flat, 32, 96), dtype="float16")
    assert shapes(found, "exWindow:turn_2win") == [(1, 32, 16, 16), (1, 32, 4, 64)]
    assert shapes(found, "Conv:fc/MatMul#2") == [(1, 32, 4, 64), (1, 96, 4, 64)]


def test_a_linear_layer_on_a_map_works_in_the_maps_layout() -> None:
    net = Net(1, 32, 8, 8)
    last = net.add("Transpose", "last", "x", perm=[0, 2, 3, 1])
    made = linear(net, "b", net.add("Relu", "relu", linear(net, "a", last, 32, 64)), 64, 32)
    net.add("Add", "sum", "x", net.add("Transpose", "first", made, perm=[0, 3, 1, 2]))
    found = names(net.lower("rk3588", "sum", dtype="float16"))
    assert found == ["Conv:a/MatMul#2", "Conv:b/MatMul#2", "Add:sum"]


@pytest.mark.parametrize(
    ("axes", "layer"),
    [([1], "Conv:x_rs_mm#1"), ([2], "exMatMul:x_rs_mm"), ([1, 2], "Conv:x_rs_mm#1")],
)
def test_a_mean_is_a_matrix_with_one_output(axes: list[int], layer: str) -> None:
    net = Net(1, 24, 64)
    net.add("ReduceMean", "mean", "x", net.constant("axes", np.array(axes)), keepdims=0)
    assert layer in names(net.lower("rk3588", "mean", dtype="float16"))


def test_an_einsum_of_two_features_is_a_matrix_of_each_batch() -> None:
    net = Net(1, 512, 20, 20)
    net.shapes["texts"] = (1, 80, 512)
    net.add("Einsum", "match", "x", "texts", equation="bchw,bkc->bkhw")
    found = net.lower("rk3588", "match", dtype="float16")
    assert shapes(found, "exMatMul:x_rs_mm") == [
        (1, 512, 1, 400),
        (1, 512, 1, 80),
        (1, 400, 1, 80),
    ]


def test_an_einsum_of_another_form_stays_as_it_is() -> None:
    net = Net(1, 8, 4, 4)
    net.shapes["y"] = (1, 5, 8)
    net.add("Einsum", "sums", "x", "y", equation="bchw,bkc->bkh")
    assert "Einsum:sums" in names(net.lower("rk3588", "sums", dtype="float16"))


def test_a_thousand_reshapes_and_transposes_in_a_row_end() -> None:
    net = Net(2, 6, 10)
    data = "x"
    for at in range(500):
        data = net.add("Transpose", f"t{at}", data, perm=[1, 0, 2])
        data = net.add("Reshape", f"r{at}", data, net.constant(f"s{at}", np.array([2, 6, 10])))
    assert net.lower("rk3588", data, dtype="float16").layers


def test_one_token_that_attends_to_others_keeps_its_channels() -> None:
    # rk3566, float16: rknn-toolkit2 2.3.2 exchanges the operands of both products, so that no
    # Reshape behind them is on the CPU; a decoder of one token had five a layer there.
    net = Net(1, 1, 256)
    net.shapes["memory"] = (1, 4, 64, 16)
    net.shapes["values"] = (1, 4, 16, 64)
    query = linear(net, "q", "x", 256, 256)
    flat = net.add("Reshape", "heads", query, net.constant("h", np.array([1, 1, 4, 64])))
    turned = net.add("Transpose", "queries", flat, perm=[0, 2, 1, 3])
    scores = net.add("MatMul", "score", turned, "memory")
    end = attended(net, scores, "values", 1, 1, 256)
    lowered = net.lower("rk3566", end, dtype="float16")
    assert shapes(lowered, "exMatMul:score#1")[-1] == (4, 16, 1, 1)
    assert shapes(lowered, "exMatMul:mix#1") == [(4, 16, 1, 64), (4, 16, 1, 1), (4, 64, 1, 1)]
    behind = lowered.layers.index(layer_of(lowered, "exMatMul:mix#1"))
    reshapes = [each for each in lowered.layers[behind:] if each.op == "Reshape"]
    assert reshapes
    assert {each.target for each in reshapes} == {"NPU"}
