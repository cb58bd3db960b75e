"""Compiles the agent for a board, with a compiler of this machine."""

from __future__ import annotations

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
from engine.base.files import output_errors, refuse_existing
from engine.base.paths import private_folder
from engine.base.text import sanitize
from engine.devices.agent.built import TARGETS, agent_folder
from engine.devices.probe.elf import Elf, program_interpreter, read_elf

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
