"""The blocks of shell and Python in the project's pages, run as a reader runs them.

The blocks of a page run in its order, in one folder; a ``cd`` and Python's variables last to the
end of the page. Comments in the source, which no reader sees, say what the test must know:

``<!-- page: after docs/tutorial.md -->``
    The page continues in the folder that another page leaves, as its text says.
``<!-- page: with net.cfg=zoo:darknet/tiny.cfg -->``
    The reader brings this file: from the zoo, from the repository (``repository:``), or from the
    folder in which the page begins (``here:``).
``<!-- run: not, KIND: because -->``
    The next block is not run, for this reason.
``<!-- run: as own.py -->``
    The next block is a file, which is written into the folder.
``<!-- run: in a terminal -->``
    The next block opens the workbench, which is left by its key.
``<!-- run: until Ctrl-C -->``
    The next block runs until its reader ends it. PORT, below it, is that of the address it tells.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import resource
import select
import shutil
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

_PART = re.compile(
    r"^<!-- (?P<kind>run|page): (?P<words>.*?) -->\n"
    r"|^(?P<indent> *)```(?P<language>sh|bash|console|shell|python|py)\n(?P<text>.*?)^ *```",
    re.DOTALL | re.MULTILINE,
)
_HOW = r"not, [a-z1 ]+: .{12,}|as \S+|in a terminal|until Ctrl-C"
_ADDRESS = re.compile(r"127\.0\.0\.1:(\d+)")

_SESSION = """
import json, os, sys, traceback
names = {"__name__": "__main__"}
for line in sys.stdin:
    asked = json.loads(line)
    os.chdir(asked["folder"])
    said = ""
    try:
        exec(compile(asked["text"], asked["name"], "exec"), names)
    except BaseException:
        said = traceback.format_exc()
    os.write(int(sys.argv[1]), json.dumps(said).encode() + b"\\n")
"""


@dataclass(frozen=True)
class Block:
    """A block as it stands in the page, and how it is run."""

    page: str
    line: int
    language: str
    text: str
    how: str
    """Empty, or the words of its ``run`` comment."""

    @property
    def reason(self) -> str:
        """Why it is not run; empty where it is."""
        return self.how.partition("not, ")[2] if self.how.startswith("not, ") else ""

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Page:
    path: Path
    name: str
    after: str
    """The page in whose folder this one continues, or empty."""
    files: Mapping[str, str]
    """What the reader brings: file name -> where the test takes it from."""
    blocks: tuple[Block, ...] = field(repr=False)

    @property
    def run(self) -> tuple[Block, ...]:
        return tuple(block for block in self.blocks if not block.reason)

    def mentions(self, *words: str) -> bool:
        """Whether a block that is run has one of these words."""
        return any(word in block.text for block in self.run for word in words)


def read(path: Path, repository: Path) -> Page:
    """The blocks of a page. A comment of no block, or of no known form, is refused."""
    text = path.read_text(encoding="utf-8")
    name = path.relative_to(repository).as_posix()
    found: list[Block] = []
    files: dict[str, str] = {}
    after = how = ""
    for part in _PART.finditer(text):
        line = text.count("\n", 0, part.start()) + 1
        words = part["words"]
        if part["kind"] == "page":
            known = re.fullmatch(r"after (\S+)|with ((?:\S+=\S+ ?)+)", words)
            assert known, f"{name}:{line}: page: {words}?"
            after = known[1] or after
            files |= dict(pair.split("=") for pair in (known[2] or "").split())
        elif part["kind"] == "run":
            assert not how, f"{name}:{line}: two comments on one block"
            known = re.fullmatch(_HOW, words)
            assert known, f"{name}:{line}: run: {words}?"
            how = words
        else:
            indent = len(part["indent"])
            body = "".join(row[indent:] for row in part["text"].splitlines(keepends=True))
            language = "python" if part["language"].startswith("py") else "sh"
            found.append(Block(name, line, language, body, how))
            how = ""
    assert not how, f"{name}: its last comment is on no block"
    return Page(path, name, after, files, tuple(found))


def _used() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Reader:
    """Runs the blocks of one page in ``folder``; a context manager."""

    def __init__(
        self,
        folder: Path,
        programs: Path,
        variables: Mapping[str, str] | None = None,
        words: Mapping[str, str] | None = None,
    ) -> None:
        """``programs`` is first on the PATH. ``words`` replaces what a page has for the name of
        a thing of the reader's, such as ``adb:SERIAL``.
        """
        self.folder = folder
        self.here = folder
        """Where the reader is: a block's ``cd`` moves it."""
        self._python = programs / "python"
        self._words = dict(words or {})
        self._variables = os.environ | {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "VIRTUAL_ENV": str(programs.parent),
            "PYTHONUNBUFFERED": "1",
            **(variables or {}),
        }
        for name in ("PYTHONPATH", "PYTEST_CURRENT_TEST"):
            self._variables.pop(name, None)
        self._waiting: list[subprocess.Popen[bytes]] = []
        self._session: subprocess.Popen[str] | None = None
        self._answers: Any = None
        self.printed = ""
        """Standard output of all blocks of shell."""
        self.seconds: list[tuple[float, float, str]] = []
        """Seconds of each block, those of the processor in what has ended, and where it is."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for process in self._waiting:
            os.killpg(process.pid, signal.SIGINT)
            code = process.wait(timeout=60)
            assert error[0] or code in (0, 130), f"{process.args}: exit code {code} by Ctrl-C"
        if self._session is not None:
            assert self._session.stdin is not None
            self._session.stdin.close()
            self._session.wait(timeout=60)
            self._answers.close()

    def run(self, block: Block) -> None:
        """Run it; an AssertionError says which block failed, and what it printed."""
        start, used = time.monotonic(), _used()
        text = block.text
        for word, meant in self._words.items():
            text = text.replace(word, meant)
        if block.how == "until Ctrl-C":
            self._leave_running(block, text)
        elif block.how == "in a terminal":
            self._in_a_terminal(block, text)
        elif block.how.startswith("as "):
            (self.here / block.how.removeprefix("as ")).write_text(text)
        elif block.language == "python":
            self._in_python(block, text)
        else:
            self._in_shell(block, text)
        self.seconds.append((time.monotonic() - start, _used() - used, block.place))

    def _in_shell(self, block: Block, text: str) -> None:
        # `false && true` in the midst of a block does not end it
        assert "&&" not in "".join(text.splitlines()[:-1]), (
            f"{block.place}: && only in the last line"
        )
        place = self.folder / ".page-folder"
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", f"trap 'pwd >\"{place}\"' EXIT\n{text}"],
            cwd=self.here,
            env=self._variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        self.printed += done.stdout
        said = done.stdout[-3000:] + done.stderr[-3000:]
        assert done.returncode == 0, f"{block.place}: exit code {done.returncode}\n{text}\n{said}"
        assert "Traceback (most" not in done.stderr, f"{block.place}\n{text}\n{said}"
        self.here = Path(place.read_text().rstrip("\n"))
        place.unlink()

    def _in_python(self, block: Block, text: str) -> None:
        errors = self.folder / ".page-errors"
        if self._session is None:
            reading, writing = os.pipe()
            with errors.open("w") as told:
                self._session = subprocess.Popen(
                    [self._python, "-c", _SESSION, str(writing)],
                    cwd=self.here,
                    env=self._variables,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=told,
                    pass_fds=[writing],
                    text=True,
                )
            os.close(writing)
            self._answers = os.fdopen(reading)
        before = errors.stat().st_size
        assert self._session.stdin is not None
        asked = {"folder": str(self.here), "text": text, "name": block.place}
        self._session.stdin.write(json.dumps(asked) + "\n")
        self._session.stdin.flush()
        assert select.select([self._answers], [], [], 600)[0], f"{block.place}: no end in 600 s"
        answer = self._answers.readline()
        said = errors.read_bytes()[before:].decode(errors="replace")
        assert answer, f"{block.place}: Python ended\n{said}"
        assert not json.loads(answer), f"{block.place}\n{json.loads(answer)}\n{said[-3000:]}"
        # The vendor's class tells an error and returns -1.
        assert not re.search(r"^E \w+: ", said, re.MULTILINE), f"{block.place}\n{text}\n{said}"

    def _leave_running(self, block: Block, text: str) -> None:
        told = self.folder / f".page-running-{len(self._waiting)}"  # a pipe that nobody reads fills
        with told.open("w") as stream:
            process = subprocess.Popen(
                ["bash", "-euc", f"exec {text.strip()}"],
                cwd=self.here,
                env=self._variables,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                start_new_session=True,
            )
        self._waiting.append(process)
        end = time.monotonic() + 120
        while not (address := _ADDRESS.search(told.read_text(errors="replace"))):
            said = f"{block.place}\n{text}\n{told.read_text(errors='replace')}"
            assert process.poll() is None, said
            assert time.monotonic() < end, said
            time.sleep(0.1)
        self._words["PORT"] = address[1]

    def _in_a_terminal(self, block: Block, text: str) -> None:
        """The workbench draws, its key is pressed, and it ends."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        process = subprocess.Popen(
            ["bash", "-euc", text],
            cwd=self.here,
            env=self._variables | {"TERM": "xterm-256color"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        said = b""
        end = time.monotonic() + 120
        asked = 0.0
        while process.poll() is None and time.monotonic() < end:
            if select.select([ours], [], [], 0.2)[0]:
                try:
                    said += os.read(ours, 65536)
                except OSError:  # the other end is closed: it has ended
                    break
            # its footer is there; the key again where a dialogue took the first one
            if b"Palette" in said and time.monotonic() > asked + 2:
                os.write(ours, b"\x11")
                asked = time.monotonic()
        os.close(ours)
        if process.poll() is None:
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
        shown = said[-2000:].decode(errors="replace")
        assert code == 0, f"{block.place}: exit code {code} of the workbench\n{text}\n{shown}"
        assert asked, f"{block.place}: the workbench did not draw\n{shown}"


def bring(page: Page, folder: Path, repository: Path, zoo: Path | None) -> None:
    """Put what the reader brings into the folder: files, or whole folders."""
    for name, source in page.files.items():
        where, _, path = source.partition(":")
        roots = {"zoo": zoo, "repository": repository, "here": folder}
        root = roots[where]
        assert root is not None, f"{page.name}: {source} needs the zoo"
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if (root / path).is_dir():
            shutil.copytree(root / path, place, copy_function=shutil.copyfile, dirs_exist_ok=True)
        else:
            shutil.copyfile(root / path, place)
