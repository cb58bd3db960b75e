"""What Result says on its top line and below its tables, and why an action cannot run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from engine import sanitize, sqnr_rank, sqnr_text
from engine.wire.build import Simulated
from engine.wire.formats import DURATION, FIGURE, MILLISECONDS, PERCENT, PROGRESS
from engine.wire.table import LOW_DB
from rknntui.keys.actions import key_text
from rknntui.screens.result.requests import SCORE
from rknntui.widgets.one_line import Fact
from rknntui.widgets.wrap import told

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from engine.wire.accuracy import Evaluated
    from engine.wire.board import Ran
    from engine.wire.build import SimulatedOutput
    from rknntui.screens.result.requests import Subject
    from rknntui.session.job_view_model import JobView
    from rknntui.widgets.strips import Line


def reason(method: str, subject: Subject) -> str:
    """Why an action cannot run now, keys as in help texts; empty when it can."""
    session, board = subject.session, subject.side == "Board"
    chosen = session.boards.chosen
    samples = session.container is None and session.recipe.get("dataset")
    sampled = method == "step_sample"
    runs = sampled or method in ("run", "export")
    scores = subject.side == SCORE and method in ("run", "pick")
    whys = {
        "no model is open ({app.open} opens one).": session.model is None,
        "a container has no calibration samples; open its model.": scores and session.container,
        "there is no build yet ({app.build} builds).": scores and session.summary is None,
        "the build is not quantized.": scores and not getattr(session.summary, "quantized", True),
        "there is no calibration dataset ({go.recipe} chooses one).": sampled and not samples,
        "no board is the target ({app.target} chooses one).": runs and board and not chosen,
        "a compiled vendor model runs only on its NPU ({result.next-view} shows Board).": (
            runs and not board and session.vendor
        ),
        "a board has its own arithmetic.": method == "arithmetic" and board,
    }
    return next((why for why, holds in whys.items() if holds), "")


# The line on top.


def running_facts(job: JobView) -> tuple[Fact | str, ...]:
    """How far a job is."""
    at = f"{job.stage.title}, " if job.stage is not None else ""
    return (f"▶ {job.title}: {at}{PROGRESS.text(job.fraction)}, {key_text('job.cancel')} stops",)


def run_facts(
    subject: Subject, result: Simulated | Ran | None, job: JobView | None
) -> tuple[Fact | str, ...]:
    """What ran, or what would run."""
    session = subject.session
    runs = f"{key_text('result.run')} runs"
    if session.model is None:
        return ("no model is open",)
    if job is not None and result is not None:
        inputs: Iterable[str] = job.params.get("inputs") or ()  # type: ignore[assignment]
        of = [Fact(sanitize(Path(path).name, 60), rank=1) for path in inputs][:1]
        again = Fact(f"! the recipe or target changed since: {runs}", (f"! changed since: {runs}",))
        what = _simulated(result) if isinstance(result, Simulated) else _ran(result)
        return (*of, *what, *([again] if subject.outdated(job) else []))
    if subject.side == "Board":
        if session.boards.chosen is None:
            return ("no board is the target", Fact(f"{key_text('app.target')} chooses one", rank=1))
        file = Path(subject.model["path"] or str(session.recipe.get("model") or "model")).name
        board = f"on {sanitize(session.boards.chosen, 60)}"
        return (board, Fact(f"{runs} {sanitize(file, 60)}", rank=1))
    if session.vendor:
        return ("a compiled vendor model: it runs only on its NPU",)
    if session.container is not None:
        return (f"{runs} the container (simulated)",)
    mode = f"{runs} the build of this recipe (simulated)"
    return (Fact(f"{mode}; builds first if needed", (mode,)),)


def _simulated(result: Simulated) -> list[Fact]:
    how = "quantized" if result.quantized else "float32"
    how += ", reference" * (result.arithmetic == "reference") + ", as compiled" * result.as_compiled
    time = f"in {MILLISECONDS.text(1000 * result.seconds)} ms here (measured"
    forms = f"✓ {how}, simulated, {time})", f"✓ {how}, simulated"
    return [Fact(f"✓ {how}, simulated, {time}, no NPU time)", forms)]


def _ran(result: Ran) -> list[Fact]:
    took = "no time told by the runtime"
    if result.milliseconds is not None:
        took = f"{MILLISECONDS.text(result.milliseconds)} ms"
    took += f" ({result.label})"
    device = sanitize(result.device, 300)
    short = device if len(device) <= 26 else f"{device[:24]}…"
    runtime = sanitize(result.runtime, 60).removesuffix(" (emulated by rknntui)")
    versions = (
        sanitize(result.chip, 40),
        f"runtime {runtime}" if runtime else "",
        f"driver {sanitize(result.driver, 60)}" if result.driver else "",
    )
    forms = f"✓ ran on {short} in {took}", f"✓ ran in {took}"
    facts = [Fact(text, rank=rank) for rank, text in enumerate(versions, 1) if text]
    return [Fact(f"✓ ran on {device} in {took}", forms), *facts]


def score_facts(result: Evaluated | None, labels: str) -> tuple[Fact | str, ...]:
    """What was scored."""
    if result is None:
        return ("not scored yet",)
    agreement = result.agreement
    agree = "" if agreement is None else f"{PERCENT.text(agreement)} % with the answer of float"
    samples = f"{result.samples:,} samples"
    took = f"{DURATION.text(result.seconds)} (measured)"
    of = Fact(f"{samples} of {sanitize(Path(labels).name, 80)}", (samples,))
    return (of, agree, Fact(took, rank=1))


# What is said below the outputs: how far they are from float, and the board from the simulator.

_FIRST = 5


def beside_lines(
    outputs: Sequence[SimulatedOutput], simulated: Mapping[str, SimulatedOutput], width: int
) -> list[Line]:
    """The differences of a run in words, the output that is farthest off first.

    Args:
        outputs: of the run.
        simulated: name -> output of the simulator on the same sample, for a run on a board.
        width: cells.
    """
    lines: list[Line] = []
    for output in sorted(outputs, key=_distance):
        text, good = _told(output, simulated.get(output.name))
        said = f"{'' if good else '! '}{sanitize(output.name, 60)}: {text}"
        lines += told([said], width, "" if good else "warn") if text else []
    return lines


def _distance(output: SimulatedOutput) -> float:
    return sqnr_rank(None if output.beside is None else output.beside.sqnr_db)


def _told(output: SimulatedOutput, own: SimulatedOutput | None) -> tuple[str, bool]:
    """Words on how far an output is from float and from the simulator, and whether it is near."""
    beside, words = output.beside, list[str]()
    if beside is not None and beside.sqnr_db is None:
        return "equal to float.", True
    if beside is not None:
        by = f", simulated {sqnr_text(own.beside.sqnr_db)}" if own and own.beside else ""
        words.append(f"{sqnr_text(beside.sqnr_db)} from float ({output.label}){by}.")
    tops = {
        "": output.top,
        "in float ": beside.top if beside is not None else (),
        "in the simulator ": own.top if own is not None else (),
    }
    first = {whose: top[0] for whose, top in tops.items() if top}
    if "" in first and len(first) > 1:
        places = (
            f"{whose}at {one.index}: {FIGURE.text(one.value)}" for whose, one in first.items()
        )
        words.append(f"The largest value is {'; '.join(places)}.")
    if beside is not None and beside.top:
        mine, theirs = ({value.index for value in top[:_FIRST]} for top in (output.top, beside.top))
        if mine - theirs:
            words.append(f"Float shares {len(mine & theirs)} of the {len(mine)} largest.")
    same = len({one.index for one in first.values()}) < 2
    return " ".join(words), same and _distance(output) >= LOW_DB
