"""What this machine makes for boards: an emulated one, and the agent for a real one."""

from __future__ import annotations

from typing import Annotated, Literal

from engine.wire.codec import Above, Between, Text, Whole
from engine.wire.flags import Flag, output_flag
from engine.wire.record import record


def _percentages(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ValueError("give whole numbers, as 30,40,50") from None


@record
class EmulatedBoard:
    """An emulated board: its image, its link, and what goes wrong on it.

    Attributes:
        port: 0 is any free one.
        models: containers whose answers are made before it can be reached.
        load: of each core in percent; None follows the runs.
        celsius: of every thermal zone; None is the board's own.
        slow: megabytes a second of its link; None is as fast as it goes.
    """

    port: Annotated[
        int,
        Whole(0, 65535),
        Flag(help="Where it listens on 127.0.0.1. Default: any free port."),
    ] = 0
    android: Annotated[bool, Flag(help="An Android image in place of a Linux one.")] = False
    models: Annotated[
        tuple[Text, ...],
        Flag(
            name="--model",
            help="Make a container ready before the board can be reached; others are when they are "
            "loaded.",
            kind="file",
        ),
    ] = ()
    bend: Annotated[
        str,
        Flag(
            help="Fault injection: change the output of this layer by STEPS quantization steps "
            "(default 16); later layers compute with the changed values.",
            metavar="LAYER[:STEPS]",
        ),
    ] = ""
    load: Annotated[
        tuple[int, ...] | None,
        Flag(
            help="Load of each core of the NPU. Default: as busy as its runs keep it.",
            metavar="PERCENT,...",
            read=_percentages,
            whole=True,
        ),
    ] = None
    celsius: Annotated[
        Annotated[float, Between(-40, 200)] | None, Flag(help="Temperature of every zone.")
    ] = None
    slow: Annotated[
        Annotated[float, Above(0, 1e9)] | None,
        Flag(help="Limit the link to so many megabytes a second.", metavar="MB/S"),
    ] = None


@record
class AgentToBuild:
    """The agent for boards of one processor, compiled on this machine."""

    target: Annotated[
        Literal["aarch64", "armv7l", "x86_64"],
        Flag(
            help="The board's processor, as `uname -m` says there; x86_64 is for emulated boards."
        ),
    ]
    compiler: Annotated[
        str,
        Flag(
            help="Name or path of a C compiler for it, such as that of the board's SDK. Default: "
            "zig, where its Python package is installed, else a cross compiler of the usual name.",
            metavar="CC",
        ),
    ] = ""
    output: Annotated[
        Text | None,
        output_flag(
            "Where to write it. Default: where the program finds it by itself, in place of the "
            "one before."
        ),
    ] = None
    force: Annotated[bool, Flag(help="Replace the file of -o where it exists.")] = False
