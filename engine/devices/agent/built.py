"""Agents: those that the user has built, those that come with the program, and how one is built.

Those that come along are in ``prebuilt``, made by ``scripts/make_agents.py``; they ask for glibc
2.17 or newer, or for uClibc, that of RV1103 and RV1106.

They are found by the processor that is in their ELF header; their names only tell people apart
what is what: ``agent-aarch64``, ``agent-armv7l``, ``agent-armv7l-uclibc``.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.base.errors import DeviceError, UsageError
from engine.base.files import open_regular, output_errors, refuse_existing
from engine.base.paths import config_folder, private_folder
from engine.base.text import human_bytes, sanitize
from engine.devices.probe.reading import (
    HEAD,
    Elf,
    program_interpreter,
    read_elf,
)

PREBUILT = Path(__file__).with_name("prebuilt")
"""Agents that come with the program."""

VARIABLE = "RKNNTUI_AGENT"
"""Names the agent to take, in place of those in the folder."""

TARGETS = {
    "aarch64": Elf("ARM64", 64),
    "armv7l": Elf("ARM", 32),
    "x86_64": Elf("x86-64", 64),
}
"""What an agent can be built for, named as ``uname -m`` names it. ``x86_64`` is for emulated boards
on a PC."""

_LIMIT = 32 << 20
_PREFIX = "agent-"


@dataclass(frozen=True)
class BuiltAgent:
    """An agent.

    Attributes:
        path: of this machine.
        content: of the file.
        elf: for which processor it is.
        interpreter: see :func:`~engine.devices.probe.reading.program_interpreter`.
    """

    path: Path
    content: bytes
    elf: Elf
    interpreter: str

    @property
    def sha256(self) -> str:
        """64 hex digits."""
        return hashlib.sha256(self.content).hexdigest()


def agent_folder() -> Path:
    """Where agents of the user's are looked for (``$XDG_CONFIG_HOME/rknntui/agents``)."""
    return config_folder() / "agents"


def target_of(elf: Elf) -> str:
    """The target of :data:`TARGETS` for a processor; empty where there is none."""
    return next((name for name, known in TARGETS.items() if known == elf), "")


def find_built(wanted: Sequence[Elf]) -> list[BuiltAgent]:
    """The agents for a board, the best first: of a processor, the user's own first.

    Args:
        wanted: the processors whose programs it runs, the best first; empty where nothing is known:
            then only the agent that :data:`VARIABLE` names counts.

    Raises:
        DeviceError: :data:`VARIABLE` names what cannot be taken.
    """
    named = os.environ.get(VARIABLE, "")
    if named:
        agent = _read(Path(named))
        if isinstance(agent, str):
            raise DeviceError(
                f"{VARIABLE} names no agent: {sanitize(named, 200)} {agent}.",
                remedy="Name a program that `rknntui devices agent build` made, or unset it.",
            )
        if wanted and agent.elf not in wanted:
            runs = " and ".join(str(elf) for elf in wanted)
            raise DeviceError(
                f"The agent that {VARIABLE} names is built for {agent.elf}.",
                cause=f"The board runs programs for {runs}.",
                remedy=f"Build one for it: rknntui devices agent build --target "
                f"{target_of(wanted[0]) or 'TARGET'}; and unset {VARIABLE}.",
            )
        return [agent]
    paths = [path for folder in (agent_folder(), PREBUILT) for path in _agents_in(folder)]
    agents = [agent for path in paths if not isinstance(agent := _read(path), str)]
    return [agent for elf in wanted for agent in agents if agent.elf == elf]


def _agents_in(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.name.startswith(_PREFIX))
    except OSError:
        return []


def _read(path: Path) -> BuiltAgent | str:
    """An agent, or why a file is none."""
    try:
        with open_regular(path) as stream:
            content = stream.read(_LIMIT + 1)
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    elf = read_elf(content[:HEAD])
    if elf is None:
        return "is no program (ELF)"
    if len(content) > _LIMIT:
        return f"is larger than {human_bytes(_LIMIT)}"
    return BuiltAgent(path, content, elf, program_interpreter(content))


# Compiles the agent for a board, with a compiler of this machine.

AGENT_TARGETS = tuple(TARGETS)
"""What an agent can be built for."""

SOURCES = Path(__file__).with_name("native")
_SECONDS = 300
_FLAGS = ("-std=gnu11", "-O2", "-s")
_LIBRARIES = ("-ldl", "-lpthread", "-lm")

# glibc 2.17, of 2012: boards with a newer one run the agent, too
_ZIG_TARGETS = {
    "aarch64": "aarch64-linux-gnu.2.17",
    "armv7l": "arm-linux-gnueabihf.2.17",
    "x86_64": "x86_64-linux-gnu.2.17",
}
_CROSS = {
    "aarch64": (
        "aarch64-linux-gnu-gcc",
        "aarch64-none-linux-gnu-gcc",
        "aarch64-rockchip-linux-gnu-gcc",
    ),
    "armv7l": ("arm-linux-gnueabihf-gcc", "arm-rockchip830-linux-uclibcgnueabihf-gcc"),
    "x86_64": ("x86_64-linux-gnu-gcc",),
}
_NATIVE = ("cc", "gcc", "clang")


@dataclass(frozen=True)
class AgentBuild:
    """An agent that was built.

    Attributes:
        path: of the program.
        target: one of :data:`AGENT_TARGETS`.
        processor: as its ELF header says.
        interpreter: the loader that it asks for, which tells its C library; empty where it is
            linked statically.
        found: whether it lies where the program looks for agents.
    """

    path: str
    target: str
    processor: str
    interpreter: str
    found: bool


def build_agent(
    target: str, compiler: str = "", output: Path | None = None, *, force: bool = False
) -> AgentBuild:
    """Compile the agent's sources, and look whether it became what was asked for.

    Args:
        target: one of :data:`AGENT_TARGETS`.
        compiler: name or path of a C compiler for the target; empty takes zig where its package is
            installed, else a cross compiler of the usual name, else that of this machine.
        output: the file; None is ``agent-TARGET`` in the folder where agents are looked for, in
            place of the one before.
        force: whether ``output`` may be a file that exists.

    Raises:
        UsageError: there is no such target.
        DeviceError: there is no compiler, it failed, or it compiles for another processor.
        OutputError: the file cannot be written.
        OutputExistsError: it exists.
    """
    if target not in TARGETS:
        raise UsageError(
            f"There is no target {target}.", remedy=f"Take one of {', '.join(AGENT_TARGETS)}."
        )
    if output is not None and output.parent.is_dir():
        refuse_existing(output, overwrite=force)
    command = _compiler(target, compiler)
    path = output or agent_folder() / f"agent-{target}"
    with output_errors(path):
        if output is None:
            private_folder(path.parent)
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".agent-") as own:
            agent = Path(own) / "agent"
            sources = [str(source) for source in sorted(SOURCES.glob("*.c"))]
            _compile([*command, *_FLAGS, "-o", str(agent), *sources, *_LIBRARIES])
            content = agent.read_bytes()
            elf = read_elf(content[:20])
            if elf != TARGETS[target]:
                raise _misfit_error(command[0], elf, target)
            agent.chmod(0o755)
            agent.replace(path)
    return AgentBuild(
        str(path),
        target,
        str(elf),
        program_interpreter(content),
        found=path.resolve().parent == agent_folder().resolve() and path.name.startswith("agent-"),
    )


def _compiler(target: str, command: str) -> list[str]:
    """The words that begin a compiler's command."""
    if command:
        if compiler := shutil.which(command):
            return [compiler]
        raise DeviceError(
            f"There is no compiler {sanitize(command, 200)} here.",
            remedy="Give the name or the path of a C compiler; flags are no part of it.",
        )
    if importlib.util.find_spec("ziglang") is not None:
        return zig_compiler(target)
    names = _CROSS[target] + (_NATIVE if platform.machine() == target else ())
    if compiler := next(filter(None, map(shutil.which, names)), None):
        return [compiler]
    package = "gcc-arm-linux-gnueabihf" if target == "armv7l" else f"gcc-{target}-linux-gnu"
    raise DeviceError(
        f"There is no C compiler for {target} here.",
        cause=f"Tried were the package ziglang, {', '.join(names)}.",
        remedy="Install one (`pip install ziglang`, or on Debian `apt install "
        f"{package.replace('_', '-')}`), or name that of the board's SDK with --compiler.",
    )


def zig_compiler(target: str) -> list[str]:
    """The words that begin a command of zig for a target: no other files of the machine are read,
    so the same sources give the same bytes everywhere.
    """
    # -P: no module of the current folder
    return [sys.executable, "-P", "-m", "ziglang", "cc", "-target", _ZIG_TARGETS[target]]


def _compile(command: Sequence[str]) -> None:
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            env=environment,
            timeout=_SECONDS,
            check=False,
        )
        said, failed = done.stderr.decode("utf-8", "replace"), done.returncode != 0
    except (OSError, subprocess.TimeoutExpired) as error:
        said, failed = str(error), True
    if failed:
        lines = [sanitize(line, 300) for line in said.strip().splitlines()[:20]]
        raise DeviceError(
            "The agent could not be compiled.",
            cause="\n".join(lines),
            remedy=f"See whether {command[0]} can compile anything for the board.",
        )


def _misfit_error(compiler: str, elf: Elf | None, target: str) -> DeviceError:
    return DeviceError(
        f"{compiler} compiles for {elf or 'something else than Linux'}, not for {target}.",
        cause="It is not a cross compiler for that board.",
        remedy="Name one with --compiler, or install zig: pip install ziglang.",
    )
