"""What Result says on its top line and below its tables, and why an action cannot run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from engine import sanitize
from engine.wire.board import Ran
from engine.wire.build import Simulated
from engine.wire.formats import DECIBEL, DURATION, FIGURE, MILLISECONDS, PERCENT, PROGRESS
from engine.wire.table import LOW_DB
from rknntui.keys.actions import key_text
from rknntui.widgets.findings import told
from rknntui.widgets.one_line import Fact

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine.wire.accuracy import Evaluated
    from engine.wire.build import BesideFloat, SimulatedOutput
    from rknntui.screens.result.requests import Subject
    from rknntui.session.job_view_model import JobView
    from rknntui.widgets.strips import Line

_NO_MODEL = "no model is open ({app.open} opens one)."


def reason(method: str, subject: Subject) -> str:
    """Why an action cannot run now, keys as in help texts; empty when it can."""
    session, board = subject.session, subject.side == "Board"
    samples = session.container is None and session.recipe.get("dataset")
    if session.model is None:
        return _NO_MODEL
    if method in ("next_sample", "previous_sample") and not samples:
        return "there is no calibration dataset ({go.recipe} chooses one)."
    if method in ("run", "export", "next_sample", "previous_sample"):
        if board and session.boards.chosen is None:
            return "no board is the target ({app.target} chooses one)."
        if not board and session.vendor:
            return "a compiled vendor model runs only on its NPU ({result.next-view} shows Board)."
    if method == "arithmetic" and board:
        return "a board has its own arithmetic."
    return ""


def score_reason(subject: Subject) -> str:
    """Why nothing can be scored now; empty where it can."""
    session = subject.session
    if session.model is None:
        return _NO_MODEL
    if session.container is not None:
        return "a container has no calibration samples; open its model."
    if session.summary is None:
        return "there is no build yet ({app.build} builds)."
    return "" if session.summary.quantized else "the build is not quantized."


# The line on top.


def running_facts(job: JobView) -> tuple[Fact | str, ...]:
    """How far a job is."""
    stage = job.stage
    at = f"{stage.title}, " if stage is not None else ""
    return (f"▶ {job.title}: {at}{PROGRESS.text(job.fraction)}, {key_text('job.cancel')} stops",)


def run_facts(
    subject: Subject, result: Simulated | Ran | None, job: JobView | None
) -> tuple[Fact | str, ...]:
    """What ran, or what would run."""
    session = subject.session
    runs = f"{key_text('result.run')} runs"
    if session.model is None:
        return ("no model is open",)
    again = Fact(f"! the recipe or target changed since: {runs}", (f"! changed since: {runs}",))
    old = (again,) if job is not None and subject.outdated(job) else ()
    of = [] if job is None else [Fact(sanitize(Path(p).name, 60), rank=1) for p in _inputs(job)[:1]]
    if isinstance(result, Simulated):
        how = "quantized" if result.quantized else "float32"
        words = [how, *(["reference"] if result.arithmetic == "reference" else [])]
        ran = ", ".join([*words, *(["as compiled"] if result.as_compiled else [])])
        time = f"in {MILLISECONDS.text(1000 * result.seconds)} ms here (measured"
        forms = (f"✓ {ran}, simulated, {time})", f"✓ {ran}, simulated")
        return (*of, Fact(f"✓ {ran}, simulated, {time}, no NPU time)", forms), *old)
    if isinstance(result, Ran):
        return (*of, _ran(result), *_versions(result), *old)
    if subject.side == "Board":
        if session.boards.chosen is None:
            return ("no board is the target", Fact(f"{key_text('app.target')} chooses one", rank=1))
        return (f"on {sanitize(session.boards.chosen, 60)}", Fact(_file(subject), rank=1))
    if session.vendor:
        return ("a compiled vendor model: it runs only on its NPU",)
    if session.container is not None:
        return (f"{runs} the container (simulated)",)
    mode = f"{runs} the build of this recipe (simulated)"
    return (Fact(f"{mode}; builds first if needed", (mode,)),)


def _inputs(job: JobView) -> Sequence[str]:
    inputs = job.params.get("inputs")
    return inputs if isinstance(inputs, list | tuple) else ()


def _file(subject: Subject) -> str:
    path = subject.model["path"] or str(subject.session.recipe.get("model") or "model")
    return f"{key_text('result.run')} runs {sanitize(Path(path).name, 60)}"


def _ran(result: Ran) -> Fact:
    took = "no time told by the runtime"
    if result.milliseconds is not None:
        took = f"{MILLISECONDS.text(result.milliseconds)} ms"
    device = sanitize(result.device, 300)
    short = device if len(device) <= 26 else f"{device[:24]}…"
    forms = [f"✓ ran on {at} in {took} ({result.label})" for at in dict.fromkeys((device, short))]
    return Fact(forms[0], (*forms[1:], f"✓ ran in {took} ({result.label})"))


def _versions(result: Ran) -> list[Fact]:
    runtime = sanitize(result.runtime, 60).removesuffix(" (emulated by rknntui)")
    facts = [
        (sanitize(result.chip, 40), 1),
        (f"runtime {runtime}" if runtime else "", 2),
        (f"driver {sanitize(result.driver, 60)}" if result.driver else "", 3),
    ]
    return [Fact(text, rank=rank) for text, rank in facts if text]


def score_facts(result: Evaluated | None, labels: str) -> tuple[Fact | str, ...]:
    """What was scored."""
    if result is None:
        return ("not scored yet",)
    name = sanitize(Path(labels).name, 80)
    agreement = result.agreement
    agree = "" if agreement is None else f"{PERCENT.text(agreement)} % with the answer of float"
    samples = f"{result.samples:,} samples"
    took = f"{DURATION.text(result.seconds)} (measured)"
    return (Fact(f"{samples} of {name}", (samples,)), agree, Fact(took, rank=1))


# What is said below the outputs: how far they are from float, and the simulator from the board.

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
        name, beside, own = sanitize(output.name, 60), output.beside, simulated.get(output.name)
        if beside is not None:
            text, good = _from_float(output, beside)
            lines += told([f"{name} {text}"], width, "" if good else "warn")
        elif own is not None and output.top and own.top:
            same = output.top[0].index == own.top[0].index
            text = f"the largest value is at {output.top[0].index}"
            where = "too" if same else f"at {own.top[0].index}"
            sign = "" if same else "! "
            text = f"{sign}{name}: {text}, in the simulator {where}."
            lines += told([text], width, "" if same else "warn")
    return lines


def _distance(output: SimulatedOutput) -> float:
    known = output.beside is not None and output.beside.sqnr_db is not None
    return output.beside.sqnr_db if known else float("inf")  # type: ignore[union-attr, return-value]


def _from_float(output: SimulatedOutput, beside: BesideFloat) -> tuple[str, bool]:
    """Words on the distance from float, and whether it is small."""
    if beside.sqnr_db is None:
        return "is equal to float.", True
    words = [f"is {DECIBEL.text(beside.sqnr_db)} dB from float ({output.label})."]
    mine, theirs = output.top[:_FIRST], beside.top[:_FIRST]
    if not mine or not theirs:
        return words[0], beside.sqnr_db >= LOW_DB
    here, there = FIGURE.text(mine[0].value), FIGURE.text(theirs[0].value)
    same = mine[0].index == theirs[0].index
    if same:
        words.append(f"The largest value is at {mine[0].index} in both: {here}, in float {there}.")
    else:
        at = f"at {mine[0].index} ({here}), in float at {theirs[0].index} ({there})"
        words.insert(0, f"! has its largest value {at}; it")
    common = len({value.index for value in mine} & {value.index for value in theirs})
    if common < len(mine):
        words.append(f"Of the {len(mine)} largest, {common} are the same.")
    return " ".join(words), same and beside.sqnr_db >= LOW_DB
