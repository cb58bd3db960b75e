"""A board told of and examined for a front end: what it is, and the doctor step by step."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np

from engine.base.errors import ContainerError, DeviceError, RuntimeLibraryError
from engine.base.text import sanitize, shape_text
from engine.devices.board.model_file import ModelFile, model_file, require_fit
from engine.devices.board.runtime import BoardRuntime
from engine.devices.board.tensors import BoardOutput, zero_input
from engine.devices.connected import choose, connected
from engine.devices.doctor.case import Case, TestTensor
from engine.devices.doctor.diagnose import diagnose
from engine.devices.doctor.resource_checks import check_memory, check_room
from engine.devices.doctor.software_checks import check_recipe, check_versions
from engine.devices.probe.identify import EMULATED_MARK, board_facts
from engine.devices.probe.reading import read_bytes
from engine.devices.probe.state import read_state
from engine.devices.probe.versions import Component, Versions, read_versions
from engine.devices.transport import Transport
from engine.devices.transports import reach
from engine.wire.board import About, AboutParams, VersionRow
from engine.wire.devices import ExamineParams
from engine.wire.doctor import Check


def examine_board(
    params: ExamineParams, check: Callable[[], object] = lambda: None
) -> Iterator[Check]:
    """Examine a board; what is wrong is in the checks. Nothing of the board is changed.

    Args:
        params: the board, and a model that is to run there.
        check: called while the model runs; what it raises ends the examination.

    Yields:
        The checks as soon as they are done.

    Raises:
        UsageError: it is not the address of a board, or there are several.
        JobCancelledError: or whatever else ``check`` raises.
    """
    model: ModelFile | None = None
    of_model: list[Check] = []
    if params.model is not None:
        try:
            model = model_file(Path(params.model))
            of_model.append(Check("model", "ok", _about(model)))
        except ContainerError as error:
            of_model.append(Check.of_error("model", error))
    try:
        board = reach(choose(params.device))
    except DeviceError as error:
        yield from (Check.of_error("transport", error), *of_model)
        return
    with closing(board):
        test = zero_run(model.path, check) if params.test and model is not None else None
        unread = model is None and params.model is not None
        steps = diagnose(board, model=model, test=test, unread=unread, recipe_chip=params.chip)
        # a login that fails is the first line; the model is told of behind it
        yield next(steps)
        yield from of_model
        yield from steps


def _about(model: ModelFile) -> str:
    name = model.name
    if model.ours:
        return f"{name} is a container of this program, which emulated boards run"
    built = f", built by toolkit {model.toolkit}" if model.toolkit else ""
    hidden = ", encrypted" if model.encrypted else ""
    return f"{name} is for {model.words}{built}{hidden}"


_SHOWN = 4


def zero_run(model: Path, check: Callable[[], object]) -> TestTensor:
    """What runs a model once on a board, with zeros for its inputs.

    Args:
        model: a compiled model; of an emulated board also a container of ours.
        check: called ten times a second; what it raises ends the run.
    """

    def test(transport: Transport) -> Check:
        with BoardRuntime(transport, check=check) as runtime:
            opened = runtime.open(model)
            result = runtime.run([zero_input(attributes) for attributes in opened.inputs])
        took = statistics.median(result.run_us or result.wall_us) / 1000
        ranges = "; ".join(_told(result.outputs))
        emulated = read_bytes(transport, EMULATED_MARK, 64) is not None
        label = "emulated" if emulated else "measured"
        library = sanitize(opened.library, 120)
        said = f"runs with zeros in {took:.3f} ms ({label}) by {library}: {ranges}"
        if all(np.isfinite(output.array).all() for output in result.outputs):
            return Check("test tensor", "ok", said)
        remedy = "Outputs that are not finite often come from float16, whose largest number is "
        remedy += "65504: run a sample of yours, and compare it with the simulator."
        return Check("test tensor", "note", said, remedy)

    return test


def _told(outputs: Sequence[BoardOutput]) -> Iterator[str]:
    for output in outputs[:_SHOWN]:
        finite = output.array[np.isfinite(output.array)]
        name = f"{sanitize(output.name, 60) or 'output'} {shape_text(output.array.shape)}"
        lost = output.array.size - finite.size
        values = f"from {finite.min():.6g} to {finite.max():.6g}" if finite.size else "no number"
        yield f"{name} {values}" + (f", {lost} not finite" if lost else "")
    if len(outputs) > _SHOWN:
        yield f"{len(outputs) - _SHOWN} more"


# What is told of a board: what it is and does, what runs models there, whether a model fits it.
#
# Nothing is written to the board.


def about_board(params: AboutParams) -> About:
    """One look at a board, and at a model that is to run there.

    Raises:
        UsageError: it is not the address of a board.
        DeviceError: it is not there, or cannot be used.
    """
    with connected(params.device) as board:
        identity, transport = board.identity, board.transport
        versions = read_versions(transport, identity.chip, identity.generation)
        state = read_state(transport, identity.chip)
        rows, fit = list(_rows(versions)), list[Check]()
        if params.model is not None:
            try:
                model = model_file(Path(params.model))
            except ContainerError as error:
                fit.append(Check("model", "bad", error.what, error.advice))
            else:
                rows += [VersionRow("toolkit", model.toolkit, note="that built the model")]
                case = Case(transport, model, None, Path("/proc"), identity, versions, state)
                fit += _fit(model, case)
        elif params.chip is not None:
            case = Case(transport, None, None, Path("/proc"), identity, versions, state)
            fit += check_recipe(replace(case, recipe_chip=params.chip))
        facts = board_facts(str(board.address), identity)
        return About(facts, state, tuple(rows), tuple(fit))


def _rows(versions: Versions) -> Iterator[VersionRow]:
    """Driver, runtime and server; the first runtime library is the one that programs get."""
    if versions.driver is not None:
        yield _row("driver", versions.driver)
    else:
        rocket = "the kernel's own driver rocket has the NPU"
        yield VersionRow("driver", note=rocket if versions.mainline else "it cannot be read")
    if versions.runtime is None:
        yield VersionRow("runtime", note="there is none")
    for library in versions.libraries:
        hidden = library in versions.hidden
        yield _row("runtime", library, "hidden by the one before" if hidden else "")
    if versions.server is None:
        yield VersionRow("server", note="there is none; only the vendor's PC toolkit needs it")
    else:
        pids = versions.server_pids
        runs = "" if pids is None else "runs" if pids else "does not run"
        yield _row("server", versions.server, runs)


def _row(name: str, component: Component, note: str = "") -> VersionRow:
    unread = "" if component.version else "it tells no version"
    notes = [part for part in (component.name, component.build, unread, note) if part]
    return VersionRow(name, str(component.version or ""), component.path, ", ".join(notes))


def _fit(model: ModelFile, case: Case) -> Iterator[Check]:
    """The model against the board: chip and generation, versions, room, memory."""
    try:
        require_fit(model, case.chip or "", emulated=case.identity.emulated)
    except RuntimeLibraryError as error:
        yield Check("model", "bad", error.what, error.advice)
        return
    kind = "a container of this program" if model.ours else f"for {model.words}"
    yield Check("model", "ok", f"{model.name} is {kind}")
    yield from check_versions(case)
    yield from check_room(case)
    yield from check_memory(case)
