"""A board's doctor: what to look at, in the order in which one searches a fault.

Transport, chip, server, runtime, driver, device files, agent, versions, conflicts, room, memory,
test tensor. It reads and never changes a board: what would change one is listed as commands for the
user. Its checks are those of ``rknntui doctor``, so that one picture shows both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from engine.base.errors import (
    DeviceError,
    EngineError,
    JobCancelledError,
)
from engine.base.text import sanitize
from engine.devices.board.program import find_agent
from engine.devices.doctor.case import Case, TestTensor
from engine.devices.doctor.resource_checks import (
    check_conflicts,
    check_memory,
    check_room,
    device_files,
)
from engine.devices.doctor.software_checks import (
    check_driver,
    check_recipe,
    check_runtime,
    check_server,
    check_versions,
)
from engine.devices.probe.compatibility import ModelFacts
from engine.devices.probe.identify import identify
from engine.devices.probe.state import read_state
from engine.devices.probe.versions import read_versions
from engine.devices.transport import UNREACHABLE, Transport
from engine.facts import chips
from engine.wire.doctor import Check

STEPS = (
    "transport",
    "chip",
    "server",
    "runtime",
    "driver",
    "device files",
    "agent",
    "versions",
    "ntb and adb",
    "room",
    "memory",
    "test tensor",
)
"""Names of the checks, in their order."""


def diagnose(
    transport: Transport,
    *,
    model: ModelFacts | None = None,
    test: TestTensor | None = None,
    proc: Path = Path("/proc"),
    unread: bool = False,
    recipe_chip: str | None = None,
) -> Iterator[Check]:
    """Examine a board; what is wrong with it is in the checks, never an exception.

    Args:
        transport: the way to it.
        model: that is to run there: versions, chip and room are compared with it.
        test: runs the last step; without it that step is skipped.
        proc: ``/proc`` of this machine, where a proxy of the vendor's may run.
        unread: a model was given, and it cannot be read.
        recipe_chip: of a recipe that is open; compared where there is no model.

    Yields:
        One or more for each of :data:`STEPS`, in their order, as soon as they are done.

    Raises:
        JobCancelledError: or whatever else ``test`` raises that is no fault.
    """
    case = Case(transport, model, test, proc, unread=unread, recipe_chip=recipe_chip)
    done: list[Check] = []
    try:
        for check in _steps(case, done):
            done.append(check)
            yield check
    except JobCancelledError:
        raise
    except EngineError as error:
        yield from _broken_off(done, error)


def _steps(case: Case, done: Sequence[Check]) -> Iterator[Check]:
    """All steps; ``done`` has the checks that were yielded."""
    case = replace(case, identity=identify(case.transport))
    yield from _transport(case)
    yield from _chip(case)
    yield from check_recipe(case)
    versions = read_versions(case.transport, case.chip, case.identity.generation)
    case = replace(case, versions=versions)
    for step in _READING_STEPS:
        yield from step(case)
    case = replace(case, state=read_state(case.transport, case.chip))
    yield from check_memory(case)
    yield from _test(case, done)


def _broken_off(checks: Sequence[Check], error: EngineError) -> Iterator[Check]:
    """The step that the board did not answer, and those that were not looked at then."""
    done = {check.name for check in checks}
    left = [name for name in STEPS if name not in done]
    yield Check.of_error(left[0] if left else STEPS[-1], error)
    for name in left[1:]:
        yield Check(name, "skipped", "the board does not answer")


def _transport(case: Case) -> Iterator[Check]:
    transport, identity = case.transport, case.identity
    name = sanitize(transport.name, 80)
    about = (
        identity.model,
        identity.system,
        f"kernel {identity.kernel}" if identity.kernel else "",
    )
    summary = f"{transport.kind} {name} answers: {', '.join(part for part in about if part)}"
    if identity.emulated:
        summary += " (emulated)"
    over_network = transport.kind == "adb" and ":" in name and not name.startswith("127.")
    if over_network:
        remedy = "adb over a network asks for no password: use it in a network that you trust."
        yield Check("transport", "note", summary, remedy)
    else:
        yield Check("transport", "ok", summary)


def _chip(case: Case) -> Iterator[Check]:
    identity = case.identity
    if identity.chip is not None:
        summary = identity.soc
        if identity.soc != identity.chip:
            summary += f", treated as {identity.chip}"
        if identity.thirty_two_on_64:
            summary += f"; {identity.userland} programs on a kernel for {identity.machine}"
        yield Check("chip", "ok", summary)
        return
    listed = ", ".join(identity.compatible[:8]) or "nothing"
    known = ", ".join(facts.name for facts in chips())
    yield Check(
        "chip",
        "bad",
        f"not recognised; the board says {listed}",
        f"{identity.note} Known are {known}.",
    )


def _device_files(case: Case) -> Iterator[Check]:
    if case.identity.emulated:
        yield Check("device files", "skipped", "an emulated board has none")
        return
    yield device_files(case.transport, case.identity.generation)


def _agent(case: Case) -> Iterator[Check]:
    """What runs models on the board."""
    try:
        agent = find_agent(case.transport)
    except UNREACHABLE:
        raise
    except DeviceError as error:
        yield Check.of_error("agent", error)
        return
    yield Check("agent", "ok", f"{sanitize(str(agent.path), 200)}, for {agent.elf}")


def _test(case: Case, before: Iterable[Check]) -> Iterator[Check]:
    name = "test tensor"
    hindered = [
        c.name for c in before if c.state == "bad" and c.name in ("runtime", "driver", "agent")
    ]
    if case.test is None:
        asked = "it was not asked for" if case.model else "there is no model to run"
        asked = "the model cannot be read" if case.unread else asked
        yield Check(name, "skipped", asked)
    elif hindered:
        yield Check(name, "skipped", f"{' and '.join(hindered)} first")
    else:
        try:
            said = case.test(case.transport)
            yield said if isinstance(said, Check) else Check(name, "ok", sanitize(said, 300))
        except DeviceError as error:
            yield Check.of_error(name, error)


_READING_STEPS = (
    check_server,
    check_runtime,
    check_driver,
    _device_files,
    _agent,
    check_versions,
    check_conflicts,
    check_room,
)
