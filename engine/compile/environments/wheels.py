"""A folder of wheels, looked through before anything is made: what is missing, how large it is."""

from __future__ import annotations

import platform
import re
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from engine.base.errors import ToolkitError
from engine.base.text import sanitize
from engine.compile.environments.pins import Pins
from engine.compile.environments.requirements import normal_name, parse

__all__ = ["Wheel", "check_wheels", "wheels_in"]

_LIMIT = 1 << 20
_MANYLINUX = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}
_PYTHON_TAG = re.compile(r"(py|cp)3(\d{0,2})")
_TAG = re.compile(r"(manylinux\d+|manylinux_(\d+)_(\d+)|linux)_(x86_64|aarch64)")


@dataclass(frozen=True)
class Wheel:
    """A wheel by its name (PEP 427): ``numpy-1.26.4-cp311-cp311-manylinux_2_17_x86_64.whl``."""

    path: Path
    name: str
    version: str
    pythons: tuple[str, ...]
    abis: tuple[str, ...]
    platforms: tuple[str, ...]

    @classmethod
    def of(cls, path: Path) -> Wheel | None:
        """What a file's name says; None where it is no wheel's."""
        parts = path.name.removesuffix(".whl").split("-")
        if path.suffix != ".whl" or len(parts) not in (5, 6):
            return None
        pythons, abis, platforms = (part.split(".") for part in parts[-3:])
        name = normal_name(parts[0])
        return cls(path, name, parts[1], tuple(pythons), tuple(abis), tuple(platforms))

    def fits(self, python: str, machine: str, glibc: tuple[int, int]) -> bool:
        """Whether pip takes it.

        Args:
            python: ``3.11``.
            machine: ``x86_64`` or ``aarch64``.
            glibc: of this system.
        """
        minor = int(python.partition(".")[2])
        return self._fits_python(minor) and any(
            _fits_platform(tag, machine, glibc) for tag in self.platforms
        )

    def _fits_python(self, minor: int) -> bool:
        for tag in self.pythons:
            found = _PYTHON_TAG.fullmatch(tag)
            if found is None:
                continue
            kind, number = found[1], int(found[2] or 0)
            if kind == "py" and number <= minor:
                return True
            own = number == minor and any(abi in (tag, f"{tag}m", "none") for abi in self.abis)
            if kind == "cp" and (own or (number <= minor and "abi3" in self.abis)):
                return True
        return False


def _fits_platform(tag: str, machine: str, glibc: tuple[int, int]) -> bool:
    if tag == "any":
        return True
    found = _TAG.fullmatch(tag)
    if found is None or found[4] != machine:
        return False
    if found[2]:
        return (int(found[2]), int(found[3])) <= glibc
    return _MANYLINUX.get(found[1], (0, 0)) <= glibc


def wheels_in(folder: Path) -> list[Wheel]:
    """The wheels of a folder.

    Raises:
        ToolkitError: it cannot be read.
    """
    try:
        paths = sorted(folder.iterdir())
    except OSError as error:
        raise ToolkitError(
            f"The folder of wheels {folder} cannot be read: {error.strerror}.",
            cause="It is misspelled, is no folder, or belongs to another user.",
            remedy="Give the folder that has the wheels with --wheels.",
        ) from error
    return [wheel for path in paths if (wheel := Wheel.of(path)) is not None]


def check_wheels(folder: Path, pins: Pins) -> tuple[Wheel, ...]:
    """Look whether everything is there.

    Returns:
        What is to be installed, with what the pinned packages ask for beside the pins.

    Raises:
        ToolkitError: a wheel is missing; names all that are, and how to get them.
    """
    machine, glibc = platform.machine(), _glibc()
    fitting: dict[str, list[Wheel]] = {}
    for wheel in wheels_in(folder):
        if wheel.fits(pins.python, machine, glibc):
            fitting.setdefault(wheel.name, []).append(wheel)
    missing, taken = [], {}
    for name, version in pins.all.items():
        there = fitting.get(normal_name(name), ())
        # a local part (+cpu) is of the same version
        suited = [one for one in there if version in (one.version, one.version.partition("+")[0])]
        if suited:
            taken[normal_name(name)] = max(suited, key=lambda one: "+" in one.version)
        else:
            missing.append(f"{name}=={version}")
    further, absent = _further(list(taken.values()), fitting, pins)
    if missing or absent:
        raise _missing_error(folder, [*missing, *absent], pins, machine)
    return *taken.values(), *further


def _further(
    taken: Sequence[Wheel], fitting: dict[str, list[Wheel]], pins: Pins
) -> tuple[list[Wheel], list[str]]:
    """What the wheels themselves ask for beside the pins, as torch does for its CUDA libraries.

    Returns:
        Wheels that are there, and requirements for which there is none.
    """
    facts = {
        "python_version": pins.python,
        "platform_system": "Linux",
        "platform_machine": platform.machine(),
        "sys_platform": "linux",
        "os_name": "posix",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
    }
    without = {normal_name(one.partition("==")[0]) for one in pins.second}
    found: list[Wheel] = []
    missing: list[str] = []
    waiting, seen = list(taken), {normal_name(name) for name in pins.all}
    while waiting:
        wheel = waiting.pop()
        if wheel.name in without:  # pip does not look at its requirements either
            continue
        for line in _requires(wheel.path):
            wanted = parse(line)
            if wanted is None or wanted.name in seen or not wanted.applies(facts):
                continue
            seen.add(wanted.name)
            suited = [one for one in fitting.get(wanted.name, ()) if wanted.takes(one.version)]
            if suited:
                waiting.append(suited[-1])
                found.append(suited[-1])
            else:
                missing.append(f"{wanted} (of {wheel.name} {wheel.version})")
    return found, missing


def _requires(path: Path) -> Iterator[str]:
    """The requirements in a wheel's metadata; nothing where it is damaged, as pip will say."""
    broken = (OSError, zipfile.BadZipFile, ValueError, NotImplementedError, RuntimeError)
    with suppress(*broken), zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            if re.fullmatch(r"[^/]+\.dist-info/METADATA", entry.filename):
                with archive.open(entry) as stream:
                    text = stream.read(_LIMIT).decode("utf-8", "replace")
                for line in text.split("\n\n", 1)[0].splitlines():
                    if line.startswith("Requires-Dist:"):
                        yield line.partition(":")[2].strip()
                return


def _missing_error(folder: Path, missing: list[str], pins: Pins, machine: str) -> ToolkitError:
    listed = ", ".join(sanitize(one, 100) for one in missing)
    digits = pins.python.replace(".", "")
    plain = " ".join(one.split(" ")[0] for one in missing)
    return ToolkitError(
        f"{folder} lacks {len(missing)} of the wheels for Python {pins.python} on {machine}: "
        f"{listed}.",
        cause="Nothing is taken from a network when a folder of wheels is named.",
        remedy="On a machine with network access run: pip download --no-deps --only-binary=:all: "
        f"--python-version {digits} --platform manylinux2014_{machine} --platform "
        f"manylinux_2_28_{machine} --dest FOLDER {plain}",
    )


def _glibc() -> tuple[int, int]:
    numbers = [int(part) for part in platform.libc_ver()[1].split(".")[:2] if part.isdigit()]
    return (numbers[0], numbers[1]) if len(numbers) == 2 else (2, 17)
