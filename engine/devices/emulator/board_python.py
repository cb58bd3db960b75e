"""Runs a Python program so that it sees the files of an emulated board at their own paths.

The board's ``python3`` starts this file with the words of its caller. Absolute paths that a
program hands to the operating system or to the loader of libraries are led into the board's
folder; what is there already, and what every Linux has (``/dev/null``, ``/proc/self``), stays as
it is. It is in the language of Python 3.5, as the agent that it runs: any interpreter can be the
board's.
"""

import builtins
import ctypes
import errno
import io
import os
import re
import runpy
import sys
from typing import Any, Callable, List

ROOT = os.environ["BOARD_ROOT"]
STATE = os.environ["BOARD_STATE"]

_LIBRARY = tuple(os.path.join(os.path.abspath(path), "") for path in sys.path[1:] if path)
"""The interpreter's own modules are those of this machine."""

_HOST = re.compile(
    r"/(dev/(null|zero|u?random|full|tty|pts|fd|std\w+)|proc/(self|thread-self|\d{4,}))(/|$)"
)

_open = io.open
_join = os.path.join


def led(path: Any) -> Any:
    """Where a path of the board is on this machine; anything else comes back as it is."""
    if hasattr(path, "__fspath__"):
        path = path.__fspath__()
    if isinstance(path, bytes):
        return os.fsencode(led(os.fsdecode(path)))
    if not isinstance(path, str) or not path.startswith("/"):
        return path
    if path == ROOT or path.startswith((ROOT + "/", STATE + "/") + _LIBRARY) or _HOST.match(path):
        return path
    return ROOT + os.path.normpath(path)


def _state(name: str) -> str:
    try:
        with _open(_join(STATE, name)) as file:
            return str(file.read())
    except OSError:
        return ""


def refuse(path: Any) -> None:
    """Raise what the board's kernel would where nothing can be written at ``path``."""
    path = led(path)
    if not isinstance(path, (str, bytes)):
        return  # a file that is open already
    text = os.path.normpath(_join(ROOT, os.fsdecode(path)))
    if not text.startswith(ROOT + "/"):
        return
    text = text[len(ROOT) :]
    for folder in _state("read-only").splitlines():
        if text.startswith(folder + "/"):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), text)
    if _state("free").strip() == "0":
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), text)


class Led:
    """A function of the operating system whose paths are led into the board's folder.

    An object and no function: modules keep such functions in classes, where a function would
    become a method.
    """

    def __init__(self, function: Callable[..., Any], paths: int = 1, writes: str = "no") -> None:
        self.function, self.paths, self.writes = function, paths, writes

    def __call__(self, *words: Any, **named: Any) -> Any:
        """The function, or the refusal of the board's file system."""
        if self._writes(words[1:], named):
            refuse(words[self.paths - 1])
        return self.function(*(tuple(map(led, words[: self.paths])) + words[self.paths :]), **named)

    def _writes(self, words: Any, named: Any) -> bool:
        if self.writes == "mode":
            return bool(set(str(words[0] if words else named.get("mode", "r"))) & set("wax+"))
        if self.writes == "flags":
            return bool((words[0] if words else named["flags"]) & (os.O_WRONLY | os.O_RDWR))
        return self.writes == "yes"


class Free(Led):
    """``os.statvfs`` with the room that the board has."""

    def __call__(self, *words: Any, **named: Any) -> Any:
        """The facts of the file system."""
        facts = Led.__call__(self, *words, **named)
        free = _state("free").strip()
        if not free:
            return facts
        blocks = int(free) // facts.f_frsize
        return os.statvfs_result(tuple(facts[:3]) + (blocks, blocks) + tuple(facts[5:]))


def lead_all() -> None:
    """Let every door to the file system lead into the board's folder."""
    for name in [
        "access",
        "chdir",
        "chmod",
        "listdir",
        "lstat",
        "readlink",
        "rmdir",
        "scandir",
        "stat",
        "unlink",
        "utime",
    ]:
        setattr(os, name, Led(getattr(os, name)))
    os.remove = os.unlink
    for name in ("mkdir", "truncate"):
        setattr(os, name, Led(getattr(os, name), writes="yes"))
    for name in ("link", "rename", "replace"):
        setattr(os, name, Led(getattr(os, name), paths=2, writes="yes"))
    setattr(os, "open", Led(os.open, writes="flags"))  # noqa: B010 - a type checker would object
    setattr(os, "statvfs", Free(os.statvfs))  # noqa: B010
    for module in (builtins, io):
        setattr(module, "open", Led(_open, writes="mode"))  # noqa: B010
    setattr(ctypes, "_dlopen", Led(getattr(ctypes, "_dlopen")))  # noqa: B009, B010


def run(words: List[str]) -> None:
    """Run the program of a command line, as ``python3`` does.

    Args:
        words: behind the interpreter: some flags, ``-c TEXT``, ``-V``, ``-`` or a file, arguments.
    """
    alone = False
    while words and words[0] in ("-u", "-I", "-S", "-B", "-E", "-s"):
        alone = alone or words[0] == "-I"
        words = words[1:]
    words = [word[len(ROOT) :] if word.startswith(ROOT + "/") else word for word in words]
    if words[:1] in (["-V"], ["--version"]):
        print("Python " + sys.version.split()[0])
    elif not words or words[0] in ("-", "-c"):
        inline = words[:1] == ["-c"]
        text = words[1] if inline else sys.stdin.read()
        sys.argv = words[:1] + words[2:] if inline else words
        path = _join(STATE, "inline-{}.py".format(os.getpid()))
        with _open(path, "w") as file:
            file.write(text)
        lead_all()
        try:
            runpy.run_path(path, run_name="__main__")
        finally:
            os.unlink(path)
    else:
        path = led(words[0])
        sys.argv = words
        # The importer reads archives and modules by itself and knows this machine's files only.
        sys.path[0:1] = [] if alone or not path.endswith(".py") else [os.path.dirname(path)]
        lead_all()
        runpy.run_path(path, run_name="__main__")


if __name__ == "__main__":
    run(sys.argv[1:])
