"""``rknntui devices``: Boards: an emulated one to try with."""

from __future__ import annotations

import signal
import threading

import click

from engine import EMULATED_CHIPS, DeviceError, emulate
from rknntui.cli.flags import json_flag, quiet_flag
from rknntui.cli.output import emit


@click.group("devices")
def command() -> None:
    """Boards: an emulated one to try with."""


@command.command(
    "emulate", epilog=f"CHIP: {', '.join(EMULATED_CHIPS)}. Example: rknntui devices emulate rk3588"
)
@click.argument("chip", metavar="CHIP", type=click.Choice(EMULATED_CHIPS))
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Where it listens on 127.0.0.1. Default: any free port.",
)
@click.option("--android", is_flag=True, help="An Android image in place of a Linux one.")
@json_flag
@quiet_flag
def run_emulated(chip: str, port: int, android: bool, as_json: bool, quiet: bool) -> None:
    """Run an emulated board on this machine until Ctrl-C: adb reaches it like a real one.

    Nothing is computed by an NPU: its runtime library gives prepared answers. It listens on
    127.0.0.1 only and lets in programs of the same user only; commands that adb runs on it run on
    this machine, in a folder that looks like a board's file system. Everything about it says that
    it is emulated.
    """
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: stop.set())

    def started(address: str, root: str) -> None:
        facts = {"emulated": True, "chip": chip, "address": address, "root": root}
        lines = [
            f"emulated {chip} board at {address}",
            f"connect with: adb connect {address}",
            "Ctrl-C ends it.",
        ]
        emit(facts, lines, as_json=as_json)

    def warn(error: DeviceError) -> None:
        click.echo(f"warning: the board has no runtime library. {error}", err=True)

    heard = None if quiet else lambda event: click.echo(f"board: {event}", err=True)
    emulate(chip, port=port, android=android, stop=stop, started=started, warn=warn, heard=heard)
