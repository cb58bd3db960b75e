"""The version of this program, written once, and the packages that it asks pip for."""

from __future__ import annotations

import shlex
import sys
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packaging.requirements import Requirement

__version__ = "0.1.0"


def version_of(package: str) -> str | None:
    """The version of an installed package; None where it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def requirements(extra: str = "") -> tuple[Requirement, ...]:
    """What this program needs here, or what one of its extras brings.

    Returns:
        As the metadata of the installed program has it (``pyproject.toml`` when pip installed it);
        empty where pip did not.
    """
    from packaging.requirements import Requirement

    try:
        lines = metadata.requires("rknntui") or []
    except metadata.PackageNotFoundError:
        return ()
    names = []
    for one in map(Requirement, lines):
        always = one.marker is None or one.marker.evaluate({"extra": ""})
        asked = one.marker is None or one.marker.evaluate({"extra": extra})
        if asked and always == (not extra):
            names.append(one)
    return tuple(names)


def install_line(extra: str) -> str:
    """The command that installs what an extra brings; the emulator of a clone from the clone."""
    folder = Path(__file__).parents[2] / extra
    if (folder / "pyproject.toml").is_file():
        return shlex.join([sys.executable, "-m", "pip", "install", "-e", str(folder)])
    packages = []
    for one in requirements(extra):
        parts = f"[{','.join(sorted(one.extras))}]" if one.extras else ""
        packages.append(f"{one.name}{parts}{one.specifier}")
    words = packages or [f"rknntui[{extra}]"]
    return shlex.join([sys.executable, "-m", "pip", "install", *words])
