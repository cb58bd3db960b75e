"""``rknntui vendor``: Make, adopt, check and remove environments of the vendor's toolkits."""

from __future__ import annotations

import click

from engine import human_bytes, sanitize
from engine.wire.build_tables import ENVIRONMENTS, toolkit_name
from engine.wire.vendor import (
    VENDOR_ADOPT,
    VENDOR_CHECK,
    VENDOR_DEFAULT,
    VENDOR_INSTALL,
    VENDOR_KNOWN,
    VENDOR_REMOVE,
    ToolkitEnvironment,
    ToolkitRemoved,
    Toolkits,
)
from rknntui.cli.output import table_lines
from rknntui.cli.verb import Printed, verb


@click.group("vendor")
def command() -> None:
    """The vendor's compiler runs in a Python environment of its own, which this verb looks after.

    `install` makes one of rknn-toolkit2; `adopt` takes in one that you made, also of generation 1's
    rknn-toolkit. Nothing of the vendor is part of this program.
    """


@verb(VENDOR_INSTALL, of=command)
def install(found: ToolkitEnvironment) -> list[str]:
    """Make an environment of rknn-toolkit2: a venv with packages that work together.

    It takes 1.6 GB with the CPU build of torch, and 5.6 GB with the one for CUDA, which PyPI has
    for x86-64. What was interrupted is made again by the next call.
    """
    return _lines(found)


@verb(VENDOR_ADOPT, of=command)
def adopt(found: ToolkitEnvironment) -> Printed:
    """Take in an environment that you made, by its interpreter or its folder.

    Its toolkit is imported once in a process of its own; nothing is written there. The exit code is
    1 if it cannot be imported: it is known then, and `vendor check` tries it again.
    """
    return Printed(_lines(found), code=int(found.state != "ready"))


@verb(VENDOR_KNOWN, of=command)
def list_(found: Toolkits) -> list[str]:
    """Show the environments that are known; * is used where none is named."""
    return _table(found.environments)


@verb(VENDOR_CHECK, of=command, optional=True)
def check(found: ToolkitEnvironment) -> Printed:
    """Import the toolkit, and name the one package that keeps it from that.

    Without NAME the default of generation 2. The exit code is 1 if it cannot be used.
    """
    return Printed(_lines(found), code=int(found.state != "ready"))


@verb(VENDOR_DEFAULT, of=command)
def default(found: ToolkitEnvironment) -> list[str]:
    """Use an environment wherever its generation is needed and none is named."""
    return _lines(found)


@verb(VENDOR_REMOVE, of=command)
def remove(found: ToolkitRemoved) -> str:
    """Remove an environment that was made here; one that was adopted is only forgotten."""
    if found.files_removed:
        return f"removed {found.name}: {found.folder}, {human_bytes(found.freed)}"
    return f"forgot {found.name}; {found.folder} stays as it is"


def _lines(environment: ToolkitEnvironment) -> list[str]:
    mark = ", the default" if environment.default else ""
    lines = [
        f"{sanitize(environment.name)}: {environment.state}{mark}",
        f"  {toolkit_name(environment)}",
    ]
    lines.append(
        f"  {sanitize(environment.python, 4000)} ({environment.python_version or 'Python'})"
    )
    for one in environment.findings:
        lines.append(f"  {one.severity}: {one.what}")
        lines += [f"    {part}" for part in (one.cause, one.remedy) if part]
    return lines


def _table(environments: tuple[ToolkitEnvironment, ...]) -> list[str]:
    if not environments:
        return ["none yet: rknntui vendor install"]
    lines = table_lines(ENVIRONMENTS, environments)
    for one in environments:
        lines += [f"{sanitize(one.name)}: {finding.what}" for finding in one.findings]
    return lines
