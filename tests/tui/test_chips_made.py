"""What Chips makes of a build, by keys alone at 80x24; toolkits and compilers are prepared."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

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
from tests.tui.conftest import Driver, screen_text, until, workbench
from tests.tui.flow import choose_path, opened, to_view, typed, visited

SIZE = (80, 24)
pytestmark = pytest.mark.usefixtures("warm")


@pytest.fixture(autouse=True)
def answers(monkeypatch: pytest.MonkeyPatch) -> CompileAnswers:
    return CompileAnswers(monkeypatch)


@asynccontextmanager
async def on_compile(
    recipe: Path, chip: str = "rk3588"
) -> AsyncIterator[tuple[Workbench, Driver, Chips]]:
    """The chips, with the cursor on one and the toolkits known."""
    async with opened(recipe, Chips) as (app, pilot, workspace):
        await until(pilot, lambda: workspace.toolkits.rows is not None, "the toolkits")
        await pilot.sees("15 chips")
        workspace.views.chips.table.select_record("chip", chip)
        await pilot.pause()
        yield app, pilot, workspace


async def done(pilot: Driver, workspace: Chips, chip: str = "rk3588") -> None:
    """Compile for what is marked, and wait for the result of a chip."""
    await pilot.press("r", "enter", until=lambda: chip in workspace.session.compilations)


async def form_path(pilot: Driver, path: Path) -> None:
    """Open the form under the cursor, and type where its file goes."""
    await pilot.press("enter", until=lambda: isinstance(pilot.app.screen, RequestDialog))
    await pilot.press(*typed(str(path)), "enter")


@pytest.mark.long
async def test_the_forms_of_a_build_say_what_they_are_for_and_are_written(
    digits: Path, tmp_path: Path
) -> None:
    out = tmp_path / "digits-qdq.onnx"
    async with opened(digits, Chips) as (app, pilot, workspace):
        await to_view(pilot, workspace, "Exports")
        text = screen_text(app)
        for form in (".rknn container", "QDQ ONNX", "int8 TFLite", "segments"):
            assert form in text
        assert "runs on no NPU" in text  # what the form under the cursor is for
        workspace.views.exports.table.select_record("name", "QDQ ONNX")
        await pilot.sees("ONNX Runtime runs it")
        await pilot.press("Y")
        recipe = tmp_path / "demo.yaml"
        name = "digits_demo-qdq.onnx"
        assert app.clipboard == f"rknntui export {recipe} --output {name} --format onnx"
        await form_path(pilot, out)
        await pilot.sees("SHA-256")
        assert hashlib.sha256(out.read_bytes()).hexdigest() in screen_text(app)


@pytest.mark.long
async def test_a_container_is_encrypted_with_a_key_that_is_typed_twice(
    digits: Path, tmp_path: Path, session_home: Path
) -> None:
    plain, secret = tmp_path / "a.rknn", tmp_path / "a.crypt.rknn"
    async with opened(digits, Chips) as (app, pilot, workspace):
        await to_view(pilot, workspace, "Exports")
        await form_path(pilot, plain)
        await pilot.sees("SHA-256")
        await pilot.press("escape")
        workspace.views.exports.table.select_record("name", "encrypted .rknn")
        await pilot.press("enter", sees="Encrypt a model")
        assert app.screen.query_one("#path", PathInput).value == str(plain)  # was written last
        await pilot.press("down", "down", sees="half a second")
        await pilot.press("down", "down", "space", sees="[x]")
        await pilot.press("down", *"secret")
        assert "secret" not in screen_text(app)
        await pilot.press("down", "x", "enter", sees="another one than")
        await pilot.press("backspace")
        await pilot.press(*"secret")
        content = plain.read_bytes()
        await pilot.press("enter", sees="AES-256-GCM, with your key")
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
async def test_a_container_is_cut_into_segments(digits: Path, tmp_path: Path) -> None:
    async with opened(digits, Chips) as (_, pilot, workspace):
        await to_view(pilot, workspace, "Exports")
        await form_path(pilot, tmp_path / "a.rknn")
        await pilot.sees("SHA-256")
        await pilot.press("escape")
        workspace.views.exports.table.select_record("name", "segments")
        await pilot.press("enter", sees="Cut into segments")
        await pilot.press("down", "enter", sees="such as 5 ms")
        await pilot.press("3", "enter", sees="2: ")
        assert (tmp_path / "a.segments.rknn").is_file()


@pytest.mark.long
async def test_chips_are_marked_compiled_and_shown_with_printed_and_estimated_figures(
    digits: Path, answers: CompileAnswers, tmp_path: Path
) -> None:
    async with on_compile(digits) as (app, pilot, workspace):
        await pilot.press("space", "up", "space")  # the last one stays under the cursor
        assert list(workspace.targets.marked) == ["rk3588", "rk3576"]
        await pilot.press("r", sees="Compile for rk3576, rk3588")
        await pilot.press("down", *"ours", "down", "down", "ctrl+u", "x", "enter")
        await pilot.sees("is no number, and there is no")
        answers.open.clear()
        await pilot.press("ctrl+u", "8", "enter", sees=("▶ 30%", "waiting", "I rknn building"))
        asked = answers.asked[-1][1]
        assert asked.chips == ("rk3576", "rk3588")
        assert asked.path == str(tmp_path / "digits_demo-{chip}.rknn")
        assert (asked.quantizer, asked.samples, asked.force) == ("ours", 8, False)
        answers.open.set()
        await pilot.sees("✓ compiled", "the output is kept in float")
        await pilot.press("d", sees="side file: /tmp/digits-rk35")
        await pilot.sees("cycles 20,400 printed, 20,000 estimated (+2.0 % over 5 of 5 layers)")
        await pilot.sees("second opinion (simulated) logits: 99.950 % equal, at most 1 steps apart")
        await pilot.press("Y")
        assert app.clipboard == (
            f"rknntui compile {tmp_path / 'demo.yaml'} --chip rk3576 --chip rk3588 --output "
            "'digits_demo-{chip}.rknn' --quantizer ours --samples 8"
        )
        await pilot.press("escape", "a")
        await until(pilot, lambda: app.session.recipe.get("quantized_dtype") is None)


async def test_what_is_compiled_for_the_target_is_what_boards_run_and_its_layers_are_known(
    digits: Path, answers: CompileAnswers
) -> None:
    async with on_compile(digits) as (app, pilot, workspace):
        app.session.set_value("target_platform", "rk3588")
        await pilot.press("r", "enter", until=lambda: "rk3588" in app.session.compilations)
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
    digits: Path, answers: CompileAnswers
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
    async with on_compile(digits, "rk2118") as (app, pilot, workspace):
        await pilot.press("space")
        workspace.views.chips.table.select_record("chip", "rk3588")
        await pilot.press("space")
        await done(pilot, workspace)
        await pilot.sees("✗ failed: rk2118")
        await pilot.resize_terminal(120, 40)
        workspace.views.chips.table.select_record("chip", "rk1808")
        await pilot.sees("no toolkit of generation 1 is set")
        workspace.views.chips.table.select_record("chip", "rk3562")
        await until(pilot, lambda: "rk3562: space marks it" in screen_text(app).lower(), "the keys")
        assert "✓ compiled" in screen_text(app)
        workspace.views.chips.table.select_record("chip", "rk2118")
        await pilot.sees("✗ rk2118: The compiler aborted", "Likely cause: It has no int8")
        await pilot.sees("Fix: Compile in float16.")
        assert workspace.disabled_reason("board")


async def test_a_model_that_computes_something_else_is_written_once_that_is_accepted(
    digits: Path, answers: CompileAnswers
) -> None:
    remedy = "--accept-difference writes it all the same."
    far = compiled("rk3588", path="", layers=(), problem="Outputs are far apart.", remedy=remedy)
    answers.answers["compile"] = CompiledModels(model="digits", chips=(far,))
    async with on_compile(digits) as (app, pilot, workspace):
        await done(pilot, workspace)
        await pilot.press("d", sees="tick accept-difference there")
        assert not answers.asked[-1][1].accept_difference
        await pilot.press("escape", "r", *["down"] * 4, "space", "enter")
        await until(pilot, lambda: answers.asked[-1][1].accept_difference, "asked for so")
        await pilot.press("Y")
        assert "--accept-difference" in app.clipboard


@pytest.mark.long
async def test_a_compilation_that_fails_as_a_whole_leaves_its_error_in_place(
    digits: Path, answers: CompileAnswers
) -> None:
    answers.answers["compile"] = ToolkitError(
        "The toolkit is gone.", cause="Its folder was removed.", remedy="rknntui vendor install"
    )
    async with on_compile(digits) as (app, pilot, _):
        await pilot.press("r", "enter", until=lambda: type(app.screen).__name__ == "ErrorDialog")
        await pilot.press("escape", sees="✗ The toolkit is gone.")
        await pilot.press("d", sees="Fix: rknntui vendor install")


@pytest.mark.long
async def test_without_a_toolkit_the_view_names_the_key_that_installs_one(
    digits: Path, answers: CompileAnswers
) -> None:
    answers.toolkits = ()
    async with on_compile(digits) as (_, pilot, workspace):
        await pilot.press("d", sees="No toolkit of the vendor is set up")
        await pilot.sees("In Toolkits i installs rknn-toolkit2")
        await pilot.press("r", until=lambda: workspace.disabled_reason("run"))
        assert not any(name == "compile" for name, _ in answers.asked)
        answers.open.clear()
        answers.told = answers.told[:1]
        await to_view(pilot, workspace, "Toolkits")
        await pilot.press("i", sees="Install rknn-toolkit2")
        await pilot.press("enter", until=lambda: answers.asked[-1][0] == "vendor.install")
        assert answers.asked[-1][1].index == CPU_INDEX
        await pilot.sees("install rknn-toolkit2")
        await pilot.press("ctrl+x", sees="Stop “install rknn-toolkit2”")
        await pilot.press("n")
        answers.open.set()
        await pilot.sees("✓ ready")


@pytest.mark.long
async def test_toolkits_are_checked_adopted_and_removed_after_a_question(
    digits: Path, answers: CompileAnswers, tmp_path: Path
) -> None:
    missing = Finding("package-missing", "error", "onnx", "onnx is missing.", remedy="Repair it.")
    answers.toolkits = (toolkit(state="broken", findings=(missing,)),)
    (tmp_path / "env").mkdir()
    async with opened(digits, Chips) as (app, pilot, workspace):
        assert not any(params.sizes for name, params in answers.asked), "only this view has them"
        await to_view(pilot, workspace, "Toolkits")
        await until(pilot, lambda: answers.asked[-1][1].sizes, "their sizes")
        await pilot.sees("✗ broken", "onnx: onnx is missing.")
        await pilot.press("Y")
        assert app.clipboard == "rknntui vendor check toolkit2"
        await pilot.press("r", sees="✓ ready")
        await pilot.press("A")
        await choose_path(pilot, tmp_path / "env", "ctrl+s")
        await until(pilot, lambda: answers.asked[-2][0] == "vendor.adopt", "the adopted one")
        assert answers.asked[-2][1].python == str(tmp_path / "env")
        await pilot.press("delete", sees="Remove a toolkit")
        assert FOLDER in screen_text(app).replace("\n", "")
        await pilot.press("n")
        assert not any(name == "vendor.remove" for name, _ in answers.asked)
        await pilot.press("delete", "y", sees="No toolkit of the vendor")


@pytest.mark.long
async def test_a_project_is_written_with_what_the_user_says_the_model_is(
    digits: Path, answers: CompileAnswers, tmp_path: Path
) -> None:
    async with opened(digits, Chips) as (app, pilot, workspace):
        await to_view(pilot, workspace, "Code")
        await pilot.sees("CMake")
        assert "no chip is chosen" in workspace.disabled_reason("run")
        assert "! none" in screen_text(app)
        await pilot.press("e", until=lambda: isinstance(app.screen, RequestDialog))
        await pilot.press("down", *"python", "down", *"classification", "down", *"rk3566", "enter")
        await until(pilot, lambda: workspace.views.code.project.chip == "rk3566", "the chip")
        await pilot.press("down", until=lambda: MODEL_TASKS["classification"] in screen_text(app))
        await pilot.press("r", sees="✓ 4 files in")
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
        await pilot.press("n", "tab", "down", "enter", sees="[bold]read me[/]")


async def test_a_project_waits_for_the_model_that_is_still_being_compiled(
    digits: Path, answers: CompileAnswers
) -> None:
    async with on_compile(digits) as (app, pilot, workspace):
        app.session.set_value("target_platform", "rk3588")
        answers.open.clear()
        await pilot.press("r", "enter", until=lambda: workspace.targets.compiling == ("rk3588",))
        await to_view(pilot, workspace, "Code")
        await pilot.sees("▶ being compiled")
        await pilot.press("r", sees="still being compiled")
        assert not any(name == "codegen" for name, _ in answers.asked)
        answers.open.set()
        await pilot.sees("/tmp/digits-rk3588.rknn")
        await pilot.press("r", until=lambda: answers.asked[-1][0] == "codegen")
        assert answers.asked[-1][1].model == "/tmp/digits-rk3588.rknn"


@pytest.mark.long
async def test_the_compiled_model_runs_on_a_board_from_here(digits: Path) -> None:
    async with on_compile(digits) as (app, pilot, workspace):
        await done(pilot, workspace)
        app.session.boards.chosen = "adb:one"
        await pilot.press("R", until=lambda: app.current == "bench")
        assert app.session.compiled == "/tmp/digits-rk3588.rknn"


@pytest.mark.long
async def test_other_workspaces_lead_here_and_results_outlive_a_restart(digits: Path) -> None:
    async with opened(digits, Chips) as (app, pilot, workspace):
        await pilot.press("1")
        app.screen.post_message(GoToCompile("rk3566"))
        await pilot.sees("Compile for rk3566")
        await pilot.press("escape", "1")
        app.screen.post_message(GoToCompile(view="Exports"))
        await until(pilot, lambda: workspace.view == "Exports", "a view")
        await pilot.press("escape")
        job = JobView("old", "compile", "t", 0.0, {"recipe": dict(app.session.recipe)}, "done")
        app.session.result_found(job, CompiledModels(model="m", chips=(compiled("rk3562"),)))
        await pilot.sees("✓ compiled")
        app.session.set_value("quantized_algorithm", "mmse")
        await pilot.sees("15 chips")
        workspace.views.chips.table.select_record("chip", "rk3562")
        await pilot.sees("The recipe changed since")


async def test_of_two_chips_the_project_and_the_encrypted_file_are_of_the_target(
    digits: Path, answers: CompileAnswers
) -> None:
    async with workbench(digits) as (app, pilot):
        await until(pilot, lambda: app.session.model is not None, "a model is open")
        app.session.set_value("target_platform", "rk3576")
        workspace = await visited(pilot, Chips)
        await until(pilot, lambda: workspace.toolkits.rows is not None, "the toolkits")
        await pilot.sees("rk3576 ·")
        await pilot.press("space", "space", "r", sees="Compile for rk3576, rk3588")
        await pilot.press("enter", until=lambda: len(app.session.compilations) == 2)
        await pilot.press("v", "r", sees="files in")
        await pilot.press("v", "down", "enter", sees="Encrypt a model")
        path = app.screen.query_one("#path", PathInput).value
        assert path == app.session.compilations["rk3576"].path == app.session.compiled
        await pilot.press("enter", until=lambda: not isinstance(app.screen, RequestDialog))
        project = next(params for name, params in answers.asked if name == "codegen")
        assert (project.chip, project.model) == (None, "/tmp/digits-rk3576.rknn")
        assert project.recipe["target_platform"] == "rk3576"


@pytest.mark.long
async def test_toolkits_that_cannot_be_looked_at_say_why(
    digits: Path, answers: CompileAnswers
) -> None:
    answers.answers["vendor.known"] = EngineError("The list is damaged.", remedy="Remove it.")
    async with opened(digits, Chips) as (_, pilot, _):
        await pilot.sees("✗ The list is damaged.", "Fix: Remove it.")
