"""Writing a project's folder: whole or not at all, and over nobody else's files."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from engine.base.errors import OutputExistsError
from engine.base.events import Reporter
from engine.base.files import output_errors, read_regular
from engine.base.leftovers import let_go, make_owned
from engine.base.text import sanitize
from engine.base.version import __version__

MARK = ".rknntui-project.json"
"""File that tells a folder of ours, and lists what was generated in it."""

_MARK_LIMIT = 4 << 20


def check_target(path: Path, *, overwrite: bool) -> None:
    """Look whether a project may be written, before anything is computed.

    Raises:
        OutputExistsError: something is there, and nobody allowed to replace it; or it is no
            folder that was generated here, which is never replaced.
        OutputError: its folder is missing (one level is made, a misspelled path is no tree to
            make) or may not be written to.
    """
    shown = sanitize(str(path), 300)
    with output_errors(path):
        if not path.parent.exists():
            path.parent.parent.stat()
        if not os.path.lexists(path):
            return
    if not overwrite:
        raise OutputExistsError(
            f"{shown} exists already.",
            cause="An earlier run wrote it, or it is something else.",
            remedy="Allow overwriting (--overwrite, overwrite=True) or choose another folder.",
        )
    if path.is_symlink() or not path.is_dir() or _marked(path) is None:
        raise OutputExistsError(
            f"{shown} is not a project that was generated here, so it is not replaced.",
            cause=f"It has no file {MARK}, or is a link.",
            remedy="Choose another folder, or remove that one yourself.",
        )


def _marked(path: Path) -> list[str] | None:
    """The files that were generated in a folder; None where it is none of ours."""
    try:
        mark = json.loads(read_regular(path / MARK, _MARK_LIMIT))
    except (OSError, ValueError):
        return None
    files = mark.get("files") if isinstance(mark, dict) else None
    if not isinstance(files, list) or not all(isinstance(name, str) for name in files):
        return None
    return files


def write_folder(
    path: Path,
    files: Mapping[str, bytes | Path],
    programs: frozenset[str],
    reporter: Reporter,
    *,
    overwrite: bool,
) -> tuple[str, ...]:
    """Write files into a new folder, or in place of one that was generated before.

    What the user added to that one (a compiled model, sources of his own) is kept.

    Args:
        path: the folder.
        files: path in the folder -> content, or a file that is copied.
        programs: of them, those that can be run.
        reporter: asked before each file whether to stop; a folder that was there stays then.
        overwrite: see :func:`check_target`.

    Returns:
        The paths in the folder, sorted.

    Raises:
        OutputExistsError, OutputError: as :func:`check_target`; the disk is full.
    """
    check_target(path, overwrite=overwrite)
    names = tuple(sorted(files))
    with output_errors(path):
        path.parent.mkdir(exist_ok=True)
        own = make_owned("project", path.parent.resolve(), path.name)
        try:
            folder = own / "project"
            folder.mkdir()
            for name in names:
                reporter.check_cancelled()
                _write(folder / name, files[name], program=name in programs)
            mark = {"made_by": f"rknntui {__version__}", "files": [*names, MARK]}
            _write(folder / MARK, json.dumps(mark, indent=1).encode(), program=False)
            reporter.check_cancelled()
            _put(folder, path, own / "before")
        finally:
            let_go(own)
    return names


def _write(path: Path, content: bytes | Path, *, program: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, Path):
        shutil.copyfile(content, path)
    else:
        path.write_bytes(content)
    if program:
        mode = path.stat().st_mode
        path.chmod(mode | (mode & 0o444) >> 2)  # who may read it may run it


def _put(folder: Path, path: Path, before: Path) -> None:
    if not os.path.lexists(path):
        folder.rename(path)
        return
    generated = {Path(name) for name in _marked(path) or ()}
    path.rename(before)
    try:
        folder.rename(path)
    except OSError:
        before.rename(path)
        raise
    _carry_over(before, path, generated)


def _carry_over(before: Path, path: Path, generated: set[Path]) -> None:
    """Bring back what the user added, where nothing generated has its name."""
    for folder, folders, names in os.walk(before):
        inside = Path(folder).relative_to(before)
        for name in list(folders):
            if not (path / inside / name).exists() and not any(
                file.is_relative_to(inside / name) for file in generated
            ):
                (before / inside / name).rename(path / inside / name)
                folders.remove(name)
        for name in names:
            target = path / inside / name
            if inside / name not in generated and not os.path.lexists(target):
                target.parent.mkdir(parents=True, exist_ok=True)
                (before / inside / name).rename(target)
