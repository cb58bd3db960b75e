"""``rknntui doctor``."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import click

from engine import EngineError, Event, answer_lines, machine_checks, worker_checks
from engine.wire.codec import encode
from engine.wire.devices import DEVICES_EXAMINE, EXAMINED, ExamineParams
from engine.wire.doctor import Check
from rknntui.cli.flags import json_flag
from rknntui.cli.output import emit
from rknntui.cli.progress import Narrator
from rknntui.cli.request import request_flags, values_for
from rknntui.cli.session import with_worker
from rknntui.cli.verb import ask, described


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
    checks: list[Check] = []

    def show(check: Check) -> None:
        """Tell it as soon as it is done; as JSON all are told at the end."""
        checks.append(check)
        if not as_json:
            emit(None, answer_lines(check), as_json=False)

    if asked.device is None:
        for check in machine_checks():
            show(check)
        found = _worker_checks()
    else:
        narrator = Narrator()

        def told(event: Event) -> None:
            part = EXAMINED.of(event)
            narrator(event) if part is None else show(part)

        board = replace(asked, test=asked.model is not None and not no_test)
        examined = with_worker(lambda session: session.run(DEVICES_EXAMINE, board), told)
        found = list(examined.checks[len(checks) :])
    for check in found:
        show(check)
    bad = [check for check in checks if check.state == "bad"]
    data = {"ok": not bad, "checks": [encode(check) for check in checks]}
    problems = f"{len(bad)} problem{'s' if len(bad) != 1 else ''}"
    emit(data, problems if bad else "everything in order", as_json=as_json)
    if bad:
        raise click.exceptions.Exit(1)


def _worker_checks() -> list[Check]:
    try:
        return with_worker(
            lambda session: worker_checks(partial(ask, session)), Narrator(quiet=True)
        )
    except EngineError as error:  # there is none
        return [Check.of_error("worker", error)]
