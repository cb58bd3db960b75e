"""A child's ``convert`` with the bad habits of native libraries."""

from __future__ import annotations

import ctypes
import os
import resource
import socket
import subprocess
import tempfile
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


def reach(request: dict[str, Any], out: Path) -> dict[str, Any]:
    """Try what a model's code has no business to do; say what the system answered."""
    given = Path(request["given"])
    tries: dict[str, Any] = {
        "write": lambda: Path(request["target"]).write_bytes(b"overwritten"),
        "write what is read": lambda: given.write_bytes(b"overwritten"),
        "delete": lambda: Path(request["target"]).unlink(),
        "mode": lambda: Path(request["target"]).chmod(0o777),
        "read": lambda: Path(request["target"]).read_bytes(),
        "read a system file": lambda: Path("/etc/passwd").read_bytes(),
        "read the parent": lambda: Path(f"/proc/{os.getppid()}/environ").read_bytes(),
        "connect": lambda: socket.create_connection(("127.0.0.1", 9), 1),
        "run": lambda: subprocess.run(["/bin/true"], check=True),
        "signal": lambda: os.kill(os.getppid(), 0),
        "signal its group": lambda: os.kill(0, 0),
        "name the machine": lambda: socket.sethostname(socket.gethostname()),
        "limit the parent": lambda: resource.prlimit(
            os.getppid(), resource.RLIMIT_NOFILE, resource.getrlimit(resource.RLIMIT_NOFILE)
        ),
        "slow the parent": lambda: os.setpriority(os.PRIO_PROCESS, os.getppid(), 1),
        "bind the parent to a core": lambda: os.sched_setaffinity(os.getppid(), {0}),
        "share memory by a key": lambda: _checked("shmget", 1, 4096, 0o1600),
        "be another user": lambda: os.setuid(65534),
        "set the clock": lambda: time.clock_settime(time.CLOCK_REALTIME, time.time()),
        "signal itself": lambda: os.kill(os.getpid(), 0),
        "bind itself to its cores": lambda: os.sched_setaffinity(0, os.sched_getaffinity(0)),
        "limit itself": lambda: resource.setrlimit(
            resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1])
        ),
        "read what is given": given.read_bytes,
        "write its own": lambda: (out.parent / "own").write_bytes(b"x"),
        "write a temporary file": lambda: tempfile.NamedTemporaryFile().close(),
    }
    said = {}
    for name, action in tries.items():
        try:
            action()
            said[name] = "done"
        except OSError as error:
            said[name] = type(error).__name__
    return write(request, out) | {"said": said}


def _checked(name: str, *arguments: int) -> int:
    """A call of the C library, with its error as Python has it."""
    library = ctypes.CDLL(None, use_errno=True)
    found: int = getattr(library, name)(*arguments)
    if found < 0:
        raise OSError(ctypes.get_errno(), name)
    return found


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
    "reach": reach,
    "allocate": allocate,
    "fill": fill,
    "write": write,
    "noise": noise,
    "crash": crash,
    "refuse": refuse,
    "mistake": mistake,
    "hang": hang,
    "eat": eat,
}
