"""Agents: those that the user has built, and those that come with the program.

The latter are in ``prebuilt``, made by ``scripts/make_agents.py``; they ask for glibc 2.17 or
newer, or for uClibc, that of RV1103 and RV1106.

They are found by the processor that is in their ELF header; their names only tell people apart
what is what: ``agent-aarch64``, ``agent-armv7l``, ``agent-armv7l-uclibc``.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.base.errors import DeviceError
from engine.base.files import open_regular
from engine.base.paths import config_folder
from engine.base.text import human_bytes, sanitize
from engine.devices.probe.elf import HEAD, Elf, program_interpreter, read_elf

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
        interpreter: see :func:`~engine.devices.probe.elf.program_interpreter`.
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
