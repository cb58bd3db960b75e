"""Build the agents in C that come with the program, or hold those that are there to the sources.

``make_agents.py`` writes ``engine/devices/agent/prebuilt``; ``make_agents.py --check`` builds them
again elsewhere and fails where a byte differs. It needs the version of zig's package that is named
here (``pip install ziglang==...``): the same compiler and sources give the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from engine.devices.agent.build import AGENT_TARGETS, SOURCES, build_agent
from engine.devices.agent.built import PREBUILT

ZIG = "0.14.1"
MANIFEST = "agents.json"


def sources_digest() -> str:
    """SHA-256 over the names and bytes of all sources."""
    total = hashlib.sha256()
    for path in sorted(SOURCES.glob("*.[ch]")):
        total.update(f"{path.name}\0{path.stat().st_size}\0".encode())
        total.update(path.read_bytes())
    return total.hexdigest()


def make(folder: Path) -> None:
    """Build every agent into a folder, with what tells where they come from."""
    found = {}
    for target in AGENT_TARGETS:
        path = folder / f"agent-{target}"
        build_agent(target, output=path, force=True)
        path.chmod(0o755)
        found[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    told = {"zig": ZIG, "sources": sources_digest(), "agents": found}
    (folder / MANIFEST).write_text(json.dumps(told, indent=2) + "\n", encoding="ascii")


def main(arguments: list[str]) -> int:
    """Build or check; the exit code."""
    try:
        there = version("ziglang")
    except PackageNotFoundError:
        there = "none"
    if there != ZIG:
        print(f"ziglang {ZIG} is needed, there is {there}: pip install ziglang=={ZIG}")
        return 2
    if arguments != ["--check"]:
        PREBUILT.mkdir(exist_ok=True)
        make(PREBUILT)
        return 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder)
        other = [p.name for p in folder.iterdir() if p.read_bytes() != _bytes(PREBUILT / p.name)]
    print(f"other than those of the sources: {', '.join(sorted(other))}" if other else "the same")
    return 1 if other else 0


def _bytes(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
