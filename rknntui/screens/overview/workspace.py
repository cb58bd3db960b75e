"""Workspace Overview: every step with its state, the next one lit, and what is worth knowing."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from textual import on
from textual.containers import Container

from engine import NORMALISATIONS, sanitize
from engine.wire.codec import Text
from engine.wire.flags import Flag
from engine.wire.record import record
from rknntui.demo import demo_folder
from rknntui.keys.actions import key_text
from rknntui.keys.commandline import command_for
from rknntui.links import GoTo, GoToLayer, GoToNode, GoToOption, RunAction
from rknntui.screens.base.workspace import Workspace
from rknntui.screens.dialogs.picker import ask_new_file
from rknntui.screens.dialogs.request import Form
from rknntui.screens.overview import words
from rknntui.session.promotion import LayerEdits
from rknntui.session.steps import Step, next_step, steps
from rknntui.widgets.findings import finding_lines
from rknntui.widgets.line_list import Rows
from rknntui.widgets.strips import fit

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from engine import Finding
    from engine.wire.cost import LayerCost
    from engine.wire.hybrid import Ranked
    from rknntui.widgets.strips import Line

_WIDE = 50
"""Cells of a pane from which on it has more columns."""
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


class Pane(Rows):
    """One of several lists on a page: up and down lead on to the next one."""

    items: Sequence[Any] = ()
    """What the rows are of."""

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
            self.screen.focus_next(Pane)
        elif not isinstance(self, StepRows):
            self.screen.focus_previous(Pane)


class Panel(Pane):
    """A title over rows that stand below each other."""

    head = 1

    def __init__(self, *, id: str, cut: Callable[[str, int], str] = fit) -> None:  # noqa: A002
        super().__init__(id=id)
        self._cut = cut
        self._title = ""
        self._parts: list[Line] = []
        self._drawn: tuple[int, list[Line]] = (-1, [])

    def show(
        self, title: str, items: Sequence[Any], line: Callable[[Any, bool], Line], empty: str
    ) -> None:
        """Show other rows.

        Args:
            title: above them.
            items: what the rows are of.
            line: the parts of a row, in a wide pane or a narrow one.
            empty: what stands there where there are none.
        """
        parts = [line(item, self._width > _WIDE) for item in items]
        if (title, parts) == (self._title, self._parts) and parts:
            return
        self._title, self.items, self._parts = title, items, parts
        self._drawn = (-1, [])
        self.empty = [[(f" {empty}", "dim")]]
        self.rows_changed()

    @property
    def _width(self) -> int:
        return max(20, self.scrollable_content_region.width - 2)

    def head_line(self, y: int, width: int) -> Line:
        return [(f" {self._title}", "head")]

    def row_line(self, index: int, width: int) -> Line:
        if self._drawn[0] != self._width:
            self._drawn = (self._width, words.aligned(self._parts, self._width, self._cut))
        return [(" ", ""), *self._drawn[1][index]]


class StepRows(Pane):
    """The steps, or where to begin; the one that is lit is under the cursor until it is moved."""

    def __init__(self) -> None:
        super().__init__(id="steps")
        self.lit = ""

    def row_line(self, index: int, width: int) -> Line:
        step = self.items[index]
        return words.step_line(step, width, lit=step.name == self.lit)

    def show(self, items: tuple[Step, ...], lit: str) -> None:
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
    DEFAULT_CSS = """
    Overview {
        & #steps { height: auto; max-height: 14; }
        & #panels { layout: grid; grid-size: 2 2; grid-gutter: 1; height: 1fr; }
        &.-bare #panels { display: none; }
        &.-bare #steps { height: 1fr; max-height: 100%; }
    }
    Screen.-narrow Overview #panels, Screen.-tiny Overview #panels { grid-gutter: 0 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._ranked: tuple[object, list[Ranked]] = (None, [])
        self._slowest: tuple[object, list[LayerCost]] = (None, [])

    def compose(self) -> ComposeResult:
        yield StepRows()
        with Container(id="panels"):
            yield Panel(id="promote", cut=words.cut_begin)
            yield Panel(id="time", cut=words.cut_begin)
            yield Panel(id="findings", cut=words.cut_end)
            yield Panel(id="builds")

    @property
    def steps(self) -> StepRows:
        """The steps."""
        return self.query_one(StepRows)

    def panel(self, name: str) -> Panel:
        """A pane, by its id."""
        return self.query_one(f"#{name}", Panel)

    # -- the session -------------------------------------------------------------------------------

    def update_view(self) -> None:
        session = self.session
        begin = session.model is None and not session.opening
        self.set_class(session.model is None, "-bare")
        items = self._beginnings() if begin else steps(session)
        self.steps.show(items, (items[0] if begin else next_step(items)).name)
        if session.model is not None:
            self._show_promotions()
            self._show_times()
            self._show_findings()
            self._show_builds()

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
            recent.append(Step(f"recent {at}", "possible", path, text, _RECENT, "open it"))
        named = filter(None, (session.boards.chosen, *session.boards.over_ssh))
        boards = [device.id for device in session.boards.devices] or named
        text = ", ".join(sanitize(board, 60) for board in boards) or "none known"
        return (
            *recent[:1],
            Step("open", "possible", "", opens, "app.open", "choose it"),
            Step("demo", "possible", "", demo, "overview.demo", "open it"),
            *recent[1:],
            Step("boards", "possible", "", text, "go.bench", "show them"),
        )

    def _show_promotions(self) -> None:
        session = self.session
        if (known := session.layers.rows) is not self._ranked[0]:
            self._ranked = known, words.worth_promoting(session)
        rows, whole = self._ranked[1][:_ROWS], words.time_of(session)
        asked = LayerEdits(session).layers
        job = session.newest("hybrid.propose")
        if session.summary is None:
            empty = "known after a build"
        elif not session.summary.quantized:
            empty = "the build is not quantized"
        elif job is not None and job.running:
            empty = "… what each layer gains is being computed"
        elif not session.layers.of("proposed"):
            empty = "– not known yet"
        else:
            empty = "✓ no layer gains enough"
        title = "Promote: simulated, cost estimated" if whole else "Promote: gain simulated"
        line = partial(words.promotion_line, asked=asked, whole=whole)
        self.panel("promote").show(title, rows, line, empty)

    def _show_times(self) -> None:
        session = self.session
        if (known := session.layers.of("estimated")) is not self._slowest[0]:
            self._slowest = known, words.slowest(session)
        rows, every = self._slowest[1][:_ROWS], self._slowest[1]
        whole, longest = sum(row.time_ms for row in every), rows[0].time_ms if rows else 0.0
        if not session.chip:
            empty = f"– no chip is chosen ({key_text('app.target')} chooses it)"
        elif why := session.asked.get("estimate"):
            empty = f"✗ {sanitize(why, 200)}"
        else:
            empty = "… estimating" if "estimate" in session.asked else "– not known yet"
        title = f"Time on {session.chip or 'the target'}, estimated"
        line = partial(words.time_line, whole=whole, longest=longest)
        self.panel("time").show(title, rows, line, empty)

    def _show_findings(self) -> None:
        rows = words.findings(self.session)
        fix = any(row.changes for row in rows)
        mends = f", {key_text('overview.apply-remedy')} mends" if fix else ""
        title = f"Findings {len(rows) or ''}".rstrip() + mends
        self.panel("findings").show(title, rows, words.finding_line, "✓ none")

    def _show_builds(self) -> None:
        empty = "… reading" if "builds" in self.session.asked else "– none yet"
        rows = self.session.builds[:_ROWS]
        title = "Builds: lowest output dB, simulated"
        if any(row.median_ms is not None for row in rows):
            title = "Builds: dB simulated, ms measured"
        self.panel("builds").show(title, rows, words.build_line, empty)

    def listed_findings(self) -> Sequence[Finding]:
        panel = self.panel("findings")
        if panel.has_focus and panel.item is not None and panel.item.changes:
            return [panel.item]
        return words.findings(self.session)

    # -- doing -------------------------------------------------------------------------------------

    @on(Rows.Chosen, "#steps")
    def action_next(self) -> None:
        """Do the step under the cursor, which is the next one until the cursor is moved."""
        step: Step | None = self.steps.item
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
        session = self.session
        recipe = session.recipe
        path = str(recipe.get("dataset") or "")
        shapes = [port.shape for port in session.inputs]
        usual = {one.name: one.changes(shapes) for one in NORMALISATIONS}
        usual = {name: changes for name, changes in usual.items() if changes}
        advised = next((f.changes for f in session.findings if "mean_values" in f.changes), {})
        value = _AS_IT_IS
        if not recipe.get("mean_values"):
            guess = (name for name, own in usual.items() if own.items() <= dict(advised).items())
            value = next(guess, _AS_IT_IS)

        def take(asked: Samples) -> None:
            session.set_values({"dataset": asked.dataset, **usual.get(asked.values, {})})

        now = Samples(path or words.samples_beside(str(recipe.get("model") or "")), value)
        choices = {"values": (_AS_IT_IS, *usual)}
        check = partial(_there, Path(str(recipe.get("model") or "")).parent)
        SAMPLES.ask(self.app, now, then=take, check=check, choices=choices)

    def action_problem(self) -> None:
        """Show the first problem of the recipe where it is mended."""
        if problems := self.session.all_problems:
            self.post_message(GoToOption(next(iter(problems))))

    def action_compile(self) -> None:
        """Compile the build for the target's chip, beside the model."""
        from engine.wire.compile import COMPILE, CompileParams
        from rknntui.screens.dialogs.picker import ask_overwrite, is_taken

        session = self.session
        chip = session.chip
        path = self._beside(f"-{chip}.rknn")

        def start(force: bool) -> None:
            params = CompileParams(
                recipe=dict(session.recipe), chips=(chip,), path=str(path), force=force
            )
            self.start_job(COMPILE, params, f"compile for {chip}")

        ask_overwrite(self.app, [str(path)] * is_taken(path), start)

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
        """Promote the layer under the cursor of its pane, and go on to the next one."""
        panel = self.panel("promote")
        layer: Ranked | None = panel.item
        if layer is None or self.not_now(LayerEdits(self.session).lift(layer.id)):
            return
        if panel.cursor < panel.row_count - 1:
            panel.cursor += 1

    def action_detail(self) -> None:
        """Show the finding under the cursor in full."""
        from rknntui.screens.dialogs.dialogs import TextDialog

        if (finding := self.panel("findings").item) is not None:
            lines = partial(finding_lines, [finding], applies="overview.apply-remedy")
            self.app.push_screen(TextDialog("Finding", lines))

    @on(Rows.Chosen, "Panel")
    def _into(self, event: Rows.Chosen) -> None:
        """Go to what the row is of."""
        panel = event.rows
        if not isinstance(panel, Panel) or panel.item is None:
            return
        match panel.id:
            case "promote":
                self.post_message(GoToLayer(panel.item.id))
            case "time":
                self.post_message(GoToLayer(panel.item.id or panel.item.name, columns="cost"))
            case "findings":
                self.action_detail()
            case "builds":
                self.post_message(GoTo("builds"))

    def linked_layer(self, method: str) -> str:
        focused = self.screen.focused
        name = "time" if focused is not None and focused.id == "time" else "promote"
        return getattr(self.panel(name).item, "id", "")

    def action_node(self) -> None:
        self._lead("node", GoToNode)

    def unavailable_reason(self, method: str) -> str:
        session = self.session
        if method in ("samples", "export", "compile", "promote") and session.container is not None:
            return "a container is already built; open its model."
        if method in ("samples", "export", "compile") and not session.recipe.get("model"):
            return "no model is open ({app.open} opens one)."
        if method == "compile" and not session.chip:
            return "no chip is chosen ({app.target} chooses it)."
        if method == "promote" and self.is_attached and not self.panel("promote").items:
            return (
                "no layer is known to be worth it ({app.build} builds; gains come by themselves)."
            )
        if method == "problem" and not session.all_problems:
            return "the recipe has no problem."
        if method == "node" and self.is_attached and not self.linked_layer("node"):
            return "no layer is under the cursor."
        if method == "detail" and self.is_attached and not self.panel("findings").items:
            return "there is no finding."
        return ""

    def copy_text(self) -> str:
        lines = [words.step_line(step, 200, lit=False) for step in self.steps.items]
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
