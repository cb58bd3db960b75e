"""``compile`` with the real toolkit: files for several chips, the compiler's own table, its
simulator beside ours, and what a fault leaves behind.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import pytest

from engine.base.errors import JobCancelledError, OutputExistsError
from engine.base.events import Event, LogLine, StageFinished
from engine.base.files import sha256_of
from engine.container.vendor import inspect_vendor
from engine.services.compile import compile as compile_service
from engine.wire.compile import Compiled, CompiledModels, CompileParams
from rknntui.demo import demo_recipe
from tests.vendor.toolkit import Toolkit

pytestmark = [
    pytest.mark.long,
    pytest.mark.vendor,
    pytest.mark.usefixtures("vendor_home"),
]

_ENDS = ("InputOperator", "OutputOperator")


class Watched:
    """A reporter that keeps what it is told, and cancels once a line has a text."""

    def __init__(self, cancel_at: str = "") -> None:
        self.stages: list[tuple[str, bool]] = []
        self._at = cancel_at
        self._cancelled = False

    def emit(self, event: Event) -> None:
        if isinstance(event, StageFinished):
            self.stages.append((event.stage, event.cached))
        if isinstance(event, LogLine) and self._at and self._at in event.text:
            self._cancelled = True

    def check_cancelled(self) -> None:
        if self._cancelled:
            raise JobCancelledError("cancelled")

    def finish_requested(self) -> bool:
        return False


def compiled(
    path: Path, recipe: dict[str, Any], reporter: Watched | None = None, **more: Any
) -> CompiledModels:
    params = CompileParams(recipe=recipe, path=str(path), **more)
    return compile_service.function(params, reporter or Watched())


def sound(
    path: Path, recipe: dict[str, Any], reporter: Watched | None = None, **more: Any
) -> list[Compiled]:
    """The same, where every chip has its file."""
    made = compiled(path, recipe, reporter, **more).chips
    assert not [(one.problem, one.cause) for one in made if one.problem]
    return list(made)


def convolutions(one: Compiled) -> list[tuple[str, str]]:
    return [(row.dtype, row.target) for row in one.layers if row.op.startswith("Conv")]


def test_one_build_becomes_files_for_several_chips(tmp_path: Path) -> None:
    recipe = {**demo_recipe(), "custom_string": "demo 7", "target_platform": "rk3588"}
    told = Watched()
    out = tmp_path / "out"
    chips = ("rk3566", "rk3588", "rv1106", "rk1808")
    found = compiled(out, recipe, told, chips=chips, samples=3)
    *made, refused = found.chips
    assert [one.chip for one in found.chips] == list(chips)
    # the chip of generation 1 did not end the others
    assert (refused.exit_code, refused.path) == (15, "")
    assert "rknn-toolkit" in refused.problem
    assert "adopt" in refused.remedy
    assert [name for name, _ in told.stages].count("quantize") == 1
    for one in made:
        assert one.problem == ""
        path = out / f"digits_demo-{one.chip}.rknn"
        assert (one.path, one.sha256) == (str(path), sha256_of(path))
        assert set(convolutions(one)) == {("INT8", "NPU")}
        # the compiler's cycles are the plan's, layer by layer
        assert one.total_cycles == sum(row.estimated_total_cycles or 0 for row in one.layers)
        differs = [each for each in one.findings if each.code == "plan-differs"]
        assert {each.where for each in differs} <= {one.chip}  # weights: a bias of 0 is not stored
        assert one.weight_bytes is not None
        inner = [row for row in one.layers if row.op not in _ENDS]
        assert all(row.id for row in inner)
        model = inspect_vendor(path)
        assert one.chip in model.chips
        assert model.custom_string == "demo 7"
        (port,) = model.inputs
        assert (port.mean, port.std, port.tensor.dtype) == ((127.5,), (127.5,), "int8")
        side = json.loads(path.with_name(f"{path.name}.json").read_text(encoding="ascii"))
        assert (side["sha256"], side["chip"], side["quantized_by"]) == (
            one.sha256,
            one.chip,
            "rknntui",
        )
        assert side["recipe"]["target"]["target_platform"] == "rk3588"
        assert str(tmp_path) not in json.dumps(side)
        assert str(Path.home()) not in json.dumps(side)
        assert Path(one.log).read_text(encoding="utf-8").count("Layer Information Table") == 1
        for row in one.outputs:
            assert row.samples == 3
            assert row.cosine > 0.9999
    with pytest.raises(OutputExistsError):
        compiled(out, recipe, chips=("rk3566",))
    again = Watched()
    (kept,) = compiled(out, recipe, again, chips=("rk3566",), samples=3, force=True).chips
    assert kept.cached
    assert kept.sha256 == made[0].sha256
    assert kept.layers == made[0].layers
    assert ("compiled-rk3566", True) in again.stages
    # a change that leaves what is handed over as it is compiles nothing again
    renamed = {**recipe, "target_platform": "rk3566"}
    (same,) = compiled(tmp_path / "a.rknn", renamed, samples=3).chips
    assert same.cached


def test_mixed_precision_goes_with_the_graph_and_op_target_with_its_names(tmp_path: Path) -> None:
    base = demo_recipe()
    (plain,) = compiled(tmp_path / "plain.rknn", base, chips=("rk3588",)).chips
    names = [row.id for row in plain.layers if row.op.startswith("Conv")]
    layer = names[2]
    mixed = {**base, "quantized_layers": {layer: "float16"}}
    hybrid, refused = compiled(tmp_path / "out", mixed, chips=("rk3588", "rv1106")).chips
    dtypes = {row.id: row.dtype for row in hybrid.layers if row.op.startswith("Conv")}
    assert [name for name, dtype in dtypes.items() if dtype == "FLOAT16"] == [layer]
    assert (refused.exit_code, refused.path) == (7, "")
    tensor = "/stage1/stage1.0/stage1.0.1/stage1.0.1.2/Relu_output_0"
    target = {**base, "op_target": {tensor: "cpu"}}
    (moved,) = sound(tmp_path / "cpu.rknn", target, chips=("rk3588",))
    on = {row.id: row.target for row in moved.layers if row.op.startswith("Conv")}
    (name,) = (name for name, where in on.items() if where == "CPU")
    assert name == "/stage1/stage1.0/stage1.0.1/stage1.0.1.0/Conv"


def test_the_vendor_quantizes_what_has_no_way_through_pairs(tmp_path: Path) -> None:
    wide = {**demo_recipe(), "quantized_dtype": "w16a16i"}
    (one,) = sound(tmp_path / "wide.rknn", wide, chips=("rv1106",))
    assert one.quantized_by == "vendor"
    assert "quantized-by-vendor" in {each.code for each in one.findings}
    assert {dtype for dtype, _ in convolutions(one)} == {"INT16"}
    own, ours = (
        compiled(tmp_path / f"{by}.rknn", demo_recipe(), chips=("rk3588",), quantizer=by).chips[0]
        for by in ("vendor", "ours")
    )
    assert own.quantized_by == "vendor"
    assert own.sha256 != ours.sha256
    # the same samples: the same range of the input, up to who rounds it
    scales = []
    for each in (own, ours):
        quant = inspect_vendor(Path(each.path)).inputs[0].tensor.quant
        assert quant is not None
        scales.append(quant.scale[0])
    assert scales[0] == pytest.approx(scales[1], rel=1e-3)


def test_a_batch_of_several_is_compared_by_its_first_sample(tmp_path: Path) -> None:
    recipe = {**demo_recipe(), "rknn_batch_size": 4}
    (one,) = compiled(tmp_path / "four.rknn", recipe, chips=("rk3588",), samples=2).chips
    assert [row.samples for row in one.outputs] == [2]
    assert all(row.cosine > 0.9999 for row in one.outputs)


def test_without_quantization_it_is_float16(tmp_path: Path) -> None:
    recipe = {**demo_recipe(), "do_quantization": False}
    made, refused = compiled(tmp_path / "out", recipe, chips=("rk3566", "rv1106"), samples=2).chips
    assert made.quantized_by == "nobody"
    assert {dtype for dtype, _ in convolutions(made)} == {"FLOAT16"}
    assert all(row.cosine > 0.99999 for row in made.outputs)
    assert refused.exit_code == 7
    assert "float16" in refused.problem


def test_a_crash_of_the_compiler_is_told_and_leaves_nothing(tmp_path: Path, zoo: Path) -> None:
    """w8a16 of one input channel: toolkit 2.3.2 writes beyond a buffer. Its C library notices that
    and aborts; once in a while it does not, and the same step crashes.
    """
    recipe = {
        **demo_recipe(),
        "model": str(zoo / "digits" / "digits.onnx"),
        "quantized_dtype": "w8a16",
    }
    (one,) = compiled(tmp_path / "out", recipe, chips=("rk3562",)).chips
    assert (one.exit_code, one.path) == (16, "")
    assert "build" in one.problem
    said = one.cause + Path(one.log).read_text(encoding="utf-8")
    noticed = "buffer overflow" in said or "corrupted" in said
    assert noticed or "killed by SIGSEGV" in one.problem
    assert "OpEmit" in one.problem
    assert list((tmp_path / "out").iterdir()) == []


def test_a_cancelled_compilation_leaves_no_file(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(JobCancelledError):
        compiled(out, demo_recipe(), Watched("fold_constant done"), chips=("rk3588", "rk3566"))
    assert list(out.iterdir()) == []


FACES: dict[str, Any] = {"mean_values": [[127] * 3], "std_values": [[128] * 3]}


@pytest.mark.parametrize(
    "model", ["caffe/RFB-320.prototxt", "tflite/version-RFB-320_without_postprocessing.tflite"]
)
def test_the_face_detector_is_int8_on_the_npu(model: str, tmp_path: Path, zoo: Path) -> None:
    recipe = {"model": str(zoo / model), "dataset": str(zoo / "images" / "faces"), **FACES}
    for one in sound(tmp_path / "out", recipe, chips=("rk3566", "rk3588", "rv1106"), samples=2):
        assert convolutions(one) == [("INT8", "NPU")] * 52
        assert one.total_cycles == sum(row.estimated_total_cycles or 0 for row in one.layers)
        port = inspect_vendor(Path(one.path)).inputs[0]
        assert port.tensor.shape == (1, 3, 240, 320)
        assert port.mean == (127.0, 127.0, 127.0)
        for row in one.outputs:
            assert row.cosine > 0.999


def test_an_lstm_whose_first_output_nobody_reads_is_inspected(
    toolkit: Toolkit, shared: Path, tmp_path: Path
) -> None:
    model = onnx.load(shared / "zoo" / "compile" / "lstm.onnx")
    del model.graph.node[1:], model.graph.output[:]
    del model.graph.node[0].input[3:]  # and an input that is left out
    for name in ("yh", "yc"):
        model.graph.output.append(onnx.helper.make_tensor_value_info(name, 1, (1, 1, 16)))
    onnx.save(model, tmp_path / "model.onnx")
    toolkit.build("lstm", tmp_path / "model.onnx", {"target_platform": "rk3588"})
    (graph,) = inspect_vendor(toolkit.export("lstm")).graphs
    toolkit.release("lstm")
    (lstm,) = (layer for layer in graph.layers if layer.op == "LSTM")
    assert [graph.tensors[i].kind for i in lstm.outputs] == ["none", "output", "output"]
    assert [graph.tensors[i].name for i in lstm.outputs[1:]] == ["yh", "yc"]
