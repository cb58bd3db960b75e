"""Real nets mean the same at every level."""

from __future__ import annotations

import collections
import time
from collections.abc import Callable

import numpy as np
import onnx
import pytest

from engine.graph.ir import infer_shapes
from engine.graph.passes import optimise
from tests.graph.models import model
from tests.graph.passes.generate import Builder
from tests.graph.passes.support import (
    LEVELS,
    furthest,
    load,
    operators,
    random_feeds,
    run,
    with_random_weights,
)

FLOAT_MODELS = (
    "onnx/concat_block.onnx",
    "onnx/multiple_input_test.onnx",
    "onnx/version-RFB-320.onnx",
    "onnx/version-RFB-320_simplified.onnx",
    "onnx/version-RFB-320_without_postprocessing.onnx",
    "digits/digits.onnx",
)
BENCH_MODELS = ("resnet8.onnx", "vww96.onnx")
REFUSED = "onnx/dual_residual.onnx"
"""Its operator is not ONNX's: the case of an unsupported operator, in the tests of the frontend."""


def check(graph, tolerance: float) -> dict[int, int]:
    """Nodes left at each level."""
    feeds = random_feeds(graph)
    reference = run(graph, feeds)
    assert all(np.isfinite(array).all() for array in reference.values())
    left = {}
    for level in LEVELS:
        done = optimise(graph, level).graph
        assert done.inputs == graph.inputs
        assert furthest(reference, run(done, feeds)) < tolerance, level
        left[level] = len(done)
    return left


def test_the_list_of_models_is_complete(zoo, shared) -> None:
    found = {
        f"{folder}/{p.name}" for folder in ("onnx", "digits") for p in (zoo / folder).glob("*.onnx")
    }
    assert found == {*FLOAT_MODELS, REFUSED}
    assert {p.name for p in (shared / "bench" / "models").glob("*.onnx")} == set(BENCH_MODELS)


@pytest.mark.parametrize("name", FLOAT_MODELS)
def test_float_models_of_the_zoo(zoo, name) -> None:
    check(load(zoo / name), 1e-5)


@pytest.mark.parametrize("name", BENCH_MODELS)
def test_models_of_the_bench(shared, name) -> None:
    check(load(shared / "bench" / "models" / name), 1e-5)


def test_rfb_has_as_few_nodes_as_the_best_simplifier_leaves(zoo) -> None:
    """Facts on frontends, section 3: 242 nodes, 125 after onnxslim."""
    graph = load(zoo / "onnx" / "version-RFB-320.onnx")
    assert len(optimise(graph, 3).graph) <= 125


def test_optimising_rfb_is_cheap(zoo) -> None:
    """2 to 3 times the CPU of inferring its shapes, on whatever machine."""
    graph = load(zoo / "onnx" / "version-RFB-320_without_postprocessing.onnx")

    def seconds(work: Callable[[], object]) -> float:
        found = []
        for _ in range(4):
            begun = time.process_time()
            work()
            found.append(time.process_time() - begun)
        return min(found)

    shapes = seconds(lambda: infer_shapes(graph, refresh=True))
    assert seconds(lambda: optimise(graph, 3)) < 10 * shapes


@pytest.mark.long
@pytest.mark.parametrize("folder", ["shapes", "shapes/micro", "shapes/published"])
def test_nets_with_random_weights(zoo, folder) -> None:
    paths = sorted((zoo / folder).glob("*.onnx"))
    assert paths
    for path in paths:
        graph = load(path, with_random_weights(onnx.load(path)))
        assert not any(node.op_type == "ConstantOfShape" for node in graph.nodes), path.name
        check(graph, 1e-4)


# The blocks of MobileNetV2 (arXiv 1801.04381, table 2): expansion, channels, repeats, stride.
_BLOCKS = (
    (1, 2, 1, 1),
    (6, 3, 2, 2),
    (6, 4, 3, 2),
    (6, 8, 4, 2),
    (6, 12, 3, 1),
    (6, 20, 3, 2),
    (6, 40, 1, 1),
)


def mobilenet_v2():
    """MobileNetV2 as the zoo's Caffe file: Mul and Add after each BatchNormalization; narrower."""
    b = Builder(0)
    b.has("x", (1, 3, 64, 64))

    def unit(x, after, k, stride, groups=1, relu=True):
        before = b.shapes[x][1]
        fan_in = before // groups * k * k
        weight = b.normal(after, before // groups, k, k, scale=(2 / fan_in) ** 0.5)
        y = b.op("Conv", x, weight, strides=[stride] * 2, pads=[k // 2] * 4, group=groups)
        y = b.op("BatchNormalization", y, *(b.rng.uniform(0.5, 1.5, after) for _ in range(4)))
        y = b.op("Mul", y, b.rng.uniform(0.5, 1.5, (after, 1, 1)))
        y = b.op("Add", y, b.normal(after, 1, 1, scale=0.1))
        return b.op("Relu", y) if relu else y

    last = unit("x", 4, 3, 2)
    for expansion, out, repeats, first_stride in _BLOCKS:
        for i in range(repeats):
            channels = b.shapes[last][1]
            stride, wide = (first_stride if i == 0 else 1), channels * expansion
            inner = unit(unit(last, wide, 1, 1), wide, 3, stride, groups=wide)
            inner = unit(inner, out, 1, 1, relu=False)
            last = b.op("Add", last, inner) if stride == 1 and channels == out else inner
    last = b.op("AveragePool", unit(last, 160, 1, 1), kernel_shape=[2, 2])
    last = b.op("Softmax", b.op("Conv", last, b.normal(10, 160, 1, 1, scale=0.1)), axis=1)
    return model(b.nodes, {"x": (1, 3, 64, 64)}, [last], b.constants)


def test_mobilenet_v2_has_as_few_nodes_as_the_best_simplifier_leaves() -> None:
    """Facts on frontends, section 3: 261 nodes, 102 after onnxslim and ONNX Runtime."""
    graph = mobilenet_v2()
    counts = collections.Counter(operators(graph))
    assert counts["BatchNormalization"] == counts["Mul"] == 53
    left = check(graph, 1e-5)
    after = collections.Counter(operators(optimise(graph, 3).graph))
    assert after == {"Conv": 54, "Relu": 36, "Add": 10, "GlobalAveragePool": 1, "Softmax": 1}
    assert len(graph) == 261
    assert left[3] == 102
