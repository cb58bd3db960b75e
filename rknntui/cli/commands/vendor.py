"""``rknntui vendor``: Make, adopt, check and remove environments of the vendor's toolkits."""

from __future__ import annotations

import click

from engine.wire.vendor import VENDOR_ADOPT, VENDOR_CHECK, VENDOR_INSTALL, ToolkitEnvironment
from rknntui.cli.verb import Printed, verb


@click.group("vendor")
def command() -> None:
    """The vendor's compiler runs in a Python environment of its own, which this verb looks after.

    `install` makes one of rknn-toolkit2; `adopt` takes in one that you made, also of generation 1's
    rknn-toolkit. Nothing of the vendor is part of this program.
    """


@verb(VENDOR_INSTALL, of=command)
def install() -> None:
    """Make an environment of rknn-toolkit2: a venv with packages that work together.

    It takes 1.6 GB with the CPU build of torch, and 5.6 GB with the one for CUDA, which PyPI has
    for x86-64. What was interrupted is made again by the next call.
    """


@verb(VENDOR_ADOPT, of=command)
def adopt(found: ToolkitEnvironment) -> Printed:
    """Take in an environment that you made, by its interpreter or its folder.

    Its toolkit is imported once in a process of its own; nothing is written there. The exit code is
    1 if it cannot be imported: it is known then, and `vendor check` tries it again.
    """
    return Printed(code=int(found.state != "ready"))


@verb(VENDOR_CHECK, of=command, optional=True)
def check(found: ToolkitEnvironment) -> Printed:
    """Import the toolkit, and name the one package that keeps it from that.

    Without NAME the default of generation 2. The exit code is 1 if it cannot be used.
    """
    return Printed(code=int(found.state != "ready"))
