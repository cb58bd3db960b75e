"""What ``export --layers`` writes, compiled by the vendor's toolkit: in integers, as deployed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest

from engine.accuracy.three_way import board_rows, compare_sides, first_divergence
from engine.container.vendor import inspect_vendor
from engine.pipeline.comparison_model import comparison_onnx
from engine.pipeline.layers import quantized_of
from engine.pipeline.pipeline import Pipeline
from engine.quantize import lower_for_vendor
from engine.recipe import Recipe
from engine.services.build import vendor_onnx
from engine.services.state import get_pipeline
from rknntui.demo import demo_recipe
from tests.vendor.nets import Net
from tests.vendor.toolkit import Toolkit

pytestmark = [pytest.mark.long, pytest.mark.vendor]

_AS_IT_IS = {"optimization_level": 3}


@pytest.fixture
def build() -> Pipeline:
    return get_pipeline(Recipe.from_values(demo_recipe(), Path.cwd()))


def computing(path: Path) -> list[str]:
    """Kinds of the layers of a compiled model, without its ends."""
    (graph,) = inspect_vendor(path).graphs
    return sorted(
        layer.op
        for layer in graph.layers
        if layer.op not in ("InputOperator", "OutputOperator", "Reshape")
    )


def test_it_compiles_with_names_order_and_integers(
    toolkit: Toolkit, build: Pipeline, tmp_path: Path
) -> None:
    (content,) = comparison_onnx(build)
    (tmp_path / "layers.onnx").write_bytes(content)
    (tmp_path / "deployed.onnx").write_bytes(vendor_onnx(build))
    toolkit.build("layers", tmp_path / "layers.onnx", _AS_IT_IS)
    toolkit.build("deployed", tmp_path / "deployed.onnx", _AS_IT_IS)
    compiled = toolkit.export("layers")
    found = inspect_vendor(compiled)
    names = [value.name for value in onnx.load(tmp_path / "layers.onnx").graph.output]
    assert [port.tensor.name for port in found.outputs] == names
    rows = board_rows(quantized_of(build))
    assert {row.golden for row in rows} == set(names)
    table = build.quantized.table
    for port in found.outputs:
        params = table[port.tensor.name]
        assert port.tensor.dtype == "int8"
        assert port.tensor.quant is not None
        assert port.tensor.quant.scale == pytest.approx(params.scale)
        assert port.tensor.quant.zero_point == params.zero_point
    # nothing is converted between: no layer computes in float
    ours, deployed = computing(compiled), computing(toolkit.export("deployed"))
    assert "exDataConvert" not in {*ours, *deployed}
    # only sums that are fused into a convolution are layers of their own
    assert (ours.count("AddRelu"), deployed.count("ConvAddRelu")) == (2, 2)


class Tensors:
    """A board whose tensors are known."""

    def __init__(self, tensors: Mapping[str, np.ndarray]) -> None:
        self._tensors = tensors

    def run(
        self, _: Mapping[str, np.ndarray], outputs: Sequence[str] | None = None, /
    ) -> dict[str, np.ndarray]:
        return {name: self._tensors[name] for name in outputs or ()}


def test_another_implementation_differs_by_rounding_alone(
    toolkit: Toolkit, build: Pipeline, tmp_path: Path
) -> None:
    """The vendor's simulator in the place of a board: the limits hold, and a wrong layer shows."""
    (content,) = comparison_onnx(build)
    path = tmp_path / "layers.onnx"
    path.write_bytes(content)
    toolkit.build("simulated", path, _AS_IT_IS)
    sample = next(iter(build.feeds(build.dataset.first(1))))
    (outputs,) = toolkit.infer("simulated", [list(sample.values())])
    names = [value.name for value in onnx.load(path).graph.output]
    quantized = quantized_of(build)
    rows = board_rows(quantized)
    given = {
        name: np.asarray(array, np.float32).reshape(quantized.reference.spec(name).shape)
        for name, array in zip(names, outputs, strict=True)
    }
    found = compare_sides(quantized, sample, [rows], Tensors(given))
    assert first_divergence(found) is None
    wrong = {**given, rows[5].golden: given[rows[5].golden] * np.float32(0.5)}
    found = compare_sides(quantized, sample, [rows], Tensors(wrong))
    first = first_divergence(found)
    assert first is not None
    assert first.row == rows[5]


@pytest.mark.parametrize("name", ["digits", "resnet8"])
def test_the_deployed_model_rounds_otherwise_and_agrees(
    name: str, toolkit: Toolkit, net: Callable[[str], Net], tmp_path: Path
) -> None:
    """Its fused sums are rounded once instead of twice; compared by its output alone."""
    found_net = net(name)
    quantized = found_net.quantized("normal")
    path = tmp_path / "deployed.onnx"
    path.write_bytes(lower_for_vendor(quantized.graph).SerializeToString())
    toolkit.build(f"fused {name}", path, _AS_IT_IS)
    row = board_rows(quantized)[-1]
    for pixels in found_net.evaluation[:4]:
        value = found_net.values(pixels[None])
        ((output,),) = toolkit.infer(f"fused {name}", [[value]])
        for sign in (1, -1):
            array = np.asarray(output * sign, np.float32).reshape(
                quantized.reference.spec(row.golden).shape
            )
            given = Tensors({row.golden: array})
            (found,) = compare_sides(quantized, {found_net.input: value}, [[row]], given)
            assert len(found.inside) >= 13
            assert found.diverges == (sign < 0)
