"""What a stand-in library asks its emulator for, as a file that it puts beside its answers.

A request is ``asked/NUMBER.ask`` in the folder of answers: text, then bytes. Its first line is
``rknntui ask 1``; fields have tabs between. Either there is a line ``model DIGEST PATH``: a model
was opened that has no answers; or a line ``run DIGEST RESULT BEND`` and for each input
``input TYPE LAYOUT PASS_THROUGH SIZE``: the inputs of a model have no result in the file RESULT.
The line ``data`` ends the text; behind it are the bytes of the inputs. The answer is
``asked/NUMBER.done``: empty, or the reason why there is no answer. Files are written under another
name and renamed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from engine.base.errors import DeviceError
from engine.base.files import open_regular
from rknntui_emulator.simulated.tensors import GivenInput

_FIRST = b"rknntui ask 1\n"
_LINE = 8192
_LINES = 1100
_BYTES = 1 << 30
_DIGEST = re.compile(r"[0-9a-f]{64}")
_RESULT = re.compile(r"[0-9a-f]{32}-[0-9a-f]{32}\.result")


@dataclass(frozen=True)
class ModelRequest:
    """A model that has no answers.

    Attributes:
        digest: SHA-256 of the file.
        path: of this machine.
    """

    digest: str
    path: Path


@dataclass(frozen=True)
class RunRequest:
    """Inputs that have no result.

    Attributes:
        digest: of the model.
        result: name of the file that the result goes to.
        bend: ``LAYER[:STRENGTH]``; empty for none.
        inputs: in the order of the model.
    """

    digest: str
    result: str
    bend: str
    inputs: tuple[GivenInput, ...]


def read_request(path: Path) -> ModelRequest | RunRequest:
    """Read a request.

    Raises:
        DeviceError: it is none.
        OSError: it cannot be read.
    """
    with open_regular(path) as stream:
        if stream.read(len(_FIRST)) != _FIRST:
            raise _no_request()
        rows: list[list[str]] = []
        while (line := stream.readline(_LINE)) != b"data\n":
            if not line.endswith(b"\n") or len(rows) > _LINES:
                raise _no_request()
            rows.append(line[:-1].decode("utf-8", "surrogateescape").split("\t"))
        if not rows:
            raise _no_request()
        kind, *fields = rows[0]
        if not fields or not _DIGEST.fullmatch(fields[0]):
            raise _no_request()
        if kind == "model" and len(fields) == 2:
            return ModelRequest(fields[0], Path(fields[1]))
        if kind != "run" or len(fields) != 3 or not _RESULT.fullmatch(fields[1]):
            raise _no_request()
        inputs, left = [], _BYTES
        for row in rows[1:]:
            if len(row) != 5 or not re.fullmatch(r"[0-9]{1,10}", row[4]):
                raise _no_request()
            size = int(row[4])
            left -= size
            content = stream.read(size) if left >= 0 else b""
            if len(content) != size:
                raise _no_request()
            inputs.append(GivenInput(content, row[1], row[2], row[3] != "0"))
    return RunRequest(fields[0], fields[1], fields[2], tuple(inputs))


def _no_request() -> DeviceError:
    return DeviceError(
        "The request of the runtime library cannot be read.",
        remedy="Start the emulated board again: its library is of another version.",
    )
