"""Versions of packages that work together, and a folder of wheels that is looked through for them.

``pinned/rknn-toolkit2-2.3.2-py3.11.txt`` has the requirements of two steps of pip, those of the
second below the line ``# without dependencies ...``. Its first comment says what was tried.
Requirements, markers, versions and the tags of wheels are read by the library ``packaging``.
"""

from __future__ import annotations

import hashlib
import platform
import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from pathlib import Path

from packaging import tags
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from engine.base.errors import ToolkitError
from engine.base.text import did_you_mean, sanitize

TESTED = "2.3.2"
"""The toolkit that is made where no version is named: all figures of the docs are of it."""

_FOLDER = Path(__file__).with_name("pinned")
_NAME = re.compile(r"rknn-toolkit2-([0-9.]+)-py(3\.\d+)\.txt")
_SECOND = "# without dependencies"
# what a Python is preferred by: the first has been used most
_ORDER = ("3.11", "3.10", "3.12", "3.9", "3.8")
_METADATA_LIMIT = 1 << 20
_TEXT_LIMIT = 2000


# -------------------------------------------------------------------------------------------- pins


@dataclass(frozen=True)
class Pins:
    """Requirements that work together.

    Attributes:
        toolkit: version of rknn-toolkit2.
        python: ``3.11``.
        first: ``name==version`` of what pip installs with its dependencies.
        second: what it installs then without them.
    """

    toolkit: str
    python: str
    first: tuple[str, ...]
    second: tuple[str, ...]

    @property
    def all(self) -> dict[str, str]:
        """Normalized name -> version, of both steps."""
        rows = (one.partition("==") for one in (*self.first, *self.second))
        return {canonicalize_name(name): version for name, _, version in rows}

    @property
    def late(self) -> set[str]:
        """Normalized names of those of the second step."""
        return {canonicalize_name(one.partition("==")[0]) for one in self.second}

    @property
    def key(self) -> str:
        """What a finished environment was made from."""
        return hashlib.sha256(
            "\n".join([self.python, *self.first, *self.second]).encode()
        ).hexdigest()


@cache
def all_pins() -> tuple[Pins, ...]:
    """All of them: toolkits by version, newest first, Pythons by preference."""
    rank = {python: at for at, python in enumerate(_ORDER)}
    pins = sorted(_read(), key=lambda one: rank.get(one.python, len(rank)))
    return tuple(sorted(pins, key=lambda one: Version(one.toolkit), reverse=True))


def pins_of(version: str | None) -> tuple[Pins, ...]:
    """Those of a toolkit, the preferred Python first.

    Raises:
        ToolkitError: no versions are known to work with it.
    """
    toolkit = version or TESTED
    pins = tuple(one for one in all_pins() if one.toolkit == toolkit)
    if not pins:
        versions = sorted({one.toolkit for one in all_pins()}, key=Version)
        raise ToolkitError(
            f"rknn-toolkit2 {toolkit} cannot be installed by this program.",
            cause=did_you_mean(toolkit, versions)
            or "Which versions of its packages work together is not known here.",
            remedy=f"Known are {' and '.join(versions)}; an environment that you made yourself is "
            "taken by `rknntui vendor adopt PYTHON`.",
        )
    return pins


def _read() -> Iterator[Pins]:
    for path in _FOLDER.iterdir():
        if named := _NAME.fullmatch(path.name):
            steps = path.read_text("utf-8").partition(_SECOND)
            yield Pins(named[1], named[2], _lines(steps[0]), _lines(steps[2]))


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line for line in text.splitlines() if "==" in line and not line.startswith("#"))


# ------------------------------------------------------------------------------------ requirements


def needed(lines: Iterable[str], python: str, machine: str) -> list[Requirement]:
    """The requirements that count in an environment, with normalized names.

    A line that is no requirement (PEP 508) constrains nothing and is left out.

    Args:
        lines: as packages write them down.
        python: ``3.11`` or ``3.11.7``.
        machine: ``x86_64`` or ``aarch64``.
    """
    facts = {
        "python_version": ".".join(python.split(".")[:2]),
        "python_full_version": python,
        "implementation_version": python,
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "platform_system": "Linux",
        "platform_machine": machine,
        "sys_platform": "linux",
        "os_name": "posix",
        "extra": "",
    }
    requirements = []
    for line in lines:
        with suppress(ValueError, RecursionError):
            one = Requirement(line[:_TEXT_LIMIT])
            if one.marker is None or one.marker.evaluate(facts):
                one.name = canonicalize_name(one.name)
                requirements.append(one)
    return requirements


def takes(requirement: Requirement, version: str) -> bool:
    """Whether an installed version fits; one that is no version (PEP 440) does."""
    try:
        return requirement.specifier.contains(Version(version), prereleases=True)
    except InvalidVersion:
        return True


# ------------------------------------------------------------------------------------------ wheels


@dataclass(frozen=True)
class Wheel:
    """A wheel by its name (PEP 427): ``numpy-1.26.4-cp311-cp311-manylinux_2_17_x86_64.whl``."""

    path: Path
    name: str
    version: Version
    tags: frozenset[tags.Tag]

    @classmethod
    def of(cls, path: Path) -> Wheel | None:
        """What a file's name says; None where it is no wheel's."""
        with suppress(ValueError):
            name, version, _, fitting = parse_wheel_filename(path.name)
            return cls(path, name, version, fitting)
        return None

    def fits(self, python: str) -> bool:
        """Whether pip takes it on this machine, for a Python such as ``3.11``."""
        return not self.tags.isdisjoint(_supported(python))


@cache
def _supported(python: str) -> frozenset[tags.Tag]:
    major, minor = map(int, python.split("."))
    own, platforms = f"cp{major}{minor}", list(tags.platform_tags())
    return frozenset(
        [
            *tags.cpython_tags((major, minor), [own], platforms),
            *tags.compatible_tags((major, minor), own, platforms),
        ]
    )


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
    machine = platform.machine()
    fitting = [wheel for wheel in wheels_in(folder) if wheel.fits(pins.python)]
    taken, missing = [], []
    for text in (*pins.first, *pins.second):
        if wheel := _newest(needed([text], pins.python, machine)[0], fitting):
            taken.append(wheel)
        else:
            missing.append(text)
    further, absent = _further(taken, fitting, pins)
    if missing or absent:
        raise _missing_error(folder, [*missing, *absent], pins, machine)
    return *taken, *further


def _newest(requirement: Requirement, wheels: Sequence[Wheel]) -> Wheel | None:
    """As pip chooses: a release before a pre-release, a local version (+cpu) before its own."""
    named = [one for one in wheels if one.name == requirement.name]
    suited = set(requirement.specifier.filter(one.version for one in named))
    return max(
        (one for one in named if one.version in suited), key=attrgetter("version"), default=None
    )


def _further(
    taken: Sequence[Wheel], fitting: Sequence[Wheel], pins: Pins
) -> tuple[list[Wheel], list[str]]:
    """What the wheels themselves ask for beside the pins, as torch does for its CUDA libraries.

    Returns:
        Wheels that are there, and requirements for which there is none.
    """
    further: list[Wheel] = []
    missing: list[str] = []
    waiting, seen = list(taken), set(pins.all)
    while waiting:
        wheel = waiting.pop()
        if wheel.name in pins.late:  # pip does not look at its requirements either
            continue
        for requirement in needed(_requires(wheel.path), pins.python, platform.machine()):
            if requirement.name in seen:
                continue
            seen.add(requirement.name)
            if suited := _newest(requirement, fitting):
                waiting.append(suited)
                further.append(suited)
            else:
                text = f"{requirement.name}{requirement.specifier}"
                missing.append(f"{text} (of {wheel.name} {wheel.version})")
    return further, missing


def _requires(path: Path) -> Iterator[str]:
    """The requirements in a wheel's metadata; nothing where it is damaged, as pip will say."""
    broken = (OSError, zipfile.BadZipFile, ValueError, NotImplementedError, RuntimeError)
    with suppress(*broken), zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            if re.fullmatch(r"[^/]+\.dist-info/METADATA", entry.filename):
                with archive.open(entry) as stream:
                    text = stream.read(_METADATA_LIMIT).decode("utf-8", "replace")
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
