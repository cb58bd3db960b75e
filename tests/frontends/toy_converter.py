"""A child's ``convert`` with the bad habits of native libraries."""

from __future__ import annotations

import ctypes
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from engine.base.errors import UnsupportedOperatorError
from tests.base.confine.attack import attack


def convert(request: dict[str, Any], out: Path) -> dict[str, Any]:
    return ACTIONS[request["do"]](request, out)


def write(request: dict[str, Any], out: Path) -> dict[str, Any]:
    out.write_bytes(b"model")
    return {"findings": [], "pid": os.getpid(), "echo": request, "seen": dict(os.environ)}


def noise(request: dict[str, Any], out: Path) -> dict[str, Any]:
    print("noise of Python")
    ctypes.CDLL(None).puts(b"noise of native code")
    ctypes.CDLL(None).fflush(None)
    os.write(1, b'{"answer": {"findings": ["forged"]}}\n')
    assert os.read(0, 10) == b""  # nothing of the protocol is on its input
    return write(request, out)


def crash(_request: dict[str, Any], _out: Path) -> dict[str, Any]:
    ctypes.string_at(0)
    return {}


def refuse(_request: dict[str, Any], _out: Path) -> dict[str, Any]:
    raise UnsupportedOperatorError("Layer 'a' is a Foo.", cause="nobody knows it", remedy="cut")


def mistake(_request: dict[str, Any], _out: Path) -> dict[str, Any]:
    raise ZeroDivisionError("a mistake")


def hang(_request: dict[str, Any], _out: Path) -> dict[str, Any]:
    # PyDLL keeps the interpreter's lock: nothing else of the child runs
    ctypes.PyDLL(None).sleep(600)
    return {}


def eat(_request: dict[str, Any], _out: Path) -> dict[str, Any]:
    kept = []
    while True:
        kept.append(bytearray(b"\1") * (8 << 20))
        time.sleep(0.01)


def reach(request: dict[str, Any], out: Path) -> dict[str, Any]:
    """Try what a model's code has no business to do; say what the system answered."""
    tempfile.NamedTemporaryFile().close()
    return write(request, out) | {"said": attack(**request["given"], folder=str(out.parent))}


def open_(request: dict[str, Any], out: Path) -> dict[str, Any]:
    """Read a file that the request did not say is read."""
    Path(request["path"]).read_bytes()
    return write(request, out)


def allocate(request: dict[str, Any], out: Path) -> dict[str, Any]:
    """Take what no poll of the parent would be quick enough to see."""
    kept = bytearray(request["bytes"])
    return write(request, out) | {"kept": len(kept)}


def fill(request: dict[str, Any], out: Path) -> dict[str, Any]:
    """Write a file that is larger than the answer may be."""
    with (out.parent / "large").open("wb") as stream:
        stream.truncate(request["bytes"])
    return write(request, out)


ACTIONS = {
    action.__name__.strip("_"): action
    for action in (
        *(reach, open_, allocate, fill, write, noise),
        *(crash, refuse, mistake, hang, eat),
    )
}
