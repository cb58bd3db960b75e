"""Models of other frameworks through the compiler: in integers on the NPU, with our numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest

from benchmarks.compiled.agreement import compare_layers, compare_whole, simulated
from benchmarks.compiled.cases import Loaded, load_case
from benchmarks.compiled.tables import beside_plan, convolutions, not_in_integers
from engine.cost.printed import parse_printed
from engine.graph.execute import FUSING_LEVEL, as_compiled
from engine.graph.ir import Graph
from engine.quantize import lower_for_vendor
from engine.simulate import open_arithmetic
from engine.wire.names import ARITHMETICS
from tests.vendor.toolkit import Toolkit

pytestmark = [pytest.mark.long, pytest.mark.vendor]


@pytest.fixture(scope="module")
def case(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Loaded]:
    """Name -> a model with its samples; some of them are enough here."""
    assert shared.is_dir()
    return cache(lambda name: load_case(name, tmp_path_factory.mktemp(name)))


@pytest.mark.parametrize(
    ("name", "algorithm", "chip"),
    [
        ("rfb320-caffe", "normal", "rk3588"),
        ("rfb320-tflite", "normal", "rk3566"),
        ("yolo-fastest-darknet", "normal", "rv1106"),
        ("mtcnn3-mxnet", "accurate", "rk3566"),
        ("keywords-tensorflow", "accurate", "rv1106"),
    ],
)
def test_all_convolutions_are_int8_on_the_npu(
    name: str,
    algorithm: str,
    chip: str,
    case: Callable[[str], Loaded],
    toolkit: Toolkit,
    tmp_path: Path,
) -> None:
    graph = case(name).pipeline(algorithm).quantized.graph.graph
    model = lower_for_vendor(graph)
    onnx.save(model, tmp_path / "model.onnx")
    log = toolkit.build("table", tmp_path / "model.onnx", {"target_platform": chip}, verbose=True)
    toolkit.release("table")
    printed = parse_printed(log)
    weighted = sum(node.op_type in ("Conv", "Gemm") for node in model.graph.node)
    assert len(convolutions(printed)) == weighted
    assert not_in_integers(printed) == []
    plan = beside_plan(printed, Graph.from_proto(model), chip)
    for theirs, ours in (plan.npu, plan.total):
        assert ours == pytest.approx(theirs, rel=0.01)


@pytest.mark.parametrize("algorithm", ["normal", "accurate"])
@pytest.mark.parametrize("name", ["mtcnn3-mxnet", "keywords-tensorflow"])
def test_its_simulator_has_our_numbers(
    name: str, algorithm: str, case: Callable[[str], Loaded], toolkit: Toolkit, tmp_path: Path
) -> None:
    chosen = case(name)
    pipeline = chosen.pipeline(algorithm)
    graph, reference = pipeline.quantized.graph.graph, pipeline.optimised.graph.graph
    feeds = chosen.feeds(graph, chosen.evaluation)
    layers = compare_layers(graph, feeds[:2], toolkit, tmp_path)
    for layer in layers:
        assert layer.largest <= 1, layer
        assert layer.unequal <= max(1e-3 * layer.values, 1), layer
    theirs = simulated(graph, chosen.values(chosen.evaluation), toolkit, tmp_path)
    for output in compare_whole(as_compiled(graph), reference, feeds, theirs):
        print(f"{name} {algorithm}: {output}")
        assert output.cosine >= 0.9999


@pytest.mark.parametrize("level", [2, FUSING_LEVEL])
def test_a_deep_detector_has_the_reference_arithmetic(
    level: int, case: Callable[[str], Loaded], toolkit: Toolkit, tmp_path: Path
) -> None:
    """84 convolutions: integer kernels part from it, the reference does not in a single bit."""
    chosen = case("yolo-fastest-darknet")
    graph = chosen.pipeline().quantized.graph.graph
    ours = as_compiled(graph) if level == FUSING_LEVEL else graph
    feeds = chosen.feeds(graph, chosen.evaluation[:2])
    theirs = simulated(graph, chosen.values(chosen.evaluation[:2]), toolkit, tmp_path, level)
    reference, integer = (open_arithmetic(ours, way) for way in ARITHMETICS[::-1])
    for feed, outputs in zip(feeds, theirs, strict=True):
        for found, other, output in zip(
            reference.run(feed).values(), integer.run(feed).values(), outputs, strict=True
        ):
            assert np.mean(np.ravel(found) == np.ravel(output)) >= 0.9999
            print(level, f"integer: {np.mean(np.ravel(other) == np.ravel(output)):.4f} equal")
