"""``rknntui vendor``: Make, adopt, check and remove environments of the vendor's toolkits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from engine import human_bytes, sanitize
from engine.wire.vendor import (
    VENDOR_ADOPT,
    VENDOR_CHECK,
    VENDOR_DEFAULT,
    VENDOR_INSTALL,
    VENDOR_KNOWN,
    VENDOR_REMOVE,
    ToolkitAdoptParams,
    ToolkitEnvironment,
    ToolkitInstallParams,
    ToolkitName,
    ToolkitRemoved,
    Toolkits,
    ToolkitsParams,
)
from rknntui.cli.flags import json_flag, quiet_flag
from rknntui.cli.output import emit, table
from rknntui.cli.progress import Narrator
from rknntui.cli.request import request_flags, values_for
from rknntui.cli.session import WorkerSession, with_worker


@click.group("vendor")
def command() -> None:
    """The vendor's compiler runs in a Python environment of its own, which this verb looks after.

    `install` makes one of rknn-toolkit2; `adopt` takes in one that you made, also of generation 1's
    rknn-toolkit. Nothing of the vendor is part of this program.
    """


@command.command("install", epilog="Example: rknntui vendor install --wheels ./wheels")
@request_flags(VENDOR_INSTALL)
@json_flag
@quiet_flag
def install(
    as_json: bool,
    quiet: bool,
    **flags: Any,
) -> None:
    """Make an environment of rknn-toolkit2: a venv with packages that work together.

    It takes 1.6 GB with the CPU build of torch, and 5.6 GB with the one for CUDA, which PyPI has
    for x86-64. What was interrupted is made again by the next call.
    """
    asked = ToolkitInstallParams(**values_for(ToolkitInstallParams, flags))

    async def action(session: WorkerSession) -> ToolkitEnvironment:
        return await session.run(VENDOR_INSTALL, asked)

    found = with_worker(action, Narrator(quiet=quiet))
    emit(found, _lines(found), as_json=as_json)


@command.command("adopt", epilog="Example: rknntui vendor adopt ~/venvs/rknn1/bin/python")
@click.argument("python", metavar="PYTHON|FOLDER")
@request_flags(VENDOR_ADOPT)
@json_flag
@quiet_flag
def adopt(python: str, as_json: bool, quiet: bool, **flags: Any) -> int:
    """Take in an environment that you made, by its interpreter or its folder.

    Its toolkit is imported once in a process of its own; nothing is written there. The exit code is
    1 if it cannot be imported: it is known then, and `vendor check` tries it again.
    """
    here = Path(python).expanduser()
    path = str(here.absolute()) if here.exists() else python
    asked = ToolkitAdoptParams(path, **values_for(ToolkitAdoptParams, flags))

    async def action(session: WorkerSession) -> ToolkitEnvironment:
        return await session.run(VENDOR_ADOPT, asked)

    return _told(with_worker(action, Narrator(quiet=quiet)), as_json=as_json)


@command.command("list", epilog="Example: rknntui vendor list --size")
@request_flags(VENDOR_KNOWN)
@json_flag
def list_(as_json: bool, **flags: Any) -> None:
    """Show the environments that are known; * is used where none is named."""

    asked = ToolkitsParams(**values_for(ToolkitsParams, flags))

    async def action(session: WorkerSession) -> Toolkits:
        return await session.call(VENDOR_KNOWN, asked)

    found = with_worker(action, Narrator())
    emit(found, _table(found.environments, size=asked.sizes), as_json=as_json)


@command.command("check", epilog="Example: rknntui vendor check toolkit2")
@click.argument("name", required=False)
@json_flag
@quiet_flag
def check(name: str | None, as_json: bool, quiet: bool) -> int:
    """Import the toolkit, and name the one package that keeps it from that.

    Without NAME the default of generation 2. The exit code is 1 if it cannot be used.
    """

    async def action(session: WorkerSession) -> ToolkitEnvironment:
        return await session.run(VENDOR_CHECK, ToolkitName(name))

    return _told(with_worker(action, Narrator(quiet=quiet)), as_json=as_json)


@command.command("default", epilog="Example: rknntui vendor default toolkit2-2.5.0")
@click.argument("name")
@json_flag
def default(name: str, as_json: bool) -> None:
    """Use an environment wherever its generation is needed and none is named."""

    async def action(session: WorkerSession) -> ToolkitEnvironment:
        return await session.call(VENDOR_DEFAULT, ToolkitName(name))

    found = with_worker(action, Narrator())
    emit(found, _lines(found), as_json=as_json)


@command.command("remove", epilog="Example: rknntui vendor remove toolkit2")
@click.argument("name")
@json_flag
@quiet_flag
def remove(name: str, as_json: bool, quiet: bool) -> None:
    """Remove an environment that was made here; one that was adopted is only forgotten."""

    async def action(session: WorkerSession) -> ToolkitRemoved:
        return await session.run(VENDOR_REMOVE, ToolkitName(name))

    found = with_worker(action, Narrator(quiet=quiet))
    if found.files_removed:
        text = f"removed {found.name}: {found.folder}, {human_bytes(found.freed)}"
    else:
        text = f"forgot {found.name}; {found.folder} stays as it is"
    emit(found, text, as_json=as_json)


def _told(found: ToolkitEnvironment, *, as_json: bool) -> int:
    emit(found, _lines(found), as_json=as_json)
    return 0 if found.state == "ready" else 1


def _lines(found: ToolkitEnvironment) -> list[str]:
    mark = ", the default" if found.default else ""
    lines = [f"{sanitize(found.name)}: {found.state}{mark}", f"  {_toolkit(found)}"]
    lines.append(f"  {sanitize(found.python, 4000)} ({found.python_version or 'Python'})")
    for one in found.findings:
        lines.append(f"  {one.severity}: {one.what}")
        lines += [f"    {part}" for part in (one.cause, one.remedy) if part]
    return lines


def _toolkit(found: ToolkitEnvironment) -> str:
    package = "rknn-toolkit2" if found.generation == 2 else "rknn-toolkit"
    return f"{package} {found.version}".rstrip()


def _table(found: tuple[ToolkitEnvironment, ...], *, size: bool) -> list[str]:
    if not found:
        return ["none yet: rknntui vendor install"]
    columns = ["", "name", "toolkit", "Python", "state", "made", *(["size"] * size), "folder"]
    rows = [
        [
            "*" if one.default else "",
            sanitize(one.name),
            _toolkit(one),
            one.python_version or "-",
            one.state,
            "here" if one.managed else "by you",
            *([human_bytes(one.size)] * size),
            sanitize(one.folder, 4000),
        ]
        for one in found
    ]
    lines = table(columns, rows)
    for one in found:
        lines += [f"{sanitize(one.name)}: {finding.what}" for finding in one.findings]
    return lines
