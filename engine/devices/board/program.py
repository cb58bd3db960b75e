"""The program that is sent to a board: the agent for its processor and its C library.

It is the one that the user has built, else the one that comes with this program.
"""

from __future__ import annotations

from engine.base.errors import DeviceError
from engine.base.text import sanitize
from engine.devices.agent.built import TARGETS, BuiltAgent, agent_folder, find_built, target_of
from engine.devices.probe.reading import Elf, elf_of, first_line, output
from engine.devices.transport import UNREACHABLE, Transport

# a shell may be a script, as on emulated boards
_PROGRAMS = ("/bin/sh", "/system/bin/sh", "/bin/cat", "/usr/bin/cat", "/system/bin/cat")
_OF_MACHINE = {
    "aarch64": (TARGETS["aarch64"], TARGETS["armv7l"]),
    "armv8l": (TARGETS["armv7l"],),
    "armv7l": (TARGETS["armv7l"],),
    "x86_64": (TARGETS["x86_64"],),
}


def find_agent(transport: Transport) -> BuiltAgent:
    """The agent for a board.

    Raises:
        DeviceError: there is none for it.
        DeviceLostError: the board has gone.
    """
    processors = board_processors(transport)
    agents = find_built(processors)
    fitting = [agent for agent in agents if _has_loader(transport, agent)]
    if fitting:
        return fitting[0]
    target = next(filter(None, map(target_of, processors)), "") or "TARGET"
    command = f"rknntui devices agent build --target {target}"
    if agents:
        asked = ", ".join(dict.fromkeys(sanitize(agent.interpreter, 80) for agent in agents))
        raise DeviceError(
            f"No agent that is here runs on {transport.name}.",
            cause=f"They were built for another C library: they ask for {asked}, which the board "
            "does not have.",
            remedy="Build the agent with the compiler of the board's SDK, or of the NDK on "
            f"Android: {command} --compiler CC.",
        )
    runs = " and ".join(str(elf) for elf in processors) or "a processor that is not known"
    raise DeviceError(
        f"There is no agent for {transport.name}.",
        cause=f"It runs programs for {runs}. Agents come with this program for "
        f"{', '.join(TARGETS)}, your own are looked for in {agent_folder()}.",
        remedy=f"Build the agent with the compiler of the board's SDK: {command} --compiler CC.",
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
    if not agent.interpreter:
        return True
    try:
        return transport.read(agent.interpreter, limit=4) is not None
    except UNREACHABLE:
        raise
    except DeviceError:  # it is there and only the board's own programs may read it
        return True
