"""``rknntui doctor``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from engine import Event, machine_checks
from engine.wire.codec import encode
from engine.wire.devices import DEVICES_EXAMINE, EXAMINED, ExamineParams
from engine.wire.doctor import DOCTOR, Check, Checks
from engine.wire.method import Nothing
from engine.wire.vendor import (
    VENDOR_CHECK,
    VENDOR_KNOWN,
    ToolkitEnvironment,
    ToolkitName,
    ToolkitsParams,
)
from rknntui.cli.flags import json_flag
from rknntui.cli.output import emit
from rknntui.cli.progress import Narrator
from rknntui.cli.request import request_flags, values_for
from rknntui.cli.session import WorkerSession, with_worker
from rknntui.cli.verb import described


@click.command("doctor", **described(DEVICES_EXAMINE))
@request_flags(DEVICES_EXAMINE)
@click.option("--no-test", is_flag=True, help="Do not run the model.")
@json_flag
def command(no_test: bool, as_json: bool, **flags: Any) -> None:
    """Check this machine and installation: Python, libraries, folders, worker, terminal, adb, and
    the environments of the vendor's toolkits.

    With --device a board, from its cable to its driver: transport, chip, rknn_server, runtime
    library, driver, device files, versions, storage and memory; with --model also whether that
    model fits and runs there. The program writes only in its own folder on the board, and only to
    run the model; every other fix is shown as a command for you to run. The exit code is 1 if a
    problem was found.
    """
    asked = ExamineParams(**values_for(ExamineParams, flags))
    if asked.model is not None and asked.device is None:
        raise click.UsageError("--model needs --device.")
    shown = _Shown(as_json=as_json)
    if asked.device is None:
        for check in machine_checks():
            shown(check)
        for check in _worker_checks():
            shown(check)
    else:
        _examine(replace(asked, test=asked.model is not None and not no_test), shown)
    bad = [check for check in shown.checks if check.state == "bad"]
    data = {"ok": not bad, "checks": [encode(check) for check in shown.checks]}
    problems = f"{len(bad)} problem{'s' if len(bad) != 1 else ''}"
    emit(data, problems if bad else "everything in order", as_json=as_json)
    if bad:
        raise click.exceptions.Exit(1)


class _Shown:
    """The picture, which grows by each check; as JSON it is there at the end."""

    def __init__(self, *, as_json: bool) -> None:
        self.checks: list[Check] = []
        self._as_json = as_json

    def __call__(self, check: Check) -> None:
        self.checks.append(check)
        if not self._as_json:
            emit(None, _lines(check), as_json=False)


def _lines(check: Check) -> list[str]:
    lines = [f"{check.state:<4} {check.name}: {check.found}"]
    if check.state == "ok":
        return lines
    if check.remedy:
        first, *rest = check.remedy.split("\n")
        lines.append(f"     fix: {first}")
        lines += [f"          {line}" for line in rest]
    return lines + [f"     run: {command}" for command in check.commands]


def _examine(asked: ExamineParams, shown: _Shown) -> None:
    """Have the worker examine a board; each check is shown as soon as it is done."""
    narrator = Narrator()

    def told(event: Event) -> None:
        check = EXAMINED.of(event)
        if check is None:
            narrator(event)
        else:
            shown(check)

    async def action(session: WorkerSession) -> Checks:
        return await session.run(DEVICES_EXAMINE, asked)

    for check in with_worker(action, told).checks[len(shown.checks) :]:
        shown(check)


def _worker_checks() -> list[Check]:
    from engine import EngineError

    async def action(session: WorkerSession) -> list[Check]:
        report = await session.call(DOCTOR, Nothing())
        return [*report.checks, *await _toolkit_checks(session)]

    try:
        return with_worker(action, Narrator(quiet=True))
    except EngineError as error:
        return [Check.of_error("worker", error)]


async def _toolkit_checks(session: WorkerSession) -> list[Check]:
    """Each environment of a toolkit, tried: its toolkit is imported in a process of its own."""
    from engine import EngineError

    try:
        known = await session.call(VENDOR_KNOWN, ToolkitsParams())
        names = [ToolkitName(one.name) for one in known.environments]
        checks = [_toolkit_check(await session.run(VENDOR_CHECK, name)) for name in names]
    except EngineError as error:
        return [Check.of_error("vendor's toolkit", error)]
    install = "To compile for the NPU: rknntui vendor install"
    return checks or [Check("vendor's toolkit", "note", "none", install)]


def _toolkit_check(toolkit: ToolkitEnvironment) -> Check:
    name = f"toolkit {toolkit.name}"
    worst = next(iter(toolkit.findings), None)
    if worst is not None:
        return Check.of_finding(name, worst)
    package = "rknn-toolkit2" if toolkit.generation == 2 else "rknn-toolkit"
    text = f"{package} {toolkit.version}, Python {toolkit.python_version}, {toolkit.folder}"
    return Check(name, "ok", text)
