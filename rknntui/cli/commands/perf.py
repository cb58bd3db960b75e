"""``rknntui perf``: Time a model on a board, or estimate it for a chip; list and compare runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from engine.wire.cost import COST_CALIBRATE, COST_ESTIMATE
from engine.wire.devices import DEVICES_PERF
from engine.wire.measured import MEASURED_COMPARE
from rknntui.cli.estimate_output import estimate_flags, loaded, show_estimates
from rknntui.cli.flags import Verb, VerbGroup, target
from rknntui.cli.request import request_flags
from rknntui.cli.verb import described, on_board, verb

_MODES = {
    "--history": "history",
    "--compare": "compare",
    "--calibrate": "calibrate",
    "--chip": "estimate",
}
"""Flags that told what ``perf`` does before these were commands -> the command."""
_OF_ESTIMATES = ("--report", "--advice", "--fail-cpu", "--fail-memory")


class PerfVerbs(VerbGroup):
    """``perf MODEL`` measures; the flags that once chose another way lead to its command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the command first where it is left out."""
        if args and args[0] not in (*self.commands, *ctx.help_option_names):
            args = self._with_command(ctx, args)
        return super().parse_args(ctx, args)

    def _with_command(self, ctx: click.Context, args: list[str]) -> list[str]:
        flags = [word.partition("=")[0] for word in args]
        mode = next((flag for flag in _MODES if flag in flags), "")
        if mode == "--chip" and "--device" in flags:
            ctx.fail("--device measures and --chip estimates: give one.")
        if mode == "--chip" and "--cores" in flags:
            ctx.fail("An estimate takes how many cores: rknntui perf estimate --cores 3.")
        if not mode and not {*_OF_ESTIMATES}.isdisjoint(flags):
            ctx.fail(f"{', '.join(_OF_ESTIMATES)} are of estimates: rknntui perf estimate.")
        if mode in ("--history", "--compare"):
            args = [word for word in args if word != mode]
        args = [re.sub("^--calibrate(?==|$)", "--run", word) for word in args]
        return [_MODES.get(mode, "run"), *args]


@click.group("perf", cls=PerfVerbs)
def command() -> None:
    """Time a model on a board (measured), or estimate it for a chip; list and compare runs.

    Without a command it measures: rknntui perf MODEL is rknntui perf run MODEL.
    """


@verb(DEVICES_PERF, of=command, fill=on_board, limits=("over",))
def run() -> None:
    """Time a compiled model on a board (measured): percentiles, clocks and temperature beside them.

    TARGET is a .rknn that the vendor's toolkit compiled for the board's chip; an emulated board
    also takes a container of this program, a recipe, or a model with options of one. Inputs are
    zeros. Every run is kept: perf history lists them, perf compare sets two side by side.
    """


@command.command("estimate", cls=Verb, **described(COST_ESTIMATE))
@target
@request_flags(COST_ESTIMATE)
@click.option("--advice", is_flag=True, help="Also say what would make it faster.")
@estimate_flags("over", "cpu", "memory")
def estimate(target: Path, **flags: Any) -> int:
    """Estimate the cost of each layer on a chip: cycles, time and what bounds it.

    TARGET is a model file or a recipe; nothing is measured.
    """
    if not flags["param_chips"]:
        raise click.UsageError("Name a chip: --chip rk3588. All of them: rknntui chips TARGET.")
    return show_estimates(target, flags, "layers")


@verb(MEASURED_COMPARE, of=command, silent=True)
def compare() -> None:
    """Set two kept runs side by side, by their ids in the history; nothing is measured."""


@verb(COST_CALIBRATE, of=command, fill=loaded)
def calibrate() -> None:
    """Correct the estimates of a chip by a kept run of TARGET, from now on."""
