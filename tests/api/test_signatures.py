"""Every row of the vendor's signatures that exists here, by position, for each manual."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.api import RKNN
from engine.api.signatures import bind
from engine.base.errors import UsageError
from tests.api.conftest import run

MEAN, STD = [[128, 128, 128]], [[128, 128, 128]]

GENERATION_1 = (
    100,
    "128 128 128 128",
    -1,
    "0 1 2",
    False,
    "asymmetric_quantized-u8",
    3,
    ["rk1808"],
)
# the manual V2.3.0 has quant_img_RGB2BGR in the third place, the vendor's code does not
V230_CODE = (MEAN, STD, "w8a8", "normal", "channel", 0, "rk3566", False, "float16", 3, "mine")
V230_CODE_REST = (False, False, None, False, None, False, None, False, False, False, False)
V230_MANUAL = (MEAN, STD, False, "w8a8", "normal", "channel", "float16", 3, "rk3566", "mine")
V230_MANUAL_REST = (False, False, False, False, None, None, False, False, False, False)
V110 = (100, MEAN, STD, -1, False, "asymmetric_quantized-8", "normal", "layer", 3, "RK3566", "mine")


@pytest.mark.usefixtures("place")
def test_generation_1_by_position(dog: np.ndarray) -> None:
    rknn = RKNN(False, None, generation=1)
    assert rknn.config(*GENERATION_1) is None
    assert rknn.load_onnx("arcface.onnx") == 0
    assert rknn.build(True, "dataset.txt", False, 1) == 0
    assert rknn.export_rknn("model.rknn") == 0
    assert rknn.init_runtime(None, None, False, False, False) == 0
    outputs = rknn.inference([dog], "uint8", "nhwc", None)
    assert outputs is not None
    assert outputs[0].shape == (1, 10)
    assert rknn.accuracy_analysis("one.txt", "out", True) == 0
    assert Path("out/error_analysis.txt").is_file()
    assert rknn.load_rknn("model.rknn", False) == 0
    assert rknn.init_runtime() == 0
    np.testing.assert_array_equal(run(rknn, dog), outputs[0])
    assert rknn.release() is None


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    "config",
    [V230_CODE, V230_CODE + V230_CODE_REST, V230_MANUAL, V230_MANUAL + V230_MANUAL_REST, V110],
    ids=["code", "code, all", "manual", "manual, all", "V1.1.0"],
)
def test_config_of_generation_2_by_position(config: tuple[object, ...]) -> None:
    rknn = RKNN(False, None, generation=2)
    assert rknn.config(*config) is None
    values = rknn._script.config.values  # type: ignore[union-attr]
    assert values["mean_values"] == MEAN
    assert values["target_platform"].lower() == "rk3566"
    assert values["custom_string"] == "mine"
    assert values["quantized_method"] == ("layer" if config is V110 else "channel")
    assert values["quant_img_RGB2BGR"] is False
    rknn.release()


@pytest.mark.usefixtures("place")
def test_generation_2_by_position(dog: np.ndarray) -> None:
    rknn = RKNN(False, None, generation=2)
    assert rknn.config(*V230_CODE) is None
    assert rknn.load_onnx("arcface.onnx", ["image"], [[1, 3, 16, 16]], None, ["scores"]) == 0
    assert rknn.build(True, "dataset.txt", None) == 0
    assert rknn.export_rknn("model.rknn") == 0
    assert rknn.init_runtime(None, None, False, False, False, RKNN.NPU_CORE_AUTO, "cpu") == 0
    outputs = rknn.inference([dog], None, None)
    assert outputs is not None
    assert rknn.accuracy_analysis(["dog_224x224.jpg"], "./snapshot", None, None) == 0
    assert Path("snapshot/error_analysis.txt").is_file()
    assert rknn.load_rknn("model.rknn") == 0
    assert rknn.init_runtime() == 0
    np.testing.assert_array_equal(run(rknn, dog), outputs[0])
    # V1.1.0
    assert rknn.build(True, "dataset.txt", 1) == -1  # nothing but the container is loaded
    assert rknn.load_onnx("arcface.onnx") == 0
    assert rknn.build(True, "dataset.txt", 1) == 0
    assert rknn.load_rknn("model.rknn", False) == 0
    assert rknn.init_runtime(None, None, False, False, False) == 0
    assert rknn.inference([dog], "nhwc", None) is not None
    rknn.release()


def test_defaults_of_inference() -> None:
    one, two = bind("inference", 1, ([],), {}), bind("inference", 2, ([],), {})
    assert (one["data_type"], one["data_format"]) == ("uint8", "nhwc")
    assert (two["data_type"], two["data_format"]) == (None, None)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (("config", 1, (), {"batchsize": 1}), "no argument batchsize[^$]*batch_size"),
        (("build", 2, (True,), {"do_quantization": True}), "twice"),
        (("build", 1, (True, "d", False, 1, 5), {}), "takes 4 arguments"),
        (("load_rknn", 2, (), {}), "needs path"),
    ],
)
def test_arguments_that_do_not_fit(call: tuple[Any, ...], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        bind(*call)
    assert re.search(said, str(caught.value))


def test_core_masks_are_the_vendors() -> None:
    masks = [RKNN.NPU_CORE_AUTO, RKNN.NPU_CORE_0, RKNN.NPU_CORE_1, RKNN.NPU_CORE_2]
    assert masks == [0, 1, 2, 4]
    assert (RKNN.NPU_CORE_0_1, RKNN.NPU_CORE_0_1_2, RKNN.NPU_CORE_ALL) == (3, 7, 0xFFFF)
