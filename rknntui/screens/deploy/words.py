"""What Deploy says on its top line and below its views, what can be done there, and why not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine import sanitize
from engine.wire.build_tables import compared_cycles, toolkit_sign
from engine.wire.formats import CHANGE, DURATION, NEARLY_ALL, PROGRESS, SIZE
from engine.wire.layers import TOLERATED, disagreement
from engine.wire.table import since
from rknntui.keys.actions import key_text, with_keys
from rknntui.screens.deploy.code import project_command
from rknntui.screens.deploy.compiling import compile_command, file_name, settings_words
from rknntui.screens.deploy.exports import export_command
from rknntui.widgets.findings import finding_lines, wrapped
from rknntui.widgets.one_line import Fact

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.wire.codegen import Generated
    from engine.wire.compile import Compiled
    from engine.wire.layers import LayerFigures
    from engine.wire.table import Record
    from engine.wire.vendor import ToolkitEnvironment
    from rknntui.screens.deploy.workspace import Deploy
    from rknntui.session.job_view_model import JobView
    from rknntui.widgets.strips import Line

_RESULT = ("Compile", "Layers", "Agreement")


APPLIES = "deploy.apply-remedy"
_ACCEPTS = "--accept-difference"
_HERE = "Here {deploy.accept} accepts the difference, then {deploy.start} writes the file."


def running_facts(job: JobView) -> tuple[Fact, ...]:
    """How far a job is."""
    stage = job.stage
    parts = [Fact(f"▶ {sanitize(job.title, 120)}"), Fact(PROGRESS.text(job.fraction))]
    if stage is not None:
        note = f" {sanitize(stage.note, 80)}" if stage.note else ""
        parts.append(Fact(f"{sanitize(stage.title, 80)}{note}", (), 1))
    state = "stopping" if job.cancelling else f"{key_text('deploy.back')} stops it"
    return (*parts, Fact(state, (), 2))


def error_lines(error: tuple[str, str, str], width: int) -> list[Line]:
    """What, likely cause and fix of an error."""
    what, cause, remedy = error
    lines = wrapped(f"✗ {what}", width, "bad")
    lines += wrapped(f"Likely cause: {cause}", width, "dim") if cause else []
    return lines + (wrapped(f"Fix: {remedy}", width, "good") if remedy else [])


def job_error(error: Mapping[str, str | int]) -> tuple[str, str, str]:
    """(what, cause, remedy) of a job's record of an error, safe to show."""
    what, cause, remedy = (
        sanitize(str(error.get(part) or ""), 2000) for part in ("what", "cause", "remedy")
    )
    return what, cause, remedy


def compiled_lines(found: Compiled | None, width: int, *, whole: bool = False) -> list[Line]:
    """What became of a chip: why nothing, or the file, totals, and what was found.

    Args:
        found: what became of it.
        width: cells.
        whole: with the files, and every finding.
    """
    if found is None:
        return []
    lines: list[Line] = []
    if found.problem:
        error = (found.problem, found.cause, found.remedy)
        what, cause, remedy = (sanitize(part, 2000) for part in error)
        lines += error_lines((f"{found.chip}: {what}", cause, remedy), width)
        lines += wrapped(with_keys(_HERE), width, "good") if _ACCEPTS in remedy else []
    # a warning stands on the first line: a low screen has four
    warnings = [finding for finding in found.findings if finding.severity != "info"]
    lines += finding_lines(warnings, width, APPLIES)
    if not found.problem:
        lines += wrapped(_totals(found), width, "")
    rest = [finding for finding in found.findings if finding.severity == "info"]
    lines += finding_lines(rest, width, APPLIES)
    if not found.problem:
        lines += wrapped(_made(found), width, "dim")
    if whole:
        for label, path in (("side file", found.side_file), ("log", found.log)):
            lines += wrapped(f"{label}: {sanitize(path, 400)}", width, "dim") if path else []
    return lines


def _totals(compiled: Compiled) -> str:
    """What the compiler printed, beside our estimate."""
    parts = []
    if compiled.total_cycles is not None:
        text = f"cycles {compiled.total_cycles:,} printed"
        if (known := compared_cycles(compiled.layers)) is not None:
            printed, estimated, count = known
            of = sum(row.total_cycles is not None for row in compiled.layers)
            moved = since(printed, estimated)
            change = "" if moved is None else CHANGE.text(moved)
            text += f", {estimated:,} estimated ({change} over {count} of {of} layers)"
        parts.append(text)
    weights = _bytes_pair("weights", compiled.weight_bytes, compiled.estimated_weight_bytes)
    internal = _bytes_pair("internal", compiled.internal_bytes, compiled.estimated_internal_bytes)
    parts += [part for part in (weights, internal) if part]
    if not parts:
        parts.append("the compiler printed no totals for this chip")
    return f"{compiled.chip}: {' · '.join(parts)}"


def _bytes_pair(label: str, printed: int | None, estimated: int | None) -> str:
    """``weights 117 KiB printed, 116 KiB estimated``; empty where nothing is known."""
    if printed is None and estimated is None:
        return ""
    parts = [
        f"{SIZE.text(value)} {word}"
        for value, word in ((printed, "printed"), (estimated, "estimated"))
        if value is not None
    ]
    return f"{label} {', '.join(parts)}"


def _made(compiled: Compiled) -> str:
    """File, size, digest, toolkit, whose quantization, time."""
    by = {"ours": "quantized here", "vendor": "quantized by the vendor", "nobody": "float16"}
    time = (
        "from the cache"
        if compiled.cached
        else f"compiled in {DURATION.text(compiled.seconds)} (measured)"
    )
    parts = [
        sanitize(compiled.path, 400),
        SIZE.text(compiled.size) if compiled.size else "",
        f"SHA-256 {compiled.sha256[:16]}…" if compiled.sha256 else "",
        sanitize(compiled.toolkit, 60),
        by[compiled.quantized_by],
        time,
    ]
    return " · ".join(part for part in parts if part)


def layer_lines(row: LayerFigures | None, found: Compiled | None, width: int) -> list[Line]:
    """How the layer under the cursor differs from our estimate, and how many do."""
    if row is None or row.compiled is None or found is None:
        return []
    rows, layer = found.layers, row.compiled
    known = [one for one in rows if one.estimated_target is not None]
    moved = sum(one.estimated_target != one.target for one in known)
    other = sum(_is_off(one.total_cycles, one.estimated_total_cycles) for one in known)
    counts = (
        f"{found.chip}: {len(rows)} rows printed, {len(known)} estimated; {moved} on another "
        f"target, {other} with other cycles (more than {100 * TOLERATED:g} %)."
    )
    where = layer.target or "?"
    parts = [f"{layer.name}: on {where}"]
    if layer.estimated_target is None:
        parts.append("no layer of our plan")
    elif layer.estimated_target != where:
        parts[0] += f", estimated on {layer.estimated_target}"
    for label, printed, estimated in (
        ("NPU cycles", layer.npu_cycles, layer.estimated_npu_cycles),
        ("cycles", layer.total_cycles, layer.estimated_total_cycles),
    ):
        if printed is not None:
            text = f"{label} {printed:,} printed"
            parts.append(text + (f", {estimated:,} estimated" if estimated is not None else ""))
    style = {"✗": "bad", "≠": "warn"}.get(disagreement(row), "")
    return wrapped(" · ".join(parts), width, style) + wrapped(counts, width, "dim")


def _is_off(printed: int | None, estimated: int | None) -> bool:
    moved = since(printed, estimated)
    return moved is not None and abs(moved) > TOLERATED


def agreement_lines(record: Record | None, width: int) -> list[Line]:
    """What the figures of the output under the cursor say; all are simulated."""
    if record is None:
        return []
    steps, equal = record["max_steps"], record["equal"]
    if steps is None:
        text = "a float output, of which few values are equal bit by bit: its cosine tells"
    elif steps == 0:
        text = "every int8 value is equal"
    else:
        share = NEARLY_ALL.text(equal)
        apart = f"{steps:,} step{'' if steps == 1 else 's'} apart"
        text = f"{share} % of the values equal, none more than {apart}"
    samples = f"{record['samples']:,} sample{'' if record['samples'] == 1 else 's'}"
    lines = wrapped(f"{record['chip']} {record['name']}, over {samples}: {text}.", width, "")
    meaning = (
        "dB: SQNR against float of the file in our reference arithmetic, and of the vendor's "
        "simulator."
    )
    return lines + wrapped(meaning, width, "dim")


def toolkit_lines(row: ToolkitEnvironment | None, width: int) -> list[Line]:
    """State, interpreter and findings of an environment."""
    if row is None:
        return []
    sign, style = toolkit_sign(row.state)
    about = {
        "ready": "its toolkit was imported",
        "unchecked": f"not imported yet; {key_text('deploy.start')} checks it",
        "unfinished": f"its making was interrupted; {key_text('deploy.install')} makes it anew",
        "broken": "a package is missing or does not fit",
        "missing": f"its folder is gone; {key_text('deploy.remove')} takes it out of the list",
    }[row.state]
    lines: list[Line] = wrapped(f"{sign} {sanitize(row.name, 60)}: {about}", width, style)
    lines += wrapped(f"Python: {sanitize(row.python, 400)}", width, "dim")
    return lines + finding_lines(row.findings, width, APPLIES)


def generated_lines(result: Generated | None, width: int) -> list[Line]:
    """Where the project is, and what a user should know."""
    if result is None:
        return []
    count = len(result.files)
    text = f"✓ {count} file{'' if count == 1 else 's'} in {sanitize(result.path, 400)}"
    return [*wrapped(text, width, "good"), *finding_lines(result.findings, width, APPLIES)]


# Why something cannot be done in Deploy now.

_NO_MODEL = "no model is open ({app.open} opens one)."
_CONTAINER = "a container is open; open its model to {} it."
_LINKS = ("node", "drill", "dtypes", "cost")


def reason(method: str, deploy: Deploy) -> str:
    """Why an action cannot run now, keys as in help texts; empty when it can."""
    views = deploy.views
    if elsewhere := deploy.other_view(method):
        return elsewhere
    if method in _LINKS:
        return "" if views.layer_rows.layer_id else "no layer of the build is under the cursor."
    if method == "back":
        job = deploy.job
        going = job is not None and job.running
        return "" if going or views.view in ("Layers", "Agreement") else "no job is running."
    if method == "run":
        compiled = deploy.targets.result
        return (
            ""
            if compiled is not None and compiled.path
            else "nothing is compiled for this chip yet."
        )
    if method == "findings":
        return _nothing_known(deploy)
    if method in ("remove", "use"):
        return "" if views.toolkits.environment is not None else "no toolkit is in the list."
    if method == "install" and _making(deploy):
        return "a toolkit is being made ({deploy.back} stops it)."
    if method in ("next_chip", "chip_before"):
        return "" if len(deploy.targets.found) > 1 else "no other chip is compiled."
    if method in ("start", "refresh"):
        return _no_start(method, deploy)
    return ""


def _making(deploy: Deploy) -> bool:
    job = deploy.job
    return job is not None and job.running and job.method.startswith("vendor.")


def _nothing_known(deploy: Deploy) -> str:
    views = deploy.views
    if views.view == "Toolkits":
        return "" if views.toolkits.environment is not None else "no toolkit is in the list."
    if views.view == "Code":
        return "" if views.code.result is not None else "no project is written yet."
    return "" if deploy.targets.result is not None else "nothing is compiled for this chip yet."


def _no_start(method: str, deploy: Deploy) -> str:
    """Why what the view is for cannot begin."""
    views, session = deploy.views, deploy.session
    view = "Compile" if method == "refresh" else views.view
    if view == "Toolkits":
        known = views.toolkits.environment is not None
        return "" if known else "no toolkit is in the list ({deploy.install} installs one)."
    if view == "Export" and (views.exports.form.view or views.exports.form.of_file):
        return ""
    if session.model is None:
        return _NO_MODEL
    if view == "Code":
        return (
            ""
            if views.code.chip(session)
            else "no chip is chosen (Enter on the line chip chooses one)."
        )
    if session.container is not None:
        return _CONTAINER.format("export" if view == "Export" else "compile")
    return _no_compiler(deploy) if view != "Export" else ""


def _no_compiler(deploy: Deploy) -> str:
    """Why no chip that is wanted can be compiled for."""
    if not deploy.targets.wanted:
        return "no chip is chosen ({deploy.mark} marks one)."
    if deploy.toolkits.rows is None:
        return "" if deploy.toolkits.error is None else deploy.toolkits.error[0]
    generations = {
        deploy.targets.generations[name]
        for name in deploy.targets.wanted
        if name in deploy.targets.generations
    }
    named = deploy.targets.settings.toolkit
    if any(deploy.toolkits.for_generation(generation, named) for generation in generations):
        return ""
    if generations == {1}:
        return "no toolkit of generation 1 is set up (Toolkits: {deploy.adopt} uses one)."
    return "no toolkit is set up ({deploy.install} installs one)."


# The line on top of Deploy, and the command line that does what a view does.

_OF_CHIPS = ("Compile", "Layers", "Agreement")


def top_facts(deploy: Deploy) -> tuple[Fact, ...]:
    """The job that runs; else the toolkits, what would be compiled, or the open model."""
    job, view, model = deploy.job, deploy.views.view, deploy.session.model
    if job is not None and job.running:
        return running_facts(job)
    if view == "Toolkits":
        rows = deploy.toolkits.rows
        if rows is None:
            return (Fact("looking …"),)
        ready = sum(row.state == "ready" for row in rows)
        return (Fact(f"{len(rows)} toolkit{'' if len(rows) == 1 else 's'}, {ready} ready"),)
    if model is None:
        return (Fact("no model is open"),)
    if view not in _OF_CHIPS:
        return (Fact(model.name),)
    targets = deploy.targets
    quantizer, opinion, accepted, toolkit = settings_words(targets.settings)
    count = len(targets.marked)
    what = f"{count} chips marked" if count > 1 else targets.chip or "no chip"
    failed = ", ".join(name for name, row in targets.found.items() if row.problem)
    lost = Fact(f"✗ failed: {failed}" if failed else "")
    facts = (Fact(what), lost, Fact(quantizer), Fact(accepted), Fact(opinion, (), 2))
    return tuple(fact for fact in (*facts, Fact(toolkit, (), 1)) if fact.text)


def command_line(deploy: Deploy) -> list[str]:
    """The words; empty where nothing is open."""
    views = deploy.views
    match views.view:
        case "Export":
            return export_command(deploy, views.exports.form)
        case "Toolkits":
            row = views.toolkits.environment
            return ["rknntui", "vendor", *(("check", row.name) if row else ("install",))]
        case "Code":
            return project_command(views.code.project, deploy)
        case _:
            request = deploy.targets.request
            return compile_command(deploy.session, request, file_name(deploy, request.chips))
