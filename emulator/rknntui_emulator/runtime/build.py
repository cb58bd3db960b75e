"""Compiles the stand-in libraries with the compiler of this machine."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from engine.base.errors import DeviceError
from engine.devices.agent.built import SOURCES as _SHARED

Kind = Literal["librknnrt.so", "librknnmrt.so", "librknn_runtime.so"]

LIBRARIES: dict[Kind, tuple[str, ...]] = {
    "librknnrt.so": ("-DGENERATION=2",),
    "librknnmrt.so": ("-DGENERATION=2", "-DMINI"),
    "librknn_runtime.so": ("-DGENERATION=1",),
}
"""Each library and what makes the sources it."""

_VERSION, _FIRST_VERSION = "2.3.2", "1.7.5"
"""The versions that they say they are, where no other is asked for."""

_SOURCES = Path(__file__).parent
_SECONDS = 120
_FLAGS = ("-std=gnu11", "-O1", "-shared", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra")
_LIBRARIES = ("-lm", "-ldl", "-lpthread")


def stand_in_of(library: str) -> Kind:
    """The stand-in for a library of a board, by its path there.

    ``librknn_api.so`` of RK3399Pro has the interface of generation 1, as ``librknn_runtime.so``.
    """
    name = library.rpartition("/")[2]
    return next((kind for kind in LIBRARIES if kind == name), "librknn_runtime.so")


def compiler() -> str | None:
    """The C compiler of this machine; None where there is none."""
    return next((path for name in ("cc", "gcc", "clang") if (path := shutil.which(name))), None)


def build(
    kind: Kind, folder: Path, *, version: str | None = None, also: Sequence[Path] = ()
) -> Path:
    """Compile a stand-in library, unless the folder has it already.

    Args:
        kind: which one.
        folder: where to; made where it is not there.
        version: which one it says it is, such as ``1.5.2``.
        also: further sources, such as faults that a test defines.

    Returns:
        Its path in the folder.

    Raises:
        DeviceError: there is no compiler, or it failed.
    """
    version = version or (_FIRST_VERSION if kind == "librknn_runtime.so" else _VERSION)
    if not re.fullmatch(r"\d+(\.\d+){1,3}", version):
        raise DeviceError(f"{version!r} is no version.", remedy="Give one such as 2.3.2.")
    cc = compiler()
    if cc is None:
        raise DeviceError(
            "There is no C compiler here.",
            cause="An emulated board's runtime library is compiled when it is first needed.",
            remedy="Install gcc or clang: apt install gcc.",
        )
    shared = [_SHARED / f"{name}.{end}" for name in ("board_root", "sha256") for end in "ch"]
    sources = [*sorted(_SOURCES.glob("*.[ch]")), *shared, *also]
    folders = (f"-I{_SOURCES}", f"-I{_SHARED}")
    words = [cc, *_FLAGS, *folders, *LIBRARIES[kind], f'-DVERSION="{version}"']
    made_of = hashlib.sha256("\0".join(words).encode())
    for source in sources:
        made_of.update(source.read_bytes())
    target, stamp = folder / kind, folder / f"{kind}.made-of"
    if target.is_file() and stamp.is_file() and stamp.read_text() == made_of.hexdigest():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as own:
        output = Path(own) / kind
        code = [str(path) for path in sources if path.suffix == ".c"]
        _compile([*words, "-o", str(output), *code, *_LIBRARIES])
        output.replace(target)
    stamp.write_text(made_of.hexdigest())
    return target


def _compile(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False)
        said, failed = done.stderr.decode("utf-8", "replace"), done.returncode != 0
    except (OSError, subprocess.TimeoutExpired) as error:
        said, failed = str(error), True
    if failed:
        raise DeviceError(
            "The stand-in of the runtime library could not be compiled.",
            cause=said.strip(),
            remedy=f"See whether {command[0]} can compile anything.",
        )
