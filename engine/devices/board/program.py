"""The program that is sent to a board: in Python where the board has it, else in C for the board's
processor, as the user has built it or as it comes with this program.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from engine.base.errors import DeviceError
from engine.base.text import sanitize
from engine.devices.agent.built import TARGETS, BuiltAgent, agent_folder, find_built, target_of
from engine.devices.board.layout import agent_name, find_python
from engine.devices.probe.elf import Elf
from engine.devices.probe.identify import EMULATED_MARK
from engine.devices.probe.libraries import processors
from engine.devices.probe.reading import elf_of, first_line, output, read_bytes
from engine.devices.transport import UNREACHABLE, Transport

__all__ = ["AgentProgram", "board_processors", "choose_program", "find_native"]

# a shell may be a script, as on emulated boards
_PROGRAMS = ("/bin/sh", "/system/bin/sh", "/bin/cat", "/usr/bin/cat", "/system/bin/cat")
_OF_MACHINE = {
    "aarch64": (TARGETS["aarch64"], TARGETS["armv7l"]),
    "armv8l": (TARGETS["armv7l"],),
    "armv7l": (TARGETS["armv7l"],),
    "x86_64": (TARGETS["x86_64"],),
}


@dataclass(frozen=True)
class AgentProgram:
    """What is sent, and how it is started.

    Attributes:
        content: of the file.
        python: the program of the board that runs it; empty where it is one in C.
        elf: for which processor one in C is.
    """

    content: bytes
    python: str = ""
    elf: Elf | None = None

    @property
    def sha256(self) -> str:
        """64 hex digits."""
        return hashlib.sha256(self.content).hexdigest()

    @property
    def name(self) -> str:
        """The name on the board."""
        return agent_name(self.sha256, native=self.native)

    @property
    def native(self) -> bool:
        """Whether it is in C: it changes no clocks."""
        return not self.python

    @property
    def runner(self) -> str:
        """What has to fit a runtime library, for a message."""
        return "agent in C" if self.native else "Python"

    def words(self, path: str) -> list[str]:
        """What starts it where it lies on the board."""
        return [path] if self.native else [self.python, "-u", path]

    def processors(self, transport: Transport, machine: str) -> frozenset[Elf]:
        """For which processors a library may be that it loads; none where nothing is known.

        Args:
            transport: the board.
            machine: as the program tells; empty before it was started.
        """
        if self.elf is not None:
            return frozenset({self.elf})
        return processors(transport, self.python, machine)


def choose_program(transport: Transport, bundle: bytes) -> AgentProgram:
    """What runs models on a board.

    Args:
        transport: the board.
        bundle: the agent in Python.

    Raises:
        DeviceError: it has no Python that is new enough, and there is no agent in C for it.
        DeviceLostError: the board has gone.
    """
    try:
        return AgentProgram(bundle, python=find_python(transport))
    except UNREACHABLE:
        raise
    except DeviceError as error:
        agent = find_native(transport, error)
        return AgentProgram(agent.content, elf=agent.elf)


def find_native(transport: Transport, no_python: DeviceError) -> BuiltAgent:
    """The agent in C for a board without Python.

    Args:
        transport: the board.
        no_python: why its Python cannot be taken.

    Raises:
        DeviceError: there is none for it; what was said of Python is in it.
    """
    wanted = board_processors(transport)
    found = find_built(wanted)
    fitting = [agent for agent in found if _has_loader(transport, agent)]
    if fitting:
        return fitting[0]
    target = next(filter(None, map(target_of, wanted)), "") or "TARGET"
    command = f"rknntui devices agent build --target {target}"
    if found:
        raise DeviceError(
            f"{no_python.what} The agent in C does not run there either.",
            cause=f"{no_python.cause} {sanitize(str(found[0].path), 200)} was built for another C "
            f"library: it asks for {sanitize(found[0].interpreter, 80)}, which the board does not "
            "have.",
            remedy=f"{no_python.remedy} Or build the agent with the compiler of the board's SDK, "
            f"or of the NDK on Android: {command} --compiler CC.",
        )
    raise DeviceError(
        no_python.what,
        cause=f"{no_python.cause} Nor is there an agent in C for it in {agent_folder()}.",
        remedy=f"{no_python.remedy} Or build the agent in C: {command}.",
    )


def board_processors(transport: Transport) -> tuple[Elf, ...]:
    """The processors whose programs a board runs, the best first; none where nothing is known.

    Its own programs tell, as 32-bit systems on kernels of 64 bits are common.
    """
    machine = first_line(output(transport, ["uname", "-m"]))
    runs = _OF_MACHINE.get(machine, ())
    own = next(filter(None, (elf_of(transport, path) for path in _PROGRAMS)), None)
    if own is None:
        return runs
    return (own, *(elf for elf in runs if elf != own and own in runs))


def _has_loader(transport: Transport, agent: BuiltAgent) -> bool:
    """Whether a board has the C library of an agent, as far as it can be seen."""
    name = agent.interpreter
    if not name or read_bytes(transport, EMULATED_MARK, 64) is not None:
        return True  # programs of an emulated board are those of this machine
    try:
        return transport.read(name, limit=4) is not None
    except UNREACHABLE:
        raise
    except DeviceError:  # it is there and only the board's own programs may read it
        return True
