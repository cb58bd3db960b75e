"""A child's ``convert`` with the bad habits of native libraries."""

from __future__ import annotations

import ctypes
import os
import time
from pathlib import Path
from typing import Any

from engine.base.errors import UnsupportedOperatorError


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


ACTIONS = {
    "write": write,
    "noise": noise,
    "crash": crash,
    "refuse": refuse,
    "mistake": mistake,
    "hang": hang,
    "eat": eat,
}
