"""Models whose sizes the user gives: what follows from them is worked out, and what is advised
works.
"""

from __future__ import annotations

import json
import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from engine.base.errors import SourceModelError, UsageError
from engine.cost.estimate import CostSettings, estimate
from engine.frontends.onnx import inspect_file, load_onnx
from engine.graph.execute import Session
from tests.frontends.onnx.conftest import Save
from tests.graph.models import finish, nodes_of


def value(name: str, *shape: int | str | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def model(
    nodes: str,
    inputs: list[onnx.ValueInfoProto],
    output: onnx.ValueInfoProto,
    opset: int = 17,
    **constants: np.ndarray,
) -> onnx.ModelProto:
    return finish(nodes_of(nodes), inputs, [output], constants, opset=opset)


def grid() -> onnx.ModelProto:
    """A convolution, and the grid of its cells as YOLOv8 makes it of the size of its input."""
    return model(
        """["conv"] f = Conv <pads=[1, 1, 1, 1], strides=[2, 2]> (x, w); s = Shape (f);
        width = Gather (s, three); float_width = Cast <to=1> (width);
        columns = Range (zero, float_width, one); centres = Add (columns, half);
        y = Add (f, centres)""",
        [value("x", "n", 3, "h", "w")],
        value("y", "n", 8, None, None),
        w=np.random.default_rng(0).normal(size=(8, 3, 3, 3)).astype(np.float32),
        three=np.array(3),
        zero=np.array(0, np.float32),
        one=np.array(1, np.float32),
        half=np.array(0.5, np.float32),
    )


def test_sizes_that_follow_from_given_ones_are_estimated(save: Save) -> None:
    loaded = load_onnx(save(grid()), input_size_list=[[1, 3, 64, 48]])
    assert [finding.code for finding in loaded.findings] == ["opset-converted"]
    for one in estimate(loaded.graph, CostSettings(chips=("rk3588", "rv1126"))):
        assert not one.problem
        names = [row.name for row in one.layers]
        assert any("conv" in name for name in names)
        assert not any("Range" in row.op for row in one.layers)


def test_a_size_that_depends_on_data_says_so(save: Save) -> None:
    nodes = "i = NonZero (x); y = Cast <to=1> (i)"
    loaded = load_onnx(save(model(nodes, [value("x", 4, 4)], value("y", 2, None))))
    assert "output-size-unknown" in [finding.code for finding in loaded.findings]
    with pytest.raises(UsageError, match="not fixed") as error:
        estimate(loaded.graph, CostSettings(chips=("rk3588",)))
    assert "'outputs'" in error.value.remedy


def test_an_output_that_no_input_decides_is_refused_by_name(save: Save) -> None:
    nodes, k = "fixed = Neg (k); y = Add (x, fixed)", np.ones(4, np.float32)
    path = save(model(nodes, [value("x", 4)], value("y", 4), k=k))
    with pytest.raises(SourceModelError, match="constant of the model") as error:
        load_onnx(path, outputs=["y", "fixed"])
    assert "computed" in error.value.remedy
    assert load_onnx(path, outputs=["y"]).graph.outputs[0].name == "y"
    # the model's own outputs stay, and what is cut off may be an input
    assert load_onnx(path, inputs=["fixed", "x"], outputs=["y"]).graph.inputs[0].name == "fixed"


def _states(*sound: int | str | None) -> onnx.ModelProto:
    """Sound in frames of 32 and a state of the same batch, as voice detectors have them."""
    return model(
        """framed = Reshape (sound, frames); features = MatMul (framed, w);
        mean = ReduceMean <axes=[0], keepdims=1> (features); flat = Squeeze (state, first);
        y = Concat <axis=1> (mean, flat)""",
        [value("sound", *sound), value("state", 1, None, 16)],
        value("y", 1, 24),
        frames=np.array([-1, 32]),
        w=np.ones((32, 8), np.float32),
        first=np.array([0]),
    )


@pytest.mark.parametrize("sound", [(None, None), ("n", "samples")])
def test_sizes_that_are_offered_load_and_run(save: Save, sound: tuple[str | None, ...]) -> None:
    path = save(_states(*sound))
    with pytest.raises(SourceModelError, match="dynamic") as error:
        load_onnx(path)
    found = re.search(r"input_size_list: (\[.*\]), which the model runs with", error.value.remedy)
    assert found
    sizes = json.loads(found[1])
    graph = load_onnx(path, input_size_list=sizes).graph
    feeds = {spec.name: np.zeros(spec.shape, np.float32) for spec in graph.inputs}
    assert Session(graph).run(feeds)["y"].shape == (1, 24)
    (told,) = [f for f in inspect_file(path).model.findings if f.code == "dynamic-size"]
    assert found[0] in told.remedy


def test_sizes_that_were_not_found_are_not_made_up(save: Save) -> None:
    proto = model(
        "y = Reshape (x, s)", [value("x", 1, "t")], value("y", 1, 7919), s=np.array([1, 7919])
    )
    with pytest.raises(SourceModelError) as error:
        load_onnx(save(proto))
    assert "a number for each ?, as input_size_list: [[1, ?]]" in error.value.remedy


@pytest.mark.parametrize(
    ("mode", "scale", "told"),
    [("align_corners", 0.6, True), ("align_corners", 1.5, False), ("half_pixel", 0.6, False)],
)
def test_a_scale_that_gives_no_whole_size_is_told(
    save: Save, mode: str, scale: float, told: bool
) -> None:
    proto = model(
        f'y = Resize <coordinate_transformation_mode="{mode}", mode="linear"> (x, "", scales)',
        [value("x", 1, 1, 4, 4)],
        value("y", 1, 1, None, None),
        opset=21,
        scales=np.array([1, 1, scale, scale], np.float32),
    )
    codes = [finding.code for finding in load_onnx(save(proto)).findings]
    assert ("resize-rounded" in codes) == told
