"""A toolkit is asked through the bridge: values there and back, its log, and what it leaves."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from engine.base.errors import CompilerError, ToolkitError, UsageError
from engine.base.events import CallbackReporter, Event, LogLine
from engine.base.leftovers import clear_leftovers
from engine.base.paths import private_folder, state_folder
from engine.toolkit.bridge import worker
from engine.toolkit.bridge.log import LOG_NAME
from engine.toolkit.toolkit import RemoteRKNN, Toolkit, one_run
from engine.wire.vendor import ToolkitEnvironment
from tests.toolkit.bridge.conftest import Start
from tests.toolkit.standin import make_environment, python_of_version

PIXELS = np.arange(144, dtype=np.uint8).reshape(1, 6, 8, 3)
MEAN, STD = np.array([104.0, 117.0, 123.0]), np.array([58.0, 57.0, 56.0])


def built(toolkit: Toolkit, source: Path, target: Path) -> RemoteRKNN:
    """A model that is built and exported, as a script of the manual does it."""
    rknn = toolkit.rknn()
    assert rknn.call("config", target_platform=["rk1808"]) is None
    assert rknn.call("load_onnx", model=source) == 0
    assert rknn.call("build", do_quantization=False) == 0
    assert rknn.call("export_rknn", target) == 0
    return rknn


def check_whole_flow(toolkit: Toolkit, source: Path, target: Path) -> None:
    rknn = built(toolkit, source, target)
    assert target.read_bytes()[:4] == b"RKNN"
    assert rknn.call("load_rknn", path=target) == 0
    assert rknn.call("init_runtime") == 0
    (found,) = rknn.call("inference", inputs=[PIXELS])
    expected = np.maximum((PIXELS - MEAN) / STD, 0).transpose(0, 3, 1, 2)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    (again,) = rknn.call("inference", [PIXELS.transpose(0, 3, 1, 2)], data_format="nchw")
    np.testing.assert_array_equal(found, again)
    perf = rknn.call("eval_perf", is_print=True)
    assert perf["layers"]["0"]["operation"] == "VSI_NN_OP_RELU"
    assert rknn.call("eval_memory") == -1
    rknn.release()


def test_a_model_goes_through_the_toolkit(start: Start, source: Path) -> None:
    toolkit = start()
    check_whole_flow(toolkit, source, toolkit.work / "out.rknn")
    assert "Total Time(us): 10" in toolkit.log.read_text()


@pytest.mark.parametrize(
    "version",
    [
        "3.6",
        *(
            pytest.param(version, marks=pytest.mark.long)
            for version in ("3.7", "3.8", "3.10", "3.12", "3.13")
        ),
    ],
)
def test_the_far_side_runs_under(version: str, start: Start, source: Path, tmp_path: Path) -> None:
    python = python_of_version(version)
    if python is None:
        pytest.skip(f"there is no Python {version}")
    toolkit = start(make_environment(tmp_path / "environment", python))
    check_whole_flow(toolkit, source, toolkit.work / "out.rknn")


def test_the_log_is_kept_told_and_cut_at_marks(start: Start, source: Path) -> None:
    told: list[Event] = []
    toolkit = start(reporter=CallbackReporter(told.append))
    rknn = toolkit.rknn()
    assert rknn.call("load_onnx", "nowhere.onnx") == -1
    mark = toolkit.mark
    rknn.call("load_onnx", source)
    assert rknn.call("build", dataset="no dataset.txt") == -1
    since = toolkit.since(mark)
    assert "no dataset.txt not found" in since
    assert "nowhere" not in since
    assert "nowhere" in toolkit.log.read_text()
    lines = [event for event in told if isinstance(event, LogLine)]
    assert lines[0] == LogLine("E [standin:1] load_onnx: nowhere.onnx does not exist", "error")
    assert lines[1].level == "info"
    error = toolkit.refused("build", mark)
    assert isinstance(error, CompilerError)
    assert error.what == "build of the toolkit failed and returned -1, at relu_1."
    assert "Dataset file: no dataset.txt not found!" in error.cause
    assert str(toolkit.log) in error.remedy


def test_only_the_log_stays(start: Start, source: Path, kept: Path) -> None:
    toolkit = start()
    built(toolkit, source, toolkit.work / "out.rknn")
    assert (toolkit.work / "check_quantize.onnx").exists()
    assert toolkit.run_folder.parent == toolkit.log.parent
    toolkit.close()
    toolkit.close()
    assert [path.name for path in kept.glob("*/*")] == [LOG_NAME]
    assert not (Path.cwd() / "check_quantize.onnx").exists()


@pytest.mark.long
def test_without_a_folder_the_log_goes_to_our_own(standin: ToolkitEnvironment) -> None:
    for _ in range(9):
        with Toolkit(standin) as toolkit:
            folder = toolkit.run_folder
        assert not folder.exists()
    logs = sorted((state_folder() / "logs").glob("toolkit-*-standin.log"))
    assert len(logs) == 8
    assert toolkit.log == logs[-1]


def test_an_object_is_not_another(start: Start, source: Path) -> None:
    toolkit = start()
    first = built(toolkit, source, toolkit.work / "first.rknn")
    second = toolkit.rknn(verbose=False)
    assert second.call("build", do_quantization=False) == -1
    assert first.call("export_rknn", str(toolkit.work / "again.rknn")) == 0
    assert (toolkit.work / "first.rknn").read_bytes() == (toolkit.work / "again.rknn").read_bytes()
    second.release()
    with pytest.raises(UsageError, match="no such object"):
        second.call("build")
    assert toolkit.alive


def test_two_at_once_do_not_meet(start: Start, source: Path) -> None:
    first, second = start(), start()
    assert first.run_folder != second.run_folder
    one = built(first, source, first.work / "1.rknn")
    two = built(second, source, second.work / "2.rknn")
    first.close(kill=True)
    assert two.call("export_rknn", second.work / "3.rknn") == 0
    with pytest.raises(ToolkitError, match="was let go"):
        one.call("export_rknn", first.work / "4.rknn")


def test_its_environment_is_its_own(
    start: Start, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the user's variables nor the folder where he stands change what is imported."""
    evil = tmp_path / "evil"
    (evil / "rknn").mkdir(parents=True)
    (evil / "rknn" / "__init__.py").write_text("raise RuntimeError('a foreign package')")
    (evil / "json.py").write_text("raise RuntimeError('a foreign module')")
    monkeypatch.setenv("PYTHONPATH", str(evil))
    monkeypatch.setenv("PYTHONHOME", str(evil))
    monkeypatch.setenv("PYTHONSTARTUP", str(evil / "json.py"))
    monkeypatch.chdir(evil)
    toolkit = start()
    built(toolkit, source, toolkit.work / "out.rknn")
    environment = Path(f"/proc/{toolkit.pid}/environ").read_bytes().split(b"\0")
    names = {line.partition(b"=")[0] for line in environment}
    assert not {name for name in names if name.startswith(b"PYTHON")}
    assert f"HOME={toolkit.run_folder / 'home'}".encode() in environment
    assert Path(f"/proc/{toolkit.pid}/cwd").readlink() == toolkit.work


def test_only_methods_of_the_manuals_are_called(start: Start) -> None:
    toolkit = start()
    rknn = toolkit.rknn()
    for method in ("__init__", "_load", "rknn_base", "no_method", ""):
        with pytest.raises(UsageError, match="is no method of the toolkit"):
            rknn.call(method)
    assert toolkit.alive


def test_a_method_of_the_other_generation_is_named(start: Start) -> None:
    toolkit = start()
    with pytest.raises(ToolkitError, match="has no method codegen") as caught:
        toolkit.rknn().call("codegen", output_path="x")
    assert "rknntui vendor list" in caught.value.remedy
    assert "codegen" in worker.METHODS


def test_what_cannot_be_sent_is_refused_here(start: Start) -> None:
    toolkit = start()
    rknn = toolkit.rknn()
    with pytest.raises(UsageError, match="it was given a value of type object"):
        rknn.call("config", target_platform=object())
    with pytest.raises(UsageError, match="an array of object"):
        rknn.call("inference", inputs=[np.array([object()])])
    assert toolkit.alive


def test_an_environment_without_the_toolkit(start: Start, tmp_path: Path) -> None:
    toolkit = start(make_environment(tmp_path / "empty", code="import a_missing_package\n"))
    with pytest.raises(ToolkitError, match="could not be imported: No module named") as caught:
        toolkit.rknn()
    assert "a_missing_package" in caught.value.cause
    assert "rknntui vendor check" in caught.value.remedy


def test_no_leftovers_of_a_live_toolkit(start: Start) -> None:
    toolkit = start()
    clear_leftovers()
    assert toolkit.run_folder.is_dir()
    toolkit.rknn()


def test_logs_of_the_last_ten_runs_that_failed_stay(standin: ToolkitEnvironment) -> None:
    logs = private_folder(state_folder() / "toolkit")
    for at in range(12):
        (logs / f"run-{at}").mkdir()
        os.utime(logs / f"run-{at}", (at, at))
    with one_run(standin):
        pass
    assert len(list(logs.iterdir())) == 12  # one that went well leaves nothing
    with pytest.raises(ZeroDivisionError), one_run(standin):
        raise ZeroDivisionError
    kept = sorted(logs.iterdir(), key=lambda path: path.stat().st_mtime)
    assert [path.name for path in kept[:-1]] == [f"run-{at}" for at in range(3, 12)]
    assert (kept[-1] / "toolkit.log").exists()
