"""Frame rates to reach: what chips need that may miss them, sizes of inputs, findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx
import pytest

import engine
from engine.base.errors import UsageError
from engine.cost.sizes import smaller_size
from engine.wire.cost import ChipEstimate, MemoryCost, TensorSpan
from tests.cost.asked.maker import Maker

SHAPES = {"image": (1, 3, 640, 480), "nhwc": (1, 8, 8, 3)}


@pytest.mark.parametrize(
    ("texts", "sized"),
    [
        ((), {}),
        (("320x240",), {"image": (1, 3, 320, 240)}),
        (("nhwc=16X16",), {"nhwc": (1, 16, 16, 3)}),
        (("image=2,3,64,64", "nhwc=1,4,4,3"), {"image": (2, 3, 64, 64), "nhwc": (1, 4, 4, 3)}),
    ],
)
def test_a_size_is_that_of_an_image_or_a_shape(
    texts: Sequence[str], sized: Mapping[str, tuple[int, ...]]
) -> None:
    assert engine.input_sizes(texts, SHAPES) == {**SHAPES, **sized}


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        (("other=1,3,4,4",), "no input 'other'"),
        (("imag=1,3,4,4",), "no input 'imag'"),
        (("big",), "is no size"),
        (("image=1,2,3",), "give as many numbers"),
        (("1,3,32,32",), "which one has this size"),
        (("image=32x32", "image=64x64"), "Two sizes"),
        (("32x32", "image=64x64"), "Two sizes"),
        (("image=" + "1," * 40 + "1",), "is no size"),
    ],
)
def test_what_is_no_size_is_refused(texts: Sequence[str], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        engine.input_sizes(texts, SHAPES)


@pytest.mark.parametrize(
    ("shape", "share", "smaller"),
    [
        ((1, 3, 640, 640), 0.5, ("image=1,3,448,448",)),
        ((1, 240, 320, 3), 0.9, ("image=1,224,288,3",)),
        ((0, 3, 640, 640), 0.5, ("image=1,3,448,448",)),
        ((1, 3, 64, 64), 0.1, ()),
        ((1, 80), 0.5, ()),
    ],
)
def test_a_smaller_image_leaves_a_share_of_the_time(
    shape: tuple[int, ...], share: float, smaller: tuple[str, ...]
) -> None:
    assert smaller_size("image", shape, share) == smaller


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A network of an image whose channels fill the NPU badly."""
    net = Maker((1, 3, 320, 320))
    last = net.conv(net.conv("x", 3, 20), 20, 20)
    onnx.save(net.model(net.conv(last, 20, 20)), path := tmp_path / "m.onnx")
    return path


def test_chips_that_may_miss_a_rate_have_what_brings_them_there(model: Path) -> None:
    chip = engine.estimate(model, ["rk3566"], use_cache=False).chips[0]
    goal = chip.fps.value * 1.1
    answer = engine.ways_to_rate(model, goal, ["rk3566"], use_cache=False)
    (found,) = answer.chips
    tips = [way for way in found.ways if not way.input_sizes]
    (smaller,) = [way for way in found.ways if way.input_sizes]
    assert tips
    for tip in tips:
        left = chip.time_ms.value - tip.gain_ms
        assert tip.fps.value == pytest.approx(chip.fps.value * chip.time_ms.value / left)
    again = engine.estimate(model, ["rk3566"], input_sizes=smaller.input_sizes, use_cache=False)
    assert smaller.fps == again.chips[0].fps
    assert smaller.reaches
    ranks = [(not way.reaches, way.gain_ms) for way in found.ways]
    assert ranks == sorted(ranks)
    assert all(way.reaches == (way.fps.value >= goal) for way in found.ways)
    told = engine.answer_lines(answer)
    assert told[2:] == ["rk3566:", *(f"  {line}" for line in engine.answer_lines(found))]
    assert any(f"FPS: {smaller.what} (−" in line for line in told)


def test_what_reaches_a_rate_for_sure_needs_nothing(model: Path) -> None:
    found = engine.ways_to_rate(model, 1e-3, use_cache=False)
    assert (found.fps_asked, found.chips) == (1e-3, ())
    with pytest.raises(ValueError, match="above 0"):
        engine.ways_to_rate(model, float("nan"))


def test_peak_and_tensors_alive() -> None:
    spans = (
        TensorSpan("a", 0, 10, 0, 2),
        TensorSpan("b", 10, 15, 1, 1),
        TensorSpan("c", 0, 4, 3, 4),
    )
    memory = MemoryCost(15, 0, 15, spans)
    assert memory.peak == (1, 15)
    assert [span.tensor for span in memory.alive(1)] == ["a", "b"]
    assert memory.alive(9) == ()
    assert MemoryCost(0, 0, 0).peak == (0, 0)


def test_the_roof_is_the_lower_of_two_limits() -> None:
    chip = ChipEstimate(
        "rk3588", 2, "int8", 1, 1, 1000.0, "fitted", peak_gops=100.0, bandwidth_gbs=4.0
    )
    assert (chip.roof(10.0), chip.roof(25.0), chip.roof(1e6)) == (40.0, 100.0, 100.0)
    assert ChipEstimate("rk3588", 2, "int8", 1, 1, 1000.0, "fitted").roof(10.0) is None


def test_findings_have_the_layers_off_the_npu_and_what_the_compiler_fails_at(demo: Path) -> None:
    model = next(demo.glob("*.onnx"))
    for chip in engine.estimate(model, use_cache=False).chips:
        off = [row for row in chip.layers if row.reason and row.target != "NPU"]
        assert len(chip.findings) == len(off) + len(chip.warnings)
        assert {finding.where for finding in chip.findings} >= {row.id for row in off}


def test_what_is_known_of_chips_has_sources() -> None:
    (known,) = engine.known_chips(["RK3588S"])
    assert (known.name, known.generation) == ("rk3588", 2)
    assert all(figure.source for figure in known.figures)
    assert len(engine.known_chips()) == 15
    with pytest.raises(UsageError, match="no chip"):
        engine.known_chips(["rk3589"])
