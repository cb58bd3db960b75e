"""Flags of the verbs that estimate: the chips, and what to vary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from engine import option
from engine.wire.cost import COST_ESTIMATE, EstimateParams, Estimates
from engine.wire.model import LOAD, LoadParams
from engine.wire.requests import ModelTarget
from rknntui.cli.session import WorkerSession, resolve

__all__ = [
    "WhatIf",
    "batch_flag",
    "chip_flag",
    "cores_of",
    "dtype_flag",
    "estimated",
    "load_target",
    "size_flag",
    "what_if_flags",
]

Command = TypeVar("Command", bound=Callable[..., Any])


class ChipName(click.ParamType):
    """A chip; the worker refuses those that it does not know, with the nearest."""

    name = "chip"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[click.shell_completion.CompletionItem]:
        """The known chips."""
        wanted = incomplete.lower()
        return [
            click.shell_completion.CompletionItem(name)
            for name in option("target_platform").choices
            if name.startswith(wanted)
        ]


class Clock(click.FloatRange):
    """MHz; NaN, which no comparison refuses, is none."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The clock, or click's usage error."""
        found: float = super().convert(value, param, ctx)
        if found != found:
            self.fail(f"{value!r} is not a clock in MHz.", param, ctx)
        return found


chip_flag = click.option(
    "--chip",
    "chip_names",
    multiple=True,
    type=ChipName(),
    metavar="CHIP",
    help="A chip such as rk3588, once per chip: its cost is estimated.",
)
dtype_flag = click.option(
    "--dtype",
    metavar="DTYPE",
    help="Of an estimate: int8 or float16. Default: as the recipe; float16 where int8 is not.",
)
size_flag = click.option(
    "--input-size",
    "sizes",
    multiple=True,
    metavar="NAME=1,3,640,640",
    help="Of an estimate: another shape of an input; once per input.",
)


@dataclass(frozen=True)
class WhatIf:
    """The flags of :func:`what_if_flags`."""

    dtype: str | None = None
    sizes: tuple[str, ...] = ()
    cores: int = 1
    npu_mhz: float | None = None

    @staticmethod
    def taken(flags: dict[str, Any]) -> WhatIf:
        """Out of a command's arguments, which lose them."""
        return WhatIf(
            flags.pop("dtype"),
            flags.pop("sizes"),
            flags.pop("core_count", 1),
            flags.pop("npu_mhz"),
        )


batch_flag = click.option(
    "--rknn-batch-size",
    type=click.IntRange(1, 1024),
    help="Of an estimate: inferences at once. Default: the recipe's, else 1.",
)


def cores_of(masks: Sequence[str]) -> int:
    """How many cores a choice of ``--cores`` takes; ``all`` are as many as a chip has."""
    last = masks[-1] if masks else "auto"
    return 8 if last == "all" else last.count("_") + 1


def what_if_flags(cores: str | None = "--cores") -> Callable[[Command], Command]:
    """``--dtype``, ``--input-size``, ``--cores`` and ``--npu-mhz``.

    Args:
        cores: the flag for the number of cores; None where a verb has one of its own.

    The batch is an option of recipes, ``--rknn-batch-size``.
    """
    flags = [
        dtype_flag,
        size_flag,
        click.option(
            "--npu-mhz",
            type=Clock(1, 10_000),
            help="Of an estimate: clock of the NPU in MHz. Default: the chip's highest.",
        ),
    ]
    if cores is not None:
        flags.append(
            click.option(
                cores,
                "core_count",
                type=click.IntRange(1, 8),
                default=1,
                help="NPU cores that share an inference (core_mask). Default: 1.",
            )
        )

    def add(command: Command) -> Command:
        for flag in reversed(flags):
            command = flag(command)
        return command

    return add


async def load_target(
    session: WorkerSession, model: Path, given: dict[str, Any], sizes: Sequence[str] = ()
) -> ModelTarget:
    """The model or recipe, loaded: one of TensorFlow or PyTorch is converted first.

    With other sizes of inputs it is loaded with those, by who is asked for an answer.

    Raises:
        EngineError: it cannot be used, or loaded.
    """
    recipe = await resolve(session, model, given)
    if not sizes:
        await session.run(LOAD, LoadParams(recipe=recipe))
    return ModelTarget(recipe=recipe)


async def estimated(
    session: WorkerSession,
    model: Path,
    given: dict[str, Any],
    what_if: WhatIf,
    chip_names: Sequence[str],
    *,
    layers: bool = False,
    spans: bool = False,
) -> Estimates:
    """What a model costs on the chips asked for."""
    found = await load_target(session, model, given, what_if.sizes)
    return await session.call(
        COST_ESTIMATE,
        EstimateParams(
            recipe=found.recipe,
            chips=tuple(chip_names),
            dtype=what_if.dtype,
            input_sizes=what_if.sizes,
            cores=what_if.cores,
            npu_mhz=what_if.npu_mhz,
            layers=layers,
            spans=spans,
        ),
    )
