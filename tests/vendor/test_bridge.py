"""The bridge with the vendor's real toolkit: what it computes, how it ends, what is left of it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from engine.base.errors import CompilerError, EngineError, JobCancelledError
from engine.base.events import CallbackReporter, Event, LogLine, Reporter
from engine.base.process import child_environment
from engine.container.vendor import inspect_vendor
from engine.graph.execute.runtime import ort
from engine.toolkit.bridge.log import LOG_NAME
from engine.toolkit.bridge.values import ClassInFile
from engine.toolkit.toolkit import RemoteRKNN, Toolkit
from engine.wire.vendor import ToolkitEnvironment
from tests.base.confine.scene import require_walls
from tests.devices.waiting import processes, until
from tests.toolkit.bridge.test_faults import small_disk
from tests.vendor.models import save_model

pytestmark = [pytest.mark.vendor, pytest.mark.long]

SHAPE = (1, 3, 16, 16)


@pytest.fixture(scope="module")
def environment(vendor_python: Path) -> ToolkitEnvironment:
    folder = vendor_python.parents[1]
    return ToolkitEnvironment(name="toolkit2", folder=str(folder), python=str(vendor_python))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Two convolutions with a ReLU between, and one calibration sample beside them."""
    rng = np.random.default_rng(0)
    shapes = {"w0": (8, 3, 3, 3), "w1": (8, 8, 3, 3)}
    weights = {
        name: (rng.standard_normal(shape) * 0.2).astype(np.float32)
        for name, shape in shapes.items()
    }
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], name="first", pads=[1] * 4),
        helper.make_node("Relu", ["a"], ["b"], name="relu"),
        helper.make_node("Conv", ["b", "w1"], ["y"], name="second", pads=[1] * 4),
    ]
    path = tmp_path / "a net's $(touch x).onnx"
    save_model(path, nodes, {"x": SHAPE}, {"y": (1, 8, 16, 16)}, weights, 13)
    np.save(tmp_path / "sample.npy", rng.standard_normal(SHAPE).astype(np.float32))
    (tmp_path / "dataset.txt").write_text("sample.npy\n")
    return path


def loaded(toolkit: Toolkit, source: Path, chip: str) -> RemoteRKNN:
    rknn = toolkit.rknn(verbose=True)
    assert rknn.call("config", target_platform=chip) in (0, None)
    assert rknn.call("load_onnx", model=source) == 0
    return rknn


def build(rknn: RemoteRKNN, source: Path, **how: Any) -> Any:
    dataset = source.with_name("dataset.txt")
    return rknn.call("build", do_quantization=True, dataset=dataset, **how)


def everything(toolkit: Toolkit, source: Path) -> None:
    """All stages; a method that refuses is an error here."""
    rknn = loaded(toolkit, source, "rk3566")
    if build(rknn, source) or rknn.call("export_rknn", toolkit.work / "net.rknn"):
        raise toolkit.refused("build", 0)


def own_folder(tmp_path: Path, name: str = "kept") -> Path:
    folder = tmp_path / name
    folder.mkdir()
    return folder


def opened(
    environment: ToolkitEnvironment,
    tmp_path: Path,
    reporter: Reporter | None = None,
    name: str = "kept",
) -> Toolkit:
    """One that may read the files of a test; only its log stays, in a folder of its own."""
    return Toolkit(environment, own_folder(tmp_path, name), reporter, reads=[tmp_path])


def check_only_log(folder: Path) -> None:
    assert [path.name for path in folder.iterdir()] == [LOG_NAME]


def test_it_computes_what_onnxruntime_does(
    environment: ToolkitEnvironment, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = own_folder(tmp_path, "here")
    monkeypatch.chdir(here)
    sample = np.load(tmp_path / "sample.npy")
    with opened(environment, tmp_path) as toolkit:
        rknn = loaded(toolkit, source, "rk3588")
        mark = toolkit.mark
        assert build(rknn, source) == 0
        report = toolkit.since(mark)
        assert rknn.call("export_rknn", toolkit.work / "net.rknn") == 0
        assert (toolkit.work / "net.rknn").read_bytes()[:4] == b"RKNN"
        assert rknn.call("init_runtime") == 0
        (found,) = rknn.call("inference", inputs=[sample], data_format=["nchw"])
        with pytest.raises(CompilerError) as caught:
            rknn.call("eval_memory")
        assert "eval_memory of the toolkit raised" in caught.value.what
        assert "Traceback" not in caught.value.what
        assert toolkit.alive
    (expected,) = ort.InferenceSession(source).run(None, {"x": sample})
    cosine = (found * expected).sum() / np.linalg.norm(found) / np.linalg.norm(expected)
    assert cosine > 0.99
    assert "Conv:first" in report or "first" in report
    assert list(here.iterdir()) == []
    check_only_log(toolkit.log.parent)


def test_all_that_it_does_it_does_confined(
    environment: ToolkitEnvironment, source: Path, tmp_path: Path
) -> None:
    """Its own programs, copies of trees and threads are what a sandbox could be in the way of."""
    require_walls()
    sample = tmp_path / "sample.npy"
    with opened(environment, tmp_path) as toolkit:
        rknn = loaded(toolkit, source, "rk3588")
        status = Path(f"/proc/{toolkit.pid}/status").read_text()
        assert "NoNewPrivs:\t1" in status
        assert "Seccomp:\t2" in status
        assert build(rknn, source) == 0
        assert rknn.call("export_rknn", toolkit.work / "net.rknn") == 0
        made = toolkit.work / "net.crypt.rknn"
        for level in (1, 2, 3):
            words = (toolkit.work / "net.rknn", made, level)
            assert rknn.call("export_encrypted_rknn_model", *words) == 0
            assert inspect_vendor(made).encryption_level == level
        out = toolkit.work / "analysis"
        assert rknn.call("accuracy_analysis", inputs=[str(sample)], output_dir=out) == 0
        assert (out / "error_analysis.txt").stat().st_size
        project = toolkit.work / "project"
        words = {"output_path": str(project), "inputs": [str(sample)], "overwrite": True}
        assert rknn.call("codegen", **words) == 0
        assert (project / "src" / "main.cc").stat().st_size
        with pytest.raises(CompilerError, match="Permission denied") as caught:
            rknn.call("export_rknn", tmp_path / "elsewhere.rknn")
        assert "sandbox" in caught.value.cause
    assert not (tmp_path / "elsewhere.rknn").exists()


def test_int8_for_rk2118_aborts_and_is_told_with_its_layer(
    environment: ToolkitEnvironment, source: Path, tmp_path: Path
) -> None:
    with opened(environment, tmp_path) as toolkit:
        rknn = loaded(toolkit, source, "rk2118")
        with pytest.raises(CompilerError) as caught:
            build(rknn, source)
        assert "was killed by SIGABRT during build, at x" in caught.value.what
        assert "Meet unsupported conv, input tensor name: x" in caught.value.cause
        assert str(toolkit.log) in caught.value.remedy
    check_only_log(toolkit.log.parent)


class Killer:
    """Kills the toolkit as soon as its log has a line with certain words."""

    def __init__(self, words: str) -> None:
        self.words = words
        self.toolkit: Toolkit | None = None
        self.done = False

    def __call__(self, event: Event) -> None:
        if isinstance(event, LogLine) and self.words in event.text and not self.done:
            self.done = True
            assert self.toolkit is not None
            os.kill(self.toolkit.pid, signal.SIGKILL)


@pytest.mark.parametrize(
    "words",
    ["rknn-toolkit2 version", "Loading", "GraphPreparing", "start: rknn::", "OpEmit"],
)
def test_killed_at_every_stage(
    words: str, environment: ToolkitEnvironment, source: Path, tmp_path: Path
) -> None:
    killer = Killer(words)
    with opened(environment, tmp_path, CallbackReporter(killer)) as toolkit:
        killer.toolkit = toolkit
        with pytest.raises(CompilerError, match="was killed by SIGKILL during ") as caught:
            everything(toolkit, source)
        assert killer.done
        assert caught.value.cause
    check_only_log(toolkit.log.parent)


def test_cancelled_and_out_of_time(
    environment: ToolkitEnvironment, source: Path, tmp_path: Path
) -> None:
    building = threading.Event()
    reporter = CallbackReporter(lambda _: None, building.is_set)
    with opened(environment, tmp_path, reporter) as toolkit:
        rknn = loaded(toolkit, source, "rk3588")
        building.set()
        with pytest.raises(JobCancelledError):
            build(rknn, source)
        pid = toolkit.pid
    assert not Path(f"/proc/{pid}").exists()
    with opened(environment, tmp_path, name="again") as toolkit:
        rknn = loaded(toolkit, source, "rk3588")
        with pytest.raises(CompilerError, match="had worked for more than 0 s"):
            build(rknn, source, seconds=0)
    check_only_log(toolkit.log.parent)


def test_two_at_once(environment: ToolkitEnvironment, source: Path, tmp_path: Path) -> None:
    folders = [own_folder(tmp_path, name) for name in ("one", "two")]
    one, two = (Toolkit(environment, folder, reads=[tmp_path]) for folder in folders)
    with one, two:
        first, second = (loaded(each, source, "rk3588") for each in (one, two))
        with ThreadPoolExecutor() as both:
            assert list(both.map(build, (first, second), (source, source))) == [0, 0]
        made = [each.work / "net.rknn" for each in (one, two)]
        for rknn, path in zip((first, second), made, strict=True):
            assert rknn.call("export_rknn", path) == 0
        models = [path.stat().st_size for path in made]
    assert models[0] == models[1]


OPERATOR = """
import numpy as np

class cstDouble:
    op_type = "cstDouble"

    def shape_infer(self, node, in_shapes, in_dtypes):
        return in_shapes.copy(), in_dtypes.copy()

    def compute(self, node, inputs):
        return [np.asarray(inputs[0]) * 2]
"""


def test_a_custom_operator_of_a_file(environment: ToolkitEnvironment, tmp_path: Path) -> None:
    """[RKNN-T2 2.3.0, 2.16]"""
    file = tmp_path / "numpy.py"  # a name that is taken
    file.write_text(OPERATOR)
    node = helper.make_node("cstDouble", ["x"], ["y"], name="own")
    model = save_model(tmp_path / "custom.onnx", [node], {"x": SHAPE}, {"y": SHAPE}, {}, 13)
    with opened(environment, tmp_path) as toolkit:
        rknn = toolkit.rknn()
        rknn.call("config", target_platform="rk3588")
        assert rknn.call("reg_custom_op", ClassInFile(str(file), "cstDouble")) == 0
        assert rknn.call("load_onnx", model=model) == 0
        assert rknn.call("build", do_quantization=False) == 0
        assert rknn.call("init_runtime") == 0
        sample = np.ones(SHAPE, np.float32)
        (found,) = rknn.call("inference", inputs=[sample], data_format=["nchw"])
    np.testing.assert_allclose(found, sample * 2, rtol=1e-3)


@pytest.fixture
def removable(environment: ToolkitEnvironment, tmp_path: Path) -> ToolkitEnvironment:
    """The same environment under a folder of links, which can be taken away."""
    real, folder = Path(environment.folder), tmp_path / "environment"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(Path(environment.python).resolve())
    shutil.copy(real / "pyvenv.cfg", folder)
    (folder / "lib").symlink_to(real / "lib")
    return ToolkitEnvironment(
        name="removable", folder=str(folder), python=str(folder / "bin" / "python")
    )


def test_the_environment_is_removed_under_it(
    removable: ToolkitEnvironment, source: Path, tmp_path: Path
) -> None:
    folder = Path(removable.folder)
    with opened(removable, tmp_path) as toolkit:
        toolkit.rknn()
        (folder / "lib").unlink()
        shutil.rmtree(folder)
        with pytest.raises(EngineError) as caught:
            everything(toolkit, source)
        assert f"environment {folder} is not there any more" in caught.value.cause


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as stream, contextlib.suppress(OSError):
        while stream.write(bytes(4096)):
            pass


def test_a_full_disk_is_named(
    environment: ToolkitEnvironment, source: Path, tmp_path: Path
) -> None:
    with small_disk(tmp_path / "disk", "1m") as disk:
        with Toolkit(environment, disk, reads=[tmp_path]) as toolkit:
            toolkit.rknn()
            fill(toolkit.work / "fill")
            with pytest.raises(EngineError) as caught:
                everything(toolkit, source)
            assert "full" in caught.value.cause
        check_only_log(disk)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_command_that_is_killed_leaves_no_toolkit(
    number: signal.Signals, environment: ToolkitEnvironment, shared: Path, tmp_path: Path
) -> None:
    tag = f"KILLED={number}-{time.time()}"
    name, value = tag.split("=")
    model = shared / "zoo" / "shapes" / "resnet18.onnx"  # some eight seconds
    words = [model, "--no-quantize", "--chip", "rk3588", "-o", tmp_path / "a.rknn", "--refresh"]
    command = subprocess.Popen(
        [sys.executable, "-P", "-m", "rknntui", "compile", *map(str, words)],
        env={**child_environment(), "RKNNTUI_VENDOR": environment.folder, name: value},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until(lambda: processes(tag, "code/worker.py"), "it starts")
    time.sleep(2)  # it imports, then builds
    assert processes(tag, "code/worker.py")
    assert command.poll() is None
    command.send_signal(number)
    time.sleep(1)
    left = processes(tag, "code/worker.py")
    command.wait(30)
    assert not left
    assert not (tmp_path / "a.rknn").exists()
