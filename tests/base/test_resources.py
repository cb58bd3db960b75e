"""A lack of memory, disk, processes or open files is no mistake of this program."""

from __future__ import annotations

import errno
import os
import tempfile

import pytest

from engine.base.errors import OutputError, UsageError, WorkerError
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


def test_a_full_disk_is_named() -> None:
    found = resource_error(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/tmp/a"))
    assert isinstance(found, OutputError)
    assert found.what == "/tmp/a could not be written: No space left on device."


def test_no_folder_for_temporary_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/proc"])
    monkeypatch.setattr(tempfile, "tempdir", None)
    with pytest.raises(FileNotFoundError) as raised:
        tempfile.gettempdir()
    found = resource_error(raised.value)
    assert isinstance(found, OutputError)
    assert "no folder for temporary files has room" in found.what


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.EMFILE, "Too many open files"), "ulimit -n"),
        (RuntimeError("can't start new thread"), "raise the limit"),
        (BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"), "raise the limit"),
        (ImportError("libx.so: failed to map segment from shared object"), "raise the limit"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "raise the limit"),
    ],
)
def test_every_lack_has_its_remedy(error: Exception, words: str) -> None:
    found = resource_error(error)
    assert found is not None
    assert words in found.remedy


def test_other_errors_stay_what_they_are() -> None:
    assert resource_error(ValueError("1")) is None
    assert resource_error(OSError(errno.ENOENT, "No such file")) is None
    assert resource_error(ImportError("No module named 'x'")) is None
    understood = UsageError("The model is too large.")
    understood.__cause__ = MemoryError()
    assert resource_error(understood) is None
