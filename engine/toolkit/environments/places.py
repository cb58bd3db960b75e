"""Folders of environments: where they are made, the marks in them, what is installed there, and how
they are emptied: only those that this program made.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.base.errors import ToolkitError
from engine.base.events import Reporter
from engine.base.files import atomic_write, output_errors, read_regular
from engine.base.paths import cache_folder, data_folder, private_folder
from engine.wire.vendor import ToolkitEnvironment

ENVIRONMENT_VARIABLE = "RKNNTUI_VENDOR"
"""Names the folder of the environment that is used for its generation where none is named."""

READY = ".rknntui-vendor"
"""A file in an environment of ours whose toolkit was imported: what it was made from."""
UNFINISHED = ".rknntui-unfinished"
"""A file in an environment that is being made or removed."""

PACKAGES = {2: "rknn-toolkit2", 1: "rknn-toolkit"}
"""Generation -> the vendor's package, as pip calls it."""

_LIMIT = 1 << 16
_DIST = re.compile(r"rknn_toolkit(2|)-([0-9][0-9A-Za-z.+!_]*)\.dist-info")


def toolkit_words(environment: ToolkitEnvironment) -> str:
    """``rknn-toolkit2 2.3.2``."""
    return f"{PACKAGES[environment.generation]} {environment.version}".strip()


def toolkits_folder() -> Path:
    """Where environments are made, a folder each."""
    return data_folder() / "toolkits"


def earlier_folder() -> Path:
    """Where a script made one before there was a verb for it."""
    return cache_folder() / "vendor"


def given_folder() -> Path | None:
    """The folder that the user's environment names."""
    folder = os.environ.get(ENVIRONMENT_VARIABLE)
    return Path(folder).absolute() if folder else None


def python_of(folder: Path) -> Path:
    """The interpreter of an environment."""
    return folder / "bin" / "python"


def is_managed(folder: Path) -> bool:
    """Whether a folder has one of our marks: only then its files are ever removed."""
    return any((folder / mark).is_file() for mark in (READY, UNFINISHED))


@dataclass(frozen=True)
class Installed:
    """What lies in an environment's folder, found without running anything.

    Attributes:
        generation: of the toolkit; 0 where there is none.
        version: of the toolkit.
        python_version: from ``pyvenv.cfg``, else as the folder of packages has it (``3.11``).
    """

    generation: int = 0
    version: str = ""
    python_version: str = ""


def installed(folder: Path) -> Installed:
    """The toolkit in an environment, by the metadata of its package."""
    version = _configured(folder)
    for site in _sites(folder):
        version = version or site.parent.name.removeprefix("python")
        with contextlib.suppress(OSError):
            for entry in sorted(site.iterdir()):
                if match := _DIST.fullmatch(entry.name):
                    return Installed(2 if match[1] else 1, match[2], version)
    return Installed(python_version=version)


def _sites(folder: Path) -> list[Path]:
    return sorted((folder / "lib").glob("python3.*/site-packages"))


def _configured(folder: Path) -> str:
    """The version that venv or virtualenv wrote down."""
    with contextlib.suppress(OSError, ValueError):
        for line in read_regular(folder / "pyvenv.cfg", _LIMIT).decode().splitlines():
            key, _, value = line.partition("=")
            if key.strip() in ("version", "version_info"):
                return ".".join(value.strip().split(".")[:3])
    return ""


def site_time(folder: Path) -> int:
    """When a package was last put into an environment or taken out, in ns; 0 where none can be."""
    times = []
    for site in _sites(folder):
        with contextlib.suppress(OSError):
            times.append(site.stat().st_mtime_ns)
    return max(times, default=0)


def read_ready(folder: Path) -> dict[str, object]:
    """What the mark of a finished environment says; empty where there is none."""
    try:
        text = read_regular(folder / READY, _LIMIT).decode("utf-8").strip()
    except (OSError, ValueError):
        return {}
    with contextlib.suppress(ValueError, RecursionError):
        content = json.loads(text)
        if isinstance(content, dict):
            return content
    return {"key": text}  # of the earlier script: a hash alone


def write_ready(folder: Path, key: str) -> None:
    """Mark an environment as finished, and take the other mark away.

    Raises:
        OutputError: it cannot be written.
    """
    content = json.dumps({"key": key, "site": site_time(folder)}) + "\n"
    atomic_write(folder / READY, content.encode("ascii"), overwrite=True)
    (folder / UNFINISHED).unlink(missing_ok=True)


def folder_size(folder: Path) -> int:
    """Bytes on disk below a folder; what cannot be read counts nothing."""
    total = 0
    for root, _, files in os.walk(folder, onerror=None):
        for name in files:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(root, name)).st_blocks * 512  # noqa: PTH118
    return total


@contextlib.contextmanager
def held(folder: Path, *, alone: bool = False) -> Iterator[int]:
    """Hold an environment while it is used, or ``alone`` while it is made or removed.

    Any number of compilations hold one at a time. The lock is a file beside the folder, and ends
    with the last process that has the descriptor. Where it cannot be made, nobody here can remove
    the environment either.

    Yields:
        The descriptor, for a child that works on when this process is killed; -1 where there is no
        lock.

    Raises:
        OSError: ``alone``, and the folder around it cannot be made or written to.
        ToolkitError: it is held in a way that does not go together with this.
    """
    try:
        if alone:
            private_folder(folder.parent)
        lock = folder.parent / f"{folder.name}.lock"
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        if alone:
            raise
        yield -1
        return
    try:
        kind = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
        try:
            fcntl.flock(handle, kind | fcntl.LOCK_NB)
        except OSError as error:
            raise _held_error(folder, alone=alone) from error
        yield handle
    finally:
        os.close(handle)


@contextlib.contextmanager
def using(environment: ToolkitEnvironment) -> Iterator[None]:
    """Hold an environment while its toolkit runs: our own verb does not remove it meanwhile.

    Nothing is written beside one that the user made, as nobody here removes that.

    Raises:
        ToolkitError: it is being made or removed.
    """
    with held(Path(environment.folder)) if environment.managed else contextlib.nullcontext():
        yield


def _held_error(folder: Path, *, alone: bool) -> ToolkitError:
    if alone:
        return ToolkitError(
            f"The toolkit's environment {folder} is in use.",
            cause="A model is being compiled with it, or another program makes or removes it.",
            remedy="Wait until that has ended, or cancel it; then try again.",
        )
    return ToolkitError(
        f"The toolkit's environment {folder} is being made or removed.",
        cause="Another program of this kind does so now.",
        remedy="Wait until that has ended: `rknntui vendor list` shows what is ready.",
    )


def clear(folder: Path, reporter: Reporter) -> None:
    """Make a folder that has the mark of an unfinished environment and nothing else.

    Raises:
        ToolkitError: it holds something that this program did not make.
        OutputError: it cannot be made or emptied.
        JobCancelledError: the user cancelled; what is left has the mark.
    """
    with output_errors(folder):
        if folder.exists() and any(folder.iterdir()) and not is_managed(folder):
            raise ToolkitError(
                f"{folder} holds something else than an environment of this program.",
                cause="Its files were made by you or another program, and stay.",
                remedy="Name an empty or a new folder; an environment that you made yourself is "
                "taken by `rknntui vendor adopt`.",
            )
        folder.mkdir(parents=True, exist_ok=True)
        # the mark comes first and goes last: a folder that is half deleted stays ours
        mark = folder / UNFINISHED
        mark.touch()
        for entry in list(folder.iterdir()):
            reporter.check_cancelled()
            if entry == mark:
                continue
            if entry.is_dir() and not entry.is_symlink():
                _remove_tree(entry, reporter)
            else:
                entry.unlink()


def remove_folder(folder: Path, reporter: Reporter) -> None:
    """Remove an environment of ours with its folder.

    Raises:
        ToolkitError, OutputError, JobCancelledError: as :func:`clear`.
    """
    clear(folder, reporter)
    with output_errors(folder):
        (folder / UNFINISHED).unlink(missing_ok=True)
        if folder.is_symlink():
            folder.unlink()
        else:
            folder.rmdir()


def _remove_tree(folder: Path, reporter: Reporter) -> None:
    """Package by package, so that a cancellation is heard."""
    for site in folder.glob("python3.*/site-packages"):
        for entry in site.iterdir():
            reporter.check_cancelled()
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
    shutil.rmtree(folder)
