"""Emptying the folder of an environment, and only of one that this program made."""

from __future__ import annotations

import shutil
from pathlib import Path

from engine.base.errors import ToolkitError
from engine.base.events import Reporter
from engine.base.files import output_errors
from engine.compile.environments.places import UNFINISHED, is_managed

__all__ = ["clear", "remove"]


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


def remove(folder: Path, reporter: Reporter) -> None:
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
