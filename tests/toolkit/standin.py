"""Environments with the stand-in of the generation 1 toolkit, under the Pythons that are here."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path

from engine.toolkit.environments.registry import Entry, environment_of
from engine.wire.vendor import ToolkitEnvironment

__all__ = ["VERSION", "make_environment", "python_of_version"]

VERSION = "1.3.2+standin"
_PACKAGE = Path(__file__).with_name("generation1") / "rknn"


def python_of_version(version: str) -> Path | None:
    """An interpreter such as ``3.6``: of pyenv in the user's real home, or on the PATH."""
    home = Path(os.environ.get("PYENV_ROOT") or Path(pwd.getpwuid(os.getuid()).pw_dir) / ".pyenv")
    found = sorted((home / "versions").glob(f"{version}.*/bin/python"))
    if found:
        return found[-1]
    named = shutil.which(f"python{version}")
    return None if named is None else Path(named)


def make_environment(
    folder: Path, python: Path | None = None, code: str = ""
) -> ToolkitEnvironment:
    """A virtual environment without pip, with the stand-in in it.

    Args:
        folder: made.
        python: of which it is; None for the one that runs the tests.
        code: in the place of the module with the class ``RKNN``.
    """
    given = Path(sys.executable) if python is None else python
    # `python -m venv` takes a second; a link and two lines of text are the same to Python
    version = subprocess.run(
        [str(given), "-I", "-c", "import sys; print('%d.%d' % sys.version_info[:2], sys.prefix)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()[0]
    base = given.resolve()
    site = folder / "lib" / f"python{version}" / "site-packages"
    site.mkdir(parents=True)
    (folder / "bin").mkdir()
    (folder / "bin" / "python").symlink_to(base)
    (folder / "pyvenv.cfg").write_text(
        f"home = {base.parent}\ninclude-system-site-packages = false\nversion = {version}.0\n"
    )
    shutil.copytree(_PACKAGE, site / "rknn", ignore=shutil.ignore_patterns("__pycache__"))
    if code:
        (site / "rknn" / "api" / "__init__.py").write_text(code, "utf-8")
    told = site / f"rknn_toolkit-{VERSION}.dist-info"
    told.mkdir()
    (told / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: rknn-toolkit\nVersion: {VERSION}\n"
    )
    return environment_of(
        Entry("standin", str(folder), str(folder / "bin" / "python"), generation=1)
    )
