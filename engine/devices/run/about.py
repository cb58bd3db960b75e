"""What is told of a board: what it is and does, what runs models there, whether a model fits it.

Nothing is written to the board.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from engine.base.errors import ContainerError, RuntimeLibraryError
from engine.devices.board.model_file import ModelFile, model_file, require_fit
from engine.devices.connected import connected
from engine.devices.doctor.case import Case
from engine.devices.doctor.resource_checks import check_memory, check_room
from engine.devices.doctor.software_checks import check_recipe, check_versions
from engine.devices.probe.identify import board_facts
from engine.devices.probe.state import read_state
from engine.devices.probe.versions import Component, Versions, read_versions
from engine.wire.board import About, AboutParams, VersionRow
from engine.wire.doctor import Check


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
