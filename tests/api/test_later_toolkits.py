"""What later toolkits of generation 1 have, as the vendor's comparison and examples write it."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from engine.api import RKNN
from engine.api.later_toolkits import LATER_METHODS, NO_EFFECT, REFUSED
from tests.api.conftest import built

pytestmark = pytest.mark.usefixtures("place")


def test_arguments_of_config(capsys: pytest.CaptureFixture[str]) -> None:
    plain = {name: default for name, (default, _) in (NO_EFFECT | REFUSED).items()}
    rknn = RKNN()
    assert rknn.config(**plain) is None
    assert rknn.generation == 1
    assert capsys.readouterr().err == ""
    for name, (default, why) in NO_EFFECT.items():
        assert rknn.config(**{name: not default if isinstance(default, bool) else "x"}) is None
        assert f"W config {name}, of later toolkits of generation 1, has no effect" in (
            told := capsys.readouterr().err
        )
        assert why in told
    for name, (_, remedy) in REFUSED.items():
        assert RKNN().config(**{name: "x"}) == -1
        told = capsys.readouterr().err
        assert f"E config: config {name}='x' is not available." in told
        assert remedy in told


def test_the_call_of_the_vendors_example_of_a_quantized_model() -> None:
    """``common_function_demos/load_quantized_model`` of the public repository."""
    rknn = RKNN(verbose=False)
    rknn.config(
        mean_values=[[123.675, 116.28, 103.53]],
        std_values=[[58.82, 58.82, 58.82]],
        reorder_channel="0 1 2",
        optimization_level=3,
        quantize_input_node=True,
        merge_dequant_layer_and_output_node=True,
        target_platform=["rv1126"],
    )
    assert rknn.load_onnx(model="arcface.onnx") == 0
    assert rknn.build(do_quantization=False, dataset="dataset.txt") == 0


@pytest.mark.parametrize("generation", [1, 2])
def test_automatic_hybrid_by_the_name_of_the_model_zoo(generation: int) -> None:
    """``build(auto_hybrid_quant=True)`` of the model zoo's YOLOv8 pose."""
    rknn = RKNN(generation=generation)
    assert rknn.load_onnx("arcface.onnx") == 0
    assert rknn.build(do_quantization=True, dataset="dataset.txt", auto_hybrid_quant=True) == 0
    assert rknn._build is not None
    assert rknn._build.recipe.quantization.auto_hybrid is True


def test_pre_compile_by_name_is_taken_by_both() -> None:
    """An example of generation 1 gives ``pre_compile=False`` where no config decided yet."""
    for generation in (1, 2):
        assert built(generation).build(True, "dataset.txt", pre_compile=False) == 0


def test_the_files_of_step_1_of_an_old_export(place: Path) -> None:
    """``common_function_demos/accuracy_analysis``: step 2 reads torchjitexport.json."""
    model = onnx.load("arcface.onnx")
    model.graph.name = "torch-jit-export"
    onnx.save(model, "shufflenet.onnx")
    rknn = RKNN()
    rknn.config(target_platform=["rv1126"])
    assert rknn.load_onnx("shufflenet.onnx") == 0
    assert rknn.hybrid_quantization_step1(dataset="./dataset.txt") == 0
    assert (
        rknn.hybrid_quantization_step2(
            model_input="./torchjitexport.json",
            data_input="./torchjitexport.data",
            model_quantization_cfg="./torchjitexport.quantization.cfg",
            dataset="./dataset.txt",
        )
        == 0
    )
    two = built(2)
    assert two.load_onnx("shufflenet.onnx") == 0
    assert two.hybrid_quantization_step1(dataset="./dataset.txt") == 0
    assert (place / "shufflenet.quantization.cfg").is_file()


def test_methods_that_only_the_vendors_code_has(capsys: pytest.CaptureFixture[str]) -> None:
    rknn = RKNN()
    for name, remedy in LATER_METHODS.items():
        assert getattr(rknn, name)("x") == -1
        assert f"E {name}: This version does not have it. {remedy}" in capsys.readouterr().err
    with pytest.raises(AttributeError):
        rknn.no_such_method()
