"""A model measured on a board, live: the job, and its figures over time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from engine import sanitize
from engine.wire.codec import Above, Whole, encode
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
from engine.wire.flags import Flag, words_of
from engine.wire.formats import CELSIUS, CLOCK, MILLISECONDS, RATE
from engine.wire.record import record
from rknntui.keys.actions import key_text
from rknntui.screens.bench.tracks import Track
from rknntui.screens.dialogs.request import Form
from rknntui.session.messages import Bench

if TYPE_CHECKING:
    from collections.abc import Callable

    from rknntui.screens.base.workspace import Workspace
    from rknntui.session.job_view_model import JobView
    from rknntui.session.messages import JobEnded

RETRY_SECONDS = 5.0
"""A board that was lost is looked for so often."""
_LOST = ("device lost", "device timeout")


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
        bool, Flag(help="Fix the clocks while it runs, where the board lets you.")
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
    def whole(self) -> float:
        """Seconds that are to be measured."""
        return self._before + ((self.params and self.params.seconds) or 0.0)

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

    def _asked(self, board: str, model: dict[str, object]) -> PerfParams:
        """The request for a model on a board, with what is set."""
        wanted = self.settings
        return PerfParams(
            **model,  # type: ignore[arg-type]
            device=board,
            cores=(wanted.cores,),
            threads=(wanted.threads,),
            seconds=wanted.minutes * 60,
            layers=True,
            fix_clocks=wanted.fix_clocks,
        )

    def start(self, board: str, model: dict[str, object]) -> None:
        """Measure a model on a board with what is set."""
        params = self._asked(board, model)
        if not self._owner.workbench.asks_first(DEVICES_PERF.name, params):
            self.forget()
            self._before = 0.0
            self._submit(params)

    def set(self, settings: RunSettings) -> None:
        """Measure so from the next run on."""
        self.settings = settings
        self._tell()

    def drop(self, board: str) -> None:
        """A board goes: a run there ends, and what is said of it goes along."""
        if self.params is not None and self.params.device == board:
            self.stop()
            self._job = self.params = self._owner.session.bench = None
            self.forget()
            self._tell(layers=True)

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
            now = Bench(
                str(self.params.device),
                None if self.point is None else self.point.frames_per_second,
                "" if answer is None else answer.label,
                self.going,
                self.error,
            )
            session.bench_is(now)
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
                    DEVICES_LIST, DeviceListParams(session.boards.over_ssh)
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

    def command(self, board: str, model: dict[str, object]) -> list[str]:
        """The command line that measures the same."""
        flags = words_of(PerfParams, encode(self._asked(board, model)))
        return ["rknntui", "perf", "run", str(model["path"] or "MODEL.rknn"), *flags]
