"""``rknntui doctor``."""

from __future__ import annotations

import click

from engine.wire.codec import encode
from engine.wire.devices import DEVICES_DOCTOR, DeviceAt
from engine.wire.doctor import DOCTOR, Check, Checks
from engine.wire.method import Nothing
from rknntui.cli.flags import json_flag
from rknntui.cli.output import emit
from rknntui.cli.progress import Narrator
from rknntui.cli.session import WorkerSession, with_worker
from rknntui.doctor import local_checks


@click.command("doctor")
@click.option(
    "--device",
    metavar="DEVICE",
    help="Check a board instead: adb:SERIAL, ssh:[USER@]HOST[:PORT] or local.",
)
@json_flag
def command(device: str | None, as_json: bool) -> None:
    """Check this machine and installation: Python, libraries, folders, worker, terminal, adb.

    With --device a board, from its cable to its driver: transport, chip, rknn_server, runtime
    library, driver, device files, versions, room and memory. It reads only; what would change the
    board is listed as commands.
    """
    checks = _board_checks(device) if device is not None else local_checks() + _worker_checks()
    bad = [c for c in checks if c.state == "bad"]
    lines = []
    for c in checks:
        lines.append(f"{c.state:<4} {c.name}: {c.found}")
        if c.remedy and c.state != "ok":
            first, *rest = c.remedy.split("\n")
            lines.append(f"     fix: {first}")
            lines += [f"          {line}" for line in rest]
    lines.append("everything in order" if not bad else f"{len(bad)} problems")
    emit({"ok": not bad, "checks": [encode(c) for c in checks]}, lines, as_json=as_json)
    if bad:
        raise click.exceptions.Exit(1)


def _board_checks(device: str) -> list[Check]:
    async def action(session: WorkerSession) -> Checks:
        return await session.call(DEVICES_DOCTOR, DeviceAt(device))

    return list(with_worker(action, Narrator()).checks)


def _worker_checks() -> list[Check]:
    from engine import EngineError

    async def action(session: WorkerSession) -> Checks:
        return await session.call(DOCTOR, Nothing())

    try:
        return list(with_worker(action, Narrator()).checks)
    except EngineError as error:
        return [Check("worker", "bad", error.what, error.remedy)]
