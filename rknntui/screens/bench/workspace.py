"""Workspace Bench: the boards in reach, and the model on the one that is used, live."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from textual import getters, on
from textual.app import ComposeResult
from textual.containers import Container, Vertical

from engine import sanitize
from engine.wire.board import (
    BOARD_ABOUT,
    BOARD_MEMORY,
    About,
    AboutParams,
    MemoryParams,
    MemoryReport,
)
from engine.wire.board_tables import BOARDS
from engine.wire.codec import encode
from engine.wire.compare import COMPARE_BOARD, CompareParams, Comparison
from engine.wire.devices import DEVICES_EXAMINE, DEVICES_PERF, Device, ExamineParams
from engine.wire.flags import command_of
from engine.wire.layers import layer_rows
from engine.wire.measured import (
    MEASURED_COMPARE,
    MEASURED_LIST,
    KeptFilter,
    RunPair,
    RunsCompared,
)
from rknntui.keys.actions import with_keys
from rknntui.keys.commandline import command_with
from rknntui.links import GoToCompiled, GoToLayer
from rknntui.screens.base.views import LOW, TableWorkspace
from rknntui.screens.bench.boards import Looking, reason
from rknntui.screens.bench.lines import model_name, page_lines
from rknntui.screens.bench.live import SETTINGS, Measuring, Watch
from rknntui.screens.bench.panes import ASKED_BY, Asked, BenchViews
from rknntui.screens.bench.words import NO_BOARD, device_records
from rknntui.widgets.divider import Divider
from rknntui.widgets.line_list import Rows, TextRows
from rknntui.widgets.record_view import RecordView
from rknntui.widgets.records import RecordTable

if TYPE_CHECKING:
    from textual.timer import Timer

    from engine.wire.method import Task
    from rknntui.links import Link
    from rknntui.session.messages import JobChanged, JobEnded, LayersChanged, RecipeChanged

REST_SECONDS = 0.3
"""A ready board is asked what it is once the list has been still for so long."""
_BESIDE = 150
"""Cells from which on the list of boards stands beside."""


class Bench(TableWorkspace):
    """The board on top, what is known of the model on it below, the list of boards at the end."""

    NAME = "bench"
    HELP = (
        "{bench.add} adds a board, {bench.use} uses and watches it, {bench.run} measures the model "
        "there with what {bench.edit} sets, and goes on while another step is shown. "
        "{bench.compare} compares with the simulator, {bench.examine} looks for what is wrong. A "
        "real board runs a compiled .rknn, an emulated one the build of the recipe."
    )
    FIRST_FOCUS = "#boards"
    DEFAULT_CSS = """
    Bench {
        & #bench-body { layout: vertical; height: 1fr; }
        & #bench-main { height: 1fr; }
        & #bench-live { height: auto; max-height: 9; padding: 0 1; }
        & #boards-view { height: auto; max-height: 30%; }
        & #boards { height: auto; scrollbar-size-horizontal: 0; }
        &.-empty #bench-main { display: none; }
        &.-empty #boards-view, &.-beside #boards-view { height: 1fr; max-height: 100%; }
        &.-empty #boards, &.-beside #boards { height: 1fr; }
        &.-beside #bench-body { layout: horizontal; }
        &.-beside #bench-main { width: 7fr; }
        &.-beside #boards-view { width: 3fr; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self.watch_job = Watch(self, self._draw_live)
        self.run = Measuring(self, self._measured)
        self._rest: Timer | None = None
        self._marked: tuple[str, ...] = ()
        self._wanted = ""  # id of a board that was added and is not in the list yet

    def compose(self) -> ComposeResult:
        with Container(id="bench-body"):
            with Vertical(id="bench-main"):
                yield TextRows(id="bench-live")
                yield BenchViews(self, id="bench-views")
            yield Divider("bench-divider")
            table = RecordTable(BOARDS, id="boards", what="devices")
            yield RecordView("Boards", table, id="boards-view")

    def on_mount(self) -> None:
        self._looking = Looking(self, self._looked)
        self.lines.SHOW_CURSOR = False
        self.lines.can_focus = False

    table = getters.query_one("#boards", RecordTable)
    """The boards."""

    lines = getters.query_one("#bench-live", TextRows)
    """What is seen of the board now."""

    views = getters.query_one(BenchViews)
    """What is known in tables."""

    @property
    def device(self) -> Device | None:
        """The board under the cursor."""
        record, devices = self.table.record, self.session.boards.devices
        return next((one for one in devices if record and one.id == record["id"]), None)

    @property
    def board(self) -> str:
        """Id of the board that is shown: the one that is used, else the one under the cursor."""
        device = self.device
        return self.session.boards.chosen or ("" if device is None else device.id)

    @property
    def boards(self) -> tuple[str, ...]:
        """Those that a watch looks at: all that are marked, else the one that is shown."""
        return self._marked or ((self.board,) if self.board else ())

    @property
    def file(self) -> str | None:
        """The file that a board runs; None for the build of the recipe."""
        return self.session.compiled or self.session.container

    @property
    def model(self) -> dict[str, object]:
        """What runs, as requests take it; the recipe tells which layers a file has."""
        compiled = self.session.compiled
        return self.session.request | ({"path": compiled} if compiled else {})

    @property
    def chip(self) -> str | None:
        """The chip of the open recipe, which a board is held against."""
        recipe = self.session.recipe
        named = recipe.get("model") or recipe.get("target_platform")
        return (self.session.chip.lower() or None) if named else None

    def on_resize(self) -> None:
        """The list beside the rest where there is room."""
        self._arrange()
        self.call_after_refresh(self._draw_live)
        self.call_after_refresh(self.views.draw_run)

    def _arrange(self) -> None:
        busy = self.run.params is not None or self.watch_job.boards
        empty, beside = not self.table.total and not busy, self.size.width >= _BESIDE
        self.set_class(empty, "-empty")
        self.set_class(beside and not empty, "-beside")

    # -- the session -------------------------------------------------------------------------------

    def update_view(self) -> None:
        self._draw()
        self.views.draw_layers()
        if layer := self.session.layers.cursor:
            self.views.timed.table.select_layer(layer)
        self._looking.look()
        self._looking.timer.resume()

    def on_target_changed(self) -> None:
        """Another board or file is used."""
        self.on_model_opened()

    def on_recipe_changed(self, message: RecipeChanged) -> None:
        """Without a compiled model the recipe's chip is held against the board."""
        if "target_platform" in message.names:
            self.on_model_opened()

    def on_model_opened(self) -> None:
        """What was measured is of another one."""
        self.views.memory = None
        ran, now = self.run.params, self._of_memory
        same = ("path", "recipe", "device")
        if ran and not self.run.going and any(getattr(ran, n) != getattr(now, n) for n in same):
            self.run.forget()
            self._measured(True)
        if self.shown:
            self._draw()

    def on_layers_changed(self, message: LayersChanged) -> None:
        """More is known beside the times."""
        if message.rows and self.shown and not self.run.measuring:
            self.views.draw_layers()

    def _looked(self) -> None:
        """The list changed."""
        self._draw()
        if self._wanted and self.table.select_record("id", self._wanted):
            self._wanted = ""
            if self.session.boards.device is None:
                self.action_use()

    # -- drawing -----------------------------------------------------------------------------------

    def _draw(self) -> None:
        boards, table = self.session.boards, self.table
        empty = with_keys(NO_BOARD) if boards.listing is not None else "Looking for boards…"
        for notice in boards.notices:
            empty += f"\n\n! {sanitize(notice.what, 300)} {sanitize(notice.remedy, 300)}"
        if self._looking.trouble:
            empty = f"✗ {sanitize(self._looking.trouble, 200)}"
        table.set_empty(empty)
        table.set_records(device_records(boards, self._marked), keep="id")
        ready = sum(device.state == "ready" for device in boards.devices)
        trouble = f" · ✗ {sanitize(self._looking.trouble, 80)}" if self._looking.trouble else ""
        self.query_one("#boards-view", RecordView).set_title(f"Boards, {ready} ready{trouble}")
        self._arrange()
        self._draw_live()
        self._moved()
        self.views.tell()
        self.screen.refresh_bindings()

    def _draw_live(self) -> None:
        if not self.is_attached or not self.shown:
            return
        width = max(30, (self.lines.size.width or self.size.width) - 3)
        file = model_name(self.file, self.session.recipe.get("model"))
        what = self.session, self.run, self.watch_job, self.board, file
        lines = page_lines(*what, width, tall=self.app.size.height >= LOW)
        self.lines.set_lines(lines, keep_cursor=True)

    @on(Rows.Highlighted, "#boards")
    def _moved(self) -> None:
        views, boards = self.views, self.session.boards
        views.draw_board()
        if self._rest is not None:
            self._rest.stop()
        others = (one for one in boards.devices if one.id not in boards.chips)
        ready = (one for one in (self.device, *others) if one and one.state == "ready")
        wanted = next((one for one in map(self.about, ready) if one not in views.about), None)
        if wanted is not None and views.asked is None:
            self._rest = self.set_timer(REST_SECONDS, partial(self._ask_about, wanted))

    def about(self, device: Device) -> Asked:
        """What a board is asked of itself; one of another connection may be another one."""
        return device, AboutParams(device.id, self.file, chip=self.chip)

    @on(BenchViews.Changed)
    def _view_changed(self, event: BenchViews.Changed) -> None:
        if event.view and self.view == "Runs":
            self._list_runs()
        if not event.view and self.views.layer_id:
            self.session.layers.choose(self.views.layer_id)
        self.screen.refresh_bindings()

    # -- the boards --------------------------------------------------------------------------------

    @on(Rows.Chosen, "#boards")
    def action_use(self) -> None:
        """Use the board under the cursor, ask what it is, and watch it."""
        device = self.device
        if device is not None and not self.not_now(self.disabled_reason("use")):
            self.session.boards.choose(device.id)
            self._ask_about(self.about(device))
            self.watch_job.watch((device.id,))

    def _ask_about(self, asked: Asked) -> None:
        self.views.asked = asked
        self.views.draw_board()
        take = partial(self._take_about, asked)
        self.ask(BOARD_ABOUT, asked[1], take, failed=take)

    def _take_about(self, asked: Asked, answer: About | Exception) -> None:
        self.views.about[asked], self.views.asked = answer, None
        self._draw()

    def action_add(self) -> None:
        """Ask which board to add; it is used where none is."""
        self._looking.ask_board(partial(setattr, self, "_wanted"))

    def action_forget(self) -> None:
        """Take a board on the network out of the list; an emulated one ends."""
        if (device := self.device) is not None:
            ran = self.run.going and self.board == device.id
            self.notify(f"{device.id} removed{', its run ended' if ran else ''}.", markup=False)
            self.run.drop(device.id)
            self.watch_job.drop(device.id)
            self._marked = tuple(name for name in self._marked if name != device.id)
            self._looking.forget(device)

    def action_server(self) -> None:
        """Start the adb server."""
        self._looking.look(start_server=True)

    def action_mark(self) -> None:
        """Mark the board under the cursor, or take its mark away; marked ones are watched."""
        if (device := self.device) is not None:
            rest = tuple(name for name in self._marked if name != device.id)
            self._marked = rest if device.id in self._marked else (*rest, device.id)
            if self.boards:
                self.watch_job.watch(self.boards)
            self._draw()

    def action_examine(self) -> None:
        """Examine the board under the cursor with the open model, in place of one before."""
        if (device := self.device) is not None:
            self.views.bar.choose("Examine")
            self.workbench.do(self._examine(device.id))

    async def _examine(self, device: str) -> None:
        examined = self.views.examined
        for job in examined.values():
            if job.running:
                self.bridge.discard(job.id)
        test = self.file is not None and not self.run.going  # a board runs one model at a time
        params = ExamineParams(device, self.file, test, self.chip)
        title = f"examine {sanitize(device, 80)}"
        examined[device] = await self.bridge.submit(DEVICES_EXAMINE, params, title, quiet=True)
        self.views.draw_board()

    # -- the model on a board ----------------------------------------------------------------------

    def action_run(self) -> None:
        """Measure the model on the board, or end that in order."""
        if self.run.going:
            self.run.stop()
            return
        self.session.boards.choose(self.board)
        self.run.start(self.board, self.model)
        if self.watch_job.now is None:
            self.watch_job.watch(self.boards)

    def action_edit(self) -> None:
        """Set how the model is measured."""
        SETTINGS.ask(self.app, self.run.settings, then=self.run.set)

    def _measured(self, layers: bool) -> None:
        """A run told something; ``layers``: of its layers too."""
        if not self.is_attached:
            return
        if self.run.waiting:
            self._looking.timer.resume()
        if layers:
            answer = self.run.answer
            if answer is not None and answer.layers:
                self.session.layers.fill("measured", layer_rows(answer))
            self.views.draw_layers()
            self.views.tell()
        self.views.draw_run()
        self._draw_live()
        self.screen.refresh_bindings()

    def action_compare(self) -> None:
        """Compare with the simulator layer by layer; in Runs, a run with the newest one."""
        if self.view == "Runs":
            if (pair := self.views.run_pair) is not None:
                self.ask(MEASURED_COMPARE, RunPair(*pair), self._compared_runs)
            return
        self._instead("Compare", COMPARE_BOARD, self._comparison())

    def action_memory(self) -> None:
        """Ask what the model takes on the board."""
        self._instead("Memory", BOARD_MEMORY, self._of_memory)

    @property
    def _of_memory(self) -> MemoryParams:
        return MemoryParams(**self.model, device=self.board)  # type: ignore[arg-type]

    def _instead(self, view: str, method: Task[Any, Any], params: object) -> None:
        """Have the board do something else: it runs one model at a time; what a run measured so
        far is kept.
        """
        self.views.bar.choose(view)
        title = f"{view.lower()} on {sanitize(self.board, 60)}"
        self.run.stop(lambda: self.start_job(method, params, title))

    def _comparison(self) -> CompareParams:
        session = self.session
        recipe = dict(session.recipe)
        return CompareParams(recipe=recipe, device=self.board, compiled=session.compiled)

    def _compared_runs(self, found: RunsCompared) -> None:
        self.views.runs_compared = found
        self.views.tell()

    def _list_runs(self) -> None:
        runs = self.views.runs
        self.ask(MEASURED_LIST, KeptFilter(), lambda kept: runs.set_records(kept.runs, keep="id"))

    def arrive(self, link: Link) -> None:
        """Take a compiled model that another workspace made."""
        if isinstance(link, GoToCompiled):
            self.session.choose_compiled(link.path)

    def linked_layer(self, method: str) -> str:
        return self.views.layer_id

    @on(Rows.Chosen, "#layer-times, #compared")
    def _open_layer(self) -> None:
        if self.views.layer_id:
            self.post_message(GoToLayer(self.views.layer_id, columns="board"))

    # -- the watch ---------------------------------------------------------------------------------

    def action_watch(self) -> None:
        """Watch the boards, or stop that."""
        if self.watch_job.now is not None:
            self.watch_job.stop()
        else:
            self.watch_job.watch(self.boards)

    def on_job_changed(self, message: JobChanged) -> None:
        """A watch, a run or an examination may have told something."""
        if (job := self.session.jobs.get(message.job)) is not None:
            self.run.told(job)
            self.watch_job.told(job)
            if job in self.views.examined.values() or job.method in ASKED_BY.values():
                self.views.draw_board()

    def on_job_ended(self, message: JobEnded) -> None:
        """The same, at its end."""
        job, result = self.session.jobs.get(message.job), message.result
        if job is None:
            return
        if self.run.ended(job, result):
            if self.view == "Runs":
                self._list_runs()
        elif isinstance(result, Comparison) and self.session.is_ours(job):
            self.views.take_comparison(result)
            self.session.layers.fill("compared", layer_rows(result))
        elif isinstance(result, MemoryReport) and (
            job.params.get("path") == self.file if self.file else self.session.is_ours(job)
        ):
            self.views.memory = result
            self.views.draw_run()
        self.watch_job.ended(job, result)
        self.views.draw_board()
        self.screen.refresh_bindings()

    def action_pause(self) -> None:
        """Hold what is shown; a recording waits."""
        self.watch_job.pause()

    def action_step_rate(self, by: int) -> None:
        """Look more or less often."""
        self.watch_job.set_hertz(by)

    def action_record(self) -> None:
        """Ask for a file, watch and record."""
        self.watch_job.record(self.boards)

    def action_replay(self) -> None:
        """Choose a recording and show it."""
        self.watch_job.replay()

    # -- what the shell asks -----------------------------------------------------------------------

    def unavailable_reason(self, method: str) -> str:
        if not self.is_attached:
            return ""
        return reason(self, method) or super().unavailable_reason(method)

    def copy_text(self) -> str:
        views, device = self.views, self.device
        if (pane := self.screen.focused) in (views.examination, views.facts) and pane.lines:
            # of a command without its sign
            return "".join(text for text, _ in pane.lines[pane.cursor]).strip().removeprefix("$ ")
        if self.table.has_focus:
            return "" if device is None else device.id
        return self.record_text()

    def command_line(self) -> list[str]:
        if self.view == "Compare" and self.session.container is None:
            return command_with("compare", self.session, self._comparison())
        asked: tuple[Task[Any, Any], object] = DEVICES_PERF, self.run.asked(self.board, self.model)
        if self.view == "Examine" and self.device is not None:
            asked = DEVICES_EXAMINE, ExamineParams(self.device.id, self.file)
        elif self.session.model is None or (self.watch_job.now and not self.run.going):
            asked = self.watch_job.asked(self.boards)
        elif self.view == "Memory":
            asked = BOARD_MEMORY, self._of_memory
        return command_of(asked[0], encode(asked[1]))
