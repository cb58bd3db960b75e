"""Let the n-th write or allocation of an export fail, for one n after the other.

``LD_PRELOAD=injector.so python -m tests.faults.attack KIND FIRST STEP MODE FOLDER`` forks a process
for each attempt, which exports the demo model with a home and a cache of its own. A second export
into the same home, with nothing failing, shows whether the first one left something wrong behind.
Prints one line of JSON.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine.base.errors import InternalError
from engine.base.events import NullReporter
from rknntui.demo import demo_folder

KINDS = {"write": 0, "allocation": 1}
SAMPLES = 8
SHOWN = 8

# Everything that the job imports, so that an attempt is short: a fork starts with it.
MODULES = (
    *("engine.services.build", "engine.pipeline.build", "engine.jobs.worker", "engine.simulate"),
    *("engine.quantize.quantize", "engine.accuracy", "engine.container", "engine.hybrid"),
    *("engine.frontends.load", "engine.graph.passes", "PIL.PngImagePlugin", "onnxruntime"),
)


def recipe() -> dict[str, Any]:
    folder = demo_folder()
    return {
        "model": str(folder / "digits_demo.onnx"),
        "dataset": [str(folder / "calibration" / f"{n:03d}.png") for n in range(SAMPLES)],
    }


def export(home: Path, name: str, done: Callable[[], None] = lambda: None) -> str:
    """What the worker does for ``rknntui export``: the digest, or the kind of the error.

    ``done`` is called after it, before this test reads the result.
    """
    from engine.jobs.worker import _as_error
    from engine.services.build import export as job

    path = home / "out" / name
    listing = home / "dataset.txt"
    given = recipe() | {"dataset": str(listing)}
    try:
        job({"recipe": given, "path": str(path)}, NullReporter())
    except BaseException as error:  # noqa: BLE001 - as the worker does
        told = _as_error(error)
        if isinstance(told, InternalError):
            return f"mistake: {type(error).__name__}: {error}"[:300]
        if not told.remedy:
            return f"no remedy: {told.what}"[:300]
        return f"told: {type(told).__name__}"
    finally:
        done()
    return hashlib.sha256(path.read_bytes()).hexdigest()


def forked(function: Callable[[], str]) -> str:
    """The answer of ``function`` in a process of its own, or how that ended."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(out)
        try:
            answer = function()
        except BaseException as error:  # noqa: BLE001 - the parent tells it
            answer = f"raised: {error!r}"[:300]
        os.write(into, answer.encode("utf-8", "replace"))
        os._exit(0)
    os.close(into)
    with os.fdopen(out, "rb") as stream:
        answer = stream.read().decode()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return answer if status == 0 else f"ended with {status}"


def home_at(place: Path) -> Path:
    """A home, a folder for temporary files and one for the result, and the list of samples."""
    shutil.rmtree(place, ignore_errors=True)
    for name in ("home", "tmp", "out"):
        (place / name).mkdir(parents=True)
    (place / "dataset.txt").write_text("".join(f"{path}\n" for path in recipe()["dataset"]))
    return place


def settle(place: Path) -> None:
    for name, value in {
        "HOME": "home",
        "XDG_CACHE_HOME": "home/cache",
        "XDG_STATE_HOME": "home/state",
        "XDG_CONFIG_HOME": "home/config",
        "TMPDIR": "tmp",
    }.items():
        os.environ[name] = str(place / value)


def attempt(place: Path, kind: str, nth: int, *, stays: bool) -> tuple[str, str, int, list[str]]:
    """One export with a fault, one without: both answers, faults that could be, what is left."""
    home_at(place)
    counted = place / "count"

    def faulty() -> str:
        settle(place)
        library = ctypes.CDLL(None)
        library.fault_seen.restype = ctypes.c_long

        def done() -> None:
            count = library.fault_seen(KINDS[kind])
            library.fault_arm(KINDS[kind], ctypes.c_long(0), 0)
            counted.write_text(str(count))

        library.fault_arm(KINDS[kind], ctypes.c_long(nth), int(stays))
        return export(place, "first.rknn", done)

    def healthy() -> str:
        settle(place)
        return export(place, "second.rknn")

    first = forked(faulty)
    left = sorted(p.name for p in (place / "out").iterdir()) + sorted(
        p.name for p in (place / "tmp").iterdir()
    )
    count = int(counted.read_text()) if counted.exists() else nth
    return first, forked(healthy), count, left


def main() -> None:
    kind, start, step, mode, folder = sys.argv[1:6]
    for module in MODULES:
        __import__(module)
    place = Path(folder) / "place"
    golden, again, total, _ = attempt(place, kind, 1 << 60, stays=False)
    seen: dict[str, Any] = {"total": total, "attempts": 0, "told": 0, "same": 0}
    seen |= {"crashed": 0, "faults": 0, "wrong": []}
    assert golden == again, (golden, again)
    assert len(golden) == 64, golden
    for nth in range(int(start), total + 1, int(step)):
        first, second, _, left = attempt(place, kind, nth, stays=mode == "stays")
        seen["attempts"] += 1
        told = first.startswith("told: ")
        # native code ends the process where it does not look at what an allocation gave
        crashed = kind == "allocation" and first == f"ended with {-signal.SIGSEGV}"
        seen["told"] += told
        seen["crashed"] += crashed
        seen["same"] += first == golden
        expected = [] if told or crashed else ["first.rknn"]
        fine = (told or crashed or first == golden) and second == golden and left == expected
        if not fine and len(seen["wrong"]) < SHOWN:
            seen["wrong"].append([nth, first, second == golden, left])
        seen["faults"] += not fine
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
