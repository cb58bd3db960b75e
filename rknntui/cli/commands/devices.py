"""``rknntui devices``, ``run`` and ``memory``: boards, and a model on one."""

from __future__ import annotations

import shutil
import signal
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from engine import EMULATED_CHIPS, DeviceError, build_agent, emulate
from engine.wire.board import BOARD_MEMORY, BOARD_RUN, MemoryParams, MemoryReport
from engine.wire.codec import Values
from engine.wire.cost import COST_ESTIMATE
from engine.wire.devices import DEVICES_LIST, Listing
from engine.wire.emulated import AgentToBuild, EmulatedBoard
from rknntui.cli.estimate_output import estimate_flags, show_estimates
from rknntui.cli.flags import Verb, json_flag, quiet_flag, target, values_of
from rknntui.cli.output import emit
from rknntui.cli.progress import Narrator
from rknntui.cli.request import request_flags, values_for
from rknntui.cli.session import WorkerSession, with_worker
from rknntui.cli.verb import (
    Given,
    Printed,
    board_target,
    described,
    limits_taken,
    on_board,
    show,
    verb,
)


@click.group("devices")
def command() -> None:
    """Boards in reach, and an emulated one to try with.

    A board's name is adb:SERIAL, ssh:[USER@]HOST[:PORT], ntb:SERIAL, or local on the board itself.
    """


async def _asked(_: Given) -> Values:
    return {"start_server": True, "ask": True}


@verb(DEVICES_LIST, of=command, fill=_asked, silent=True)
def list_boards(found: Listing) -> Printed:
    """List the boards in reach: by adb, by NTB, on USB, and this machine where it is one.

    An adb server that is not up is started. Boards named with --ssh are asked; no network is
    searched. Exit code 13 where the adb server or one of these boards does not answer.
    """
    silent = any(device.kind == "ssh" and not device.usable for device in found.devices)
    no_server = any(notice.code == "adb-server" for notice in found.notices)
    silent = silent or (no_server and shutil.which("adb") is not None)
    return Printed(code=DeviceError.exit_code if silent else 0)


@command.group("agent")
def agent() -> None:
    """The program that is sent to a board. For glibc and for RV1103 and RV1106 it comes along."""


@agent.command(
    "build",
    epilog="Example: rknntui devices agent build --target aarch64 --compiler "
    "aarch64-linux-android31-clang",
)
@request_flags(AgentToBuild)
@json_flag
def build(as_json: bool, **flags: Any) -> None:
    """Compile the agent for a board, with a compiler of this machine.

    For boards whose C library is none of those that the agents here are built for, such as
    Android's, or with changes of your own. The result is sent to such a board by itself, once it
    lies in the folder of agents; RKNNTUI_AGENT names another one.
    """
    asked = AgentToBuild(**values_for(AgentToBuild, flags))
    output = None if asked.output is None else Path(asked.output)
    built = build_agent(asked.target, asked.compiler, output, force=asked.force)
    lines = [f"built {built.path} for {built.processor}"]
    if built.interpreter:
        lines.append(f"It asks for {built.interpreter}: the board needs that C library.")
    if not built.found:
        lines.append(f"It is not where it is found by itself: set RKNNTUI_AGENT={built.path}")
    emit(asdict(built), lines, as_json=as_json)


@command.command(
    "emulate", epilog=f"CHIP: {', '.join(EMULATED_CHIPS)}. Example: rknntui devices emulate rk3588"
)
@click.argument("chip", metavar="CHIP", type=click.Choice(EMULATED_CHIPS))
@request_flags(EmulatedBoard)
@json_flag
@quiet_flag
def run_emulated(chip: str, as_json: bool, quiet: bool, **flags: Any) -> None:
    """Run an emulated board on this machine until Ctrl-C: adb reaches it like a real one.

    No NPU computes: it runs containers of this program, whose results are the simulator's; times
    are calculated from the number of multiplications and bytes, and labelled emulated; they predict
    no real board. It listens on 127.0.0.1 and refuses other users; commands that adb runs on it run
    on this machine, in a folder that looks like a board's file system. Everything about it says
    that it is emulated.
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
    board = EmulatedBoard(**values_for(EmulatedBoard, flags))
    emulate(chip, board, stop=stop, started=started, warn=warn, heard=heard)


@click.command("memory", cls=Verb, **described(BOARD_MEMORY))
@target
@request_flags(BOARD_MEMORY)
@request_flags(COST_ESTIMATE, without=("cores",))
@estimate_flags("memory")
def memory(target: Path, **flags: Any) -> int:
    """Show what a model takes on a board, by kind, and what the board has left with it (measured).

    TARGET is a .rknn that the vendor's toolkit compiled for the board's chip. An emulated board
    also takes a container of this program, a recipe, or a model with options of one. Generation 1's
    runtime has no figures of a model: the vendor's toolkit is asked for them, where `rknntui vendor
    adopt` has named one.

    With --chip, nothing is measured: TARGET is a model file or a recipe, and its weights and the
    tensors between its layers are placed as the vendor's compiler does it (estimated).
    """
    values = values_for(MemoryParams, flags)
    if flags["param_chips"]:
        if values:
            raise click.UsageError("--device measures and --chip estimates: give one.")
        return show_estimates(target, flags, "tensors", layers=False, spans=True)
    if flags["report"] is not None or limits_taken(flags):
        raise click.UsageError("--report and --fail-memory are of estimates: give --chip.")

    async def action(session: WorkerSession) -> MemoryReport:
        held = await board_target(session, target, values_of(flags))
        return await session.run(BOARD_MEMORY, MemoryParams(held.path, held.recipe, **values))

    usage = with_worker(action, Narrator(quiet=flags["quiet"]))
    return show(usage, None, as_json=flags["as_json"])


@verb(BOARD_RUN, fill=on_board)
def run() -> None:
    """Run inputs through a model on a board (measured).

    TARGET is a .rknn that the vendor's toolkit compiled for the board's chip. An emulated board
    also takes a container of this program, and a recipe or a model with options of one, which is
    built first. An image is passed as uint8 pixels in the size of the input; mean and std are in
    the compiled model.
    """
