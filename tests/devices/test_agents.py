"""Which agent is sent to a board: by its processor and its C library, the user's own first."""

from __future__ import annotations

import platform
from contextlib import closing
from pathlib import Path

import pytest

from engine.base.errors import DeviceError
from engine.devices.agent.built import PREBUILT, TARGETS, VARIABLE, agent_folder, build_agent
from engine.devices.board.program import board_processors, find_agent
from engine.devices.board.runtime import BoardRuntime
from engine.devices.probe.reading import HEAD, Elf, program_interpreter, read_elf
from engine.devices.transports.adb.transport import AdbTransport
from rknntui_emulator.runtime.build import compiler
from tests.devices import verbs
from tests.devices.conftest import Boards, add_c_library
from tests.devices.probe.boards import Board

ARM64, ARM = TARGETS["aarch64"], TARGETS["armv7l"]


# -- which one is taken


def elf_head(elf: Elf) -> bytes:
    number = {"ARM64": 183, "ARM": 40, "x86-64": 62, "RISC-V": 243}[elf.machine]
    head = b"\x7fELF" + bytes([elf.bits // 32, 1, 1]) + bytes(9) + b"\x03\x00"
    return head + number.to_bytes(2, "little") + bytes(44)


def program(elf: Elf, loader: str = "") -> bytes:
    """A program as far as it is looked at: its header, and one entry that names the loader."""
    wide = elf.bits == 64
    content = bytearray(elf_head(elf).ljust(64, b"\0")) + bytes(64) + loader.encode() + b"\0"
    if wide:
        content[32:40], content[54:58] = (64).to_bytes(8, "little"), b"\x38\0\x01\0"
        content[64:68], content[72:80] = b"\x03\0\0\0", (128).to_bytes(8, "little")
    else:
        content[28:32], content[42:46] = (64).to_bytes(4, "little"), b"\x20\0\x01\0"
        content[64:68], content[68:72] = b"\x03\0\0\0", (128).to_bytes(4, "little")
    return bytes(content)


def bare(machine: str, shell: Elf | None = None, *loaders: str) -> Board:
    files = {"/bin/sh": elf_head(shell)} if shell else {}
    return Board({**files, **dict.fromkeys(loaders, b"\x7fELF")}, {"uname": machine.encode()})


@pytest.fixture
def nothing_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only agents of the user's."""
    monkeypatch.setattr("engine.devices.agent.built.PREBUILT", Path("/nothing"))


def store(name: str, content: bytes) -> Path:
    agent_folder().mkdir(parents=True, exist_ok=True)
    (agent_folder() / name).write_bytes(content)
    return agent_folder() / name


def test_the_shell_tells_the_processor_and_the_kernel_where_there_is_none() -> None:
    assert board_processors(bare("aarch64", ARM64)) == (ARM64, ARM)
    assert board_processors(bare("aarch64", ARM)) == (ARM, ARM64)
    assert board_processors(bare("armv7l", ARM)) == (ARM,)
    assert board_processors(bare("aarch64")) == (ARM64, ARM)
    assert board_processors(bare("riscv64")) == ()


@pytest.mark.parametrize("elf", [ARM64, ARM])
def test_the_loader_of_a_program_is_read(elf: Elf) -> None:
    whole = program(elf, "/lib/ld.so.1")
    assert read_elf(whole[:HEAD]) == elf
    assert program_interpreter(whole) == "/lib/ld.so.1"
    for size in range(len(whole) - 1):
        assert program_interpreter(whole[:size]) in "/lib/ld.so.1"  # cut: less of it, or nothing
    assert program_interpreter(elf_head(elf)) == ""


@pytest.mark.usefixtures("nothing_comes")
def test_the_one_whose_c_library_the_board_has_is_taken() -> None:
    glibc = store("agent-armv7l", program(ARM, "/lib/ld-linux-armhf.so.3"))
    uclibc = store("agent-armv7l-uclibc", program(ARM, "/lib/ld-uClibc.so.0"))
    store("agent-aarch64", program(ARM64))
    store("agent-notes", b"no program")
    buildroot = bare("armv7l", ARM, "/lib/ld-uClibc.so.0")
    assert find_agent(buildroot).path == uclibc
    debian = bare("aarch64", ARM, "/lib/ld-linux-armhf.so.3")
    assert find_agent(debian).path == glibc
    with pytest.raises(DeviceError, match="No agent that is here runs on") as caught:
        find_agent(bare("armv7l", ARM))
    assert "ask for /lib/ld-linux-armhf.so.3, /lib/ld-uClibc.so.0" in caught.value.cause
    assert "--target armv7l --compiler CC" in caught.value.remedy


def test_those_that_come_with_the_program_fit_boards_of_every_kind() -> None:
    """No agent of the user's: Debian of 64 and of 32 bits, RV1106, Android."""
    for machine, elf, loader, name in (
        ("aarch64", ARM64, "/lib/ld-linux-aarch64.so.1", "agent-aarch64"),
        ("aarch64", ARM, "/lib/ld-linux-armhf.so.3", "agent-armv7l"),
        ("armv7l", ARM, "/lib/ld-uClibc.so.0", "agent-armv7l-uclibc"),
        ("x86_64", TARGETS["x86_64"], "/lib64/ld-linux-x86-64.so.2", "agent-x86_64"),
    ):
        assert find_agent(bare(machine, elf, loader)).path == PREBUILT / name
    with pytest.raises(DeviceError, match="No agent") as caught:
        find_agent(bare("aarch64", ARM64, "/system/bin/linker64"))
    assert "of the NDK on Android" in caught.value.remedy


def test_what_to_build_is_told_where_there_is_none() -> None:
    with pytest.raises(DeviceError, match="There is no agent for") as caught:
        find_agent(bare("riscv64", Elf("RISC-V", 64)))
    assert "It runs programs for RISC-V (64 bits)" in caught.value.cause
    assert str(agent_folder()) in caught.value.cause
    assert "rknntui devices agent build --target TARGET" in caught.value.remedy
    with pytest.raises(DeviceError, match="There is no agent for") as caught:
        find_agent(bare("strange"))
    assert "a processor that is not known" in caught.value.cause


@pytest.mark.adb
def test_an_emulated_android_board_asks_for_an_agent_of_the_ndk(board: Boards) -> None:
    """As a real one does: it has not the C library of the agents that come with the program."""
    made = board("rk3566", android=True)
    with closing(AdbTransport.open(made.address)) as transport:
        with pytest.raises(DeviceError, match="No agent that is here runs on") as caught:
            BoardRuntime(transport)
        assert "of the NDK on Android" in caught.value.remedy
        add_c_library(made)
        assert find_agent(transport).path == PREBUILT / f"agent-{platform.machine()}"


def test_the_variable_names_another_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store("agent-aarch64", program(ARM64))
    own = tmp_path / "my agent $(x)"
    own.write_bytes(program(ARM64))
    monkeypatch.setenv(VARIABLE, str(own))
    assert find_agent(bare("aarch64", ARM64)).path == own
    with pytest.raises(DeviceError, match="built for ARM64") as caught:
        find_agent(bare("armv7l", ARM))
    assert "runs programs for ARM (32 bits)" in caught.value.cause
    own.write_text("#!/bin/sh\n")
    with pytest.raises(DeviceError, match="is no program"):
        find_agent(bare("aarch64", ARM64))
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with pytest.raises(DeviceError, match="cannot be read"):
        find_agent(bare("aarch64", ARM64))


# -- how it is built


def test_a_compiler_for_another_processor_is_told(tmp_path: Path) -> None:
    made = tmp_path / "made"
    made.write_bytes(program(ARM))
    copies = f'while [ "$1" != -o ]; do shift; done\ncp {made} "$2"'
    compiles = verbs.program(tmp_path / "cc", copies)
    with pytest.raises(DeviceError, match=r"for ARM \(32 bits\), not for aarch64"):
        build_agent("aarch64", str(compiles), tmp_path / "out" / "agent")
    assert list((tmp_path / "out").iterdir()) == []
    built = build_agent("armv7l", str(compiles), tmp_path / "out" / "agent")
    assert (built.processor, built.interpreter, built.found) == ("ARM (32 bits)", "", False)
    assert (tmp_path / "out" / "agent").read_bytes() == program(ARM)


def test_without_a_compiler_it_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(DeviceError, match="no C compiler for armv7l") as caught:
        build_agent("armv7l")
    assert "pip install ziglang" in caught.value.remedy
    with pytest.raises(DeviceError, match=r"no compiler cc; touch x here"):
        build_agent("aarch64", "cc; touch x")


def test_what_the_compiler_says_is_told(tmp_path: Path) -> None:
    fails = verbs.program(tmp_path / "cc $(touch x)", "echo 'no stdio.h\x1b[31m' >&2\nexit 1")
    with pytest.raises(DeviceError, match="could not be compiled") as caught:
        build_agent("aarch64", str(fails), tmp_path / "out" / "agent")
    assert "no stdio.h" in caught.value.cause
    assert "\x1b" not in caught.value.cause
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.long
@pytest.mark.cc
def test_the_command_builds_it_where_it_is_found() -> None:
    machine = platform.machine()
    ran = verbs.run("devices", "agent", "build", "--target", machine, "--compiler", str(compiler()))
    assert (ran.returncode, ran.stderr) == (0, "")
    assert f"built {agent_folder() / f'agent-{machine}'}" in ran.stdout
    loader = program_interpreter((agent_folder() / f"agent-{machine}").read_bytes())
    assert loader.startswith("/lib")
    assert find_agent(bare(machine, TARGETS[machine], loader)).interpreter == loader
