"""A worker with queries and jobs for tests of the protocol: ``-m tests.jobs.toy_worker``."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from pathlib import Path
from typing import Any

from engine.base.errors import DatasetError
from engine.base.events import LogLine, Partial, Progress, Reporter, StageFinished, StageStarted
from engine.jobs.worker import serve

HOME = "tests.jobs.toy_worker:"


def echo(params: dict[str, Any]) -> dict[str, Any]:
    return params


def where(_params: dict[str, Any]) -> dict[str, Any]:
    import engine

    return {"engine": engine.__file__, "path": sys.path, "modules": sorted(sys.modules)}


def fail(_params: dict[str, Any]) -> dict[str, Any]:
    raise DatasetError("line 3 names no file.", cause="a typo", remedy="correct it")


def crash(_params: dict[str, Any]) -> dict[str, Any]:
    raise ZeroDivisionError("a mistake")


def die(_params: dict[str, Any]) -> dict[str, Any]:
    os.abort()


def hang(params: dict[str, Any]) -> dict[str, Any]:
    """Sleeps in native code; with ``locked`` it holds the interpreter's lock meanwhile."""
    Path(params.get("pid") or params["path"]).write_text(str(os.getpid()))
    library = ctypes.PyDLL if params.get("locked", True) else ctypes.CDLL
    library(None).sleep(60)
    return {}


def grow(params: dict[str, Any]) -> dict[str, Any]:
    """Asks for memory; what is not written to costs none."""
    return {"bytes": len(bytearray(int(params["bytes"])))}


def numbers(_params: dict[str, Any]) -> dict[str, Any]:
    return {"nan": float("nan"), "inf": [float("inf"), 1.5], "long": "x" * 3_000_000}


def count(params: dict[str, Any], reporter: Reporter) -> dict[str, Any]:
    """Counts to ``to``, a step every ``seconds``, noisily."""
    total = int(params.get("to", 3))
    reporter.emit(StageStarted("count", "Counting", 0, 1))
    print("noise on stdout")
    ctypes.CDLL(None).puts(b"noise of native code")
    ctypes.CDLL(None).fflush(None)
    for done in range(1, total + 1):
        reporter.check_cancelled()
        time.sleep(float(params.get("seconds", 0)))
        reporter.emit(Progress("count", done, total))
        reporter.emit(LogLine(f"step {done}"))
    reporter.emit(StageFinished("count", 0.0))
    if "touch" in params:
        Path(params["touch"]).write_text("done")
    return {"counted": total, "many": list(range(1000)), "pid": os.getpid()}


def search(_params: dict[str, Any], reporter: Reporter) -> dict[str, Any]:
    """Finds better and better until it is told that this is enough."""
    best = 0
    while not reporter.finish_requested():
        reporter.check_cancelled()
        best += 1
        reporter.emit(Partial("toy.best", {"best": best}))
        time.sleep(0.01)
    return {"best": best}


def stubborn(params: dict[str, Any], reporter: Reporter) -> dict[str, Any]:
    """Never asks whether it was cancelled."""
    reporter.emit(StageStarted("stubborn", "Being stubborn", 0, 1))
    time.sleep(float(params.get("seconds", 600)))
    return {}


def native(_params: dict[str, Any], reporter: Reporter) -> dict[str, Any]:
    """Hangs in native code that holds the interpreter's lock: only SIGKILL ends it."""
    reporter.emit(StageStarted("native", "Being native", 0, 1))
    ctypes.PyDLL(None).sleep(600)
    return {}


def broken(_params: dict[str, Any], _reporter: Reporter) -> dict[str, Any]:
    raise KeyError("nobody thought of this")


def untellable(_params: dict[str, Any], reporter: Reporter) -> dict[str, Any]:
    """Fails, and its end cannot be written down either."""

    def end(*_words: Any, **_named: Any) -> None:
        raise MemoryError("no memory for the error")

    setattr(reporter, "end", end)  # noqa: B010 - a type checker would object
    raise MemoryError("no memory")


QUERIES = ("echo", "where", "fail", "crash", "die", "hang", "grow", "numbers")

if __name__ == "__main__":
    serve(
        {n: HOME + n for n in QUERIES},
        {n: HOME + n for n in ("count", "search", "stubborn", "native", "broken", "untellable")},
    )
    os._exit(0)
