"""Workspace Deploy, by keys alone at 80x24; what toolkits and compilers answer is prepared."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from textual.pilot import Pilot

from engine.base.errors import EngineError, ToolkitError
from engine.base.findings import Finding
from engine.wire.codegen import MODEL_TASKS
from engine.wire.compile import CompiledModels
from engine.wire.vendor import CPU_INDEX
from rknntui.app import Workbench
from rknntui.links import GoToDeploy
from rknntui.screens.deploy.workspace import Deploy
from rknntui.screens.dialogs.dialogs import ConfirmDialog
from rknntui.screens.dialogs.request import RequestDialog
from rknntui.screens.result.workspace import Run
from rknntui.session.job_view_model import JobView
from rknntui.widgets.entries import PathInput
from tests.tui.conftest import screen_text, until
from tests.tui.deploy_answers import FOLDER, LAYERS, DeployAnswers, compiled, toolkit
from tests.tui.flow import choose_path, grey_keys, press_text, visited, write_recipe

SIZE = (80, 24)
pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.usefixtures("warm")]


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> DeployAnswers:
    return DeployAnswers(monkeypatch)


@pytest.fixture
def app(demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workbench:
    monkeypatch.chdir(tmp_path)
    return Workbench(str(write_recipe(tmp_path, demo)), state_kept=False)


async def to_view(pilot: Pilot[None], workspace: Deploy, name: str) -> None:
    """Step to a view."""
    while workspace.views.view != name:
        await pilot.press("v")
    await pilot.pause()


async def on_compile(pilot: Pilot[None], chip: str = "rk3588") -> Deploy:
    """Compile, with the cursor on a chip and the toolkits known."""
    workspace = await visited(pilot, Deploy)
    await to_view(pilot, workspace, "Compile")
    table = workspace.views.compiled.table
    await until(pilot, lambda: table.total == 15, "the chips")
    await until(pilot, lambda: workspace.toolkits.rows is not None, "the toolkits")
    table.select_record("chip", chip)
    await pilot.pause()
    return workspace


async def done(pilot: Pilot[None], workspace: Deploy, chip: str = "rk3588") -> None:
    """Compile for what is marked, and wait for the result of a chip."""
    await pilot.press("r", "enter")
    await until(pilot, lambda: chip in workspace.targets.found, "a result")


@pytest.mark.long
async def test_the_forms_of_a_build_say_what_they_are_for_and_are_written(
    app: Workbench, tmp_path: Path
) -> None:
    out = tmp_path / "digits-qdq.onnx"
    async with app.run_test(size=SIZE) as pilot:
        workspace = await visited(pilot, Deploy)
        text = screen_text(app)
        for form in (".rknn container", "QDQ ONNX", "compiled .rknn", "project"):
            assert form in text
        assert "runs on no NPU" in text  # what the form under the cursor is for
        await pilot.press("down")
        await until(pilot, lambda: "ONNX Runtime runs it" in screen_text(app), "the next one's")
        await pilot.press("Y")
        recipe = tmp_path / "demo.yaml"
        name = "digits_demo-qdq.onnx"
        assert app.clipboard == f"rknntui export {recipe} --output {name} --format onnx"
        await pilot.press("enter")
        await choose_path(pilot, out)
        await until(pilot, lambda: "SHA-256" in screen_text(app), "what was written")
        assert hashlib.sha256(out.read_bytes()).hexdigest() in screen_text(app)
        await pilot.press("escape")
        workspace.views.exports.table.select_record("name", "compiled .rknn")
        await pilot.press("enter")
        assert workspace.views.view == "Compile"


@pytest.mark.long
async def test_a_container_is_encrypted_with_a_key_that_is_typed_twice(
    app: Workbench, tmp_path: Path, session_home: Path
) -> None:
    plain, secret = tmp_path / "a.rknn", tmp_path / "a.crypt.rknn"
    async with app.run_test(size=SIZE) as pilot:
        workspace = await visited(pilot, Deploy)
        await pilot.press("enter")
        await choose_path(pilot, plain)
        await until(pilot, lambda: "SHA-256" in screen_text(app), "the container")
        await pilot.press("escape")
        workspace.views.exports.table.select_record("name", "encrypted .rknn")
        await pilot.press("enter")
        await until(pilot, lambda: "Encrypt a model" in screen_text(app), "the form")
        assert isinstance(app.screen, RequestDialog)
        assert app.screen.query_one("#path", PathInput).value == str(plain)  # was written last
        await pilot.press("down", "down")
        await until(pilot, lambda: "half a second" in screen_text(app), "what a level is")
        await pilot.press("down", "down", "space")
        await until(pilot, lambda: "[x]" in screen_text(app), "the box")
        await pilot.press("down")
        await press_text(pilot, "secret")
        assert "secret" not in screen_text(app)
        await pilot.press("down", "x", "enter")
        await until(pilot, lambda: "another one than" in screen_text(app), "not the same")
        await pilot.press("backspace")
        await press_text(pilot, "secret")
        content = plain.read_bytes()
        await pilot.press("enter")
        await until(pilot, lambda: "AES-256-GCM, with your key" in screen_text(app), "the file")
        removed = "".join(screen_text(app).partition("Removed:")[2].split())
        assert "a.rknn" in removed
        assert not plain.exists()
        assert secret.read_bytes() != content
        assert b"secret" not in secret.read_bytes()
        kept = [path for path in session_home.rglob("jobs/**/*") if path.is_file()]
        assert kept
        assert not any(b"secret" in path.read_bytes() for path in kept)


@pytest.mark.long
async def test_a_container_is_cut_into_segments(app: Workbench, tmp_path: Path) -> None:
    async with app.run_test(size=SIZE) as pilot:
        workspace = await visited(pilot, Deploy)
        await pilot.press("enter")
        await choose_path(pilot, tmp_path / "a.rknn")
        await until(pilot, lambda: "SHA-256" in screen_text(app), "the container")
        await pilot.press("escape")
        workspace.views.exports.table.select_record("name", "segments")
        await pilot.press("enter")
        await until(pilot, lambda: "Cut into segments" in screen_text(app), "where")
        await pilot.press("down", "enter")
        await until(pilot, lambda: "such as 5 ms" in screen_text(app), "nothing typed")
        await pilot.press("3", "enter")
        await until(pilot, lambda: "2: " in screen_text(app), "the segments")
        assert (tmp_path / "a.segments.rknn").is_file()


@pytest.mark.long
async def test_chips_are_marked_compiled_and_shown_with_printed_and_estimated_figures(
    app: Workbench, answers: DeployAnswers, tmp_path: Path
) -> None:
    async with app.run_test(size=SIZE) as pilot:
        workspace = await on_compile(pilot)
        await pilot.press("space", "up", "space")  # the last one stays under the cursor
        assert list(workspace.targets.marked) == ["rk3588", "rk3576"]
        assert "second opinion: 1 sample" in screen_text(app)
        await pilot.press("Q")
        await until(pilot, lambda: "How it is compiled" in screen_text(app), "the settings")
        await pilot.press(*"ours", "down", "down", "ctrl+u", "x", "enter")
        await until(pilot, lambda: "is no number, and there is no" in screen_text(app), "a refusal")
        (tmp_path / "mine").mkdir()
        await pilot.press("ctrl+u", *str(tmp_path / "mine"), "enter")
        text = "second opinion on mine"
        await until(pilot, lambda: text in screen_text(app), "a folder")
        await pilot.press("Y")
        assert f"--samples {tmp_path / 'mine'}" in app.clipboard
        await pilot.press("n")
        await until(pilot, lambda: "How it is compiled" in screen_text(app), "the settings")
        await pilot.press("down", "down", "ctrl+u", "8", "enter")
        text = "2 chips marked · quantizer ours · second opinion: 8 samples"
        await until(pilot, lambda: text in screen_text(app), "the settings")
        await pilot.press("Y")
        assert app.clipboard == (
            f"rknntui compile {tmp_path / 'demo.yaml'} --chip rk3576 --chip rk3588 --output "
            "'digits_demo-{chip}.rknn' --quantizer ours --samples 8"
        )
        answers.open.clear()
        await pilot.press("r", "enter")
        await until(pilot, lambda: "▶ 30%" in screen_text(app), "how far it is")
        assert "waiting" in screen_text(app)
        assert "I rknn building" in screen_text(app)  # its log
        asked = answers.asked[-1][1]
        assert asked.chips == ("rk3576", "rk3588")
        assert asked.path == str(tmp_path / "digits_demo-{chip}.rknn")
        assert (asked.quantizer, asked.samples, asked.force) == ("ours", 8, False)
        answers.open.set()
        await until(pilot, lambda: "✓ compiled" in screen_text(app), "the result")
        assert "20,400" in screen_text(app)  # as printed
        assert "+2.0 %" in screen_text(app)  # against our estimate
        assert "the output is kept in float" in screen_text(app)
        await pilot.press("f")
        await until(pilot, lambda: "side file: /tmp/digits-rk35" in screen_text(app), "all of it")
        await pilot.press("escape", "a")
        await until(
            pilot, lambda: app.session.recipe.get("quantized_dtype") is None, "the fix is default"
        )


@pytest.mark.long
async def test_a_chip_opens_its_layers_those_that_disagree_first(
    app: Workbench, answers: DeployAnswers
) -> None:
    async with app.run_test(size=SIZE) as pilot:
        workspace = await on_compile(pilot)
        await done(pilot, workspace)
        await pilot.press("enter")
        await until(pilot, lambda: "Layers of rk3588" in screen_text(app), "the layers")
        rows = [line for line in screen_text(app).splitlines() if "INT8" in line]
        assert "GlobalAveragePool" in rows[0]
        assert "✗" in rows[0]
        assert "depth" in rows[1] or "hwise" in rows[1]
        assert "≠" in rows[1]
        assert "on CPU, estimated on NPU" in screen_text(app)
        await pilot.press("slash")
        await press_text(pilot, "gemm")
        await pilot.press("enter", "g")
        await until(pilot, lambda: workspace.views.layer_rows.layer_id == LAYERS[4], "filtered")
        await pilot.press("y")
        assert LAYERS[4] in app.clipboard
        await pilot.press("C")
        await until(pilot, lambda: app.current == "chips", "its estimate")
        app.screen.post_message(GoToDeploy("Layers"))
        await until(pilot, lambda: app.current == "deploy", "back")
        await pilot.press("escape")
        assert workspace.views.view == "Compile"
        await pilot.press("enter", "v")
        await until(pilot, lambda: "99.95" in screen_text(app), "the second opinion")
        assert "99.950 % of the values equal, none more than" in screen_text(app)


@pytest.mark.long
async def test_a_chip_that_fails_says_why_in_place_and_the_others_are_made(
    app: Workbench, answers: DeployAnswers
) -> None:
    answers.answers["compile"] = CompiledModels(
        model="digits",
        chips=(
            compiled(
                "rk2118",
                path="",
                layers=(),
                problem="The compiler aborted.",
                cause="It has no int8 for this chip.",
                remedy="Compile in float16.",
            ),
            compiled("rk3588"),
        ),
    )
    async with app.run_test(size=SIZE) as pilot:
        workspace = await on_compile(pilot, "rk2118")
        await pilot.press("space")
        workspace.views.compiled.table.select_record("chip", "rk3588")
        await pilot.press("space")
        await done(pilot, workspace)
        await until(pilot, lambda: "✗ failed: rk2118" in screen_text(app), "told on top")
        workspace.views.compiled.table.select_record("chip", "rk1808")
        await until(pilot, lambda: "of generation 1, and no toolkit" in screen_text(app), "why not")
        workspace.views.compiled.table.select_record("chip", "rk3562")
        await until(pilot, lambda: "rk3562: not compiled yet; r" in screen_text(app), "the keys")
        assert "✓ compiled" in screen_text(app)
        workspace.views.compiled.table.select_record("chip", "rk2118")
        await until(pilot, lambda: "✗ rk2118: The compiler aborted" in screen_text(app), "why")
        assert "Likely cause: It has no int8" in screen_text(app)
        assert "Fix: Compile in float16." in screen_text(app)
        assert "Run" in grey_keys(app) or workspace.disabled_reason("run")


async def test_a_model_that_computes_something_else_is_written_once_that_is_accepted(
    app: Workbench, answers: DeployAnswers
) -> None:
    remedy = "--accept-difference writes it all the same."
    far = compiled("rk3588", path="", layers=(), problem="Outputs are far apart.", remedy=remedy)
    answers.answers["compile"] = CompiledModels(model="digits", chips=(far,))
    async with app.run_test(size=SIZE) as pilot:
        workspace = await on_compile(pilot)
        await done(pilot, workspace)
        await until(pilot, lambda: "Here D accepts the difference" in screen_text(app), "the key")
        assert not answers.asked[-1][1].accept_difference
        await pilot.press("D")
        await until(pilot, lambda: "differences accepted" in screen_text(app), "on top")
        await pilot.press("Y")
        assert "--accept-difference" in app.clipboard
        await pilot.press("r", "enter")
        await until(pilot, lambda: answers.asked[-1][1].accept_difference, "asked for so")
        await pilot.press("D")
        await until(pilot, lambda: "differences accepted" not in screen_text(app), "taken back")


@pytest.mark.long
async def test_a_compilation_that_fails_as_a_whole_leaves_its_error_in_place(
    app: Workbench, answers: DeployAnswers
) -> None:
    answers.answers["compile"] = ToolkitError(
        "The toolkit is gone.", cause="Its folder was removed.", remedy="rknntui vendor install"
    )
    async with app.run_test(size=SIZE) as pilot:
        await on_compile(pilot)
        await pilot.press("r", "enter")
        await until(pilot, lambda: type(app.screen).__name__ == "ErrorDialog", "the error")
        await pilot.press("escape")
        await until(pilot, lambda: "✗ The toolkit is gone." in screen_text(app), "in place")
        assert "Fix: rknntui vendor install" in screen_text(app)


@pytest.mark.long
async def test_without_a_toolkit_the_view_names_the_key_that_installs_one(
    app: Workbench, answers: DeployAnswers
) -> None:
    answers.toolkits = ()
    async with app.run_test(size=SIZE) as pilot:
        workspace = await on_compile(pilot)
        await until(pilot, lambda: "No toolkit of the vendor is set up" in screen_text(app), "so")
        assert "i installs rknn-toolkit2" in screen_text(app)
        await pilot.press("r")
        await until(pilot, lambda: workspace.disabled_reason("start"), "why not")
        assert not any(name == "compile" for name, _ in answers.asked)
        answers.open.clear()
        answers.told = answers.told[:1]
        await pilot.press("i")
        await until(pilot, lambda: "Install rknn-toolkit2" in screen_text(app), "the form")
        await pilot.press("enter")
        await until(pilot, lambda: answers.asked[-1][0] == "vendor.install", "the job")
        assert answers.asked[-1][1].index == CPU_INDEX
        await to_view(pilot, workspace, "Toolkits")
        await until(pilot, lambda: "install rknn-toolkit2" in screen_text(app), "its progress")
        await pilot.press("escape")
        await until(pilot, lambda: "Stop “install rknn-toolkit2”" in screen_text(app), "a question")
        await pilot.press("n")
        answers.open.set()
        await until(pilot, lambda: "✓ ready" in screen_text(app), "the toolkit")


@pytest.mark.long
async def test_toolkits_are_checked_adopted_and_removed_after_a_question(
    app: Workbench, answers: DeployAnswers, tmp_path: Path
) -> None:
    missing = Finding("package-missing", "error", "onnx", "onnx is missing.", remedy="Repair it.")
    answers.toolkits = (toolkit(state="broken", findings=(missing,)),)
    (tmp_path / "env").mkdir()
    async with app.run_test(size=SIZE) as pilot:
        workspace = await visited(pilot, Deploy)
        await to_view(pilot, workspace, "Toolkits")
        await until(pilot, lambda: "✗ broken" in screen_text(app), "its state")
        assert "onnx: onnx is missing." in screen_text(app)
        await pilot.press("Y")
        assert app.clipboard == "rknntui vendor check toolkit2"
        await pilot.press("r")
        await until(pilot, lambda: "✓ ready" in screen_text(app), "the check")
        await pilot.press("A")
        await choose_path(pilot, tmp_path / "env", "ctrl+s")
        await until(pilot, lambda: answers.asked[-2][0] == "vendor.adopt", "the adopted one")
        assert answers.asked[-2][1].python == str(tmp_path / "env")
        await pilot.press("delete")
        await until(pilot, lambda: "Remove a toolkit" in screen_text(app), "a question")
        assert FOLDER in screen_text(app).replace("\n", "")
        await pilot.press("n")
        assert not any(name == "vendor.remove" for name, _ in answers.asked)
        await pilot.press("delete", "y")
        await until(pilot, lambda: "No toolkit of the vendor" in screen_text(app), "none is left")


@pytest.mark.long
async def test_a_project_is_written_with_what_the_user_says_the_model_is(
    app: Workbench, answers: DeployAnswers, tmp_path: Path
) -> None:
    async with app.run_test(size=SIZE) as pilot:
        workspace = await visited(pilot, Deploy)
        await to_view(pilot, workspace, "Code")
        await until(pilot, lambda: "CMake" in screen_text(app), "what the language means")
        await pilot.press("enter", "down", "enter", "down", "enter", "down", "enter")
        await until(pilot, lambda: workspace.views.code.project.task == "classification", "set")
        assert MODEL_TASKS["classification"] in screen_text(app)
        assert "no chip is chosen" in workspace.disabled_reason("start")
        assert "! none" in screen_text(app)
        await pilot.press("down", "enter", "down", "enter")
        await until(pilot, lambda: workspace.views.code.project.chip, "the chip")
        await pilot.press("r")
        await until(pilot, lambda: "✓ 4 files in" in screen_text(app), "the files")
        asked = answers.asked[-1][1]
        assert (asked.language, asked.task, asked.overwrite) == ("python", "classification", False)
        assert asked.path == str(tmp_path / "digits_demo-python")
        await pilot.press("Y")
        assert "--language python --task classification" in app.clipboard
        folder = tmp_path / "digits_demo-python"
        folder.mkdir()
        (folder / "README.md").write_text("[bold]read me[/]\n")
        await pilot.press("r")
        # the text of the question holds a path, and may wrap anywhere
        await until(pilot, lambda: isinstance(app.screen, ConfirmDialog), "a question")
        await pilot.press("n", "tab", "down", "enter")
        await until(pilot, lambda: "[bold]read me[/]" in screen_text(app), "the file")


@pytest.mark.long
async def test_the_compiled_model_runs_on_a_board_from_here(
    app: Workbench, answers: DeployAnswers
) -> None:
    async with app.run_test(size=SIZE) as pilot:
        workspace = await on_compile(pilot)
        await done(pilot, workspace)
        app.session.board = "adb:one"
        await pilot.press("R")
        await until(pilot, lambda: app.current == "result", "Run")
        run = app.workspace
        assert isinstance(run, Run)
        assert run.compiled == "/tmp/digits-rk3588.rknn"


@pytest.mark.long
async def test_other_workspaces_lead_here_and_results_outlive_a_restart(
    app: Workbench, answers: DeployAnswers
) -> None:
    async with app.run_test(size=SIZE) as pilot:
        workspace = await visited(pilot, Deploy)
        await pilot.press("4", "D")
        await until(pilot, lambda: app.current == "deploy", "from Quantize")
        assert workspace.views.view == "Compile"
        app.screen.post_message(GoToDeploy("Compile", "rk3566"))
        await until(pilot, lambda: workspace.targets.wanted == ("rk3566",), "of that chip")
        job = JobView("old", "compile", "t", 0.0, {"recipe": dict(app.session.recipe)}, "done")
        app.session.result_found(job, CompiledModels(model="m", chips=(compiled("rk3562"),)))
        await until(pilot, lambda: "✓ compiled" in screen_text(app), "an earlier run's")
        app.session.set_value("quantized_algorithm", "mmse")
        workspace.views.compiled.table.select_record("chip", "rk3562")
        await until(pilot, lambda: "The recipe changed since" in screen_text(app), "outdated")


@pytest.mark.long
async def test_toolkits_that_cannot_be_looked_at_say_why(
    app: Workbench, answers: DeployAnswers
) -> None:
    answers.answers["vendor.known"] = EngineError("The list is damaged.", remedy="Remove it.")
    async with app.run_test(size=SIZE) as pilot:
        workspace = await visited(pilot, Deploy)
        await to_view(pilot, workspace, "Compile")
        await until(pilot, lambda: "✗ The list is damaged." in screen_text(app), "why")
        assert "Fix: Remove it." in screen_text(app)
