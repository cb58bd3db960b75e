"""What Chips asks of the engine, what is varied in it, and the report of an estimate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine import judged, shape_text
from engine.wire.cost import (
    COST_ADVICE,
    COST_ESTIMATE,
    AdviceAnswer,
    AdviceParams,
    ChipEstimate,
    EstimateParams,
    Estimates,
    WhatIf,
)
from engine.wire.cost_tables import interval_text
from engine.wire.formats import MILLISECONDS, RATE
from engine.wire.goal import Goal
from rknntui.screens.dialogs.picker import ask_new_file
from rknntui.screens.dialogs.request import Form

if TYPE_CHECKING:
    from textual.worker import WorkType

    from engine import CostReport
    from engine.wire.method import Query
    from engine.wire.model import Tensor
    from rknntui.screens.base.workspace import Workspace

# What is varied in an estimate, and the dialog that asks for it.

AS_IS = WhatIf()
"""The recipe's own figures."""
_DTYPES = ("int8", "float16")
_GOAL = 25.0
"""Frames a second that are proposed as the goal: what a camera gives."""


GOAL = Form("Frames a second to reach", (Goal,))
WHAT_IF = Form(
    "What if (estimated)",
    (WhatIf, Goal),
    {"chips": "all, or those that are marked"},
    takes={"input_sizes": "320x320"},
)


def scenario_words(scenario: WhatIf) -> str:
    """What differs from the recipe, for the line on top: ``float16, batch 4``."""
    parts = [
        scenario.dtype or "",
        *(size.replace("=", " ") for size in scenario.input_sizes),
        f"batch {scenario.batch}" if scenario.batch is not None else "",
        f"{scenario.cores} cores" if scenario.cores > 1 else "",
        f"{scenario.npu_mhz:g} MHz" if scenario.npu_mhz is not None else "",
    ]
    return ", ".join(part for part in parts if part)


def ask_goal(
    workspace: Workspace, goal: float | None, then: Callable[[float | None], None]
) -> None:
    """Ask how many frames a second are to be reached."""
    GOAL.ask(workspace.app, Goal(goal or _GOAL), then=lambda asked: then(asked.fps))


def checked(asked: WhatIf, inputs: Sequence[Tensor]) -> WhatIf:
    """What is varied, with sizes as a request has them.

    Args:
        asked: by the dialog; a size is ``320x320`` of the first input's images, or
            ``NAME=1,3,320,320`` of any.
        inputs: of the open model, for the names and ranks of the sizes.

    Raises:
        ValueError: a value is none; the message is for the user.
    """
    dtype = None if asked.dtype is None else asked.dtype.lower()
    if dtype not in (None, *_DTYPES):
        raise ValueError("The dtype must be int8 or float16.")
    sizes = tuple(_size(word, inputs) for word in asked.input_sizes)
    return replace(asked, dtype=dtype, input_sizes=sizes)


def _size(word: str, inputs: Sequence[Tensor]) -> str:
    name, equals, shape = word.rpartition("=")
    known = {value.name: value for value in inputs}
    if equals and name not in known:
        raise ValueError(f"The model has no input called {name}.")
    if not inputs:
        raise ValueError("The inputs of the model are not known.")
    tensor = known[name] if equals else inputs[0]
    dims = shape.lower().replace("x", ",").split(",")
    if not all(dim.isascii() and dim.isdigit() and 0 < int(dim[:9]) < 1 << 24 for dim in dims):
        raise ValueError(f"{word} is no size: 320x320 or 1,3,320,320 is one.")
    if len(dims) == 2 and len(tensor.shape) == 4:
        sides = dict(zip(_sides(tensor.shape), dims, strict=True))
        dims = [sides.get(at, str(max(1, dim))) for at, dim in enumerate(tensor.shape)]
    if len(dims) != len(tensor.shape):
        raise ValueError(f"{tensor.name} is {shape_text(tensor.shape)}: give as many numbers.")
    return f"{tensor.name}={','.join(dims)}"


def _sides(shape: Sequence[int]) -> tuple[int, int]:
    """The axes of an image's height and width."""
    last = shape[1] not in (1, 3, 4) and shape[3] in (1, 3, 4)
    return (1, 2) if last else (2, 3)


# What a chip that misses the goal needs.

_GRID = 32
"""Sizes of inputs that are tried are its multiples: the strides of detectors end there."""


def smaller_sizes(inputs: Sequence[Tensor], share: float) -> tuple[str, ...]:
    """The first input's size with which about that share of the time is left; none: no image."""
    shape = inputs[0].shape if inputs else ()
    if len(shape) != 4:
        return ()
    sides, smaller = _sides(shape), list(shape)
    for at in sides:
        smaller[at] = int(shape[at] * share**0.5) // _GRID * _GRID
    if any(smaller[at] < _GRID for at in sides):
        return ()
    return (f"{inputs[0].name}={','.join(str(max(1, size)) for size in smaller)}",)


@dataclass(frozen=True, order=True)
class Way:
    """What brings a chip nearer to the goal; the cheapest that reaches it sorts first.

    Attributes:
        short: whether the rate stays below the goal.
        gain_ms: what it saves.
        fps: the rate then, estimated.
        what: to do, in a few words.
        told: the same whole, with the interval where there is one.
    """

    short: bool
    gain_ms: float
    fps: float
    what: str
    told: str


def ways_to(
    chip: ChipEstimate, goal: float, advice: AdviceAnswer, smaller: ChipEstimate | None, size: str
) -> list[Way]:
    """What would bring a chip to the goal; all gains estimated.

    Args:
        chip: as it is.
        goal: frames a second.
        advice: for it.
        smaller: the chip with a smaller input; None: not tried.
        size: of that input.
    """
    if chip.fps is None or chip.time_ms is None:
        return []
    ways: list[Way] = []
    whole = chip.time_ms.value
    for row in advice.advice:
        if row.gain_ms is not None and 0 < row.gain_ms < whole:
            rate = chip.fps.value * whole / (whole - row.gain_ms)
            told = f"{RATE.text(rate)} FPS: {row.title} (−{MILLISECONDS.text(row.gain_ms)} ms)"
            ways.append(Way(rate < goal, row.gain_ms, rate, row.title, told))
    if smaller is not None and smaller.fps is not None and smaller.time_ms is not None:
        fps, gain = smaller.fps, whole - smaller.time_ms.value
        told = f"{interval_text(fps, RATE)} FPS: an input of {size}"
        ways.append(Way(fps.value < goal, gain, fps.value, f"input {size}", told))
    return sorted(ways)


_REST = 0.25
"""Seconds without another change of the recipe before the model is estimated again."""


@dataclass(frozen=True)
class Want:
    """What is looked at.

    Attributes:
        view: that is shown.
        chip: whose layers are.
        others: chips that it is compared with.
        scenario: what is varied.
    """

    view: str
    chip: str
    others: tuple[str, ...] = ()
    scenario: WhatIf = AS_IS


_Key = tuple[object, ...]


class Answers:
    """Answers about the open model; what is missing for a view is asked in the background.

    Args:
        workspace: that shows them.
        wanted: tells what is looked at now.
        changed: called when there is an answer more, or another model.

    Attributes:
        asking: whether answers are on their way.
        goal: frames a second that chips are to reach; None: none are asked for.
    """

    def __init__(
        self, workspace: Workspace, wanted: Callable[[], Want], changed: Callable[[], None]
    ) -> None:
        self._workspace = workspace
        self._wanted = wanted
        self._changed = changed
        self._about: object = None
        self._known: dict[_Key, Any] = {}
        self._judged: dict[WhatIf, tuple[Estimates, float, Estimates]] = {}  # one draw asks often
        self.asking = False
        self.goal: float | None = None

    # -- answers ---------------------------------------------------------------------------------

    def overview(self, scenario: WhatIf = AS_IS) -> Estimates | None:
        """All chips, without their layers; None before the answer, and where it failed."""
        found: Estimates | None = self._answer(("chips", scenario), Estimates)
        if scenario == AS_IS and not self._known:  # until then what the background asked
            found = self._workspace.session.estimates
        if found is None or self.goal is None:
            return found
        of, goal, last = self._judged.get(scenario, (None, None, found))
        if of is not found or goal != self.goal:
            last = judged(found, self.goal)
            self._judged[scenario] = found, self.goal, last
        return last

    def estimate(self, chip: str, scenario: WhatIf = AS_IS) -> ChipEstimate | None:
        """A chip with its layers and its memory over time."""
        estimates = self._answer(("layers", scenario, chip), Estimates)
        return estimates.chips[0] if estimates is not None and estimates.chips else None

    def advice(self, chip: str, scenario: WhatIf = AS_IS) -> AdviceAnswer | None:
        """Ways to make the model faster there."""
        return self._answer(("advice", scenario.dtype, chip), AdviceAnswer)

    def ways(self, chip: ChipEstimate) -> list[Way] | None:
        """What would bring it to the goal; None where it is not known yet, or there is none."""
        scenario, goal = self._wanted().scenario, self.goal
        if goal is None or chip.reaches in ("", "yes"):
            return None
        advice, sizes = self.advice(chip.chip, scenario), self._smaller(chip, goal)
        key = ("smaller", scenario, goal, chip.chip)
        if advice is None or (sizes and key not in self._known):
            return None
        smaller = self._answer(key, Estimates)
        size = sizes[0].rpartition("=")[2].replace(",", "x").removeprefix("1x3x") if sizes else ""
        return ways_to(chip, goal, advice, smaller.chips[0] if smaller else None, size)

    def _smaller(self, chip: ChipEstimate, goal: float) -> tuple[str, ...]:
        """The size of the input with which the chip may reach the goal."""
        if chip.fps is None or self._wanted().scenario.input_sizes:
            return ()
        return smaller_sizes(self._workspace.session.inputs, chip.fps.low / goal)

    @property
    def error(self) -> str:
        """Why an answer for what is looked at is missing, with the remedy; else empty."""
        want = self._wanted()
        varied = want.scenario != AS_IS
        for key, *_ in self._needs():
            if want.view == "Chips" and key[0] != "chips":  # its table stands without them
                continue
            if varied and AS_IS in key:  # what-if may be the way out of an error
                continue
            if isinstance(error := self._known.get(key), Exception):
                remedy = str(getattr(error, "remedy", ""))
                return f"{getattr(error, 'what', error)} {remedy}".strip()
        return ""

    def _answer(self, key: _Key, kind: type[Any]) -> Any:
        answer = self._known.get(key)
        return answer if isinstance(answer, kind) else None

    # -- asking ----------------------------------------------------------------------------------

    @property
    def model(self) -> dict[str, Any]:
        """The open model, as a request has it; empty where there is none."""
        session = self._workspace.session
        if session.container is not None:
            return {"path": session.container}
        return {"recipe": dict(session.recipe)} if session.recipe.get("model") else {}

    def forget(self) -> None:
        """Ask everything again."""
        self._known.clear()
        self._about = None

    def update(self, *, rest: bool = False) -> None:
        """Ask for what is missing; ``rest`` waits first for further changes."""
        about = self.model
        if about != self._about:
            self._about = about
            self._known.clear()
            self._changed()
        if not about or self._missing() is None:
            return
        self.asking = True

        async def questions() -> None:
            import asyncio

            if rest:
                await asyncio.sleep(_REST)
            await self._ask()

        # not a coroutine: one that is replaced before it starts would never be awaited
        work: WorkType[None] = questions
        self._workspace.run_worker(work, group="chips:estimate", exclusive=True)

    async def _ask(self) -> None:
        from engine import EngineError

        # without a view it is being taken from the screen
        while self._workspace.view and (missing := self._missing()) is not None:
            key, method, params = missing
            self._changed()
            about = self._about
            try:
                answer: object = await self._workspace.bridge.call(method, params)
            except EngineError as error:
                answer = error
            if not self._workspace.view or about != self._about:
                return
            self._known[key] = answer
        self.asking = False
        self._changed()

    def _missing(self) -> tuple[_Key, Query[Any, Any], Any] | None:
        return next((need for need in self._needs() if need[0] not in self._known), None)

    def _needs(self) -> Iterator[tuple[_Key, Query[Any, Any], Any]]:
        """What the view shows, the most important first."""
        want, model = self._wanted(), self.model
        scenarios = (want.scenario, AS_IS) if want.scenario != AS_IS else (AS_IS,)
        for scenario in reversed(scenarios):
            params = EstimateParams(**model, **vars(scenario), layers=False)
            yield ("chips", scenario), COST_ESTIMATE, params
        if not want.chip:
            return
        chips = (want.chip, *want.others) if want.view == "Compare" else (want.chip,)
        for chip in chips:
            varied = vars(replace(want.scenario, chips=(chip,)))
            params = EstimateParams(**model, **varied, spans=True)
            yield ("layers", want.scenario, chip), COST_ESTIMATE, params
        if want.view == "Advice":
            yield self._advice_of(want.chip)
        if want.view == "Chips" and self.goal is not None:
            yield from self._for_goal(want, self.goal)

    def _advice_of(self, chip: str) -> tuple[_Key, Query[Any, Any], Any]:
        dtype = self._wanted().scenario.dtype
        asked = AdviceParams(**self.model, chip=chip, dtype=dtype)
        return ("advice", dtype, chip), COST_ADVICE, asked

    def _for_goal(self, want: Want, goal: float) -> Iterator[tuple[_Key, Query[Any, Any], Any]]:
        """What chips that may miss the goal need: that under the cursor and marked ones first."""
        found = self.overview(want.scenario)
        rows = [row for row in found.chips if row.fps and row.reaches != "yes"] if found else []
        for row in sorted(rows, key=lambda row: row.chip not in (want.chip, *want.others)):
            yield self._advice_of(row.chip)
            if sizes := self._smaller(row, goal):
                other = replace(want.scenario, chips=(row.chip,), input_sizes=sizes)
                params = EstimateParams(**self.model, **vars(other), layers=False)
                yield ("smaller", want.scenario, goal, row.chip), COST_ESTIMATE, params


# Writing the report of an estimate.

_KINDS: dict[str, CostReport] = {"Chips": "chips", "Memory": "tensors", "Roofline": "roofline"}


def ask_report(workspace: Workspace, params: EstimateParams, view: str) -> None:
    """Ask for a file, then estimate and write it; what it is about depends on the view.

    Args:
        workspace: that asks.
        params: chips and what is varied, with layers and tensors over time.
        view: that is shown.
    """
    kind = _KINDS.get(view, "layers")

    def write(path: str, force: bool) -> None:
        if problem := _problem(path):
            workspace.notify(problem, severity="warning", markup=False)
            return
        then = partial(_write, workspace, path, force, kind)
        workspace.ask(COST_ESTIMATE, params, then)

    start = Path.cwd() / f"{workspace.session.stem}-{kind}.html"
    ask_new_file(workspace.app, "Report (.html, .csv, .svg)", start, write)


def _problem(path: str) -> str:
    from engine import COST_REPORTS

    known = Path(path).suffix.lower() in COST_REPORTS
    return "" if known else f"A report ends in {', '.join(COST_REPORTS)}."


def _write(
    workspace: Workspace, path: str, force: bool, kind: CostReport, estimates: Estimates
) -> None:
    from engine import EngineError, atomic_write, cost_report

    text = cost_report(estimates, Path(path).suffix, kind)
    try:
        atomic_write(Path(path), text.encode("utf-8"), overwrite=force)
    except EngineError as error:
        workspace.workbench.show_error(error)
    else:
        workspace.notify(f"Wrote {path} (estimated).", markup=False)
