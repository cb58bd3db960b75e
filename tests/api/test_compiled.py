"""``export_rknn`` with the compiler ``rockchip``: the vendor's toolkit makes what an NPU runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.api import RKNN
from engine.base.errors import UsageError
from engine.wire.compile import Compiled, CompiledModels, CompileParams
from tests.api.conftest import built

pytestmark = pytest.mark.usefixtures("place")


def test_which_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RKNNTUI_COMPILER", raising=False)
    assert RKNN()._compiler == "open"
    assert RKNN(compiler="rockchip")._compiler == "rockchip"
    monkeypatch.setenv("RKNNTUI_COMPILER", "rockchip")
    assert RKNN()._compiler == "rockchip"
    assert RKNN(compiler="open")._compiler == "open"
    with pytest.raises(UsageError, match="rockchip"):
        RKNN(compiler="rockchop")
    monkeypatch.setenv("RKNNTUI_COMPILER", "gcc")
    with pytest.raises(UsageError, match="open, rockchip"):
        RKNN()


def test_without_a_toolkit_nothing_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    rknn = built(compiler="rockchip", target_platform="rk3588")
    assert rknn.export_rknn("model.rknn") == -1
    assert "rknntui vendor" in capsys.readouterr().err
    assert not Path("model.rknn").exists()


def test_without_a_chip(capsys: pytest.CaptureFixture[str]) -> None:
    assert built(compiler="rockchip").export_rknn("model.rknn") == -1
    assert "Give target_platform=" in capsys.readouterr().err


STEPS = ("arcface.model", "arcface.data", "arcface.quantization.cfg")


def test_step_2_keeps_the_chip_of_step_1(capsys: pytest.CaptureFixture[str]) -> None:
    first = RKNN(compiler="rockchip")
    assert first.config(target_platform="rk3566") is None
    assert first.load_onnx("arcface.onnx") == 0
    assert first.hybrid_quantization_step1("dataset.txt") == 0
    second = RKNN(compiler="rockchip")  # as the vendor's script of step 2
    assert second.hybrid_quantization_step2(*STEPS) == 0
    assert second._target() == "rk3566"
    assert second.export_rknn("hybrid.rknn") == -1  # there is no toolkit in this test's home
    assert "target_platform" not in capsys.readouterr().err
    assert second.config(target_platform="rk3588") is None
    assert second._target() == "rk3588"


def test_a_difference_is_accepted_where_it_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    requests: list[CompileParams] = []

    def compiled(_built: object, asked: CompileParams, _chips: object) -> CompiledModels:
        requests.append(asked)
        one = Compiled(chip="rk3588", problem="It computes something else.", exit_code=16)
        return CompiledModels(model="arcface.onnx", chips=(one,))

    monkeypatch.setattr("engine.pipeline.compiled.compile_models", compiled)
    rknn = built(compiler="rockchip", target_platform="rk3588")
    assert rknn.export_rknn("model.rknn") == -1
    assert "something else" in capsys.readouterr().err
    assert rknn.export_rknn("model.rknn", accept_difference=True) == -1
    assert [asked.accept_difference for asked in requests] == [False, True]
    assert [asked.samples for asked in requests] == [1, 1]


@pytest.mark.long
@pytest.mark.vendor
def test_the_vendors_toolkit_compiles(
    vendor_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from engine.container.vendor import inspect_vendor

    monkeypatch.setenv("RKNNTUI_VENDOR", str(vendor_folder))
    rknn = built(compiler="rockchip", target_platform="rk3588", mean_values=[[1, 2, 3]])
    for _ in range(2):  # it overwrites, as the vendor's
        assert rknn.export_rknn("model.rknn") == 0
    assert "is compiled for rk3588 by rknn-toolkit2" in capsys.readouterr().err
    assert "RK3588" in str(inspect_vendor(Path("model.rknn")).platforms).upper()
    assert rknn.hybrid_quantization_step1("dataset.txt") == 0
    rknn = RKNN(compiler="rockchip")
    assert rknn.hybrid_quantization_step2(*STEPS) == 0
    assert rknn.export_rknn("hybrid.rknn") == 0
    assert rknn.load_rknn("hybrid.rknn") == 0
    assert rknn.init_runtime() == -1  # a board's, as the vendor's manual says
