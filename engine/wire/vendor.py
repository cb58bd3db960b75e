"""Environments of the vendor's toolkits: what there is, making, adopting, checking, removing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from engine.base.findings import Finding
from engine.wire.codec import Text
from engine.wire.flags import Argument, Flag
from engine.wire.method import Query, Task
from engine.wire.record import record

CPU_INDEX = "https://download.pytorch.org/whl/cpu"
"""Has the CPU builds of torch."""

ToolkitState = Literal["ready", "unchecked", "unfinished", "broken", "missing"]
"""``ready``: its toolkit was imported; ``unchecked``: adopted or changed since it was;
``unfinished``: its making was interrupted; ``broken``: a package is missing or does not fit;
``missing``: the folder is gone."""


@record
class ToolkitPlace:
    """Where a Python environment with a toolkit of the vendor is.

    Attributes:
        name: what the user calls it; ``toolkit2`` for the one that is made by default.
        folder: where it is.
        python: its interpreter.
        python_version: of that: ``3.11.7``.
        generation: 1 (rknn-toolkit) or 2 (rknn-toolkit2).
        version: of the toolkit: ``2.3.2``; empty where it is not known.
        managed: whether this program made it, and may remove its files.
        default: whether it is used for its generation where none is named.
    """

    name: str
    folder: str
    python: str
    python_version: str = ""
    generation: int = 2
    version: str = ""
    managed: bool = False
    default: bool = False


@record
class ToolkitEnvironment(ToolkitPlace):
    """An environment, and whether it can be used.

    Attributes:
        state: see :data:`ToolkitState`.
        findings: what is wrong with it, each with its remedy; names the package.
        size: bytes on disk; 0 where it was not added up.
    """

    state: ToolkitState = "ready"
    findings: tuple[Finding, ...] = ()
    size: int = 0


@record
class ToolkitsParams:
    """Which are told, all where ``generation`` is None, and whether their sizes are added up."""

    generation: int | None = None
    sizes: Annotated[bool, Flag(name="--size", help="Add up their bytes on disk.")] = False


@record
class Toolkits:
    """The environments that are known, the defaults first."""

    environments: tuple[ToolkitEnvironment, ...]


@record
class ToolkitName:
    """The environment of a name; None: the default of generation 2."""

    name: Annotated[Text | None, Argument(kind="text")] = None


LocalName = Annotated[Text | None, Flag(name="--name", help="What it is called here.")]


def interpreter_of(text: str) -> str:
    """An interpreter by its name on the PATH, or a path, which is made absolute."""
    return str(Path(text).absolute()) if "/" in text else text


def place_of(text: str) -> str:
    """A file or folder that there is, made absolute; else a name on the PATH."""
    place = Path(text).expanduser()
    return str(place.absolute()) if place.exists() else text


@record(kw_only=True)
class ToolkitInstallParams:
    """An environment to make.

    Attributes:
        name: None: ``toolkit2``, with the version behind it where another has that name.
    """

    version: Annotated[
        str | None, Flag(help="Of rknn-toolkit2; default: the tested one.", metavar="X.Y.Z")
    ] = None
    name: LocalName = None
    python: Annotated[
        Text | None,
        Flag(
            help="The interpreter; default: one is looked for.",
            metavar="PYTHON",
            read=interpreter_of,
        ),
    ] = None
    wheels: Annotated[
        Text | None,
        Flag(help="A folder of wheels; nothing is taken from a network.", kind="folder"),
    ] = None
    index: Annotated[
        Text | None,
        Flag(
            help=f"A further package index: {CPU_INDEX} has the CPU build of torch (1.6 GB on "
            "disk). Without it PyPI's is taken, on x86-64 with CUDA (5.6 GB).",
            metavar="URL",
        ),
    ] = None
    folder: Annotated[
        Text | None,
        Flag(help="Where; default: RKNNTUI_VENDOR, else in your data folder.", kind="folder"),
    ] = None
    again: Annotated[bool, Flag(help="Make it anew where it is there already.")] = False


@record
class ToolkitAdoptParams:
    """The interpreter (or the folder) of an environment that the user made, and its name here."""

    python: Annotated[Text, Argument(metavar="PYTHON|FOLDER", read=place_of)]
    name: LocalName = None


@record
class ToolkitRemoved:
    """What was removed: of an adopted environment only its name here."""

    name: str
    folder: str
    files_removed: bool
    freed: int = 0


# fmt: off
VENDOR_KNOWN = Query("vendor.known", ToolkitsParams, Toolkits, "vendor list", options=False,
    about="Show the environments that are known; * is used where none is named.",
    example="Example: rknntui vendor list --size")
VENDOR_DEFAULT = Query("vendor.default", ToolkitName, ToolkitEnvironment, "vendor default",
    options=False,
    about="Use an environment wherever its generation is needed and none is named.",
    example="Example: rknntui vendor default toolkit2-2.5.0")
"""Have an environment used for its generation where none is named."""
VENDOR_INSTALL = Task("vendor.install", ToolkitInstallParams, ToolkitEnvironment, "vendor install",
    options=False,
    about="Make an environment of rknn-toolkit2: a venv with packages that work together.",
    example="Example: rknntui vendor install --wheels ./wheels")
VENDOR_ADOPT = Task("vendor.adopt", ToolkitAdoptParams, ToolkitEnvironment, "vendor adopt",
    options=False,
    about="Take in an environment that you made, by its interpreter or its folder.",
    example="Example: rknntui vendor adopt ~/venvs/rknn1/bin/python")
VENDOR_CHECK = Task("vendor.check", ToolkitName, ToolkitEnvironment, "vendor check", options=False,
    about="Import the toolkit, and name the one package that keeps it from that.",
    example="Example: rknntui vendor check toolkit2")
"""Import its toolkit; the findings name the one package that keeps it from that."""
VENDOR_REMOVE = Task("vendor.remove", ToolkitName, ToolkitRemoved, "vendor remove", options=False,
    about="Remove an environment that was made here; one that was adopted is only forgotten.",
    example="Example: rknntui vendor remove toolkit2")
# fmt: on
