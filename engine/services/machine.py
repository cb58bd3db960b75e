"""Checks of this machine and of the worker; they load nothing heavy."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from engine.base.errors import EngineError
from engine.base.paths import user_dirs
from engine.base.version import install_line, requirements, version_of
from engine.wire.doctor import DOCTOR, Check, Checks
from engine.wire.method import Ask, Nothing
from engine.wire.vendor import (
    VENDOR_CHECK,
    VENDOR_KNOWN,
    ToolkitEnvironment,
    ToolkitName,
    Toolkits,
    ToolkitsParams,
)

GLIBC = (2, 28)
"""The oldest glibc that onnxruntime's wheels run on (their platform tag)."""

EXTRAS = {
    "torch": ("PyTorch models", "load"),
    "tensorflow": ("TensorFlow models", "load"),
    "sweep": ("sweeps", "run"),
    "emulator": ("emulated boards", "run"),
}
"""Extra of this program -> what it is for."""


_AGAIN = "Install rknntui again with pip."


def machine_checks() -> Iterator[Check]:
    """Whether this machine and installation can run the program: Python, C library, processor,
    libraries, folders, terminal and adb.

    Yields:
        What was looked at, one after another, with its state and what to do about it.
    """
    yield from (_python(), _glibc(), _machine())
    try:
        yield from _libraries()
        yield from (_extra(extra, *words) for extra, words in EXTRAS.items())
    except ModuleNotFoundError as error:  # the library that reads what the others have to be
        yield Check(f"library {error.name}", "bad", "missing", _AGAIN)
    yield from (_folder(f"{kind} folder", path) for kind, path in user_dirs().items())
    yield from (_terminal(), _adb())


async def worker_checks(ask: Ask) -> list[Check]:
    """The other checks of ``rknntui doctor``: the worker and its sandbox, and each environment of a
    toolkit, tried: its toolkit is imported in a process of its own.

    Args:
        ask: answers a method of the worker.
    """
    try:
        report: Checks = await ask(DOCTOR, Nothing())
    except EngineError as error:
        return [Check.of_error("worker", error)]
    try:
        known: Toolkits = await ask(VENDOR_KNOWN, ToolkitsParams())
        names = [ToolkitName(one.name) for one in known.environments]
        toolkits = [_toolkit(await ask(VENDOR_CHECK, name)) for name in names]
    except EngineError as error:
        toolkits = [Check.of_error("vendor's toolkit", error)]
    install = "To compile for the NPU: rknntui vendor install"
    return [*report.checks, *(toolkits or [Check("vendor's toolkit", "note", "none", install)])]


def _toolkit(toolkit: ToolkitEnvironment) -> Check:
    name = f"toolkit {toolkit.name}"
    worst = next(iter(toolkit.findings), None)
    if worst is not None:
        return Check.of_finding(name, worst)
    package = "rknn-toolkit2" if toolkit.generation == 2 else "rknn-toolkit"
    text = f"{package} {toolkit.version}, Python {toolkit.python_version}, {toolkit.folder}"
    return Check(name, "ok", text)


def _python() -> Check:
    version = platform.python_version()
    if (3, 11) <= sys.version_info[:2] <= (3, 13):
        return Check("Python", "ok", version)
    return Check("Python", "bad", version, "Use Python 3.11, 3.12 or 3.13.")


def _glibc() -> Check:
    name, version = platform.libc_ver()
    if name != "glibc":
        needs = "onnxruntime has wheels for glibc 2.28 and later."
        return Check("C library", "note", name or "unknown", needs)
    numbers = tuple(int(part) for part in version.split(".")[:2])
    if numbers >= GLIBC:
        return Check("C library", "ok", f"glibc {version}")
    return Check(
        "C library",
        "bad",
        f"glibc {version}",
        "onnxruntime needs glibc 2.28 (Debian 10, Ubuntu 20.04) or later: run the workbench on "
        "another machine, or give this one a newer system.",
    )


def _machine() -> Check:
    machine = platform.machine()
    if machine in ("x86_64", "aarch64", "AMD64", "arm64"):
        return Check("processor", "ok", f"{machine}, {os.cpu_count()} cores")
    return Check("processor", "note", machine, "Tested on x86-64 and arm64 only.")


def _libraries() -> Iterator[Check]:
    asked = requirements()
    if not asked:
        remedy = "Install rknntui with pip."
        yield Check("libraries", "note", "pip did not install this program", remedy)
    for one in asked:
        name, version = f"library {one.name}", version_of(one.name)
        if version is None:
            yield Check(name, "bad", "missing", _AGAIN)
        elif not one.specifier.contains(version, prereleases=True):
            yield Check(name, "note", f"{version}, tested with {one.specifier}", _AGAIN)
        else:
            yield Check(name, "ok", version)


def _extra(extra: str, name: str, verb: str) -> Check:
    # a build for another processor or GPU has the same modules
    versions = {
        one.name: version_of(one.name) or version_of(one.name.removesuffix("-cpu"))
        for one in requirements(extra)
    }
    missing = [package for package, version in versions.items() if version is None]
    if versions and not missing:
        return Check(name, "ok", ", ".join(f"{one} {version}" for one, version in versions.items()))
    text = f"not installed: {', '.join(missing)}" if missing else "not installed"
    return Check(name, "note", text, f"To {verb} them: {install_line(extra)}")


def _folder(name: str, path: Path) -> Check:
    existing = next((p for p in (path, *path.parents) if p.exists()), Path("/"))
    free = shutil.disk_usage(existing).free
    if not os.access(existing, os.W_OK):
        return Check(name, "bad", f"{path} is not writable", f"Make {existing} writable.")
    if free < 100 << 20:
        return Check(name, "bad", f"{path}, {free >> 20} MiB free", "Free some space.")
    return Check(name, "ok", f"{path}, {free >> 30} GiB free")


def _terminal() -> Check:
    term = os.environ.get("TERM", "")
    if not term or term == "dumb":
        needs = "The workbench needs a terminal; the verbs do not."
        return Check("terminal", "note", term or "none", needs)
    true = os.environ.get("COLORTERM") in ("truecolor", "24bit")
    colours = "true colour" if true else "256 or fewer colours"
    size = shutil.get_terminal_size()
    return Check("terminal", "ok", f"{term}, {colours}, {size.columns}x{size.lines}")


def _adb() -> Check:
    # the one that adbutils brings along is never started: servers of two versions end each other
    path = shutil.which("adb")
    if path:
        return Check("adb", "ok", path)
    return Check("adb", "note", "no adb program", "Install adb to reach boards by cable.")
