"""``rknntui doctor``."""

from __future__ import annotations

import click

from engine.wire.codec import encode
from engine.wire.doctor import DOCTOR, Check, Checks
from engine.wire.method import Nothing
from rknntui.cli.flags import json_flag
from rknntui.cli.output import emit
from rknntui.cli.progress import Narrator
from rknntui.cli.session import WorkerSession, with_worker
from rknntui.doctor import local_checks


@click.command("doctor")
@json_flag
def command(as_json: bool) -> None:
    """Check this machine and installation: Python, libraries, folders, worker, terminal, adb."""
    checks = local_checks()
    checks += _worker_checks()
    bad = [c for c in checks if c.state == "bad"]
    lines = []
    for c in checks:
        lines.append(f"{c.state:<4} {c.name}: {c.found}")
        if c.remedy and c.state != "ok":
            lines.append(f"     fix: {c.remedy}")
    lines.append("everything in order" if not bad else f"{len(bad)} problems")
    emit({"ok": not bad, "checks": [encode(c) for c in checks]}, lines, as_json=as_json)
    if bad:
        raise click.exceptions.Exit(1)


def _worker_checks() -> list[Check]:
    from engine import EngineError

    async def action(session: WorkerSession) -> Checks:
        return await session.call(DOCTOR, Nothing())

    try:
        return list(with_worker(action, Narrator()).checks)
    except EngineError as error:
        return [Check("worker", "bad", error.what, error.remedy)]
