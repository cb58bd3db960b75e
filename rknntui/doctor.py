"""Checks of this machine that need nothing but the standard library."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import sys
from importlib import metadata
from pathlib import Path

from engine.wire.doctor import Check

__all__ = ["local_checks"]

GLIBC = (2, 28)
"""The oldest glibc that onnxruntime's wheels run on (their platform tag)."""

LIBRARIES = (
    "textual",
    "rich",
    "numpy",
    "onnx",
    "onnx-ir",
    "onnxruntime",
    "pyyaml",
    "adbutils",
    "watchdog",
    "pillow",
    "platformdirs",
    "click",
)


def local_checks() -> list[Check]:
    """Python, C library, processor, libraries, folders, terminal and adb."""
    machine = [_python(), _glibc(), _machine(), *_libraries(), *_extras()]
    return [*machine, *_folders(), _terminal(), _adb()]


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


def _libraries() -> list[Check]:
    return [_library(f"library {name}", name) for name in LIBRARIES]


def _library(title: str, name: str) -> Check:
    try:
        return Check(title, "ok", metadata.version(name))
    except metadata.PackageNotFoundError:
        return Check(title, "bad", "missing", "Install rknntui again with pip.")


EXTRAS = {
    "PyTorch": ("torch", ("torch~=2.13", "onnxscript~=0.7.2")),
    "TensorFlow": ("tf2onnx", ("tensorflow-cpu~=2.21.0", "tf2onnx~=1.17")),
}
"""Framework -> a package that only its extra brings, and what pip installs for it."""


def _extras() -> list[Check]:
    checks = []
    for framework, (package, requirements) in EXTRAS.items():
        name = f"{framework} models"
        try:
            checks.append(Check(name, "ok", f"{package} {metadata.version(package)}"))
        except metadata.PackageNotFoundError:
            line = shlex.join([sys.executable, "-m", "pip", "install", *requirements])
            checks.append(Check(name, "note", "not installed", f"To load them: {line}"))
    return checks


def _folders() -> list[Check]:
    from engine import user_dirs

    return [_folder(f"{kind} folder", path) for kind, path in user_dirs().items()]


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
    found = shutil.which("adb")
    if found:
        return Check("adb", "ok", found)
    try:
        bundled = metadata.distribution("adbutils").locate_file("adbutils/binaries/adb")
    except metadata.PackageNotFoundError:
        bundled = None
    if bundled is not None and Path(str(bundled)).exists():
        return Check("adb", "ok", f"{bundled} (of adbutils)")
    return Check("adb", "note", "no adb program", "Install adb to reach boards by cable.")
