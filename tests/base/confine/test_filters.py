"""The filter of calls: its table held to the headers of the kernel, its program interpreted."""

from __future__ import annotations

import errno
import re
import struct
from pathlib import Path

import pytest

from engine.base.confine import filters
from engine.base.confine.filters import ROLES, allowed_numbers, filter_program, table

HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/aarch64-linux-gnu/include/asm-generic/unistd.h"),
}
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
MACHINES = sorted(HEADERS)
ALLOW, EPERM, ENOSYS, NOTHING = 0x7FFF0000, 0x50000 | errno.EPERM, 0x50000 | errno.ENOSYS, 0x50000
OWN = 4711


def numbers_of(header: Path) -> dict[str, int]:
    """Name -> number, as a 64-bit program gets it from a header of the kernel."""
    if not header.is_file():
        pytest.skip(f"{header} is not installed (linux-libc-dev, linux-libc-dev-arm64-cross)")
    text = header.read_text()
    either = dict(re.findall(r"#define __NR3264_(\w+) (\d+)", text))
    found = {n: int(v) for n, v in re.findall(r"#define __NR_(\w+) (\d+)", text)}
    for name, kind in re.findall(r"#define __NR_(\w+) __NR3264_(\w+)", text):
        if kind in either:
            found.setdefault(name, int(either[kind]))
    found.pop("syscalls", None)  # their count
    return found


def run(program: list[filters.Instruction], number: int, *given: int, machine: str) -> int:
    """What the kernel would answer: the few instructions of BPF that the program uses."""
    arguments = [each & (1 << 64) - 1 for each in (*given, *[0] * (6 - len(given)))]
    data = struct.pack("<IIQ6Q", number, ARCHITECTURES[machine], 0, *arguments)
    at, value = 0, 0
    while True:
        code, true, false, constant = program[at]
        at += 1
        if code == 0x20:
            (value,) = struct.unpack_from("<I", data, constant)
        elif code == 0x54:
            value &= constant
        elif code == 0x06:
            return constant
        else:
            holds = {0x15: value == constant, 0x25: value > constant, 0x35: value >= constant}[code]
            at += true if holds else false


class Filter:
    def __init__(self, machine: str, role: str) -> None:
        self.machine, self.program = machine, filter_program(machine, role, OWN)
        self.numbers = {one.name: one.numbers.get(machine, -1) for one in table()}

    def __call__(self, name: str, *arguments: int) -> int:
        return run(self.program, self.numbers[name], *arguments, machine=self.machine)


@pytest.mark.parametrize("machine", MACHINES)
def test_the_numbers_are_those_of_the_kernels_headers(machine: str) -> None:
    wanted = numbers_of(HEADERS[machine])
    newest = max(number for number in wanted.values() if number < 1000)
    seen = 0
    for one in table():
        number = one.numbers.get(machine)
        if number is None:
            assert one.name not in wanted
        elif number <= newest:
            assert wanted[one.name] == number, one.name
            seen += 1
    assert seen > 180


def test_newer_calls_have_one_number_everywhere() -> None:
    for one in table():
        if max(one.numbers.values()) >= 424:
            assert len(set(one.numbers.values())) == 1, one.name
            assert len(one.numbers) == 2, one.name


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("role", ROLES)
def test_every_other_call_of_the_headers_is_refused(machine: str, role: str) -> None:
    program = filter_program(machine, role, OWN)
    allowed = allowed_numbers(machine, role)
    for name, number in numbers_of(HEADERS[machine]).items():
        if number not in allowed:
            refused = ENOSYS if number >= 424 else EPERM
            assert run(program, number, machine=machine) == refused, name


@pytest.mark.parametrize("machine", MACHINES)
def test_calls_that_are_not_known_yet_do_not_exist(machine: str) -> None:
    """Libraries fall back where the kernel does not know a call, and give up where it refuses."""
    program = filter_program(machine, "converter", OWN)
    for number in (435, 463, 500, 10_000):  # clone3, and those of kernels to come
        assert run(program, number, machine=machine) == ENOSYS


@pytest.mark.parametrize("machine", MACHINES)
def test_other_numbers_of_the_same_calls_are_refused(machine: str) -> None:
    program = filter_program(machine, "converter", OWN)
    assert run(program, 0x40000000, machine=machine) == EPERM
    other = "aarch64" if machine == "x86_64" else "x86_64"
    assert run(program, 0, machine=other) == EPERM


THREAD = 0x3D0F00  # what glibc starts one with


@pytest.mark.parametrize("machine", MACHINES)
def test_arguments_decide(machine: str) -> None:
    converter, toolkit, board = (Filter(machine, role) for role in ROLES)
    assert converter("read", 7) == converter("mmap", 1, 2) == ALLOW
    assert converter("clone", THREAD) == ALLOW
    assert converter("clone", 17) == EPERM  # a process
    assert toolkit("clone", 17) == ALLOW
    for bit in (0x00020000, 0x10000000, 0x20000000, 0x40000000, 0x02000000):
        assert converter("clone", THREAD | bit) == toolkit("clone", 17 | bit) == EPERM
    for name in ("kill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"):
        assert converter(name, OWN, 9) == ALLOW
        for other in (0, 1, OWN + 1, -1, -OWN):
            assert converter(name, other, 9) == board(name, other, 9) == EPERM, (name, other)
    for name in ("prlimit64", "sched_setaffinity", "sched_setattr", "getsid"):
        assert converter(name, 0) == converter(name, OWN) == ALLOW
        assert converter(name, OWN + 1) == toolkit(name, 1) == EPERM
    for name, process, group, user in (("setpriority", 0, 1, 2), ("ioprio_set", 1, 2, 3)):
        assert converter(name, process, 0) == converter(name, process, OWN) == ALLOW
        assert converter(name, process, 1) == EPERM
        assert converter(name, group, 0) == converter(name, user, 0) == EPERM
    assert converter("fcntl", 3, 4, 0x800) == ALLOW
    assert converter("fcntl", 3, 8, 1) == board("fcntl", 3, 10, 9) == EPERM  # F_SETOWN, F_SETSIG
    assert converter("ioctl", 1, 0x5401) == ALLOW
    assert converter("ioctl", 1, 0x5412) == toolkit("ioctl", 1, 0x5412) == EPERM  # TIOCSTI
    assert board("ioctl", 1, 0x802C550A) == ALLOW  # of USB
    assert converter("prctl", 15) == ALLOW
    assert converter("prctl", 35) == toolkit("prctl", 0x59616D61) == EPERM  # SET_MM, SET_PTRACER
    assert converter("socketpair", 1, 1 | 0o2000000) == ALLOW
    assert converter("socketpair", 1, 2) == converter("socketpair", 2, 1) == EPERM
    assert converter("socket", 1, 1) == toolkit("socket", 2, 1) == EPERM
    assert board("socket", 2, 1) == ALLOW
    assert board("socket", 16, 3) == board("socket", 17, 3) == EPERM  # netlink, packets
    assert converter("execve") == EPERM
    assert toolkit("execve") == ALLOW
    assert converter("fchmodat") == EPERM
    assert toolkit("fchmodat") == board("utimensat") == NOTHING


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("role", ROLES)
def test_the_kernel_takes_the_program(machine: str, role: str) -> None:
    program = filter_program(machine, role, OWN)
    assert len(program) < 4096  # BPF_MAXINSNS
    for at, (code, true, false, constant) in enumerate(program):
        assert 0 <= constant < 1 << 32
        if code not in (0x20, 0x54, 0x06):
            assert at + 1 + max(true, false) < len(program)
            assert max(true, false) < 256
