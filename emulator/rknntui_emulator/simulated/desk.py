"""The place where the stand-in libraries of one board are answered while it runs.

A thread watches the folder of answers and makes what is asked for there, since a simulation takes
longer than the board's own loop may stand still. What was made stays, so that it is made once.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from engine.base.errors import ContainerError, DeviceError, EngineError
from engine.base.files import open_regular, sha256_of
from engine.base.text import sanitize

if TYPE_CHECKING:
    from rknntui_emulator.boards import Board
    from rknntui_emulator.simulated.model import SimulatedBoardModel
    from rknntui_emulator.simulated.requests import ModelRequest, RunRequest

_LOOK_SECONDS = 0.02
_END_SECONDS = 30.0
_LOCK_SECONDS = 10.0
_LOADED = 2
"""Models that are held in memory."""
_MOST_MODELS = 16
_MODEL_BYTES = 2 << 30
_MOST_RESULTS = 256
_RESULT_BYTES = 256 << 20
_OLD_SECONDS = 600.0
_CORES = 3
_WHY_BYTES = 900


class AnswerDesk:
    """Answers what the libraries of one board ask for.

    Args:
        folder: of the answers, beside the library.
        board: with its chip.
        log: takes a line for each answer, in the desk's thread.

    Raises:
        DeviceError: another emulator answers there.
    """

    def __init__(self, folder: Path, board: Board, log: Callable[[str], object]) -> None:
        self.folder = folder
        self._asked = folder / "asked"
        self._board, self._log = board, log
        self._models: dict[str, SimulatedBoardModel] = {}
        self._working = threading.Lock()
        self._end = threading.Event()
        self._asked.mkdir(parents=True, exist_ok=True)
        (self._asked / "busy").write_bytes(bytes(8 * _CORES))
        self._lock = self._watch()
        self._thread = threading.Thread(
            target=self._run, name=f"answers of {board.chip}", daemon=True
        )
        self._thread.start()

    def _watch(self) -> BinaryIO:
        """Hold the lock that tells libraries that somebody answers."""
        file = (self._asked / "watched").open("wb")
        end = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return file
            except OSError as error:  # a library may be looking at this moment
                if time.monotonic() > end:
                    file.close()
                    raise DeviceError(
                        "Another emulator answers in this folder.",
                        remedy="End the other one, or give this board a folder of its own.",
                    ) from error
            time.sleep(_LOOK_SECONDS)

    def close(self) -> None:
        """End; who waits for an answer is told by the lock."""
        self._end.set()
        self._thread.join(_END_SECONDS)
        self._lock.close()
        self._models.clear()

    def busy(self) -> tuple[int, ...]:
        """Microseconds that each core has been busy, since the start."""
        with contextlib.suppress(OSError, struct.error):
            return struct.unpack(f"<{_CORES}Q", (self._asked / "busy").read_bytes())
        return (0,) * _CORES

    def prepare(self, path: Path, bend: str = "") -> None:
        """Make the answers of a model before it is asked for.

        Args:
            path: of the model.
            bend: a layer to bend, which has to be one of its.

        Raises:
            EngineError: it does not run there.
        """
        try:
            with open_regular(path):
                pass
            digest = sha256_of(path)
        except OSError as error:
            raise ContainerError(
                f"{sanitize(str(path), 200)} could not be read: {error.strerror or error}.",
                remedy="Check the path, and that you have permission to read it.",
            ) from error
        with self._working:
            model = self._add(path, digest, link=False)
            if bend:
                model.check_bend(bend)

    # -------------------------------------------------------------------------- in its own thread

    def _run(self) -> None:
        while not self._end.wait(_LOOK_SECONDS):
            with contextlib.suppress(OSError):
                for entry in sorted(self._asked.glob("*.ask")):
                    self._answer(entry)

    def _answer(self, path: Path) -> None:
        why = ""
        try:
            with self._working:
                self._make(path)
        except EngineError as error:
            why = " ".join(filter(None, (error.what, error.cause, f"Fix: {error.remedy}")))
        except OSError as error:
            why = f"The file system of the emulator failed: {error.strerror}."
        except Exception as error:  # noqa: BLE001 - whoever asked would wait in vain
            why = f"The simulator failed: {type(error).__name__}: {error}"
        why = sanitize(why, _WHY_BYTES)
        if why:
            self._log(f"no answer: {why}")
        if path.exists():  # nobody waits any more where it is gone
            part = path.with_suffix(".told")
            part.write_bytes(why.encode("utf-8", "replace")[:_WHY_BYTES])
            done = part.rename(path.with_suffix(".done"))
            try:
                path.unlink()
            except FileNotFoundError:  # who asked has just given up
                done.unlink(missing_ok=True)
        self._tidy()

    def _make(self, path: Path) -> None:
        # the rooms of graphs and simulation take a second to load: at the first question
        from rknntui_emulator.simulated.requests import ModelRequest, read_request

        request = read_request(path)
        begun = time.monotonic()
        if isinstance(request, ModelRequest):
            self._add(self._own(request), request.digest, link=True)
            what = "model"
        else:
            self._simulate(request)
            what = f"result{f' bent at {sanitize(request.bend, 120)}' if request.bend else ''}"
        seconds = time.monotonic() - begun
        self._log(f"simulated: {what} of {request.digest[:12]} in {seconds:.2f} s")

    def _own(self, request: ModelRequest) -> Path:
        facts = request.path.stat()
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > _MODEL_BYTES:
            raise DeviceError(
                "The model is no file, or too large.",
                remedy=f"An emulated board takes models up to {_MODEL_BYTES >> 20} MiB.",
            )
        if sha256_of(request.path) != request.digest:
            raise DeviceError("The model changed while it was loaded.", remedy="Load it again.")
        return request.path

    def _add(self, path: Path, digest: str, *, link: bool) -> SimulatedBoardModel:
        """Answers and a copy of a model; it stays loaded. Files of the board are never written a
        second time under their names: of them a link is a copy.
        """
        from rknntui_emulator.simulated.model import read_model

        model = self._models.get(digest) or read_model(path, self._board, digest)
        kept = self.folder / f"{digest}.rknn"
        if not kept.exists():
            part = kept.with_suffix(".part")
            part.unlink(missing_ok=True)
            try:
                (os.link if link else shutil.copyfile)(path, part)
            except OSError:  # file systems that have no links, or are two
                shutil.copyfile(path, part)
            part.replace(kept)
        model.answers.write(self.folder / f"{digest}.answers")
        self._keep(digest, model)
        return model

    def _keep(self, digest: str, model: SimulatedBoardModel) -> None:
        self._models.pop(digest, None)
        self._models[digest] = model
        while len(self._models) > _LOADED:
            del self._models[next(iter(self._models))]

    def _simulate(self, request: RunRequest) -> None:
        from rknntui_emulator.simulated.model import read_model

        model = self._models.get(request.digest)
        kept = self.folder / f"{request.digest}.rknn"
        if model is None:
            if not kept.exists():
                raise DeviceError(
                    "The emulator has the model no more.",
                    cause="Several others were opened in the meantime.",
                    remedy="Open it again.",
                )
            model = read_model(kept, self._board, request.digest)
        self._keep(request.digest, model)
        outputs = model.run(request.inputs, request.bend)
        target = self.folder / request.result
        part = target.with_suffix(".part")
        part.write_bytes(b"".join(outputs))
        part.replace(target)
        with contextlib.suppress(OSError):
            os.utime(kept)  # the oldest go first

    def _tidy(self) -> None:
        """Remove the oldest of what is too much, and answers that nobody has taken."""
        _thin(self.folder, "*.result", _MOST_RESULTS, _RESULT_BYTES)
        for gone in _thin(self.folder, "*.rknn", _MOST_MODELS, _MODEL_BYTES):
            gone.with_suffix(".answers").unlink(missing_ok=True)
        old = time.time() - _OLD_SECONDS
        for pattern in ("*.done", "*.told", "*.part", "*.model"):
            for path in self._asked.glob(pattern):
                with contextlib.suppress(OSError):
                    if path.stat().st_mtime < old:
                        path.unlink()


def _thin(folder: Path, pattern: str, most: int, size: int) -> list[Path]:
    """Remove the oldest files beyond a number and a size, but for the newest of all."""
    files = []
    for path in folder.glob(pattern):
        with contextlib.suppress(OSError):
            facts = path.stat()
            files.append((facts.st_mtime_ns, facts.st_size, path))
    gone: list[Path] = []
    for number, (_, taken, path) in enumerate(sorted(files, reverse=True)):
        size -= taken
        if number and (number >= most or size < 0):
            path.unlink(missing_ok=True)
            gone.append(path)
    return gone
