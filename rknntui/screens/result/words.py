"""What Run says on its top line, below its views and where there is nothing, and can do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine import rounding_lines, sanitize
from engine.wire.board import Ran
from engine.wire.build import Simulated
from engine.wire.formats import MILLISECONDS, PROGRESS
from rknntui.keys.actions import key_text
from rknntui.screens.result.requests import SIMULATORS, Simulator, Subject
from rknntui.widgets.one_line import Fact
from rknntui.widgets.wrap import wrap

if TYPE_CHECKING:
    from engine.wire.board import LiveLook, MemoryReport
    from engine.wire.compare import Comparison
    from rknntui.session.job_view_model import JobView
    from rknntui.widgets.strips import Line

EMPTY = {
    "Layers": (
        "No layer is timed yet.\n\nA board's runtime times each layer: {result.target} chooses the "
        "board, {result.run} has them timed, {result.live} does so again and again. Timing slows "
        "the run."
    ),
    "Memory": (
        "No memory was asked for yet.\n\n{result.target} chooses a board, {result.run} asks what "
        "the model takes there: weights, tensors, all of it, and what the board has."
    ),
    "Compare": (
        "Nothing is compared yet.\n\n{result.target} chooses a board, {result.run} runs the same "
        "bytes three ways: reference (float, golden), simulator, board. The first layer in which "
        "the board does something else than the simulator is marked. Without a file for each "
        "input the first calibration sample is taken."
    ),
}
"""View -> what its table says before there is something."""

_NO_MODEL = "no model is open ({app.open} opens one)."
_ONLY_BOARD = "the simulator has no NPU to look at ({result.target} chooses a board)."
_RUNS = ("run", "layers", "live", "save")


def reason(method: str, view: str, subject: Subject) -> str:
    """Why an action cannot run now, keys as in help texts; empty when it can.

    Args:
        method: of the action.
        view: that is shown.
        subject: what would run, and where.
    """
    session, board = subject.session, subject.board
    if method in (*_RUNS, "pick", "compiled") and session.model is None:
        return _NO_MODEL
    if method in ("layers", "live", "cores") and board is None:
        return _ONLY_BOARD
    if method == "run" and view != "Outputs":
        if board is None:
            return _ONLY_BOARD
        if view == "Compare" and session.container is not None:
            return "a comparison needs the model itself, not its container; open the model."
    elif method in ("run", "save") and board is None and session.vendor:
        return "a compiled vendor model runs only on its NPU ({result.target} chooses a board)."
    if method == "compiled" and session.vendor:
        return "the open file is a compiled model."
    samples = session.container is None and session.recipe.get("dataset")
    if method == "sample" and not samples:
        return "there is no calibration dataset ({go.recipe} chooses one)."
    if method == "export" and session.container is not None:
        return "this is the container; open its model to export again."
    if method == "export" and not session.recipe.get("model"):
        return _NO_MODEL
    if method == "drill" and session.container is not None:
        return "a container has no calibration samples; open its model."
    return ""


# The line on top of Run, and what its views say below their tables.

_MANY = 4


def where(board: str | None, simulator: Simulator = SIMULATORS[0]) -> Fact:
    """The target."""
    if board is None:
        return Fact(simulator.name) if simulator.words else Fact(simulator.name, rank=3)
    name = sanitize(board, 300)
    return Fact(f"on {name}", (f"on {name[:24]}…",) if len(name) > 26 else ())


def running_facts(job: JobView) -> tuple[Fact | str, ...]:
    """How far a job is."""
    stage = job.stage
    at = f"{stage.title}, " if stage is not None else ""
    return (f"▶ {job.title}: {at}{PROGRESS.text(job.fraction)}, {key_text('job.cancel')} stops",)


def run_facts(
    subject: Subject, result: Simulated | Ran | None, *, outdated: bool
) -> tuple[Fact | str, ...]:
    """What ran, or what would run."""
    runs = f"{key_text('result.run')} runs"
    again = Fact(f"! the recipe changed since: {runs}", (f"! the recipe changed: {runs}",))
    old = (again,) if outdated else ()
    session, board = subject.session, subject.board
    if session.model is None:
        return (where(board), "no model is open") if board else ("no model is open",)
    if isinstance(result, Simulated):
        how = "quantized" if result.quantized else "float32"
        ran_in = Simulator(result.arithmetic, result.as_compiled)
        how = ", ".join((how, *ran_in.words))
        time = MILLISECONDS.text(1000 * result.seconds)
        ran = f"✓ ran {how}, simulated, in {time} ms here (measured"
        took = Fact(f"{ran}, no NPU time)", (f"{ran})", f"✓ ran {how}, simulated"))
        return (*([where(board)] if board else []), took, *old)
    if isinstance(result, Ran):
        return (_ran(result), *_versions(result), *old)
    if board is not None:
        cores = [Fact(f"cores {subject.cores}", rank=1)] if subject.cores != "auto" else []
        return (where(board), Fact(f"runs {subject.name}", rank=2), *cores)
    if session.vendor:
        chooses = f"{key_text('result.target')} chooses a board"
        return Fact("a compiled vendor model: it runs only on its NPU"), Fact(chooses, rank=1)
    at = where(board, subject.simulator)
    if session.container is not None:
        return at, "the container is simulated directly"
    mode = "runs the build of this recipe (simulated)"
    return at, Fact(f"{mode}; builds first if needed", (mode,))


def starting_facts(job: JobView) -> tuple[Fact | str, ...]:
    """How far a live run is before its first answer."""
    stage = job.stage.title if job.stage is not None else "waiting"
    return (f"▶ live: {stage}, {key_text('result.live')} stops",)


def live_facts(look: LiveLook) -> tuple[Fact | str, ...]:
    """What a live run tells now."""
    took = f"{MILLISECONDS.text(look.milliseconds)} ms with layers timed ({look.label})"
    device = sanitize(look.device, 300)
    short = device if len(device) <= 26 else f"{device[:24]}…"
    versions = [(look.chip, 1), (runtime_text(look.runtime), 2)]
    return (
        Fact(f"▶ live on {short}: {took}", (f"▶ live: {took}",)),
        *(Fact(sanitize(text, 60), rank=rank) for text, rank in versions),
    )


def _ran(result: Ran) -> Fact:
    took = "no time told by the runtime"
    if result.milliseconds is not None:
        took = f"{MILLISECONDS.text(result.milliseconds)} ms"
    device = sanitize(result.device, 300)
    short = device if len(device) <= 26 else f"{device[:24]}…"
    forms = [f"✓ ran on {at} in {took} ({result.label})" for at in dict.fromkeys((device, short))]
    return Fact(forms[0], (*forms[1:], f"✓ ran in {took} ({result.label})"))


def _versions(result: Ran) -> list[Fact]:
    facts = [
        (sanitize(result.chip, 40), 1),
        (runtime_text(result.runtime) if result.runtime else "", 2),
        (f"driver {sanitize(result.driver, 60)}" if result.driver else "", 3),
    ]
    return [Fact(text, rank=rank) for text, rank in facts if text]


def _some(names: Sequence[str]) -> str:
    """The first of some names, and how many more there are."""
    more = f" and {len(names) - _MANY} more" if len(names) > _MANY else ""
    return ", ".join(sanitize(name, 80) for name in names[:_MANY]) + more


def runtime_text(runtime: str) -> str:
    """A runtime's version; that it is emulated stands beside it already."""
    return f"runtime {sanitize(runtime, 60).removesuffix(' (emulated by rknntui)')}"


def _told(texts: Sequence[str], width: int, style: str = "dim") -> list[Line]:
    lines: list[Line] = []
    for text in texts:
        lines += [[(row, style)] for row in wrap(sanitize(text, 2000), width)]
    return lines


def note_lines(result: Simulated | Ran | None, width: int) -> list[Line]:
    """What is to be known of a run."""
    return _told(result.notes, width) if isinstance(result, Ran) else []


def layer_lines(result: Ran | LiveLook | None, error: str, width: int) -> list[Line]:
    """Why the live table stopped; how many layers, where they ran, what the timing costs."""
    lines = _told([f"✗ stopped: {error}"], width, "bad") if error else []
    if result is None:
        return lines
    rows = result.layers
    if not rows:
        return [*lines, *_told(["The runtime told of no layers.", *result.notes], width)]
    known = sum(bool(row.id) for row in rows)
    places = Counter(row.target for row in rows if row.target).most_common(_MANY)
    on = ", ".join(f"{count} on {place}" for place, count in places)
    text = f"{on}{'; ' if on else ''}{known} of {len(rows)} rows are layers of this build."
    return [*lines, *_told([text, *result.notes], width)]


def memory_lines(report: MemoryReport | None, width: int) -> list[Line]:
    """Why there are no figures, and what is to be known of them."""
    if report is None:
        return []
    device = f"{report.device}, {report.chip}, {runtime_text(report.runtime)} ({report.label})"
    lines = _told([f"On {device}."], width)
    if report.memory is None:
        why = report.reason or "not available on this runtime: it has no query for memory."
        return [*_told([why[:1].upper() + why[1:]], width, "warn"), *lines]
    return [*_told([report.memory.note] if report.memory.note else [], width), *lines]


def compared_lines(found: Comparison | None, width: int) -> list[Line]:
    """The verdict, then what the board did not give, the input, notes."""
    if found is None:
        return []
    lines = _told([found.verdict], width, "bad" if found.first else "good")
    first = next((row for row in found.layers if row.id == found.first), None)
    if first is not None and first.inside:
        lines += _told([f"Or one that the board did not give: {_some(first.inside)}."], width)
    if found.rounding is not None:
        lines += _told(found.judged or rounding_lines(found.rounding), width, "")
    sentences = [f"On {found.device}, {found.chip}, {runtime_text(found.runtime)} ({found.label})."]
    if found.missing:
        sentences.append(f"Not given by the board: {_some(found.missing)}.")
    if found.sha256:
        sentences.append(f"Input bytes of all three, SHA-256: {found.sha256}")
    return [*lines, *_told([*sentences, *found.notes], width)]
