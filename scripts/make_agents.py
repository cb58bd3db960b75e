#!/usr/bin/env python3
"""Build the agents that come with the program, byte by byte the same everywhere.

    python scripts/make_agents.py            into engine/devices/agent/prebuilt
    python scripts/make_agents.py --check    the exit code is 1 where those there are others

They are for old C libraries, so that boards of many years run them: glibc 2.17, which zig carries,
and uClibc for RV1103 and RV1106, which ``.ci/uclibc`` makes (RKNNTUI_UCLIBC is its folder). It
needs the version of zig's package that is named here (``pip install ziglang==...``): the same
compiler and sources give the same bytes. Without uClibc the check leaves out its agent, and says
so.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path

from engine.devices.agent.built import AGENT_TARGETS, PREBUILT, SOURCES, build_agent

ZIG = "0.14.1"
MANIFEST = "agents.json"
UCLIBC = "agent-armv7l-uclibc"

_COMMAND = [sys.executable, "-P", "-m", "ziglang"]
_TARGET = ("-target", "arm-linux-gnueabihf.2.17")  # its headers and libraries are not used
_LOADER = "/lib/ld-uClibc.so.0"


def sources_digest() -> str:
    """SHA-256 over the names and bytes of all sources."""
    total = hashlib.sha256()
    for path in sorted(SOURCES.glob("*.[ch]")):
        total.update(f"{path.name}\0{path.stat().st_size}\0".encode())
        total.update(path.read_bytes())
    return total.hexdigest()


def uclibc() -> Path | None:
    """The folder that ``.ci/uclibc`` made."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    root = Path(os.environ.get("RKNNTUI_UCLIBC") or cache / "rknntui" / "uclibc")
    return root if (root / "made").exists() else None


def build_for_uclibc(root: Path, target: Path) -> None:
    """Compile the agent for uClibc, which zig does not know: it only compiles and links.

    Args:
        root: see :func:`uclibc`.
        target: the program.
    """
    library = root / "usr" / "lib"
    runtime = distribution("ziglang").locate_file("ziglang/lib/compiler_rt.zig")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        flags = ["-std=gnu11", "-O2", "-fno-unwind-tables", "-fno-asynchronous-unwind-tables"]
        headers = ["-nostdinc", "-isystem", str(root / "usr" / "include")]
        objects = []
        for source in sorted(SOURCES.glob("*.c")):
            objects.append(str(folder / f"{source.stem}.o"))
            _zig("cc", *_TARGET, *flags, *headers, "-c", str(source), "-o", objects[-1])
        # what a compiler for ARM calls and its libgcc has elsewhere: divisions, conversions
        parts = ["-ffunction-sections", "-fdata-sections", "-fno-compiler-rt"]
        helpers = folder / "libhelpers.a"
        small = ["-O", "ReleaseSmall", "-fstrip", f"-femit-bin={helpers}"]
        _zig("build-lib", *_TARGET, *small, *parts, str(runtime))
        linked = ["-s", "--gc-sections", "--exclude-libs", "ALL", "--hash-style=both"]
        linked += ["-z", "noexecstack", "--build-id=none", "-dynamic-linker", _LOADER]
        first = [str(library / part) for part in ("crt1.o", "crti.o")]
        last = [str(helpers), str(root / "lib" / "libc.so.0"), str(library / "crtn.o")]
        _zig("ld.lld", *linked, "-o", str(target), *first, *objects, *last)


def _zig(*words: str) -> None:
    subprocess.run([*_COMMAND, *words], check=True)


def make(folder: Path) -> list[str]:
    """Build every agent into a folder, with what tells where they come from.

    Returns:
        The agents that could not be built: for uClibc, where it is not there.
    """
    for target in AGENT_TARGETS:
        build_agent(target, output=folder / f"agent-{target}", force=True)
    root = uclibc()
    if root is not None:
        build_for_uclibc(root, folder / UCLIBC)
    digests = {}
    for path in sorted(folder.glob("agent-*")):
        path.chmod(0o755)
        digests[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    manifest = {"zig": ZIG, "sources": sources_digest(), "agents": digests}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="ascii")
    return [] if root is not None else [UCLIBC]


def check() -> int:
    """Build them elsewhere and compare; the exit code."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        left_out = make(folder)
        agents = {path.name: path.read_bytes() for path in folder.glob("agent-*")}
    names = {path.name for path in PREBUILT.glob("agent-*")} - set(left_out)
    other = [
        name
        for name in sorted(names | agents.keys())
        if name not in names or agents.get(name) != (PREBUILT / name).read_bytes()
    ]
    for one in left_out:
        print(f"{one} is not compared: there is no uClibc here, which .ci/uclibc makes")
    print(f"other than those of the sources: {', '.join(other)}" if other else "the same")
    return 1 if other else 0


def main(arguments: list[str]) -> int:
    """Build or check; the exit code."""
    try:
        there = version("ziglang")
    except PackageNotFoundError:
        there = "none"
    if there != ZIG:
        print(f"ziglang {ZIG} is needed, there is {there}: pip install ziglang=={ZIG}")
        return 2
    if arguments == ["--check"]:
        return check()
    if uclibc() is None:
        print("there is no uClibc for RV1103 and RV1106: run .ci/uclibc")
        return 2
    PREBUILT.mkdir(exist_ok=True)
    make(PREBUILT)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
