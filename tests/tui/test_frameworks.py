"""Models of other frameworks and the vendor's files in the workbench, by keys alone."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from engine import Finding, SourceModelError
from rknntui.app import Workbench
from rknntui.arguments import given_options
from rknntui.links import GoToNode
from rknntui.screens.dialogs.dialogs import ConfirmDialog, ErrorDialog
from rknntui.screens.dialogs.lists import ChoiceDialog
from rknntui.screens.model.panes import Told, tell_model
from rknntui.workspaces import keys_of
from tests.cli.test_inspect import darknet_model, onnx_model
from tests.container.vendor import build
from tests.frontends.mxnet.networks import Network
from tests.frontends.mxnet.networks import source as mxnet_source
from tests.tui.conftest import Driver, screen_text, until, workbench
from tests.tui.flow import model_view

SIZE = (80, 24)
pytestmark = pytest.mark.usefixtures("warm")

EVIL = "a\x1b[31mred\x1b]0;title\x07[bold red]x[/]\u202e"
OPS = """
class Residual:
    op_type = "cstResidual"

    def shape_infer(self, node, in_shapes, in_dtypes):
        return in_shapes, in_dtypes

    def compute(self, node, inputs):
        return [2 * inputs[0]]
"""


def mxnet(folder: Path, *names: str, op: str = "Activation") -> Path:
    """A chain of activations whose file says no sizes."""
    net = Network()
    last = net.variable("data")
    for name in names:
        last = net.add(op, name, [last], act_type="relu")
    return mxnet_source(folder, net.text(last), {}).model


async def is_open(pilot: Driver) -> Workbench:
    app = pilot.app
    await until(pilot, lambda: app.session.model is not None, "a model is open")
    await pilot.press(keys_of("model")[0], until=lambda: app.current == "model")
    await until(pilot, lambda: app.workspace.detail.text().count("\n") > 5, "its facts")
    await until(pilot, lambda: app.workspace.graph.row_count > 0, "its graph")
    return app


def detail(app: Workbench) -> str:
    return app.workspace.detail.text()


async def test_a_model_without_sizes_leads_to_the_option_and_loads(tmp_path: Path) -> None:
    async with workbench(mxnet(tmp_path, "one", "two"), kept=True) as (app, pilot):
        await is_open(pilot)
        assert "it needs input_size_list" in " ".join(detail(app).split())
        assert detail(app).count("The symbol says no size") == 1
        assert "input_size_list" in app.workspace.unavailable_reason("load")
        await pilot.press("f", "enter", until=lambda: app.current == "recipe")
        assert app.workspace.form.rows.option.name == "input_size_list"
        await pilot.press("enter", *"1x3x4x4", "enter", "1", until=lambda: app.session.model.loaded)
        await pilot.sees("source · 2 nodes")
        assert "1x3x4x4 float32" in detail(app)
        assert app.workspace.unavailable_reason("load") != ""


@pytest.mark.long
async def test_either_file_of_a_pair_and_only_the_frameworks_options(tmp_path: Path) -> None:
    darknet_model(tmp_path)
    async with workbench(tmp_path / "net.weights", kept=True) as (app, pilot):
        await is_open(pilot)
        assert app.session.recipe["model"].endswith("net.cfg")
        assert "net.cfg, net.weights" in detail(app)
        assert "1x4x8x8 float32" in detail(app)
        await pilot.press("2", rests=True)
        options = {row.name for row in app.workspace.form.rows.rows if not isinstance(row, str)}
        assert "darknet_decode" in options
        assert not {"predef_file", "proto", "pytorch_route"} & options


def several_weights(folder: Path) -> Path:
    """A network beside two files of weights, of which none has its name."""
    network = darknet_model(folder)
    (folder / "net.weights").rename(folder / "last.weights")
    shutil.copy(folder / "last.weights", folder / "best.weights")
    return network


async def test_of_several_weights_the_user_chooses(tmp_path: Path, model: Path) -> None:
    network = several_weights(tmp_path)
    async with workbench(model, kept=True) as (app, pilot):
        await is_open(pilot)
        app.open_path(str(network))
        await until(pilot, lambda: isinstance(app.screen, ChoiceDialog), "it asks")
        assert "Weights of net.cfg" in screen_text(app)
        await pilot.press("escape", rests=True)
        assert app.session.recipe["model"] == str(model)
        app.open_path(str(network))
        await until(pilot, lambda: isinstance(app.screen, ChoiceDialog), "it asks")
        await pilot.press("down", "enter", until=lambda: app.session.path == str(network))
        wanted = {"model": str(network), "weights": str(tmp_path / "last.weights")}
        assert app.session.recipe == wanted
        assert not app.session.dirty
        assert "net.cfg, last.weights" in detail(app)


async def test_of_several_networks_too_and_for_a_recipe(tmp_path: Path) -> None:
    network = several_weights(tmp_path)
    shutil.copy(network, tmp_path / "other.cfg")
    weights = tmp_path / "best.weights"
    async with workbench(weights, kept=True) as (app, pilot):
        await until(pilot, lambda: isinstance(app.screen, ChoiceDialog), "it asks")
        assert "Network of best.weights" in screen_text(app)
        await pilot.press("enter", until=lambda: app.session.path == str(network))
        assert app.session.recipe == {"model": str(network), "weights": str(weights)}
        recipe = tmp_path / "recipe.yaml"
        recipe.write_text("version: 1\nsource: {model: net.cfg}\n")
        app.open_path(str(recipe))
        await until(pilot, lambda: isinstance(app.screen, ChoiceDialog), "it asks")
        await pilot.press("enter", until=lambda: app.session.path == str(recipe))
        assert app.session.recipe == {"model": str(network), "weights": str(weights)}
        assert app.session.dirty  # its file does not say it


async def test_weights_may_stand_behind_the_file_on_the_command_line(tmp_path: Path) -> None:
    network = several_weights(tmp_path)
    given = given_options(["--weights", str(tmp_path / "best.weights")])
    async with workbench(network, options=given, kept=True) as (app, pilot):
        await is_open(pilot)
        assert app.session.recipe["weights"] == str(tmp_path / "best.weights")
        assert not app.session.dirty


async def test_a_wrong_name_gets_the_nearest(tmp_path: Path) -> None:
    async with workbench(darknet_model(tmp_path), kept=True) as (app, pilot):
        await is_open(pilot)
        app.session.set_value("outputs", ["conv_O"])
        await until(pilot, lambda: "conv_O" in detail(app), "the finding")
        assert "Did you mean 'conv_0'" in " ".join(detail(app).split())


@pytest.mark.parametrize("kind", list(build.KINDS))
async def test_every_kind_of_a_vendors_file_is_shown(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(build.KINDS[kind]())
    async with workbench(path, kept=True) as (app, pilot):
        await is_open(pilot)
        text = detail(app)
        width = app.workspace.detail.size.width
        longest = max(sum(len(part) for part, _ in line) for line in app.workspace.detail.lines)
        assert longest <= width, text
        assert app.session.vendor
        assert ("Operator" if kind == "op-package" else "Compiled model") in text
        assert "Inputs" not in text or kind != "op-package"
        assert "not open" in app.workspace.unavailable_reason("load")


async def test_hostile_names_steer_no_terminal_in_any_view(tmp_path: Path) -> None:
    names = [f"{EVIL}/{i}" for i in range(3)]
    path = mxnet(tmp_path, *names, "n" * 10_000, op=EVIL)
    async with workbench(path, kept=True) as (app, pilot):
        await is_open(pilot)
        views = [screen_text(app)]
        for keys in (
            ("down", "down", "right", "down"),
            ("f", "G"),
            ("t",),
            ("tab",),
            ("2",),
            (keys_of("builds")[0],),
        ):
            await pilot.press(*keys, rests=True)
            views.append(screen_text(app))
        for view in views:
            assert not {"\x1b", "\x07", "\u202e"} & set(view)
        assert any("[bold red]x[/]" in view for view in views)  # markup is text


CODE = (
    "    g = convert(f, lower_control_flow=False, with_a_name_that_is_long=True, and_more=1).graph"
)


async def test_code_lines_of_a_remedy_stay_lines(monkeypatch) -> None:
    copied: list[str] = []
    async with workbench() as (app, pilot):
        monkeypatch.setattr(app.output, "copy", copied.append)
        app.show_error(SourceModelError("No model.", remedy=f"Freeze it:\n{CODE}\n    save(g)"))
        await until(pilot, lambda: isinstance(app.screen, ErrorDialog), "the dialog")
        assert "and_more=1).graph" in screen_text(app)
        await pilot.press("y")
        assert CODE in copied[0].splitlines()
        finding = Finding("x", "error", "", "w", remedy=f"Freeze it:\n{CODE}")
        told = Told(38)
        tell_model(model_view("/m", findings=(finding,)), "source", told)
        assert CODE in ["".join(text for text, _ in line) for line in told.lines]


@pytest.fixture
def custom(tmp_path: Path) -> Path:
    """A recipe with a custom operator and the file that its class is in."""
    onnx_model(tmp_path, "cstResidual", "rknn_cst")
    (tmp_path / "ops.py").write_text(OPS)
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        "version: 1\nsource: {model: net.onnx, custom_ops: [ops.py:Residual]}\n"
        "quantization: {do_quantization: false}\n"
    )
    return recipe


async def test_python_of_a_recipe_is_asked_about_until_allowed_and_when_changed(
    custom: Path,
) -> None:
    async with workbench(custom, kept=True) as (app, pilot):
        asked = lambda: isinstance(app.screen, ConfirmDialog)  # noqa: E731 - said three times
        await until(pilot, asked, "the question")
        await pilot.press("n")
        await is_open(pilot)
        assert app.session.model.loaded is False
        assert "F5 asks again" in " ".join(detail(app).split())
        await pilot.press("f5", until=asked)
        await pilot.press("a", until=lambda: app.session.model.loaded)
        (custom.parent / "ops.py").write_text(OPS + "# changed\n")
        await pilot.press("f5", until=asked)
        assert "changed since" in screen_text(app)
        await pilot.press("n")


async def converted(pilot: Driver, app: Workbench) -> None:
    await pilot.press("r", until=lambda: app.session.running is not None)


@pytest.mark.long
@pytest.mark.tensorflow
async def test_a_tensorflow_model_converts_in_a_job_that_may_die_or_be_stopped(
    zoo: Path, warm
) -> None:
    pytest.importorskip("tensorflow")
    async with workbench(zoo / "tensorflow" / "kws_dscnn.pb", kept=True) as (app, pilot):
        await is_open(pilot)
        # a child that an earlier test warmed converts faster than the screen can be asked
        await _end_child_of((await warm.call("ping", {}))["pid"])
        await converted(pilot, app)
        child = await _child_of((await warm.call("ping", {}))["pid"])
        os.kill(child, signal.SIGKILL)
        await until(pilot, lambda: isinstance(app.screen, ErrorDialog), "the crash is told")
        assert "SIGKILL" in screen_text(app)
        await pilot.press("escape")
        await converted(pilot, app)
        await _child_of((await warm.call("ping", {}))["pid"])
        await pilot.press("ctrl+x", until=lambda: isinstance(app.screen, ConfirmDialog))
        await pilot.press("y", until=lambda: app.session.running is None)
        assert app.session.model.loaded is False
        await converted(pilot, app)
        for _ in range(1500):  # on a busy machine TensorFlow takes longer than ``until`` waits
            if app.session.running is None:
                break
            await asyncio.sleep(0.1)
        await until(pilot, lambda: app.session.model.loaded, "converted")
        await pilot.sees("source ·")
        node = next(n for n in app.workspace.graph.nodes if n[1] == "Conv")
        app.post_message(GoToNode(node[0], "source"))
        await until(pilot, lambda: "Weights" in detail(app), "statistics of its weights")


def _children_of(worker: int) -> list[int]:
    """The processes in which a worker converts."""
    found = []
    for thread in Path(f"/proc/{worker}/task").iterdir():
        for child in (thread / "children").read_text().split():
            with suppress(OSError):  # it may end while it is looked at
                if b"converter_child" in Path(f"/proc/{child}/cmdline").read_bytes():
                    found.append(int(child))
    return found


async def _child_of(worker: int) -> int:
    """The process in which the worker converts, once it is there."""
    for _ in range(200):
        if found := _children_of(worker):
            return found[0]
        await asyncio.sleep(0.05)
    pytest.fail("no conversion was started")


async def _end_child_of(worker: int) -> None:
    """End what an earlier conversion left warm, and wait until it is gone."""
    for child in _children_of(worker):
        os.kill(child, signal.SIGKILL)
    for _ in range(200):
        if not _children_of(worker):
            return
        await asyncio.sleep(0.05)
    pytest.fail("a killed child is still there")


@pytest.fixture
def traced(repository: Path, tmp_path: Path) -> Path:
    pytest.importorskip("torch")
    script = repository / "scripts" / "make_torch_models.py"
    subprocess.run([sys.executable, script, tmp_path, "traced"], check=True, capture_output=True)
    return tmp_path / "traced.pt"


@pytest.mark.long
@pytest.mark.torch
async def test_a_traced_model_takes_the_sizes_that_it_was_traced_with(traced: Path) -> None:
    async with workbench(traced, kept=True) as (app, pilot):
        await is_open(pilot)
        await pilot.press("f", "enter", until=lambda: "input_size_list" in app.session.all_problems)
        await pilot.press("a")
        assert app.session.recipe["input_size_list"] == [[1, 3, 16, 16]]
        await pilot.press("1")
        await until(pilot, lambda: app.workspace.unavailable_reason("load") == "")
        await converted(pilot, app)
        await until(pilot, lambda: app.session.model.loaded, "converted")
        assert "1x5 float32" in detail(app)


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [
        "caffe/mtcnn_det1.prototxt",
        "caffe/RFB-320.caffemodel",
        "darknet/yolo-fastest-1.1.weights",
        "tflite/kws_dscnn_float.tflite",
        "tflite/kws_dscnn_int8.tflite",
        "tflite/mnist_lstm_float.tflite",
        "onnx/version-RFB-320.onnx",
    ],
)
async def test_models_of_the_zoo_open_with_their_layers(zoo: Path, name: str) -> None:
    async with workbench(zoo / name, size=(120, 40), kept=True) as (app, pilot):
        await is_open(pilot)
        assert app.session.model.loaded
        assert "File type" in detail(app)
        assert len(app.workspace.graph.nodes) > 3
