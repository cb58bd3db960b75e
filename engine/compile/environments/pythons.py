"""Interpreters of this machine: which fit, and where they are looked for."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from engine.base.errors import ToolkitError

__all__ = ["check_platform", "clean_environment", "find_python", "version_of"]

_SECONDS = 20.0
_TEST = "import ensurepip, venv, sys; print('%d.%d' % sys.version_info[:2])"
# what would lead Python or pip elsewhere than to the environment that is made or used
_LEADS_ASTRAY = (
    "PIP_PREFIX",
    "PIP_REQUIRE_VIRTUALENV",
    "PIP_ROOT",
    "PIP_TARGET",
    "VIRTUAL_ENV",
    "__PYVENV_LAUNCHER__",
)


def clean_environment(given: Mapping[str, str] | None = None) -> dict[str, str]:
    """Variables for a program of a toolkit's environment: nothing leads it to other packages.

    Proxies, certificates and indexes of the user stay.
    """
    variables = os.environ if given is None else given
    kept = {
        name: value
        for name, value in variables.items()
        if not name.startswith("PYTHON") and name not in _LEADS_ASTRAY
    }
    return kept | {"ORT_DISABLE_TELEMETRY": "1", "PYTHONNOUSERSITE": "1", "PYTHONUNBUFFERED": "1"}


def check_platform() -> None:
    """Whether the vendor's packages run on this machine at all.

    Raises:
        ToolkitError: they do not; says what they need.
    """
    machine, system = platform.machine(), platform.system()
    if system != "Linux" or machine not in ("x86_64", "aarch64"):
        found = f"{system} on {machine}"
    elif platform.libc_ver()[0] != "glibc":
        found = "Linux without glibc"
    else:
        return
    raise ToolkitError(
        f"The vendor's toolkit does not run here: this is {found}.",
        cause="The vendor has packages for Linux with glibc on x86-64 and arm64 only.",
        remedy="Compile on such a machine; everything but compiling works here.",
    )


def version_of(python: str) -> str | None:
    """``3.11`` for an interpreter that can make environments; None where it is none."""
    with contextlib.suppress(OSError, subprocess.SubprocessError, UnicodeDecodeError):
        said = subprocess.run(
            [python, "-I", "-c", _TEST],
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
            stdin=subprocess.DEVNULL,
            env=clean_environment(),
        )
        if said.returncode == 0:
            return said.stdout.strip()
    return None


def find_python(versions: Sequence[str], given: str | None = None) -> tuple[str, str]:
    """An interpreter that can make an environment.

    Args:
        versions: those that fit, the preferred one first.
        given: the user's choice, a path or a name; None to look for one.

    Returns:
        Its absolute path, and its version (``3.11``).

    Raises:
        ToolkitError: there is none.
    """
    if given is not None:
        path = shutil.which(given) or given
        found = version_of(path)
        if found is None or found not in versions:
            raise ToolkitError(
                f"{given} cannot be used: "
                + (f"it is Python {found}." if found else "it is no Python that has venv."),
                cause=f"The vendor's toolkit is made for Python {_listed(versions)} here.",
                remedy="Name another one with --python, or leave it out to have one looked for.",
            )
        return os.path.abspath(path), found  # noqa: PTH100 - a link stays: it may be the answer
    for version in versions:
        for path in _candidates(version):
            if version_of(path) == version:
                return path, version
    first = versions[0]
    raise ToolkitError(
        f"There is no Python {_listed(versions)} here that can make environments.",
        cause="The vendor's toolkit has packages for these only, and a system's Python may lack "
        "its venv module.",
        remedy=f"Install python{first} with its venv module (Debian: python{first}-venv; or: uv "
        f"python install {first}), or name one with --python.",
    )


def _listed(versions: Sequence[str]) -> str:
    *most, last = sorted(versions, key=lambda one: int(one.partition(".")[2]))
    return f"{', '.join(most)} or {last}" if most else last


def _candidates(version: str) -> Iterator[str]:
    """Interpreters of a version, in the order in which they are tried."""
    if ".".join(map(str, sys.version_info[:2])) == version:
        yield sys.executable
    if found := shutil.which(f"python{version}"):
        yield found
    root = Path(os.environ.get("PYENV_ROOT", str(Path.home() / ".pyenv")))
    yield from (str(path) for path in sorted(root.glob(f"versions/{version}.*/bin/python")))
    for uv in ("uv", str(Path.home() / ".local" / "bin" / "uv")):
        with contextlib.suppress(OSError, subprocess.SubprocessError, UnicodeDecodeError):
            said = subprocess.run(
                [uv, "python", "find", "--no-python-downloads", version],
                capture_output=True,
                text=True,
                check=False,
                timeout=_SECONDS,
                stdin=subprocess.DEVNULL,
            )
            if said.returncode == 0 and said.stdout.strip():
                yield said.stdout.strip()
