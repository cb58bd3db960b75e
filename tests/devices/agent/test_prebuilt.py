"""The agents that come with the program: of these sources, for C libraries of old boards."""

from __future__ import annotations

import hashlib
import json
import re
import struct

import pytest

from engine.devices.agent.built import PREBUILT, TARGETS, agent_folder, find_built
from engine.devices.probe.reading import HEAD, program_interpreter, read_elf
from scripts.make_agents import MANIFEST, UCLIBC, ZIG, sources_digest

LOADERS = {
    "aarch64": "/lib/ld-linux-aarch64.so.1",
    "armv7l": "/lib/ld-linux-armhf.so.3",
    "x86_64": "/lib64/ld-linux-x86-64.so.2",
}
OLDEST = (2, 17)
"""glibc of 2012: Debian 10 has 2.28, Ubuntu 20.04 has 2.31, Buildroot 2018.02 has 2.26."""


def test_they_are_of_these_sources() -> None:
    """``.ci/agents`` builds them again and compares the bytes."""
    told = json.loads((PREBUILT / MANIFEST).read_text("ascii"))
    assert told["zig"] == ZIG
    assert told["sources"] == sources_digest(), "run scripts/make_agents.py"
    found = {path.name: path.read_bytes() for path in PREBUILT.glob("agent-*")}
    assert {name: hashlib.sha256(data).hexdigest() for name, data in found.items()} == told[
        "agents"
    ]
    assert set(found) == {f"agent-{target}" for target in TARGETS} | {UCLIBC}


@pytest.mark.parametrize("target", TARGETS)
def test_they_ask_for_an_old_c_library(target: str) -> None:
    content = (PREBUILT / f"agent-{target}").read_bytes()
    assert read_elf(content[:HEAD]) == TARGETS[target]
    assert program_interpreter(content) == LOADERS[target]
    versions = {(int(a), int(b)) for a, b in re.findall(rb"GLIBC_([0-9]+)\.([0-9]+)", content)}
    assert versions
    assert max(versions) <= OLDEST
    assert b"/work/" not in content  # no path of the machine that built it


def needed(content: bytes) -> list[str]:
    """The libraries that a program of 32 bits asks for. Format: the System V ABI, ``Elf32_Dyn``."""
    (table,) = struct.unpack_from("<I", content, 28)
    size, count = struct.unpack_from("<HH", content, 42)
    parts = [struct.unpack_from("<8I", content, table + n * size) for n in range(count)]
    (dynamic,) = [part for part in parts if part[0] == 2]

    def offset(address: int) -> int:
        (part,) = [p for p in parts if p[0] == 1 and p[2] <= address < p[2] + p[4]]
        return int(part[1] + address - part[2])

    pairs = list(struct.iter_unpack("<2I", content[dynamic[1] : dynamic[1] + dynamic[4]]))
    (strings,) = [offset(value) for tag, value in pairs if tag == 5]
    names = [content[strings + value :] for tag, value in pairs if tag == 1]
    return [name.partition(b"\0")[0].decode("ascii") for name in names]


def test_that_of_rv1106_asks_for_uclibc_alone() -> None:
    """One library, its loader, and nothing that glibc alone has."""
    content = (PREBUILT / UCLIBC).read_bytes()
    assert read_elf(content[:HEAD]) == TARGETS["armv7l"]
    assert program_interpreter(content) == "/lib/ld-uClibc.so.0"
    assert needed(content) == ["libc.so.0"]
    assert "libc.so.6" in needed((PREBUILT / "agent-armv7l").read_bytes())  # it does look
    assert b"GLIBC" not in content
    assert b"__tls_get_addr" not in content  # the loader of uClibc-ng 1.0.35 dies of such a program
    assert b"/work/" not in content


def test_the_users_own_agent_comes_first() -> None:
    own = agent_folder() / "agent-aarch64"
    own.parent.mkdir(parents=True)
    own.write_bytes((PREBUILT / "agent-aarch64").read_bytes() + b"own")
    found = find_built([TARGETS["aarch64"]])
    assert [each.path for each in found] == [own, PREBUILT / "agent-aarch64"]
