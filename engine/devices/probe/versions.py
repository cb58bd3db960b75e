"""Versions of what a board runs models with: kernel driver, ``rknn_server``, runtime libraries.

They are read from files and from the kernel's log. ``rknn_server`` is never started to ask it: it
becomes a daemon and takes the device. ``strings`` is missing on many images, so the files are
searched by ``grep``, or here where there is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import packaging.version

from engine.base.errors import DeviceTimeoutError
from engine.base.text import sanitize
from engine.devices.probe.libraries import LIBRARIES
from engine.devices.probe.reading import (
    OUTPUT_LIMIT,
    first_line,
    output,
    ran,
    read_bytes,
    read_text,
)
from engine.devices.transport import Transport

MINI_CHIPS = frozenset({"rv1103", "rv1103b", "rv1106", "rv1106b"})
"""Chips whose runtime is the small one, librknnmrt."""

SERVER_PATHS = ("/usr/bin/rknn_server", "/vendor/bin/rknn_server", "/oem/usr/bin/rknn_server")

RUNTIMES = ("librknnrt", "librknnmrt", "librknn_runtime", "librknn_api")
"""Names of the runtime libraries: generation 2's two, then generation 1's."""

_FILE_LIMIT = 32 << 20
"""Bytes of a program or library that are read where the board has no ``grep``."""

_NUMBERS = re.compile(
    r"([0-9]{1,9}(?:\.[0-9]{1,9}){1,5})(?:[-._]?(alpha|beta|rc|a|b)([0-9]{0,6})(?![0-9A-Za-z]))?"
)

_SERVER = re.compile(
    rb"(?:rknn_server version: ?)?(?<![0-9.])([0-9]{1,4}(?:\.[0-9a-z]{1,8}){1,5}) "
    rb"\(([0-9a-f]{4,40} build[:@][ -'*-~]{4,60})\)"
)
_LIBRARY = {
    name: re.compile(
        name.encode() + rb" version:? ?(v?[0-9][!-'*-~]{0,40})(?: \(([ -'*-~]{0,90})\))?"
    )
    for name in RUNTIMES
}
_DRIVERS = {
    "rknpu": (
        ("/sys/kernel/debug/rknpu/version", "/proc/rknpu/version", "/sys/module/rknpu/version"),
        re.compile(r"(?i)(?:RKNPU driver: v|Initialized rknpu )([0-9][0-9.]{1,40})"),
    ),
    "galcore": (
        ("/sys/kernel/debug/gc/version",),
        re.compile(r"(?i)Galcore version ([0-9][0-9.]{1,40})"),
    ),
}
"""Driver -> files that hold its version, and how the kernel's log tells it."""


class Version(packaging.version.Version):
    """A version of a component, told as it is written.

    Attributes:
        text: as it is written.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    @classmethod
    def parse(cls, text: str) -> Version | None:
        """The first version in a text; None where there is none."""
        match = _NUMBERS.search(text[:500])
        return None if match is None else cls(match[0])

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Component:
    """A part of a board's software.

    Attributes:
        name: ``rknn_server``, ``librknnrt``, ``rknpu`` ...
        path: where it was read.
        version: None where the file is there and tells none.
        build: commit and date as written; an emulated board's says that it is emulated.
    """

    name: str
    path: str
    version: Version | None = None
    build: str = ""

    def __str__(self) -> str:
        emulated = " (emulated)" if "emulated" in self.build else ""
        return f"{self.name} {self.version or 'of an unknown version'}{emulated}"


@dataclass(frozen=True)
class Versions:
    """What was found on a board.

    Attributes:
        driver: ``rknpu`` of generation 2 or ``galcore`` of generation 1; None where neither tells.
        server: the first ``rknn_server``; None where there is none.
        server_pids: of those that run; None where the processes could not be listed.
        libraries: all copies, those that win first.
        mainline: whether the kernel drives the NPU by its own driver ``rocket``, which the
            vendor's runtime cannot use.
    """

    driver: Component | None = None
    server: Component | None = None
    server_pids: tuple[int, ...] | None = None
    libraries: tuple[Component, ...] = ()
    mainline: bool = False

    @property
    def runtime(self) -> Component | None:
        """The library that a program on the board gets."""
        return self.libraries[0] if self.libraries else None

    @property
    def hidden(self) -> tuple[Component, ...]:
        """Copies of that library with another version, which nobody gets."""
        first = self.runtime
        return tuple(
            copy
            for copy in self.libraries[1:]
            if first is not None and copy.name == first.name and copy.version != first.version
        )


def places(name: str) -> tuple[str, ...]:
    """Where a runtime library may lie; the first that is there is the one that programs get."""
    paths = (path for generation in (2, 1) for path in LIBRARIES[generation])
    return tuple(path for path in paths if path.endswith(f"/{name}.so"))


def libraries_of(chip: str | None, generation: int | None) -> tuple[str, ...]:
    """Names of the runtime libraries that a chip's programs use, the main one first."""
    if chip in MINI_CHIPS:
        return ("librknnmrt",)
    if chip == "rk3399pro":
        return ("librknn_api", "librknn_runtime")
    if generation == 1:
        return ("librknn_runtime", "librknn_api")
    if generation == 2:
        return ("librknnrt",)
    return RUNTIMES


def read_versions(
    transport: Transport, chip: str | None = None, generation: int | None = None
) -> Versions:
    """Read all versions of a board.

    Args:
        transport: the way to it.
        chip, generation: of the board; None looks for everything.

    Raises:
        DeviceLostError: the board has gone.
        DeviceTimeoutError: it does not answer.
    """
    libraries = [
        _search(transport, name, path, (f"{name}.version",), _LIBRARY[name])
        for name in libraries_of(chip, generation)
        for path in places(name)
    ]
    words = ("rknn_server.version", "build..20")
    servers = (_search(transport, "rknn_server", path, words, _SERVER) for path in SERVER_PATHS)
    uevent = read_text(transport, "/sys/class/accel/accel0/device/uevent") or ""
    return Versions(
        driver=_driver(transport, generation),
        server=next((server for server in servers if server), None),
        server_pids=running_on(transport, "rknn_server"),
        libraries=tuple(library for library in libraries if library),
        mainline="DRIVER=rocket" in uevent,
    )


def _search(
    transport: Transport, name: str, path: str, patterns: Iterable[str], form: re.Pattern[bytes]
) -> Component | None:
    """The component in a file; None where there is no such file.

    Patterns are words of ours without a character that means something to a shell; ``form`` says
    what is taken of the lines that grep finds. With busybox a line ends at NUL too.
    """
    if not read_bytes(transport, path, 4):
        return None  # asking first is cheap, and starting a program for each place is not
    words = ["grep", "-a", "-m", "8"]
    for pattern in patterns:
        words += ["-e", pattern]
    done = ran(transport, [*words, path])
    content = done.out if done else b""
    if match := form.search(content):
        return _component(name, path, match)
    if done is not None and done.code == 1 and not content.strip():
        return Component(name, path)
    try:
        match = form.search(read_bytes(transport, path, _FILE_LIMIT) or b"")
    except DeviceTimeoutError:  # a large file and a slow way: the rest can still be looked at
        match = None
    return _component(name, path, match) if match else Component(name, path)


def _component(name: str, path: str, match: re.Match[bytes]) -> Component:
    build = (match[2] or b"").decode("ascii", "replace")
    return Component(name, path, Version.parse(match[1].decode("ascii")), sanitize(build, 100))


def _driver(transport: Transport, generation: int | None) -> Component | None:
    names = {1: ("galcore",), 2: ("rknpu",)}.get(generation or 0, ("rknpu", "galcore"))
    for name in names:
        for path in _DRIVERS[name][0]:
            line = first_line(read_text(transport, path))
            if line:
                return Component(name, path, Version.parse(line))
    log = output(transport, ["dmesg"], OUTPUT_LIMIT)
    for name in names:
        if match := _DRIVERS[name][1].search(log):
            return Component(name, "dmesg", Version.parse(match[1]))
    return None


def running_on(transport: Transport, program: str) -> tuple[int, ...] | None:
    """Processes of a program on a board; None where they cannot be listed.

    ``ps -ef``, and plain ``ps`` of busybox and old Android.
    """
    for words in (["ps", "-ef"], ["ps"]):
        text = output(transport, words)
        if text.strip():
            return running(text, program)
    return None


def running(listing: str, program: str) -> tuple[int, ...]:
    """Process ids of a program in what ``ps`` prints, of procps, busybox, toybox or toolbox."""
    lines = listing[:OUTPUT_LIMIT].splitlines()
    header = lines[0].split() if lines else []
    column = header.index("PID") if "PID" in header else 0
    # a name is the whole of a word, with its folder; grep for it would be another program
    named = re.compile(rf"(?:^|[\s/]){re.escape(program)}(?:\s|$)")
    processes = []
    for line in lines:
        fields = line.split()
        if named.search(line) and "grep" not in fields and len(fields) > column:
            number = fields[column]
            if number.isascii() and number.isdecimal() and len(number) < 10:
                processes.append(int(number))
    return tuple(processes)
