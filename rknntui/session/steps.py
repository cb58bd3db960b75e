"""The steps from a model to a board, and how far each is: what tabs and Overview say.

Everything is told by the session alone. A sign says the state without colour; an absent thing, one
that is being asked for and one that was asked for in vain have signs of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Literal

from engine import human_bytes, sanitize, shape_text, sqnr_rank, sqnr_text
from engine.wire.formats import COUNT, DURATION, PERCENT, PROGRESS, RATE
from engine.wire.names import VENDOR_KINDS
from rknntui.session.promotion import layers_of
from rknntui.session.target import changed_since, toolkit_of

if TYPE_CHECKING:
    from engine import Finding
    from engine.wire.compile import Compiled
    from engine.wire.cost import ChipEstimate
    from rknntui.session.job_view_model import JobView
    from rknntui.session.state import Session

State = Literal[
    "absent", "loading", "stale", "running", "done", "finding", "failed", "estimated", "possible"
]
STATES: dict[State, tuple[str, str]] = {
    "absent": ("–", "dim"),
    "loading": ("…", "dim"),
    "stale": ("●", "warn"),
    "running": ("▶", "accent"),
    "done": ("✓", "good"),
    "finding": ("!", "warn"),
    "failed": ("✗", "bad"),
    "estimated": ("~", ""),
    "possible": ("○", ""),
}
"""State -> its sign, and the sign's style of :class:`rknntui.widgets.strips.Painted`."""
_NAMES = 3
"""So many names are told of a list."""


@dataclass(frozen=True)
class Step:
    """One step.

    Attributes:
        state: how far it is.
        figure: the one that matters; empty where there is none.
        text: one line of what is known.
        action: id of the action that does it next; empty where nothing is to be done.
        does: what that action does, in words.
        seconds: that it takes about, as it took the last time; None where that is not known.
        name: model, config, dataset, build, accuracy, estimate, compile, board or result.
    """

    state: State
    figure: str = ""
    text: str = ""
    action: str = ""
    does: str = ""
    seconds: float | None = None
    name: str = ""

    @property
    def sign(self) -> str:
        """One character that stands for the state."""
        return STATES[self.state][0]

    @property
    def style(self) -> str:
        """That of the sign."""
        return STATES[self.state][1]


def steps(session: Session) -> tuple[Step, ...]:
    """All steps in their order."""
    told = {name: _common(name, session) or tell(session) for name, tell in _STEPS.items()}
    return tuple(replace(step, name=name) for name, step in told.items())


def _common(name: str, session: Session) -> Step | None:
    """What is so of several steps: nothing is open, or a file that is built already."""
    if name in ("model", "board"):
        return None
    if session.container is not None:
        if name in ("config", "dataset", "build"):
            return Step("done", "", "in the container")
        if name == "compile":
            done = Step("done", "", "compiled by the vendor's toolkit")
            return done if session.vendor else Step("absent", "", "open the model to compile it")
        return None
    return None if session.recipe.get("model") else Step("absent")


def _of_job(
    job: JobView | None, again: tuple[str, str, float | None], *, had: bool = False
) -> Step | None:
    """A step while its job runs, and where it failed; ``had``: an older result stands still."""
    if job is not None and job.running:
        done = PROGRESS.text(job.fraction)
        stage = f" · {job.stage.title.lower()}" if job.stage is not None else ""
        return Step("running", done, f"{done}{stage}")
    if job is not None and (job.state == "failed" or (job.state == "cancelled" and not had)):
        what = sanitize(str((job.error or {}).get("what", "")), 200)
        return Step("failed", "", f"{job.state}: {what}".rstrip(": "), *again)
    return None


def _checked(figure: str, text: str, findings: Iterable[Finding]) -> Step:
    """A step that is done, and how much was found in it that is more than a note."""
    worse = sum(finding.severity != "info" for finding in findings)
    if worse:
        return Step("finding", figure, f"{text} · {_count(worse, 'finding')}")
    return Step("done", figure, text)


def next_step(known: Sequence[Step]) -> Step:
    """Of all steps the one that is to be done next; the last one where all are done."""
    for step in known:
        told = (step.name, step.state)
        if step.name == "accuracy" or told == ("config", "stale"):
            continue  # what is not saved holds nothing up
        todo = step.action and step.state in ("absent", "stale", "failed", "possible")
        if todo or step.state == "running" or told == ("model", "loading"):
            return step
    return known[-1]


# -- the steps -------------------------------------------------------------------------------------


def _model(session: Session) -> Step:
    model = session.model
    if session.opening:
        return Step("loading", "", f"opening {sanitize(session.opening, 60)}")
    if model is None:
        return Step("absent", "", "no model is open", "app.open", "open a file")
    inputs = ", ".join(shape_text(port.shape) for port in model.inputs[:_NAMES])
    parts = [
        sanitize(PurePath(model.path).name, 60),
        f"input {inputs}" if inputs else "",
        f"{COUNT.text(model.nodes)} nodes" if model.nodes else "",
        f"{COUNT.text(model.parameters)} parameters" if model.parameters else "",
        sanitize(model.format, 30),
    ]
    text = " · ".join(part for part in parts if part)
    if model.kind in VENDOR_KINDS:
        return Step("done", "", f"{text} · the vendor's file: to be looked at and run")
    if model.loaded is False:
        return Step("possible", "", f"{text} · not loaded", "model.load", "load it")
    return _checked(COUNT.text(model.nodes), text, model.findings)


def _config(session: Session) -> Step:
    recipe = session.recipe
    quantizes = _quantizes(session)
    figure = session.value("quantized_dtype") if quantizes else "float16"
    problems = {n: why for n, why in session.all_problems.items() if n != "dataset"}
    if problems:
        name, why = next(iter(problems.items()))
        text = f"{_count(len(problems), 'problem')}: {name}: {sanitize(why, 120)}"
        does = "show the problem"
        return Step("failed", str(len(problems)), text, "overview.problem", does)
    unsaved = session.recipe_path is not None and session.dirty
    said = [figure] + ["not saved"] * unsaved
    if quantizes and (own := layers_of(recipe)):
        said.append(f"{_count(len(own), 'layer')} promoted")
    said += [session.value("quantized_algorithm")] * quantizes
    pixels = {
        name: recipe[f"{name}_values"] for name in ("mean", "std") if f"{name}_values" in recipe
    }
    said += [f"{name} {_values(value)}" for name, value in pixels.items()]
    if not pixels:
        said.append("no mean and std: pixels reach the network as 0 to 255")
    state: State = "stale" if unsaved else "done"
    return Step(state, figure, " · ".join(said), "go.recipe", "show the options")


def _dataset(session: Session) -> Step:
    if not _quantizes(session):
        return Step("done", "", "not needed: the recipe does not quantize")
    path = str(session.recipe.get("dataset") or "")
    choose = "overview.samples", "choose samples"
    if not path:
        return Step("absent", "", "no calibration samples", *choose)
    name, facts = sanitize(PurePath(path).name, 60), session.dataset
    if (why := session.asked.get("dataset")) and facts is None:
        return Step("failed", "", f"{name} · {sanitize(why, 200)}", *choose)
    if facts is None:
        return Step("loading", "", f"{name} · reading")
    figure, samples = COUNT.text(facts.samples), _count(facts.samples, "sample")
    if facts.problems:
        first, *rest = facts.problems
        more = f" and {len(rest)} more" if rest else ""
        what = f"line {first.line}: {sanitize(first.what, 120)}{more}"
        text = f"{name} · {what} · {samples}"
        return Step("failed", figure, text, "go.recipe", "show the files")
    if facts.findings:
        what = sanitize(facts.findings[0].what, 100).removesuffix(".")
        return Step("finding", figure, f"{name} · {what} · {samples}")
    return Step("done", figure, f"{name} · {samples}")


def _build(session: Session) -> Step:
    summary = session.summary
    seconds = _took(session, "build")
    build = "app.build", "build", seconds
    if step := _of_job(session.jobs.newest("build", ours=True), build, had=summary is not None):
        return step
    if summary is None:
        ready = not session.all_problems and _dataset(session).state != "absent"
        return Step("possible" if ready else "absent", "", "not built yet", *build)
    size = human_bytes(summary.container_bytes)
    if session.stale:
        return Step("stale", size, f"{changed_since(session)} changed since", *build)
    took = "" if seconds is None else f" · took {DURATION.text(seconds)} (measured)"
    kind = f"{summary.quantized_dtype} {summary.quantized_algorithm}"
    text = f"{kind if summary.quantized else 'float'} · container {size}{took}"
    return _checked(size, text, summary.findings)


def _accuracy(session: Session) -> Step:
    from engine.wire.table import LOW_DB

    summary = session.summary
    if summary is None:
        return Step("absent", "", "needs a build")
    if not summary.quantized:
        return Step("done", "float", "not quantized: as the float model")
    outputs = sorted(summary.outputs, key=lambda output: sqnr_rank(output.sqnr_db))
    lowest = outputs[0].sqnr_db if outputs else None
    figure = sqnr_text(lowest)
    said = [f"{sanitize(one.name, 24)} {sqnr_text(one.sqnr_db)}" for one in outputs[:_NAMES]]
    more = len(outputs) - len(said)
    if more > 0:
        said.append(f"{more} more")
    over = _count(summary.samples, "sample")
    text = f"{'  '.join(said)} simulated over {over}{_scores(session)}"
    show = "go.layers", "show the layers"
    if session.stale:
        return Step("stale", figure, f"{text} · of the build before", *show)
    low = lowest is not None and lowest < LOW_DB
    return Step("finding" if low else "done", figure, text, *show)


def _estimate(session: Session) -> Step:
    chip = session.chip
    if not chip:
        text = "no chip"
        if session.estimates is not None:
            rates = [(row.fps.value, row.chip) for row in session.estimates.chips if row.fps]
            for rate, best in sorted(rates)[-1:]:
                text += f" · fastest {best}: {RATE.text(rate)} FPS estimated"
        return Step("absent", "", text, "app.target", "choose a chip")
    row = estimate_of(session)
    why = session.asked.get("estimate")
    if row is None and why:
        return Step("failed", "", f"{chip} · {sanitize(why, 200)}")
    if row is None:
        return Step("loading", "", f"{chip} · estimating")
    if row.fps is None:
        why = f"{chip} · {sanitize(row.problem, 160)}"
        return Step("finding", "no", why, "go.chips", "show the chips")
    fps = f"{RATE.text(row.fps.value)} FPS"
    text = f"{chip} {fps} ({RATE.text(row.fps.low)}–{RATE.text(row.fps.high)}) estimated"
    if row.memory is not None:
        text += f" · {human_bytes(row.memory.total)}"
    if row.cpu_layers:
        text += f" · {_count(row.cpu_layers, 'layer')} on the CPU"
    return Step("estimated", fps, text, "go.chips", "show the chips")


def _compile(session: Session) -> Step:
    chip, name = session.chip, PurePath(session.compiled or "").name
    job = session.jobs.newest("compile", ours=True)
    compile_ = "overview.compile", f"compile for {chip}", _took(session, "compile")
    made = compiled_of(session)
    if step := _of_job(job, compile_, had=made is not None):
        return step
    ready: State = "possible" if session.summary is not None and chip else "absent"
    if made is not None and made[1].problem:
        return Step("failed", "", sanitize(made[1].problem, 200), *compile_)
    if made is not None:
        job, compiled = made
        size = human_bytes(compiled.size)
        text = f"{sanitize(PurePath(compiled.path).name, 60)} · {size} · {compiled.toolkit}"
        if job.recipe != session.recipe:
            return Step("stale", size, f"{text} · of another recipe", *compile_)
        return Step("done", size, text)
    if name:
        return Step("done", "", f"{sanitize(name, 60)}, chosen", *compile_)
    if chip and session.toolkits is not None and toolkit_of(session) is None:
        return _export(session, f"no toolkit for {chip} here", ready)
    return Step(ready, "", f"not compiled for {chip} yet" if chip else "needs a chip", *compile_)


def _export(session: Session, why: str, ready: State) -> Step:
    """In the place of a compilation: a file for a toolkit elsewhere."""
    job = session.jobs.newest("export", ours=True)
    if job is None or job.state != "done":
        return Step(ready, "", f"{why}: export for one elsewhere", "overview.export",
                    "export")  # fmt: skip
    name = sanitize(PurePath(str(job.params.get("path"))).name, 60)
    return Step("finding", "", f"{name} exported · {why}", "go.chips", "install one")


def _board(session: Session) -> Step:
    show = ("go.bench", "show the boards")
    if session.boards.chosen is None:
        return Step("absent", "", "no board is chosen", *show)
    board, bench = sanitize(session.boards.chosen, 60), session.bench
    if bench is not None and bench.board == session.boards.chosen and (bench.running or bench.fps):
        figure = "" if bench.fps is None else f"{RATE.text(bench.fps)} FPS"
        said = f"{figure} {bench.label}" if figure else "a run starts"
        state: State = "failed" if bench.lost else "running" if bench.running else "done"
        why = f" · {sanitize(bench.lost, 200)}" if bench.lost else ""
        return Step(state, figure, f"{board} · {said}{why}", "go.bench", "show the run")
    if session.boards.listing is None:
        return Step("possible", "", f"{board} · not looked for", "go.bench", "look for it")
    device = session.boards.device
    if device is None or not device.usable:
        why = "not there" if device is None else sanitize(device.what, 120)
        return Step("failed", "", f"{board} · {why}", *show)
    if not session.boards.met:
        return Step("possible", "", f"{board} · not asked yet", *show)
    return Step("done", "", board)


def _result(session: Session) -> Step:
    show = "go.result", "run a sample", None
    job = session.jobs.newest("simulate", "board.run", ours=True)
    if step := _of_job(job, show):
        return step
    if job is not None and job.state == "done":
        where = "on a board" if job.method == "board.run" else "simulated"
        return Step("done", "", f"a sample ran, {where}", *show)
    ready = session.summary is not None
    return Step("possible" if ready else "absent", "", "no sample ran yet", *show)


_STEPS: dict[str, Callable[[Session], Step]] = {
    "model": _model, "config": _config, "dataset": _dataset, "build": _build,
    "accuracy": _accuracy, "estimate": _estimate, "compile": _compile, "board": _board,
    "result": _result,
}  # fmt: skip


# -- what they say ---------------------------------------------------------------------------------


def estimate_of(session: Session) -> ChipEstimate | None:
    """The estimate for the target's chip; None before there is one."""
    return None if session.estimates is None else session.estimates.of(session.chip.lower())


def placement(session: Session) -> tuple[Finding, ...]:
    """The target's layers that are not on its NPU, and what its compiler is known to fail at; empty
    before an estimate.
    """
    row = estimate_of(session)
    layers = (one.estimated for one in session.layers.of("estimated"))
    return () if row is None else replace(row, layers=tuple(filter(None, layers))).findings


def compiled_of(session: Session) -> tuple[JobView, Compiled] | None:
    """The newest compilation for the target's chip, with its job."""
    from engine.wire.compile import COMPILE

    last = session.last_of(COMPILE)
    if last is None:
        return None
    job, models = last
    return next(((job, row) for row in models.chips if row.chip == session.chip.lower()), None)


def _quantizes(session: Session) -> bool:
    return bool(session.recipe.get("do_quantization", True))


def _scores(session: Session) -> str:
    """The first score over labelled samples, before and after."""
    from engine.wire.accuracy import EVALUATE

    last = session.last_of(EVALUATE)
    if last is None or not last[1].scores:
        return ""
    first = last[1].scores[0]
    if first.golden is None or first.simulated is None:
        return ""
    before, after = PERCENT.text(first.golden), PERCENT.text(first.simulated)
    return f" · {sanitize(first.name, 20)} {before} → {after} % over {last[1].samples}"


def _took(session: Session, method: str) -> float | None:
    job, _ = session.last.get(method, (None, None))
    return None if job is None else job.seconds


def _values(value: object) -> str:
    """``127.5 127.5 127.5``, once where they are the same; of several inputs the first's."""
    first = value[0] if isinstance(value, list | tuple) and value else value
    row = list(first) if isinstance(first, list | tuple) else [first]
    texts = [sanitize(str(part), 20).removesuffix(".0") for part in row]
    return texts[0] if len(set(texts)) == 1 else " ".join(texts[:4])


def _count(number: int, what: str) -> str:
    return f"{COUNT.text(number)} {what}" if number == 1 else f"{COUNT.text(number)} {what}s"
