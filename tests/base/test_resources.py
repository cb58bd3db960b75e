"""A lack of memory, disk, processes or open files is no mistake of this program."""

from __future__ import annotations

import errno
import tempfile

import pytest

from engine.base.errors import EngineError, OutputError, UsageError, WorkerError
from engine.base.resources import resource_error


def test_what_is_raised_while_memory_runs_out() -> None:
    def fill() -> None:
        try:
            raise MemoryError
        finally:  # as zipfile does
            raise ValueError("Can't close the ZIP file")

    with pytest.raises(ValueError, match="ZIP") as raised:
        fill()
    found = resource_error(raised.value)
    assert isinstance(found, WorkerError)
    assert found.what == "Memory ran out."


def test_no_folder_for_temporary_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/proc"])
    monkeypatch.setattr(tempfile, "tempdir", None)
    with pytest.raises(FileNotFoundError) as raised:
        tempfile.gettempdir()
    found = resource_error(raised.value)
    assert isinstance(found, OutputError)
    assert "no folder for temporary files has room" in found.what


@pytest.mark.parametrize(
    ("error", "kind", "what", "remedy"),
    [
        (MemoryError(), WorkerError, "Memory ran out", ""),
        (OSError(errno.ENOMEM, "no"), WorkerError, "Memory ran out", "raise the limit"),
        (
            ImportError("a.so: failed to map segment from shared object"),
            WorkerError,
            "Memory ran out",
            "raise the limit",
        ),
        (RuntimeError("can't start new thread"), WorkerError, "thread", "raise the limit"),
        (BlockingIOError(errno.EAGAIN, "no"), WorkerError, "process", "raise the limit"),
        (OSError(errno.EMFILE, "no"), WorkerError, "files are open", "ulimit -n"),
        (
            OSError(errno.ENOSPC, "No space left on device", "/tmp/a"),
            OutputError,
            "/tmp/a could not be written: No space left on device.",
            "",
        ),
    ],
    ids=["memory", "errno", "a library", "threads", "processes", "files", "disk"],
)
def test_every_lack_is_told_as_such_also_from_within(
    error: Exception, kind: type[EngineError], what: str, remedy: str
) -> None:
    outer = RuntimeError("a library wrapped it")
    outer.__cause__ = error
    for raised in (error, outer):
        told = resource_error(raised)
        assert isinstance(told, kind)
        assert what in told.what
        assert told.remedy
        assert remedy in told.remedy


def test_other_errors_stay_what_they_are() -> None:
    assert resource_error(ValueError("memory")) is None
    assert resource_error(OSError(errno.ENOENT, "No such file")) is None
    assert resource_error(ImportError("No module named 'x'")) is None
    assert resource_error(ImportError("cannot import name 'x'")) is None
    understood = UsageError("The model is too large.")
    understood.__cause__ = MemoryError()
    assert resource_error(understood) is None
