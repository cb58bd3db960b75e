"""A model measured on a board, live: the job, its figures over time, and the lines on top."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from engine import human_bytes, sanitize
from engine.wire.codec import Above, Whole
from engine.wire.devices import (
    CORES,
    DEVICES_LIST,
    DEVICES_PERF,
    PERF_LOOK,
    Cores,
    DeviceListParams,
    MeasuredPoint,
    PerfLook,
    Performance,
    PerfParams,
)
from engine.wire.flags import Flag
from engine.wire.formats import CELSIUS, CLOCK, MILLISECONDS, RATE
from engine.wire.record import record
from rknntui.keys.actions import key_text
from rknntui.screens.bench.boards import LIMIT, BoardTrack, Track
from rknntui.screens.dialogs.request import Form
from rknntui.session.messages import Bench
from rknntui.widgets.charts import bars
from rknntui.widgets.findings import wrapped
from rknntui.widgets.one_line import Fact, fit_facts
from rknntui.widgets.strips import cells

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rknntui.screens.base.workspace import Workspace
    from rknntui.session.job_view_model import JobView
    from rknntui.session.messages import JobEnded
    from rknntui.widgets.strips import Line

RETRY_SECONDS = 5.0
"""A board that was lost is looked for so often."""
_LOST = ("device lost", "device timeout")
_SOAK_MINUTES = 30.0


@record
class RunSettings:
    """How the model is measured."""

    cores: Annotated[Cores, Flag(help=f"NPU cores that run the model: {', '.join(CORES)}.")] = (
        "auto"
    )
    threads: Annotated[
        Annotated[int, Whole(1, 32)], Flag(help="Threads that run the model at the same time.")
    ] = 1
    minutes: Annotated[
        Annotated[float, Above(0, 1440)],
        Flag(help="How long; hours are a thermal soak, whose curve is a view (Curve)."),
    ] = 1.0
    fix_clocks: Annotated[
        bool, Flag(help="Set the clocks of the vendor's script; restored afterwards.")
    ] = False

    @property
    def words(self) -> str:
        """In few words."""
        long = f"{self.minutes:g} min" if self.minutes < 120 else f"{self.minutes / 60:g} h"
        parts = [long]
        parts += [f"cores {self.cores}"] if self.cores != "auto" else []
        parts += [f"{self.threads} threads"] if self.threads > 1 else []
        parts += ["fixed clocks"] if self.fix_clocks else []
        return ", ".join(parts)


SETTINGS = Form("Measure on the board", (RunSettings,))


class Measuring:
    """The job of ``perf``: it goes on while other views are shown, and where its board was lost.

    Args:
        owner: whose job it is.
        changed: called when there is something else to show; True where layers were timed.

    Attributes:
        settings: of the next run.
        params: of the newest run; None before one.
        look: the newest look of it.
        result: of the newest run that ended; None while one goes on.
        curve: its figures from its begin on.
        layers: number of a row of the runtime's table -> its times.
        error: why it ended or waits; empty where it did not.
    """

    def __init__(self, owner: Workspace, changed: Callable[[bool], None]) -> None:
        self._owner, self._changed = owner, changed
        self.settings = RunSettings()
        self.params: PerfParams | None = None
        self._job: JobView | None = None
        self._starting = self._again = False
        self._stopped = False
        self._then: Callable[[], None] | None = None
        self._before = 0.0  # seconds that were measured before the board was lost
        self.forget()

    def forget(self) -> None:
        """What is known is of another model."""
        self.look: PerfLook | None = None
        self.result: Performance | None = None
        self.error = ""
        self.curve: dict[str, Track] = {}
        self.layers: dict[int, Track] = {}

    @property
    def going(self) -> bool:
        """Whether it measures, is about to, or waits for its board."""
        return self._starting or self._again or (self._job is not None)

    @property
    def measuring(self) -> bool:
        """Whether there are figures already of a run that goes on."""
        return self._job is not None and self.look is not None

    @property
    def at(self) -> float:
        """Seconds that were measured."""
        return self._before + (0.0 if self.look is None else self.look.at)

    @property
    def stage(self) -> str:
        """What it does before there are figures."""
        stage = None if self._job is None else self._job.stage
        return "starting" if stage is None else stage.title.lower()

    @property
    def point(self) -> PerfLook | MeasuredPoint | None:
        """The figures to be shown: of the run that goes on, else of the last one."""
        return self.look if self.result is None else self.result.points[0]

    @property
    def answer(self) -> PerfLook | Performance | None:
        """The same with what is told beside: board, versions, layers."""
        return self.look if self.result is None else self.result

    def start(self, board: str, model: dict[str, object]) -> None:
        """Measure a model on a board with what is set."""
        wanted = self.settings
        params = PerfParams(
            **model,  # type: ignore[arg-type]
            device=board,
            cores=(wanted.cores,),
            threads=(wanted.threads,),
            seconds=wanted.minutes * 60,
            layers=True,
            fix_clocks=wanted.fix_clocks,
        )
        if not self._owner.workbench.starting.asks(DEVICES_PERF.name, params):
            self.forget()
            self._before = 0.0
            self._submit(params)

    def stop(self, then: Callable[[], None] | None = None) -> None:
        """End it in order: what was measured is a result, and kept.

        Args:
            then: called once the board is free, which is at once where nothing runs.
        """
        self._again, self._stopped, self._then = False, True, then
        if self._job is not None:
            self._owner.bridge.finish(self._job.id)
        elif not self._starting:
            self._let_go()
        self._tell()

    def _let_go(self) -> None:
        then, self._then = self._then, None
        if then is not None:
            then()

    def _submit(self, params: PerfParams) -> None:
        self.params, self._starting, self._again, self._stopped = params, True, False, False

        async def submit() -> None:
            name = sanitize(str(params.device), 80)
            try:
                self._job = await self._owner.bridge.submit(
                    DEVICES_PERF, params, f"perf on {name}", quiet=True
                )
            finally:
                self._starting = False
                self._tell()
            if self._stopped:  # meanwhile
                self._owner.bridge.finish(self._job.id)

        self._owner.workbench.do(submit())
        self._tell()

    def _tell(self, layers: bool = False) -> None:
        session, answer = self._owner.session, self.answer
        if self.params is not None:
            session.bench = Bench(
                str(self.params.device),
                None if self.point is None else self.point.frames_per_second,
                "" if answer is None else answer.label,
                self.going,
                self.error,
            )
        self._changed(layers)

    def told(self, job: str) -> None:
        """A job of the session moved on; take what is new where it is this one."""
        if self._job is None or job != self._job.id:
            return
        news = [look for event in self._job.partials if (look := PERF_LOOK.of(event)) is not None]
        self._job.partials.clear()
        timed = False
        for look in news:
            self.look, self.error = look, ""
            celsius = max(look.celsius.values(), default=None)
            for name, show, value in (
                ("FPS", RATE.text, look.frames_per_second),
                ("p99 ms", MILLISECONDS.text, look.p99 / 1000),
                ("warmest zone", CELSIUS.text, celsius),
                ("NPU clock", lambda hertz: CLOCK.text(int(hertz)), look.clocks.get("NPU")),
            ):
                if value is not None:
                    self.curve.setdefault(name, Track(show, whole=True)).add(value)
            for row in look.layers:
                track = self.layers.setdefault(row.number, Track(str, whole=True))
                track.add(row.microseconds)
            timed = timed or bool(look.layers)
        self._tell(timed)

    def ended(self, message: JobEnded) -> bool:
        """A job of the session ended; True where it is this one."""
        if self._job is None or message.job != self._job.id:
            return False
        self.told(message.job)
        self._job = None
        if isinstance(message.result, Performance):
            self.result, self.error = message.result, ""
        elif message.state == "failed":
            self._failed(message.error or {})
        self._tell(layers=True)
        self._let_go()
        return True

    def _failed(self, error: object) -> None:
        told = error if isinstance(error, dict) else {}
        parts = [str(told.get(key, "")) for key in ("what", "cause", "remedy")]
        self.error = sanitize(" ".join(part for part in parts if part), 1000)
        left = 0.0 if self.params is None else (self.params.seconds or 0.0)
        left -= 0.0 if self.look is None else self.look.at
        if told.get("kind") in _LOST and self.look is not None and self.params and left > 1:
            self._before = self.at
            self.params, self._again = replace(self.params, seconds=left), True
            self.error += f" What was measured is kept; it goes on when the board is back, \
{key_text('bench.run')} stops."
            self.look = None
            self._owner.notify(f"The board is lost: {told.get('what', '')}", severity="warning",
                               markup=False)  # fmt: skip
            self._owner.set_timer(RETRY_SECONDS, self._retry)

    def _retry(self) -> None:
        """Go on where the board is back; else look again later."""

        async def look() -> None:
            from engine import EngineError

            params, session = self.params, self._owner.session
            try:
                listing = await self._owner.bridge.call(
                    DEVICES_LIST, DeviceListParams(session.ssh_boards)
                )
            except EngineError:
                listing = None
            devices = () if listing is None else listing.devices
            usable = any(d.id == params.device and d.usable for d in devices) if params else False
            if not self._again or params is None:
                return
            if usable:
                self._submit(params)
            else:
                self._owner.set_timer(RETRY_SECONDS, self._retry)

        if self._again:
            self._owner.workbench.do(look())

    def command(self, board: str, file: str | None) -> list[str]:
        """The command line that measures the same."""
        wanted = self.settings
        words = ["rknntui", "perf", "run", file or "MODEL.rknn", "--device", board]
        words += ["--seconds", f"{wanted.minutes * 60:g}", "--layers"]
        words += ["--cores", wanted.cores] if wanted.cores != "auto" else []
        words += ["--threads", str(wanted.threads)] if wanted.threads > 1 else []
        return words + (["--fix-clocks"] if wanted.fix_clocks else [])


# The lines on top: one board in several, or a line for each of several.

_TRACE = 1e-9
_NEAR = 10.0
"""Degrees below the limit from which a temperature is marked."""
_ROOMY = 100


def spark(track: Track, room: int) -> str:
    """The last values of a figure, in so many cells."""
    values = track.values[-room:]
    drawn = (" " if v is None else bars([max(v, _TRACE)], 1, track.full)[0] for v in values)
    return f"{''.join(drawn):<{room}}"


def _row(parts: Sequence[tuple[int, Line]], width: int) -> Line:
    """Parts of a line; those of the highest rank are left out where there is no room."""
    shown = [part for part in parts if part[1]]
    while len(shown) > 1 and sum(cells(line) + 3 for _, line in shown) - 3 > width:
        shown.remove(max(reversed(shown), key=lambda part: part[0]))
    return [piece for _, line in shown for piece in (*line, ("   ", ""))][:-1]


def heat(celsius: float) -> tuple[str, str]:
    """The sign of a temperature and its style."""
    if celsius >= LIMIT:
        return "✗", "bad"
    return ("!", "warn") if celsius >= LIMIT - _NEAR else ("✓", "good")


def rate_line(run: Measuring, width: int, estimate: str) -> Line:
    """Frames a second, percentiles, and what was estimated."""
    point, answer = run.point, run.answer
    long = 24 if width >= _ROOMY else 10
    guess: Line = [("estimated ", "dim"), (estimate, ""), (" FPS", "dim")] if estimate else []
    if point is None or answer is None or point.frames_per_second is None:
        if run.going:
            said: Line = [("FPS ", "dim"), (f"…  {run.stage}", "accent")]
        else:
            said = [("FPS –  ", "dim"), (f"{key_text('bench.run')} ", "key"), ("measures", "dim")]
        return _row([(0, said), (1, guess)], width)
    figures: list[tuple[int, Line]] = [
        (0, [("FPS ", "dim"), (RATE.text(point.frames_per_second), "head")])
    ]
    if (curve := run.curve.get("FPS")) is not None:
        figures[0][1].append((f" {spark(curve, min(long, len(curve.values)))}", "accent"))
    percentiles: Line = []
    for name, micros in (("p50", point.median), ("p90", point.p90), ("p99", point.p99)):
        if micros is not None:
            percentiles += [(f"{name} ", "dim"), (f"{MILLISECONDS.text(micros / 1000)}  ", "")]
    figures += [(0, [*percentiles, ("ms", "dim")]), (1, [(answer.label, "dim")]), (1, guess)]
    count = [(f"{point.count:,} inferences", "dim")]
    return _row([*figures, (3, count)], width)


def board_lines(board: BoardTrack, run: Measuring | None, width: int) -> list[Line]:
    """Load of each core and clocks; temperature, memory, throttling; what is wrong."""
    tracks, long = board.tracks, 12 if width >= _ROOMY else 5
    loads: list[tuple[int, Line]] = [
        (0, [(f"{name} ", "dim"), (f"{_now(track):>5} ", ""), (spark(track, long), "accent")])
        for name, track in tracks.items()
        if name.startswith("NPU") and not name.endswith("clock")
    ]
    clocks: Line = []
    for part in ("NPU", "DDR", "CPU"):
        if (track := tracks.get(f"{part} clock")) is not None and track.now is not None:
            clocks += [(f"{part} ", "dim"), (f"{_now(track).removesuffix(' MHz')} ", "")]
    if clocks:
        fixed = run is not None and run.going and run.params is not None and run.params.fix_clocks
        loads.append((1, [*clocks, ("MHz fixed" if fixed else "MHz", "dim")]))
    rest: list[tuple[int, Line]] = []
    if (warm := tracks.get("temperature")) is not None:
        sign, style = ("–", "dim") if warm.now is None else heat(warm.now)
        line: Line = [("temperature ", "dim"), (f"{sign} {_now(warm)} ", style)]
        rest.append((0, [*line, (spark(warm, long), "accent")]))
        rest.append((2, [(f"hot from {LIMIT:g} °C (documented)", "dim")]))
    if (used := tracks.get("memory")) is not None:
        of = human_bytes(int(used.top))
        line = [("memory ", "dim"), (_now(used), ""), (f" of {of} ", "dim")]
        rest.append((0, [*line, (spark(used, long), "accent")]))
    if run is not None:
        rest += _of_run(run)
    lines = [_row(parts, width) for parts in (loads, rest) if parts]
    if board.problem:
        lines += wrapped(f"✗ {sanitize(board.problem, 400)}", width, "bad")
    if board.note:
        lines += wrapped(f"! {sanitize(board.note, 400)}", width, "warn")
    return lines


def _now(track: Track) -> str:
    return "–" if track.now is None else track.show(track.now)


def _of_run(run: Measuring) -> list[tuple[int, Line]]:
    """Memory of the model, and whether a clock fell."""
    point, answer = run.point, run.answer
    parts: list[tuple[int, Line]] = []
    if answer is not None and answer.memory is not None:
        parts.append((2, [("model ", "dim"), (human_bytes(answer.memory.total), "")]))
    if point is not None:
        fell = point.throttled
        said = ("! throttled", "warn") if fell else ("✓ no clock fell", "good")
        parts.append((0 if fell else 1, [said]))
    return parts


def head_text(
    board: str, chip: str, run: Measuring, file: str, watch: str, width: int
) -> list[Line]:
    """Which board, what runs there, and how far the run is."""
    answer = run.answer
    facts = [Fact(sanitize(board, 60)), Fact(sanitize(chip, 20) or "chip not known")]
    if answer is not None:
        runtime = sanitize(answer.runtime, 60).partition(" (")[0]
        facts += [Fact(f"runtime {runtime}", (), 2)]
        driver = sanitize(answer.driver, 60).partition(" (")[0]
        facts += [Fact(f"driver {driver}", (), 4)] if driver else []
    facts.append(Fact(sanitize(file, 60), (), 3))
    if run.going and run.params is not None:
        whole = run.params.seconds or 0.0
        facts.append(Fact(f"▶ {clock_text(run.at)} of {clock_text(whole + run._before)}"))
    elif run.result is None:
        facts.append(Fact(run.settings.words, (), 3))
    facts += [Fact(watch, (), 2)] if watch else []
    return [[(fit_facts(tuple(facts), width), "head")]]


def clock_text(seconds: float) -> str:
    """``0:42``, ``1:02:07``."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def several_lines(boards: Sequence[tuple[BoardTrack, Measuring | None]], width: int) -> list[Line]:
    """A line for each board."""
    lines = []
    for board, run in boards:
        chip = "" if board.facts is None else sanitize(board.facts.chip, 12)
        parts: list[tuple[int, Line]] = [
            (0, [(f"{sanitize(board.device, 26):<26}", "head"), (f" {chip:<8}", "dim")])
        ]
        if run is not None and run.point is not None and run.point.frames_per_second is not None:
            parts.append((0, [("FPS ", "dim"), (RATE.text(run.point.frames_per_second), "")]))
        loads = [t for n, t in board.tracks.items() if n.startswith("NPU") and "clock" not in n]
        parts += [(1, [(f"{_now(track):>5} ", ""), (spark(track, 5), "accent")]) for track in loads]
        if (warm := board.tracks.get("temperature")) is not None:
            sign, style = ("–", "dim") if warm.now is None else heat(warm.now)
            parts.append((0, [(f"{sign} {_now(warm)}", style)]))
        if (used := board.tracks.get("memory")) is not None:
            parts.append((2, [(_now(used), ""), (f" of {human_bytes(int(used.top))}", "dim")]))
        if board.problem:
            parts = [parts[0], (0, [(f"✗ {sanitize(board.problem, 60)}", "bad")])]
        lines.append(_row(parts, width))
    return lines


def model_name(path: str | None, recipe_model: object) -> str:
    """What runs, in few words."""
    if path:
        return Path(path).name
    return f"build of {Path(str(recipe_model)).name}" if recipe_model else "no model is open"
