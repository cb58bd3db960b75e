"""What Chips makes of a build, by keys alone at 80x24; toolkits and compilers are prepared."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from textual.pilot import Pilot

from engine.base.errors import EngineError, ToolkitError
from engine.base.findings import Finding
from engine.wire.codegen import MODEL_TASKS
from engine.wire.compile import CompiledModels
from engine.wire.vendor import CPU_INDEX
from rknntui.app import Workbench
from rknntui.links import GoToCompile
from rknntui.screens.chips.workspace import Chips
from rknntui.screens.dialogs.dialogs import ConfirmDialog
from rknntui.screens.dialogs.request import RequestDialog
from rknntui.session.job_view_model import JobView
from rknntui.widgets.entries import PathInput
from tests.tui.compile_answers import FOLDER, LAYERS, CompileAnswers, compiled, toolkit
from tests.tui.conftest import screen_text, until
from tests.tui.flow import app, choose_path, press_text, to_view, visited

__all__ = ["app"]

SIZE = (80, 24)
pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.usefixtures("warm")]


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> CompileAnswers:
    return CompileAnswers(monkeypatch)


async def on_compile(pilot: Pilot[None], chip: str = "rk3588") -> Chips:
    """The chips, with the cursor on one and the toolkits known."""
    workspace = await visited(pilot, Chips)
    table = workspace.views.chips.table
    await until(pilot, lambda: table.total == 15, "the chips")
    await until(pilot, lambda: workspace.toolkits.rows is not None, "the toolkits")
    await until(pilot, lambda: "15 chips in" in screen_text(workspace.workbench), "estimates")
    table.select_record("chip", chip)
    await pilot.pause()
    return workspace


async def done(pilot: Pilot[None], workspace: Chips, chip: str = "rk3588") -> None:
    """Compile for what is marked, and wait for the result of a chip."""
    await pilot.press("r", "enter")
    await until(pilot, lambda: chip in workspace.session.compilations, "a result")


async def form_path(pilot: Pilot[None], path: Path) -> None:
    """Open the form under the cursor, and type where its file goes."""
    await pilot.press("enter")
    await until(pilot, lambda: isinstance(pilot.app.screen, RequestDialog), "the form")
    await press_text(pilot, str(path))
    await pilot.press("enter")


@pytest.mark.long
async def test_the_forms_of_a_build_say_what_they_are_for_and_are_written(
    app: Workbench, tmp_path: Path
) -> None:
    out = tmp_path / "digits-qdq.onnx"
    async with app.run_test(size=SIZE) as pilot:
        workspace = await visited(pilot, Chips)
        await to_view(pilot, workspace, "Exports")
        text = screen_text(app)
        for form in (".rknn container", "QDQ ONNX", "int8 TFLite", "segments"):
            assert form in text
        assert "runs on no NPU" in text  # what the form under the cursor is for
        workspace.views.exports.table.select_record("name", "QDQ ONNX")
        await until(pilot, lambda: "ONNX Runtime runs it" in screen_text(app), "the next one's")
        await pilot.press("Y")
        recipe = tmp_path / "demo.yaml"
        name = "digits_demo-qdq.onnx"
        assert app.clipboard == f"rknntui export {recipe} --output {name} --format onnx"
        await form_path(pilot, out)
        await until(pilot, lambda: "SHA-256" in screen_text(app), "what was written")
        assert hashlib.sha256(out.read_bytes()).hexdigest() in screen_text(app)


@pytest.mark.long
async def test_a_container_is_encrypted_with_a_key_that_is_typed_twice(
    app: Workbench, tmp_path: Path, session_home: Path
) -> None:
    plain, secret = tmp_path / "a.rknn", tmp_path / "a.crypt.rknn"
    async with app.run_test(size=SIZE) as pilot:
        workspace = await visited(pilot, Chips)
        await to_view(pilot, workspace, "Exports")
        await form_path(pilot, plain)
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
        removed = "".join(screen_text(app).partition("removed:")[2].split())
        assert "a.rknn" in removed
        assert not plain.exists()
        assert secret.read_bytes() != content
        assert b"secret" not in secret.read_bytes()
        kept = [path for path in session_home.rglob("jobs/**/*") if path.is_file()]
        assert kept
        assert not any(b"secret" in path.read_bytes() for path in kept)
        jobs = [json.loads(path.read_bytes()) for path in kept if path.name == "job.json"]
        assert "encryption.encrypt a.rknn" in [job["title"] for job in jobs]


@pytest.mark.long
async def test_a_container_is_cut_into_segments(app: Workbench, tmp_path: Path) -> None:
    async with app.run_test(size=SIZE) as pilot:
        workspace = await visited(pilot, Chips)
        await to_view(pilot, workspace, "Exports")
        await form_path(pilot, tmp_path / "a.rknn")
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
    app: Workbench, answers: CompileAnswers, tmp_path: Path
) -> None:
    async with app.run_test(size=SIZE) as pilot:
        workspace = await on_compile(pilot)
        await pilot.press("space", "up", "space")  # the last one stays under the cursor
        assert list(workspace.targets.marked) == ["rk3588", "rk3576"]
        await pilot.press("r")
        await until(pilot, lambda: "Compile for rk3576, rk3588" in screen_text(app), "the form")
        await pilot.press("down", *"ours", "down", "down", "ctrl+u", "x", "enter")
        await until(pilot, lambda: "is no number, and there is no" in screen_text(app), "a refusal")
        answers.open.clear()
        await pilot.press("ctrl+u", "8", "enter")
        await until(pilot, lambda: "▶ 30%" in screen_text(app), "how far it is")
        assert "waiting" in screen_text(app)
        assert "I rknn building" in screen_text(app)  # its log
        asked = answers.asked[-1][1]
        assert asked.chips == ("rk3576", "rk3588")
        assert asked.path == str(tmp_path / "digits_demo-{chip}.rknn")
        assert (asked.quantizer, asked.samples, asked.force) == ("ours", 8, False)
        answers.open.set()
        await until(pilot, lambda: "✓ compiled" in screen_text(app), "the result")
        assert "the output is kept in float" in screen_text(app)
        await pilot.press("d")
        await until(pilot, lambda: "side file: /tmp/digits-rk35" in screen_text(app), "all of it")
        text = " ".join(screen_text(app).split())
        assert "cycles 20,400 printed, 20,000 estimated (+2.0 % over 5 of 5 layers)" in text
        assert "second opinion (simulated) logits: 99.950 % equal, at most 1 steps apart" in text
        await pilot.press("Y")
        assert app.clipboard == (
            f"rknntui compile {tmp_path / 'demo.yaml'} --chip rk3576 --chip rk3588 --output "
            "'digits_demo-{chip}.rknn' --quantizer ours --samples 8"
        )
        await pilot.press("escape", "a")
        await until(
            pilot, lambda: app.session.recipe.get("quantized_dtype") is None, "the fix is default"
        )


async def test_what_is_compiled_for_the_target_is_what_boards_run_and_its_layers_are_known(
    app: Workbench, answers: CompileAnswers
) -> None:
    async with app.run_test(size=SIZE) as pilot:
        workspace = await on_compile(pilot)
        app.session.set_value("target_platform", "rk3588")
        await pilot.press("r", "enter")
        await until(pilot, lambda: "rk3588" in app.session.compilations, "a result")
        assert app.session.compiled == "/tmp/digits-rk3588.rknn"
        rows = app.session.layers.of("compiled")
        assert [row.id for row in rows][: len(LAYERS)] == list(LAYERS)
        assert answers.asked[-1][1].chips == ("rk3588",)
        await until(pilot, lambda: app.session.built == app.session.recipe, "the build of it")
        app.session.set_value("target_platform", "rk3566")
        assert app.session.compiled is None
        assert not app.session.layers.of("compiled")
        assert workspace.targets.wanted("rk3588") == ("rk3566",)


@pytest.mark.long
async def test_a_chip_that_fails_says_why_in_place_and_the_others_are_made(
    app: Workbench, answers: CompileAnswers
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
        workspace.views.chips.table.select_record("chip", "rk3588")
        await pilot.press("space")
        await done(pilot, workspace)
        await until(pilot, lambda: "✗ failed: rk2118" in screen_text(app), "told on top")
        await pilot.resize_terminal(120, 40)
        workspace.views.chips.table.select_record("chip", "rk1808")
        await until(
            pilot, lambda: "no toolkit of generation 1 is set" in screen_text(app), "why not"
        )
        workspace.views.chips.table.select_record("chip", "rk3562")
        await until(pilot, lambda: "rk3562: space marks it" in screen_text(app).lower(), "the keys")
        assert "✓ compiled" in screen_text(app)
        workspace.views.chips.table.select_record("chip", "rk2118")
        await until(pilot, lambda: "✗ rk2118: The compiler aborted" in screen_text(app), "why")
        assert "Likely cause: It has no int8" in screen_text(app)
        assert "Fix: Compile in float16." in screen_text(app)
        assert workspace.disabled_reason("board")


async def test_a_model_that_computes_something_else_is_written_once_that_is_accepted(
    app: Workbench, answers: CompileAnswers
) -> None:
    remedy = "--accept-difference writes it all the same."
    far = compiled("rk3588", path="", layers=(), problem="Outputs are far apart.", remedy=remedy)
    answers.answers["compile"] = CompiledModels(model="digits", chips=(far,))
    async with app.run_test(size=SIZE) as pilot:
        workspace = await on_compile(pilot)
        await done(pilot, workspace)
        await pilot.press("d")
        await until(pilot, lambda: "tick accept-difference there" in screen_text(app), "the key")
        assert not answers.asked[-1][1].accept_difference
        await pilot.press("escape", "r", *["down"] * 4, "space", "enter")
        await until(pilot, lambda: answers.asked[-1][1].accept_difference, "asked for so")
        await pilot.press("Y")
        assert "--accept-difference" in app.clipboard


@pytest.mark.long
async def test_a_compilation_that_fails_as_a_whole_leaves_its_error_in_place(
    app: Workbench, answers: CompileAnswers
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
        await pilot.press("d")
        await until(pilot, lambda: "Fix: rknntui vendor install" in screen_text(app), "the fix")


@pytest.mark.long
async def test_without_a_toolkit_the_view_names_the_key_that_installs_one(
    app: Workbench, answers: CompileAnswers
) -> None:
    answers.toolkits = ()
    async with app.run_test(size=SIZE) as pilot:
        workspace = await on_compile(pilot)
        await pilot.press("d")
        await until(pilot, lambda: "No toolkit of the vendor is set up" in screen_text(app), "so")
        assert "In Toolkits i installs rknn-toolkit2" in " ".join(screen_text(app).split())
        await pilot.press("r")
        await until(pilot, lambda: workspace.disabled_reason("run"), "why not")
        assert not any(name == "compile" for name, _ in answers.asked)
        answers.open.clear()
        answers.told = answers.told[:1]
        await to_view(pilot, workspace, "Toolkits")
        await pilot.press("i")
        await until(pilot, lambda: "Install rknn-toolkit2" in screen_text(app), "the form")
        await pilot.press("enter")
        await until(pilot, lambda: answers.asked[-1][0] == "vendor.install", "the job")
        assert answers.asked[-1][1].index == CPU_INDEX
        await until(pilot, lambda: "install rknn-toolkit2" in screen_text(app), "its progress")
        await pilot.press("ctrl+x")
        await until(pilot, lambda: "Stop “install rknn-toolkit2”" in screen_text(app), "a question")
        await pilot.press("n")
        answers.open.set()
        await until(pilot, lambda: "✓ ready" in screen_text(app), "the toolkit")


@pytest.mark.long
async def test_toolkits_are_checked_adopted_and_removed_after_a_question(
    app: Workbench, answers: CompileAnswers, tmp_path: Path
) -> None:
    missing = Finding("package-missing", "error", "onnx", "onnx is missing.", remedy="Repair it.")
    answers.toolkits = (toolkit(state="broken", findings=(missing,)),)
    (tmp_path / "env").mkdir()
    async with app.run_test(size=SIZE) as pilot:
        workspace = await visited(pilot, Chips)
        assert not any(params.sizes for name, params in answers.asked), "only this view has them"
        await to_view(pilot, workspace, "Toolkits")
        await until(pilot, lambda: answers.asked[-1][1].sizes, "their sizes")
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
    app: Workbench, answers: CompileAnswers, tmp_path: Path
) -> None:
    async with app.run_test(size=SIZE) as pilot:
        workspace = await visited(pilot, Chips)
        await to_view(pilot, workspace, "Code")
        await until(pilot, lambda: "CMake" in screen_text(app), "what the language means")
        assert "no chip is chosen" in workspace.disabled_reason("run")
        assert "! none" in screen_text(app)
        await pilot.press("e")
        await until(pilot, lambda: isinstance(app.screen, RequestDialog), "the form")
        await pilot.press("down", *"python", "down", *"classification", "down", *"rk3566", "enter")
        await until(pilot, lambda: workspace.views.code.project.chip == "rk3566", "the chip")
        await pilot.press("down")
        await until(pilot, lambda: MODEL_TASKS["classification"] in screen_text(app), "told")
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


async def test_a_project_waits_for_the_model_that_is_still_being_compiled(
    app: Workbench, answers: CompileAnswers
) -> None:
    async with app.run_test(size=SIZE) as pilot:
        workspace = await on_compile(pilot)
        app.session.set_value("target_platform", "rk3588")
        answers.open.clear()
        await pilot.press("r", "enter")
        await until(pilot, lambda: workspace.targets.compiling == ("rk3588",), "the compilation")
        await to_view(pilot, workspace, "Code")
        await until(pilot, lambda: "▶ being compiled" in screen_text(app), "what is to come")
        await pilot.press("r")
        await until(pilot, lambda: "still being compiled" in screen_text(app), "why not now")
        assert not any(name == "codegen" for name, _ in answers.asked)
        answers.open.set()
        await until(pilot, lambda: "/tmp/digits-rk3588.rknn" in screen_text(app), "the model")
        await pilot.press("r")
        await until(pilot, lambda: answers.asked[-1][0] == "codegen", "the project")
        assert answers.asked[-1][1].model == "/tmp/digits-rk3588.rknn"


@pytest.mark.long
async def test_the_compiled_model_runs_on_a_board_from_here(
    app: Workbench, answers: CompileAnswers
) -> None:
    async with app.run_test(size=SIZE) as pilot:
        workspace = await on_compile(pilot)
        await done(pilot, workspace)
        app.session.boards.chosen = "adb:one"
        await pilot.press("R")
        await until(pilot, lambda: app.current == "bench", "Bench")
        assert app.session.compiled == "/tmp/digits-rk3588.rknn"


@pytest.mark.long
async def test_other_workspaces_lead_here_and_results_outlive_a_restart(
    app: Workbench, answers: CompileAnswers
) -> None:
    async with app.run_test(size=SIZE) as pilot:
        workspace = await visited(pilot, Chips)
        await pilot.press("1")
        app.screen.post_message(GoToCompile("rk3566"))
        await until(pilot, lambda: "Compile for rk3566" in screen_text(app), "the form")
        await pilot.press("escape", "1")
        app.screen.post_message(GoToCompile(view="Exports"))
        await until(pilot, lambda: workspace.view == "Exports", "a view")
        await pilot.press("escape")
        job = JobView("old", "compile", "t", 0.0, {"recipe": dict(app.session.recipe)}, "done")
        app.session.result_found(job, CompiledModels(model="m", chips=(compiled("rk3562"),)))
        await until(pilot, lambda: "✓ compiled" in screen_text(app), "an earlier run's")
        app.session.set_value("quantized_algorithm", "mmse")
        await until(pilot, lambda: "15 chips in" in screen_text(app), "estimates")
        workspace.views.chips.table.select_record("chip", "rk3562")
        await until(pilot, lambda: "The recipe changed since" in screen_text(app), "outdated")


async def test_of_two_chips_the_project_and_the_encrypted_file_are_of_the_target(
    app: Workbench, answers: CompileAnswers
) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: app.session.model is not None, "a model is open")
        app.session.set_value("target_platform", "rk3576")
        workspace = await visited(pilot, Chips)
        await until(pilot, lambda: workspace.toolkits.rows is not None, "the toolkits")
        await until(pilot, lambda: "rk3576 ·" in screen_text(app), "the target")
        await pilot.press("space", "space", "r")
        await until(pilot, lambda: "Compile for rk3576, rk3588" in screen_text(app), "the form")
        await pilot.press("enter")
        await until(pilot, lambda: len(app.session.compilations) == 2, "both")
        await pilot.press("v", "r")
        await until(pilot, lambda: "files in" in screen_text(app), "the project")
        await pilot.press("v", "down", "enter")
        await until(pilot, lambda: "Encrypt a model" in screen_text(app), "the form")
        path = app.screen.query_one("#path", PathInput).value
        assert path == app.session.compilations["rk3576"].path == app.session.compiled
        await pilot.press("enter")
        await until(pilot, lambda: not isinstance(app.screen, RequestDialog), "the job")
        project = next(params for name, params in answers.asked if name == "codegen")
        assert (project.chip, project.model) == (None, "/tmp/digits-rk3576.rknn")
        assert project.recipe["target_platform"] == "rk3576"


@pytest.mark.long
async def test_toolkits_that_cannot_be_looked_at_say_why(
    app: Workbench, answers: CompileAnswers
) -> None:
    answers.answers["vendor.known"] = EngineError("The list is damaged.", remedy="Remove it.")
    async with app.run_test(size=SIZE) as pilot:
        await visited(pilot, Chips)
        await until(pilot, lambda: "✗ The list is damaged." in screen_text(app), "why")
        assert "Fix: Remove it." in screen_text(app)
