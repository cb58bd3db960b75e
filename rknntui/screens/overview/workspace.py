"""Workspace Overview: every step with its state, the next one lit, and what is worth knowing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from textual import on
from textual.containers import Horizontal, Vertical

from engine import NORMALISATIONS, samples_beside, sanitize
from engine.wire.codec import Text
from engine.wire.flags import Flag
from engine.wire.layer_tables import worth_promoting
from engine.wire.record import record
from rknntui.demo import demo_folder
from rknntui.keys.actions import key_text
from rknntui.keys.commandline import command_for
from rknntui.links import GoTo, GoToLayer, GoToOption, RunAction
from rknntui.screens.base.workspace import Workspace
from rknntui.screens.dialogs.picker import ask_new_file, ask_overwrite
from rknntui.screens.dialogs.request import Form
from rknntui.screens.overview import words
from rknntui.session.promotion import LayerEdits
from rknntui.session.steps import Step, next_step, steps
from rknntui.widgets.line_list import Rows
from rknntui.widgets.one_line import Fact, fit_facts
from rknntui.widgets.strips import shorten
from rknntui.widgets.wrap import finding_lines

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from engine import Finding
    from engine.wire.hybrid import Ranked
    from engine.wire.layers import LayerFigures
    from engine.wire.requests import Checked
    from rknntui.widgets.strips import Line

_ROWS = 50
"""Rows of a pane at most: what matters stands first, and other views have all."""
_AS_IT_IS = "as it is"
_RECENT = "overview.recent"
"""Of a step that opens a file, which is no action of the registry."""


@record
class Samples:
    """What calibration reads, and how pixels reach the network."""

    dataset: Annotated[
        Text, Flag(name="--dataset", help="A dataset.txt, or a folder of pictures.", kind="path")
    ]
    values: Annotated[
        str, Flag(name="--mean-and-std", help="How the model was trained: mean and std of pixels.")
    ] = _AS_IT_IS


SAMPLES = Form("Calibration samples", (Samples,))


class Panel(Rows):
    """A title over rows that stand below each other; up and down lead on to the next list."""

    head = 1
    items: Sequence[Any] = ()
    """What the rows are of."""

    def __init__(self, *, id: str) -> None:  # noqa: A002
        super().__init__(id=id)
        self._title = ""
        self._rows: list[Line] = []

    @property
    def row_count(self) -> int:
        return len(self.items)

    @property
    def item(self) -> Any:
        """What the row under the cursor is of; None where there is none."""
        return self.items[self.cursor] if self.cursor < len(self.items) else None

    def action_move(self, by: int) -> None:
        """Move the cursor by rows, and out at either end."""
        if 0 <= self.cursor + by < self.row_count:
            super().action_move(by)
        elif by > 0:
            self.screen.focus_next(Panel)
        elif not isinstance(self, StepRows):
            self.screen.focus_previous(Panel)

    def show(self, content: words.Content) -> None:
        """Show other rows; a cursor that was moved stays on its item."""
        items = content.items[:_ROWS]
        width = max(20, self.scrollable_content_region.width - 2)
        for wide in (True, False):
            parts = [content.line(item, wide) for item in items]
            rows, whole = words.aligned(parts, width)
            if whole:
                break
        here = getattr(self.item, "id", None) if self.cursor else None
        same = (content.title, rows) == (self._title, self._rows)
        self._title, self.items, self._rows = content.title, items, rows
        if same and rows:
            return
        self.empty = [[(f" {fit_facts((Fact(content.empty),), width)}", "dim")]]
        self.styles.max_height = max(1, len(items)) + self.head
        self.rows_changed()
        if here is not None:
            places = (at for at, item in enumerate(items) if getattr(item, "id", None) == here)
            self.cursor = next(places, self.cursor)

    def head_line(self, y: int, width: int) -> Line:
        return [(f" {self._title}", "head")]

    def row_line(self, index: int, width: int) -> Line:
        return [(" ", ""), *self._rows[index]]


class StepRows(Panel):
    """The steps, or where to begin; the one that is lit is under the cursor until it is moved."""

    head = 0
    lit = ""

    def row_line(self, index: int, width: int) -> Line:
        step = self.items[index]
        return words.step_line(step, width, lit=step.name == self.lit)

    def show_steps(self, items: tuple[Step, ...], lit: str) -> None:
        """Show other steps; the cursor follows the one that is lit."""
        if (items, lit) == (self.items, self.lit):
            return
        moved, self.items, self.lit = lit != self.lit, items, lit
        self.rows_changed()
        if moved:
            self.cursor = next((at for at, step in enumerate(items) if step.name == lit), 0)


class Overview(Workspace):
    """The steps on top; promotions, times, findings and builds below."""

    NAME = "overview"
    HELP = (
        "Every step from a model to a board with its state: – absent, … loading, ● changed since, "
        "▶ running, ✓ done, ! finding, ✗ failed, ~ estimated, ○ possible. Enter does the step "
        "under the cursor, at first the next one. {overview.promote} promotes the layer that "
        "gains most, {overview.apply-remedy} mends a finding."
    )
    FIRST_FOCUS = "#steps"
    COVERED = False
    SCOPED_CSS = False  # the height of the screen decides on gaps
    DEFAULT_CSS = """
    Overview {
        & #steps { height: auto; max-height: 14; }
        & #columns { height: 2fr; }
        & #columns > * { width: 1fr; }
        & #panels Panel { height: 1fr; }
        &.-bare #panels { display: none; }
        &.-bare #steps { height: 1fr; max-height: 100%; }
    }
    Screen.-high Overview #panels Panel { margin-bottom: 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._known: tuple[object, ...] = ()
        self._sorted: tuple[list[Ranked], list[LayerFigures]] = [], []

    def compose(self) -> ComposeResult:
        yield StepRows(id="steps")
        with Vertical(id="panels"):
            with Horizontal(id="columns"):
                yield Panel(id="promote")
                with Vertical():
                    yield Panel(id="time")
                    yield Panel(id="builds")
            yield Panel(id="findings")

    def panel(self, name: str) -> Panel:
        """A pane, by its id."""
        return self.query_one(f"#{name}", Panel)

    # -- the session -------------------------------------------------------------------------------

    def update_view(self) -> None:
        session = self.session
        begin = session.model is None and not session.opening
        self.set_class(session.model is None, "-bare")
        items = self._beginnings() if begin else steps(session)
        self.query_one(StepRows).show_steps(items, (items[0] if begin else next_step(items)).name)
        if session.model is not None:
            layers, asked = session.layers.rows, LayerEdits(session).layers
            if (layers, asked) != self._known:  # they are many: sorted once only
                self._known = layers, asked
                time = None if session.layers.table is None else session.layers.table.time_ms
                self._sorted = worth_promoting(layers, time, asked), words.slowest(layers)
            ranked, slowest = self._sorted
            self.panel("promote").show(words.promotions(session, ranked, asked))
            self.panel("time").show(words.times(session, slowest))
            self.panel("findings").show(words.known_findings(session))
            self.panel("builds").show(words.builds(session))

    def _changed(self) -> None:
        if self.shown:
            self.update_view()
            self.screen.refresh_bindings()

    on_steps_changed = on_problems_changed = on_recipe_changed = on_model_opened = _changed
    on_target_changed = on_layers_changed = on_build_finished = on_result_found = _changed
    on_job_changed = on_job_ended = _changed

    def on_resize(self) -> None:
        """Rows of the new width."""
        self.call_after_refresh(self._changed)

    def _beginnings(self) -> tuple[Step, ...]:
        """Where to begin when nothing is open."""
        session = self.session
        ours = demo_folder()
        there = [p for p in session.recent if Path(p).is_file() and Path(p).parent != ours]
        opens = f"No model is open: {key_text('app.open')} opens a model or a recipe"
        demo = "a small model with its samples and results"
        recent = []
        for at, path in enumerate(there, 1):
            text = f"{sanitize(Path(path).name, 80)} · {sanitize(str(Path(path).parent), 200)}"
            recent.append(Step("possible", path, text, _RECENT, "open it", name=f"recent {at}"))
        named = filter(None, (session.boards.chosen, *session.boards.over_ssh))
        boards = [device.id for device in session.boards.devices] or named
        text = ", ".join(sanitize(board, 60) for board in boards) or "none known"
        return (
            *recent[:1],
            Step("possible", "", opens, "app.open", "choose it", name="open"),
            Step("possible", "", demo, "overview.demo", "open it", name="demo"),
            *recent[1:],
            Step("possible", "", text, "go.bench", "show them", name="boards"),
        )

    def listed_findings(self) -> Sequence[Finding]:
        panel = self.panel("findings")
        if panel.has_focus and panel.item is not None and panel.item.changes:
            return [panel.item]
        return words.findings(self.session)

    # -- doing -------------------------------------------------------------------------------------

    @on(Rows.Chosen, "#steps")
    def action_next(self) -> None:
        """Do the step under the cursor, which is the next one until the cursor is moved."""
        step: Step | None = self.panel("steps").item
        if step is None:
            return
        if step.action == _RECENT:
            self.workbench.open_path(step.figure)
        elif step.action:
            self.post_message(RunAction(step.action))
        else:
            self.post_message(GoTo(_PLACES[step.name]))

    def action_demo(self) -> None:
        """Open the demo, and build it where it was not built yet."""
        self.workbench.open_demo()

    def action_samples(self) -> None:
        """Ask for the samples, and for mean and std where they are not set."""
        from engine.wire.requests import VALIDATE, OfRecipe

        # the check proposes mean and std, and Enter may be faster than the first one
        self.ask(VALIDATE, OfRecipe(dict(self.session.recipe)), self._ask_samples)

    def _ask_samples(self, checked: Checked) -> None:
        self.session.set_problems(checked)
        session, recipe = self.session, self.session.recipe
        model = str(recipe.get("model") or "")
        shapes = [port.shape for port in session.inputs]
        usual = {one.name: one.changes(shapes) for one in NORMALISATIONS}
        usual = {name: changes for name, changes in usual.items() if changes}
        advised = next((f.changes for f in session.findings if "mean_values" in f.changes), {})
        guess = (name for name, own in usual.items() if own.items() <= dict(advised).items())
        value = _AS_IT_IS if recipe.get("mean_values") else next(guess, _AS_IT_IS)

        def take(asked: Samples) -> None:
            session.set_values({"dataset": asked.dataset, **usual.get(asked.values, {})})

        now = Samples(str(recipe.get("dataset") or samples_beside(model)), value)
        choices = {"values": (_AS_IT_IS, *usual)}
        SAMPLES.ask(
            self.app, now, then=take, check=partial(_there, Path(model).parent), choices=choices
        )

    def action_problem(self) -> None:
        """Show the first problem of the recipe where it is mended."""
        if problems := self.session.all_problems:
            self.post_message(GoToOption(next(iter(problems))))

    def action_compile(self) -> None:
        """Compile the build for the target's chip, beside the model."""
        from engine.wire.compile import COMPILE, CompileParams

        chip, recipe = self.session.chip, dict(self.session.recipe)
        path = str(self._beside(f"-{chip}.rknn"))

        def start(force: bool) -> None:
            params = CompileParams(recipe=recipe, chips=(chip,), path=path, force=force)
            self.start_job(COMPILE, params, f"compile for {chip}")

        ask_overwrite(self.app, [path], start)

    def action_export(self) -> None:
        """Ask for a file, then build what is not built and write it."""
        from engine import EngineError
        from engine.wire.build import EXPORT, ExportParams, form_of

        def write(path: str, force: bool) -> None:
            try:
                form = form_of(Path(path))
            except EngineError as error:
                self.workbench.show_error(error)
                return
            recipe = dict(self.session.recipe)
            params = ExportParams(recipe=recipe, path=path, format=form, force=force)
            self.start_job(EXPORT, params, f"export {sanitize(Path(path).name, 80)}")

        title = "Export (.rknn to simulate, .onnx for the vendor's toolkit, .tflite)"
        ask_new_file(self.app, title, self._beside(".rknn"), write)

    def _beside(self, ending: str) -> Path:
        """A file beside what is open; in the current folder where that one is not the user's."""
        file = Path(self.session.recipe_path or str(self.session.recipe.get("model") or "model"))
        theirs = file.parent != demo_folder() and os.access(file.parent, os.W_OK)
        return (file.parent if theirs else Path.cwd()) / f"{file.stem}{ending}"

    def action_promote(self) -> None:
        """Promote the layer under the cursor of its pane; the next one takes its place."""
        panel, edits = self.panel("promote"), LayerEdits(self.session)
        layer, place = panel.item, panel.cursor
        if layer is not None and not self.not_now(edits.lift(layer.id)):
            done = "Promoted" if layer.id in edits.layers else "Taken back"
            more = f" and {len(layer.together)} more" if layer.together else ""
            name = shorten(sanitize(layer.id, 300), 24)
            undo = f"{key_text('app.undo')} undoes it."
            self.notify(f"{done}: {name}{more}. {undo}", markup=False)
            self.update_view()
            panel.cursor = place

    def action_detail(self) -> None:
        """Show the finding under the cursor in full."""
        from rknntui.screens.dialogs.dialogs import TextDialog

        if (finding := self.panel("findings").item) is not None:
            lines = partial(finding_lines, [finding], applies="overview.apply-remedy")
            self.app.push_screen(TextDialog("Finding", lines))

    @on(Rows.Chosen, "Panel")
    def _into(self, event: Rows.Chosen) -> None:
        """Go to what the row is of."""
        item = event.rows.item if isinstance(event.rows, Panel) else None
        match event.rows.id:
            case "promote" if item is not None:
                self.post_message(GoToLayer(item.id))
            case "time" if item is not None:
                self.post_message(GoToLayer(item.id, columns="cost"))
            case "findings":
                self.action_detail()
            case "builds":
                self.post_message(GoTo("builds"))

    def linked_layer(self, method: str) -> str:
        focused = self.screen.focused
        name = "time" if focused is not None and focused.id == "time" else "promote"
        return getattr(self.panel(name).item, "id", "")

    def unavailable_reason(self, method: str) -> str:
        if not self.is_attached:
            return ""
        session = self.session
        built = session.container is not None, "a container is already built; open its model."
        model = not session.recipe.get("model"), "no model is open ({app.open} opens one)."
        chip = not session.chip, "no chip is chosen ({app.target} chooses it)."
        gain = "no layer is known to be worth it ({app.build} builds; gains come by themselves)."
        rules = {
            "samples": (built, model),
            "export": (built, model),
            "compile": (built, model, chip),
            "promote": (built, (not self.panel("promote").items, gain)),
            "problem": ((not session.all_problems, "the recipe has no problem."),),
            "node": ((not self.linked_layer("node"), "no layer is under the cursor."),),
            "detail": ((not self.panel("findings").items, "there is no finding."),),
        }
        return next((why for holds, why in rules.get(method, ()) if holds), "")

    def copy_text(self) -> str:
        lines = [words.step_line(step, 200, lit=False) for step in self.panel("steps").items]
        return "\n".join("".join(text for text, _ in line).rstrip() for line in lines)

    def command_line(self) -> list[str]:
        return command_for("build", self.session)


_PLACES = {
    "model": "model", "config": "recipe", "dataset": "recipe", "build": "builds",
    "accuracy": "layers", "estimate": "chips", "compile": "chips", "board": "bench",
    "result": "result",
}  # fmt: skip
"""Where a step is seen."""


def _there(folder: Path, asked: Samples) -> Samples:
    """With the whole path, beside the workbench or the model; ValueError where nothing is there."""
    named = Path(asked.dataset).expanduser().absolute()
    inner = folder / os.path.relpath(named)
    place = next((path for path in (named, inner) if path.exists()), None)
    if place is None:
        raise ValueError("dataset: there is no such file or folder.")
    return replace(asked, dataset=str(place))
