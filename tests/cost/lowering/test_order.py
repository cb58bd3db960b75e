"""The order of layers: plain ones at once, fused ones in turn, copying ones put off."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from engine.cost.lowering.order import in_order
from tests.cost.support import Layers


def names(maker: Layers) -> list[str]:
    return [layer.name for layer in in_order(maker.lowered(), maker.npu).layers]


def fuse(maker: Layers, *names: str) -> None:
    maker.layers = [
        replace(layer, op="ConvRelu") if layer.name in names else layer for layer in maker.layers
    ]


def started(chip: str = "rk3588", channels: int = 16) -> tuple[Layers, str]:
    """A convolution of an image, and what it writes."""
    maker = Layers(chip)
    return maker, maker.conv("stem", maker.input("x", 1, 3, 8, 8), channels)


def test_fused_layers_take_turns_between_branches() -> None:
    maker, stem = started()
    a1 = maker.conv("a1", stem, 16)
    a2 = maker.conv("a2", a1, 16)
    b1 = maker.conv("b1", stem, 16)
    b2 = maker.conv("b2", b1, 16)
    fuse(maker, "a1", "a2", "b1", "b2")
    maker.layer("Concat", a2, b2, to=(maker.feature("both", 1, 32, 8, 8),))
    maker.output("both")
    order = ["x", "stem", "a1", "b1", "a2", "b2", "both", "both"]
    assert names(maker) == order


def test_plain_layers_follow_at_once() -> None:
    maker, stem = started()
    a1 = maker.conv("a1", stem, 16)
    maker.conv("a2", a1, 16)
    maker.conv("b1", stem, 16)
    fuse(maker, "b1")
    assert names(maker) == ["x", "stem", "a1", "a2", "b1"]


def test_what_works_on_a_copy_waits_for_all_others() -> None:
    maker, stem = started("rk3566")
    maker.layer("Resize", stem, to=(maker.feature("up", 1, 16, 16, 16),), mode="nearest")
    maker.conv("a1", stem, 16)
    fuse(maker, "a1")
    maker.conv("a2", "a1", 16)
    maker.output("stem")
    assert names(maker) == ["x", "stem", "a1", "a2", "up", "stem"]


def test_a_copy_that_runs_lets_what_follows_it_run() -> None:
    """As in YOLOv5-seg: copies wait in the order that the layers had without waiting."""
    maker, stem = started("rk3566")
    maker.layer("Resize", stem, to=(maker.feature("up", 1, 16, 16, 16),), mode="nearest")
    maker.conv("a1", stem, 16)
    maker.conv("a2", "up", 16)
    fuse(maker, "a1", "a2")
    maker.outputs = ["a1", "a2"]  # have the same names
    assert names(maker) == ["x", "stem", "a1", "up", "a2", "a2", "a1"]


def test_what_reads_a_feature_has_it_at_once() -> None:
    """As of three that are added (asked, RV1103B): the first sum runs before the third branch."""
    maker, stem = started("rv1103b")
    first, second = maker.conv("a", stem, 16), maker.conv("b", stem, 16)
    maker.layer("Add", stem, first, to=(maker.feature("sum", 1, 16, 8, 8),))
    maker.layer("Add", "sum", second, to=(maker.feature("all", 1, 16, 8, 8),))
    assert names(maker) == ["x", "stem", "a", "sum", "b", "all"]


def test_outputs_that_make_no_copy_run_before_what_waits() -> None:
    maker, stem = started()
    for name in ("a1", "a2"):
        maker.output(maker.conv(name, stem, 16))
    maker.conv("b1", stem, 16)
    fuse(maker, "b1")
    assert names(maker) == ["x", "stem", "a1", "a2", "a1", "a2", "b1"]


def test_a_late_bias_is_behind_the_first_that_wait() -> None:
    maker, stem = started()
    fuse(maker, "stem")
    maker.conv("made", stem, 16)
    maker.layers[-1] = replace(maker.layers[-1], late_bias=True)
    maker.conv("plain", stem, 16)
    maker.conv("next", stem, 16)
    fuse(maker, "next")
    maker.conv("made2", "next", 16)
    maker.layers[-1] = replace(maker.layers[-1], late_bias=True)
    maker.conv("plain2", "next", 16)
    order = ["x", "stem", "plain", "made", "next", "made2", "plain2"]
    assert names(maker) == order


def test_the_split_of_a_grouped_convolution_waits() -> None:
    maker, stem = started(channels=32)
    halves = tuple(maker.feature(f"h{at}", 1, 16, 8, 8) for at in range(2))
    maker.layer("Split", stem, to=halves)
    maker.layer("Concat", *halves, to=(maker.feature("both", 1, 32, 8, 8),))
    maker.conv("other", stem, 32)
    assert names(maker) == ["x", "stem", "h0", "both", "other"]
    maker.layers[2] = replace(maker.layers[2], name="both")
    assert names(maker) == ["x", "stem", "other", "both", "both"]


@given(st.lists(st.integers(0, 200), min_size=1, max_size=40), st.booleans())
def test_every_layer_once_and_after_what_it_reads(reads: list[int], fused: bool) -> None:
    maker = Layers("rk3566")
    made = [maker.input("x", 1, 8, 4, 4)]
    for index, read in enumerate(reads):
        made.append(maker.conv(f"c{index}", made[read % len(made)], 8))
        if fused and read % 3 == 0:
            fuse(maker, f"c{index}")
        if read % 5 == 0:
            maker.output(made[-1])
    lowered = maker.lowered()
    ordered = in_order(lowered, maker.npu).layers
    assert sorted(map(id, ordered)) == sorted(map(id, lowered.layers))
    written: set[str] = set()
    for layer in ordered:
        assert written.issuperset(layer.inputs)
        written.update(layer.outputs)
