"""A process that is killed while it writes leaves no trace in the user's folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.base import files
from engine.base.errors import OutputError
from engine.base.files import atomic_write
from engine.base.process import child_environment

WRITER = """
import os, signal, sys
from pathlib import Path
from engine.base.files import atomic_write
def write(stream):
    stream.write(b"half")
    stream.flush()
    os.kill(os.getpid(), signal.SIGKILL)
atomic_write(Path(sys.argv[1]), write, overwrite=True)
"""


def test_killed_while_writing(tmp_path: Path) -> None:
    try:
        os.close(os.open(tmp_path, os.O_TMPFILE | os.O_WRONLY))
    except OSError:
        pytest.skip("this file system has no files without names")
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")
    command = [sys.executable, "-P", "-c", WRITER, str(path)]
    assert subprocess.run(command, env=child_environment(), check=False).returncode == -9
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("missing", ["O_TMPFILE", "/proc"])
def test_where_files_cannot_be_without_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    real = os.open

    def refusing(path: object, flags: int, *rest: object, **more: object) -> int:
        nameless = flags & os.O_TMPFILE == os.O_TMPFILE
        if (missing == "O_TMPFILE" and nameless) or (
            missing == "/proc" and path == "/proc/self/fd"
        ):
            raise OSError(95, "Operation not supported")
        return real(path, flags, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(files.os, "open", refusing)
    path = tmp_path / "a.bin"
    assert atomic_write(path, b"12345") == 5
    assert path.read_bytes() == b"12345"
    assert atomic_write(path, lambda stream: stream.write(b"new") and None, overwrite=True) == 3
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o666 & ~files._UMASK
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(OutputError):
        atomic_write(tmp_path / "no" / "a.bin", b"")
