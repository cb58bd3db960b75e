"""Advice: what is found, that a gain is the difference of two estimates, what stays untold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import pytest

from engine.cost.advice import advise
from engine.cost.generation1.lowering import lower_generation1
from engine.cost.generation1.timing import layer_times
from engine.cost.lowered import Lowered
from engine.wire.cost import Advice
from tests.cost.generation1.networks import Net
from tests.cost.support import Chain

MAP = (1, 32, 32, 32)


def lowered(chain: Chain) -> Lowered:
    """What the last layer writes is the output; no layer of the compiler's own brings it there."""
    return replace(chain.lowered(), outputs=(chain.last,))


def first_times(lowered: Lowered, chip: str = "rk1808") -> list[float]:
    """The time model of generation 1."""
    return [each.ms for each in layer_times(lowered, chip, None)]


def plain_time(lowered: Lowered) -> Sequence[float]:
    """A time model that can be checked by hand: weights by pixels, activations, the CPU."""
    made = []
    for each in lowered.layers:
        out = lowered.shape(each.outputs[0])
        pixels = out[2] * out[3] if len(out) == 4 else 1
        weights = sum(prod(lowered.shape(name)) for name in each.consts)
        ms = weights * pixels * 1e-6
        if "ExSwish" in each.op or each.op == "exSwish":
            ms += out[1] * pixels * 1e-4
        if each.kind == "Resize":
            ms += 10.0
        if each.target == "CPU":
            ms += 50.0
        made.append(ms * (2 if each.dtype == "float16" else 1))
    return made


def single(shape: tuple[int, ...], op: str, channels: int, kernel: int, **fields: Any) -> Chain:
    """One convolution that keeps the size of the map."""
    return Chain(shape).add(op, (1, channels, *shape[2:]), kernel=kernel, **fields)


def found(chain: Chain, chip: str = "rk3588") -> dict[str, Advice]:
    made = advise(lowered(chain), chip, plain_time)
    assert all(each.source and each.why and each.layers for each in made)
    gains = [each.gain_ms or 0.0 for each in made]
    assert gains == sorted(gains, reverse=True)
    return {each.title: each for each in made}


def only(told: dict[str, Advice], part: str) -> Advice:
    (one,) = [each for title, each in told.items() if part in title]
    return one


def test_an_activation_by_table_is_told_its_gain() -> None:
    chain = Chain()
    chain.add("ConvExSwish", MAP, kernel=3)
    chain.add("exSwish", MAP)
    chain.add("Conv", MAP, kernel=1)
    one = only(found(chain), "ReLU")
    assert one.layers == ("ConvExSwish0", "exSwish1")
    assert one.gain_ms == pytest.approx(2 * 32 * 32 * 32 * 1e-4)
    relu = single((1, 3, 32, 32), "ConvRelu", 32, 3)
    assert not any("ReLU" in title for title in found(relu))


def test_channels_that_leave_the_array_unused() -> None:
    chain = single(MAP, "Conv", 33, 3).add("Conv", (1, 64, 32, 32), kernel=3)
    one = only(found(chain), "multiples of 32")
    assert one.layers == ("Conv0",)
    assert "33 channels" in one.why
    assert one.gain_ms == pytest.approx(1 * 32 * 9 * 32 * 32 * 1e-6)
    # 7 of 64 channels are unused: more than a tenth
    assert only(found(single(MAP, "Conv", 57, 3)), "multiples of 32").layers == ("Conv0",)
    for channels in (24, 58):  # one tile: nothing to gain; 6 of 64 are less than a tenth
        assert found(single(MAP, "Conv", channels, 3)) == {}


def test_large_kernels_become_several_small_ones() -> None:
    one = only(found(single(MAP, "Conv", 32, 5)), "3x3")
    assert one.gain_ms == pytest.approx(32 * 32 * (25 - 18) * 32 * 32 * 1e-6)
    assert found(single((1, 3, 32, 32), "Conv", 32, 5)) == {}  # of the image: another matter


def test_operators_on_the_cpu_by_type() -> None:
    chain = Chain(MAP)
    for op in ("AveragePool", "Transpose", "AveragePool"):
        chain.add(op, MAP, target="CPU", remedy="Do otherwise.")
    chain.add("Conv", MAP, kernel=1)
    told = found(chain)
    one = only(told, "AveragePool")
    assert one.gain_ms == pytest.approx(100.0)
    assert one.layers == ("AveragePool0", "AveragePool2")
    assert "Do otherwise." in one.why
    assert only(told, "Transpose").gain_ms == pytest.approx(50.0)


def test_what_stands_at_an_output_can_be_left_out() -> None:
    chain = single(MAP, "Conv", 32, 1).add("Resize", (1, 32, 64, 64))
    one = only(found(chain), "Enlarge")
    assert one.gain_ms == pytest.approx(10.0)
    chain.add("Transpose", (1, 64, 64, 32), target="CPU")
    told = found(chain)
    assert only(told, "at the outputs").gain_ms == pytest.approx(50.0)
    assert only(told, "fewer channels").gain_ms is None


def test_half_precision_is_told_where_8_bits_are_there() -> None:
    chain = single(MAP, "Conv", 32, 3, dtype="float16")
    one = only(found(chain), "float16")
    assert one.gain_ms == pytest.approx(32 * 32 * 9 * 32 * 32 * 1e-6)
    assert not any("float16" in title for title in found(chain, "rk2118"))


def test_many_small_layers_and_an_odd_width() -> None:
    chain = Chain((1, 3, 30, 30))
    for _ in range(60):
        chain.add("Conv", (1, 8, 30, 30), kernel=1)
    told = found(chain)
    assert only(told, "Merge").gain_ms is None
    odd = single((1, 3, 30, 30), "Conv", 32, 3)
    assert "30" in only(found(odd), "multiple of 16").why


@pytest.mark.parametrize(("width", "advised"), [(24, True), (32, False)])
def test_the_width_of_an_input_fills_groups_of_16(width: int, advised: bool) -> None:
    chain = single((1, 3, 30, width), "Conv", 32, 3)
    assert any("multiple of 16" in title for title in found(chain)) == advised


def timed(chain: Chain, *times: float) -> list[Advice]:
    """Advice where each layer takes so many milliseconds."""
    return list(advise(lowered(chain), "rk3588", lambda these: times[: len(these.layers)]))


@pytest.mark.parametrize(
    ("times", "layers"),
    [
        ([1.0] * 49, 0),  # of so few layers the smallest is no measure of a start
        ([1.0] * 49 + [2.0], 50),  # twice as long as the shortest are small, too
        ([1.0] * 49 + [2.1], 49),
    ],
)
def test_layers_as_short_as_a_start_are_to_be_merged(times: list[float], layers: int) -> None:
    chain = Chain((1, 8, 30, 32))
    for _ in times:
        chain.add("Conv", (1, 8, 30, 32), kernel=1)
    (merge, *_) = [len(one.layers) for one in timed(chain, *times) if "Merge" in one.title] or [0]
    assert merge == layers


@pytest.mark.parametrize(("other", "advised"), [(47.5, True), (48.0, False)])
def test_a_cost_without_a_known_gain_is_told_from_a_twentieth_on(
    other: float, advised: bool
) -> None:
    chain = single(MAP, "Conv", 32, 1).add("Resize", (1, 32, 64, 64))
    chain.add("Conv", (1, 32, 64, 64), kernel=1)
    titles = [one.title for one in timed(chain, other, 5.0, other)]
    assert ("Resize fewer channels" in titles) == advised


def test_small_gains_and_unknown_chips_are_not_told() -> None:
    chain = single((1, 64, 64, 64), "Conv", 64, 3)
    chain.add("exSwish", (1, 1, 1, 1))
    chain.add("Conv", (1, 64, 64, 64), kernel=3)
    assert found(chain) == {}
    assert advise(lowered(chain), "rk9999", plain_time) == ()
    empty = Lowered("rk3588", "int8", (), {}, (), ())
    assert advise(empty, "rk3588", plain_time) == ()


def test_the_model_is_left_as_it_is() -> None:
    chain = single(MAP, "ConvExSwish", 33, 5).add("Conv", (1, 33, 32, 32), kernel=5)
    whole = lowered(chain)
    names = set(whole.tensors)
    assert advise(whole, "rk3588", plain_time)
    assert set(whole.tensors) == names


@pytest.mark.parametrize("chip", ["rk1808", "rv1109", "rv1126"])
def test_generation_1_with_its_own_time_model(chip: str) -> None:
    net = Net((1, 64, 33, 33))
    net.conv(64, (13, 1))
    net.conv(64)
    net.add("MaxPool", (1, 64, 16, 16), kernel_shape=[2, 2], strides=[2, 2])
    net.conv(64, group=64)
    before = net.conv(64)
    gate = net.add("Sigmoid", (1, 64, 16, 16))
    net.add("Mul", (1, 64, 16, 16), inputs=[before, gate])
    net.conv(64)
    lowered = lower_generation1(net.graph(), "rk1808", "int8")
    told = advise(lowered, chip, lambda each: first_times(each, chip), {"Conv0": "long"})
    (kernel,) = [each for each in told if "11 x stride" in each.title]
    assert kernel.layers == ("long",)
    assert kernel.gain_ms > 0.8 * sum(first_times(lowered, chip))
    assert told[0] is kernel


def test_attention_on_generation_1_is_told() -> None:
    net = Net((1, 4, 256, 64))
    net.add("MatMul", (1, 4, 256, 256), "x")
    net.add("Softmax", (1, 4, 256, 256))
    lowered = lower_generation1(net.graph(), "rk1808", "int8")
    told = advise(lowered, "rk1808", first_times)
    (one,) = [each for each in told if "attention" in each.title]
    assert one.layers == ("MatMul0", "Softmax1")
    assert one.gain_ms is None
