"""Versions of what a board runs models with: kernel driver, ``rknn_server``, runtime libraries.

They are read from files and from the kernel's log. ``rknn_server`` is never started to ask it: it
becomes a daemon and takes the device. ``strings`` is missing on many images, so the files are
searched by ``grep``, or here where there is none. Paths of the libraries: the vendor's installation
notes for each chip [RKNN-RT2 2.3.2, RKNN-RT1 1.7.5].
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import packaging.version

from engine.base.errors import DeviceStorageError, DeviceTimeoutError, RuntimeLibraryError
from engine.base.text import sanitize
from engine.devices.probe.reading import (
    HEAD,
    OUTPUT_LIMIT,
    Elf,
    first_line,
    output,
    ran,
    read_bytes,
    read_elf,
    read_text,
)
from engine.devices.transport import Transport

_FOLDERS = (
    "/usr/lib",
    "/usr/lib64",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib/arm-linux-gnueabihf",
    "/usr/local/lib",
    "/vendor/lib64",
    "/vendor/lib",
    "/oem/usr/lib",
)

LIBRARIES = {
    # on an RV1103 or RV1106 a copy of librknnmrt.so in /usr/lib is the one that is loaded
    2: (
        *(f"{folder}/librknnrt.so" for folder in _FOLDERS),
        "/usr/lib/librknnmrt.so",
        "/oem/usr/lib/librknnmrt.so",
        "/vendor/lib64/librknn_api_android.so",
        "/vendor/lib/librknn_api_android.so",
    ),
    1: (
        *(f"{folder}/librknn_api.so" for folder in _FOLDERS[:5]),
        *(f"{folder}/librknn_runtime.so" for folder in _FOLDERS),
    ),
}
"""Generation of the NPU -> absolute paths, in the order in which they are tried."""

_PLAIN = re.compile(r"[A-Za-z0-9@%+=:,./_-]+")


def usable_libraries(
    transport: Transport,
    generation: int | None,
    wanted: Elf | None,
    given: str = "",
) -> tuple[str, ...]:
    """The libraries that are on a board and fit what loads them, in the order in which to try them.

    Args:
        transport: the board.
        generation: of the model; None where it is not known.
        wanted: the processor of what loads them; None where nothing is known.
        given: the library that the user names, in place of all others.

    Raises:
        RuntimeLibraryError: there is none, or each is for another processor.
    """
    if given and not _PLAIN.fullmatch(given):
        return (given,)  # such a path travels in a message only: the agent looks for itself
    paths = (given,) if given else LIBRARIES.get(generation or 0, LIBRARIES[2] + LIBRARIES[1])
    usable, foreign = [], []
    for path in paths:
        try:
            head = transport.read(path, limit=HEAD)
        except DeviceStorageError:  # only its own processes may read it
            usable.append(path)
            continue
        if head is None:
            continue
        elf = read_elf(head)
        if elf is None or (wanted and elf != wanted):
            foreign.append(f"{path} is for {elf}" if elf else f"{path} is no library")
        else:
            usable.append(path)
    if usable:
        return tuple(usable)
    if foreign:
        raise RuntimeLibraryError(
            f"No runtime library of {transport.name} fits its agent.",
            cause=f"{'; '.join(foreign)}. The agent there is for {wanted or 'another processor'}.",
            remedy="Install the library of the vendor for this processor, or build the "
            "agent for that of the library: rknntui devices agent build.",
        )
    other = {1: 2, 2: 1}.get(generation or 0)
    elsewhere = [p for p in LIBRARIES.get(other or 0, ()) if read_bytes(transport, p, HEAD)]
    if elsewhere and not given:
        raise RuntimeLibraryError(
            f"{transport.name} has no runtime library of generation {generation}.",
            cause=f"It has {elsewhere[0]}, which runs models of generation {other} only.",
            remedy=f"Run a model that was built for a chip of generation {other}.",
        )
    raise RuntimeLibraryError(
        f"There is no runtime library of the vendor on {transport.name}.",
        cause=f"Tried were {', '.join(paths[:12])}.",
        remedy="Install the vendor's runtime (librknnrt.so for generation 2, librknn_runtime.so "
        "for generation 1) into /usr/lib of the board, or name the library.",
    )


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
