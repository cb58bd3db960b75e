"""Models of generation 1 cut by the toolkit: the stand-in, asked through the bridge."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.base.errors import CompilerError, OutputExistsError, ToolkitError, UsageError
from engine.container.vendor import inspect_vendor
from engine.export.segments import cut_vendor_model, vendor_layers
from engine.toolkit.toolkit import one_run
from engine.wire.vendor import ToolkitEnvironment
from tests.safety import patience
from tests.toolkit.standin import make_environment

__all__ = ["patience"]


@pytest.fixture(scope="module")
def standin(tmp_path_factory: pytest.TempPathFactory) -> ToolkitEnvironment:
    return make_environment(tmp_path_factory.mktemp("generation1") / "environment")


@pytest.fixture(scope="module")
def built(standin: ToolkitEnvironment, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """What the stand-in makes of a model."""
    source = tmp_path_factory.mktemp("built") / "x.onnx"
    source.write_bytes(b"x")
    with one_run(standin, reads=[source]) as run:
        made = run.toolkit.work / "x.rknn"
        run.do("config", target_platform=["rk1808"])
        run.do("load_onnx", model=str(source))
        run.do("build", do_quantization=False)
        run.do("export_rknn", str(made))
        return made.read_bytes()


@pytest.fixture
def model(built: bytes, tmp_path: Path) -> Path:
    path = tmp_path / "net.rknn"
    path.write_bytes(built)
    return path


def test_the_toolkit_cuts_it(standin: ToolkitEnvironment, model: Path, tmp_path: Path) -> None:
    assert [(one.uid, one.op) for one in vendor_layers(model)] == [(1, "RELU")]
    output = tmp_path / "cut.rknn"
    made = cut_vendor_model(model, [1], output, environment=standin)
    assert (made.path, made.size, made.toolkit) == (
        output,
        output.stat().st_size,
        "rknn-toolkit 1.3.2+standin",
    )
    assert [layer.op for layer in inspect_vendor(output).graphs[0].layers] == ["RELU", "SYNC"]
    before = model.read_bytes()
    with pytest.raises(OutputExistsError):
        cut_vendor_model(model, [1], model, environment=standin)
    assert model.read_bytes() == before
    cut_vendor_model(model, [1], model, environment=standin, overwrite=True)  # into itself
    assert model.read_bytes() == output.read_bytes()


def test_uids_are_those_of_the_file(standin: ToolkitEnvironment, model: Path) -> None:
    for uids in ([0], [1, 7], []):
        with pytest.raises(UsageError) as caught:
            cut_vendor_model(model, uids, model, environment=standin, overwrite=True)
        assert "have the uids 1." in caught.value.cause


@pytest.mark.parametrize("fault", ["abort", "raise", "_exit"])
def test_a_toolkit_that_fails_leaves_the_model_as_it_was(
    fault: str, standin: ToolkitEnvironment, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STANDIN_FAULT", f"export_rknn_sync_model:{fault}")
    before = model.read_bytes()
    with pytest.raises(CompilerError) as caught:
        cut_vendor_model(model, [1], model, environment=standin, overwrite=True)
    assert caught.value.remedy
    assert [one.name for one in model.parent.iterdir()] == [model.name]
    assert model.read_bytes() == before


def test_without_a_toolkit_and_of_another_generation(
    model: Path, tmp_path: Path, zoo: Path
) -> None:
    with pytest.raises(ToolkitError, match="no environment of the vendor's rknn-toolkit") as caught:
        cut_vendor_model(model, [1], tmp_path / "x.rknn")
    assert "vendor adopt" in caught.value.remedy
    second = zoo / "rknn_vendor/dual_residual_RK3588.rknn"
    with pytest.raises(UsageError, match="has no segments"):
        cut_vendor_model(second, [1], tmp_path / "x.rknn")
    first = zoo / "rknn_vendor/resize_area_toolkit1.rknn"
    assert [(one.uid, one.op) for one in vendor_layers(first)] == [(2, "RESIZEAREA")]
