"""A model on a board: opened, run, measured and watched, over any transport.

The other end is ``engine.devices.agent``; what it answers is checked here and never believed.
Times are in microseconds, sizes in bytes.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from engine.base.errors import (
    DeviceError,
    DeviceStorageError,
    DeviceTimeoutError,
    RuntimeLibraryError,
    UsageError,
)
from engine.base.files import output_errors, sha256_of
from engine.base.plain import JsonObject
from engine.devices.board.answers import (
    amount,
    emulated_refusal,
    listed,
    long_text,
    mapping,
    misfit_error,
    number,
    text,
    times,
)
from engine.devices.board.layout import model_name
from engine.devices.board.model_file import ModelFile, model_file, require_fit
from engine.devices.board.results import (
    ClocksChanged,
    DeviceMemory,
    OpenModel,
    RunProgress,
    RunResult,
    read_clocks,
    read_memory,
    read_open_model,
    told_progress,
)
from engine.devices.board.session import READ_LIMIT, BoardSession, Step
from engine.devices.board.tensors import (
    MOST_TENSORS,
    BoardInput,
    BoardOutput,
    output_of,
    output_size,
    prepared_input,
)
from engine.devices.probe.identify import EMULATED_MARK, identify
from engine.devices.probe.reading import read_bytes
from engine.devices.probe.versions import usable_libraries
from engine.devices.transport import Moved, Transport

OPEN_SECONDS = 120.0
"""How long a runtime may take to load a model."""
RUN_SECONDS = 60.0
"""How long nothing may be heard of a run."""
_SHORT_SECONDS = 30.0
_UNHEARD_SECONDS = 2.0
_MOST_LOOPS = 100_000
_RUNS_OF_A_PART = 20_000
"""Inferences whose two times are far shorter than a line of the protocol may be."""
_MOST_THREADS = 32
_CLOCKS = "clocks.json"


class BoardRuntime(contextlib.AbstractContextManager["BoardRuntime"]):
    """One board that runs models, one at a time.

    Args:
        transport: the board; :meth:`close` does not close it.
        agent: the program for the board; None is the agent for it.
        chip: of the board, as :mod:`engine.facts` names it; empty where it is not known, None asks
            the board.
        check: called ten times a second; what it raises cancels what is under way.

    Raises:
        DeviceError: the board is in use, there is no agent for it, no folder can
            be written, or it has gone.
    """

    def __init__(
        self,
        transport: Transport,
        agent: bytes | None = None,
        *,
        chip: str | None = None,
        check: Callable[[], object] | None = None,
    ) -> None:
        self._transport, self._chip = transport, chip
        self._opened: tuple[OpenModel, Step] | None = None
        self._hung = self._clocks_changed = False
        self._session = BoardSession(transport, agent, check=check)
        try:
            self._restore_left()
        except BaseException:
            self._session.end()
            raise

    def _restore_left(self) -> None:
        """Restore the clocks that a session changed which could not do it any more."""
        left = self._session.folder.at(_CLOCKS)
        if self._transport.read(left, limit=1 << 16) is not None:
            self.restore_clocks()

    @property
    def opened(self) -> OpenModel | None:
        """The model that is loaded."""
        ended = self._transport.converses and not self._session.running
        return None if self._opened is None or ended else self._opened[0]

    def open(
        self,
        model: Path,
        *,
        perf: bool = False,
        core_mask: int | None = None,
        library: str = "",
        seconds: float = OPEN_SECONDS,
        moved: Moved | None = None,
    ) -> OpenModel:
        """Load a model on the board, in place of the one before.

        Args:
            model: a compiled model of this machine; what is on the board already is not sent again.
            perf: have the runtime time each layer, which slows the run.
            core_mask: which cores of the NPU, as ``rknn_set_core_mask`` takes it.
            library: absolute path of a runtime library on the board; None tries the usual ones.
            seconds: that the runtime may take.
            moved: told how much of the file is on the board.

        Raises:
            ContainerError: the file is no compiled model, or damaged.
            RuntimeLibraryError: this board cannot run it, has no library for it, or its library
                refuses it.
            DeviceStorageError: there is no room for it.
            DeviceTimeoutError: the runtime does not answer.
            DeviceLostError: the board has gone.
            JobCancelledError: or whatever else ``check`` raises.
        """
        if library and not (library.startswith("/") and library.isprintable()):
            raise UsageError(f"{library} is no absolute path of a library.")
        file = model_file(model)
        self._require_fit(file)
        session = self._session
        self._opened = None
        libraries = usable_libraries(
            self._transport,
            file.generation,
            session.processor,
            library,
        )
        name = model_name(file.sha256)
        pushed = session.folder.put(
            model,
            name,
            file.sha256,
            model.name,
            digest=self._digest if self._transport.converses else None,
            moved=session.moved(moved),
        )
        if pushed and sha256_of(model) != file.sha256:
            session.folder.remove([name])
            raise DeviceStorageError(
                f"{model.name} changed while it was sent to {self._transport.name}.",
                cause="Another program was writing it.",
                remedy="Wait until it is written, and try again.",
            )
        params: JsonObject = {
            "model": session.folder.at(name),
            "generation": file.generation,
            "libraries": list(libraries),
            "perf": perf,
            "core_mask": core_mask,
            "flags": 0,  # ``RKNN_FLAG_*`` beside those
        }
        try:
            answer = session.ask("open", params, seconds=seconds)
        except DeviceTimeoutError as error:
            raise self._init_hangs_error(error) from None
        except RuntimeLibraryError as error:
            raise emulated_refusal(error) from None
        self._hung = False
        opened = read_open_model(file, answer, session.folder.note)
        self._opened = opened, ("open", params)
        return opened

    def _require_fit(self, file: ModelFile) -> None:
        """Refuse a model that this board cannot run, before it is sent."""
        if self._chip is None:
            self._chip = identify(self._transport).chip or ""
        emulated = file.ours and read_bytes(self._transport, EMULATED_MARK, 64) is not None
        require_fit(file, self._chip, emulated=emulated)

    def _init_hangs_error(self, error: DeviceTimeoutError) -> DeviceTimeoutError:
        before, self._hung = self._hung, True
        again = " A run hung before that." if before else ""
        return DeviceTimeoutError(
            f"The runtime of {self._transport.name} did not load the model in time.{again}",
            cause="The NPU or its driver hangs; that stays until the board is restarted."
            if before
            else error.cause,
            remedy="Restart the board."
            if before
            else "Try again; if that hangs too, restart the board.",
        )

    def _digest(self, path: str) -> str | None:
        answer = self._session.ask("digest", {"path": path}, seconds=OPEN_SECONDS)
        return text(answer, "sha256", 64)

    def run(
        self,
        inputs: Sequence[BoardInput],
        *,
        warmup: int = 0,
        loops: int = 1,
        threads: int = 1,
        want_float: bool = True,
        outputs: bool = True,
        seconds: float = RUN_SECONDS,
        progress: Callable[[RunProgress], object] | None = None,
    ) -> RunResult:
        """Run the open model.

        Args:
            inputs: one for each input of the model, in its order.
            warmup: inferences before those that are timed.
            loops: inferences that are timed.
            threads: that run it at the same time.
            want_float: outputs as float32, dequantized by the runtime; else in the model's dtypes.
            outputs: whether those of the last inference are wanted.
            seconds: that nothing may be heard, which is longer than any one inference. Two more
                are given for each one that is not heard of: in the warm-up, and all of them where
                the board is in one-shot mode.
            progress: told while it runs; never in one-shot mode.

        Raises:
            UsageError: no model is open, or the inputs do not fit it.
            RuntimeLibraryError: the runtime refuses the run.
            DeviceTimeoutError: the NPU hangs; the program on the board was ended.
            DeviceLostError: the board has gone. The run is not repeated.
            JobCancelledError: or whatever else ``check`` raises.
        """
        model, opening = self._require_open()
        _within("warmup", warmup, 0, _MOST_LOOPS)
        _within("loops", loops, 1, _MOST_LOOPS)
        _within("threads", threads, 1, _MOST_THREADS)
        session = self._session
        sent: JsonObject = {
            "inputs": send_inputs(session, model, inputs),
            "want_float": want_float,
            "threads": threads,
        }
        # the times of a part are one line of the protocol
        most = min(loops, max(1, _RUNS_OF_A_PART // threads))
        answers: list[JsonObject] = []
        for begun in range(0, loops, most):
            part = min(most, loops - begun)
            last = begun + part == loops
            params: JsonObject = {
                **sent,
                "outputs": session.at(OUTPUTS) if outputs and last else None,
                "warmup": 0 if begun else warmup,
                "loops": part,
            }
            # nothing is heard of a warm-up, nor of anything in one-shot mode
            unheard = 0 if begun else warmup
            unheard += 0 if self._transport.converses else part
            hear = None
            if progress is not None:
                hear = told_progress(progress, threads * loops, threads * begun)
            limit = seconds + _UNHEARD_SECONDS * unheard
            try:
                answers.append(
                    session.ask("run", params, seconds=limit, progress=hear, before=[opening])
                )
            except DeviceTimeoutError:
                self._hung = True
                raise
        return _result(session, model, answers, most * threads, want_float if outputs else None)

    def _require_open(self) -> tuple[OpenModel, Step]:
        if self._transport.converses and not self._session.running:
            self._opened = None  # it went with the program
        if self._opened is None:
            raise UsageError("No model is open on the board.", remedy="Open one first.")
        return self._opened

    def memory(self) -> DeviceMemory:
        """What the open model takes now.

        Raises:
            RuntimeLibraryError: the runtime has no such query, as in generation 1.
            UsageError: no model is open.
        """
        _, opening = self._require_open()
        answer = self._session.ask("memory", {}, seconds=_SHORT_SECONDS, before=[opening])
        return read_memory(answer)

    def read(self, paths: Sequence[str], *, limit: int = READ_LIMIT) -> dict[str, str | None]:
        """Small files of the board, such as of ``/proc`` and ``/sys``; ``*`` may be in a path.

        Returns:
            Path -> text as it is there, None where there is none; who shows it sanitizes it.
        """
        return self._session.read(paths, limit=limit)

    def fix_clocks(self, values: Sequence[tuple[str, str]]) -> ClocksChanged:
        """Write governors and frequencies; their values of before are kept on the board.

        They are restored by :meth:`restore_clocks`, by :meth:`close`, by the agent itself when it
        is cut off, and at the next start.
        """
        pairs = [list(pair) for pair in values]
        params: JsonObject = {"values": pairs, "keep": self._session.folder.at(_CLOCKS)}
        self._clocks_changed = True
        return read_clocks(self._session.ask("write_clocks", params, seconds=_SHORT_SECONDS))

    def restore_clocks(self) -> ClocksChanged:
        """Write back what :meth:`fix_clocks` changed."""
        params: JsonObject = {"keep": self._session.folder.at(_CLOCKS)}
        answer = self._session.ask("restore_clocks", params, seconds=_SHORT_SECONDS)
        self._clocks_changed = False
        return read_clocks(answer)

    def close(self) -> None:
        """Free the model, restore the clocks and let the board go; also one that has gone.

        ``check`` is not called any more: what ended a run does not end this.
        """
        session = self._session
        session.finish()
        try:
            with contextlib.suppress(DeviceError):
                if self._clocks_changed and (session.running or not self._transport.converses):
                    self.restore_clocks()
            with contextlib.suppress(DeviceError):
                if self._opened is not None and session.running:
                    session.ask("close", {}, seconds=_SHORT_SECONDS)
        finally:
            self._opened = None
            session.end()

    def __exit__(self, *_exception: object) -> None:
        self.close()


def _result(
    session: BoardSession,
    model: OpenModel,
    answers: Sequence[JsonObject],
    most: int,
    want_float: bool | None,
) -> RunResult:
    """What the parts of a run give together; outputs and layers are those of the last.

    Args:
        session, model: that ran.
        answers: of the parts.
        most: inferences of one.
        want_float: as for a run; None: no outputs were asked for.
    """
    last = answers[-1]
    return RunResult(
        outputs=()
        if want_float is None
        else receive_outputs(session, model, last, want_float=want_float),
        wall_us=tuple(us for answer in answers for us in times(answer, "wall_us", most)),
        run_us=tuple(us for answer in answers for us in times(answer, "run_us", most)),
        elapsed_us=sum(number(answer, "elapsed_us") for answer in answers),
        perf=long_text(last, "perf"),
    )


def _within(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise UsageError(f"{name} is {value}; it is from {low} to {high}.")


# Tensors between this machine and a board: inputs are pushed as files, outputs pulled as such.

OUTPUTS = "out"
"""Folder of the outputs in that of the session."""

_SMALL = 1 << 20
"""Bytes of inputs that are sent without a look at the board's disk: a look takes as long."""
_OUTPUT = re.compile(r"[A-Za-z0-9_-]{1,40}\.bin")


def send_inputs(
    session: BoardSession, model: OpenModel, inputs: Sequence[BoardInput]
) -> list[JsonObject]:
    """Check the inputs of a run, all before the first is sent, and push them.

    Returns:
        What the agent is told of each.

    Raises:
        UsageError: they do not fit the model.
        DeviceStorageError: there is no room for them.
    """
    pairs = zip(inputs, model.inputs, strict=True)
    prepared = [prepared_input(array, attributes) for array, attributes in pairs]
    size = sum(tensor.array.nbytes for tensor in prepared)
    if size > _SMALL:
        session.folder.require_room(size, "The input")
    sent: list[JsonObject] = []
    for index, tensor in enumerate(prepared):
        source = session.place / f"in{index}.bin"
        path = session.at(source.name)
        try:
            with output_errors(source):
                tensor.array.tofile(source)
            session.transport.push(source, path, moved=session.moved())
        finally:
            source.unlink(missing_ok=True)
        sent.append(
            {
                "path": path,
                "dtype": tensor.dtype,
                "layout": tensor.layout,
                "pass_through": tensor.pass_through,
            }
        )
    return sent


def receive_outputs(
    session: BoardSession, model: OpenModel, answer: JsonObject, *, want_float: bool
) -> tuple[BoardOutput, ...]:
    """Pull the outputs of a run; number, names and sizes are checked before the first is read.

    Raises:
        DeviceError: they are not those of the model.
        DeviceStorageError: one is not there.
    """
    items = listed(answer, "outputs", MOST_TENSORS)
    if len(items) != len(model.outputs):
        raise misfit_error(f"it has {len(items)} outputs, and the model {len(model.outputs)}")
    expected = []
    for item, attributes in zip(items, model.outputs, strict=True):
        size = output_size(attributes, want_float=want_float)
        place = mapping(item, "an output")
        if amount(place, "size") != size:
            raise misfit_error(f"output {attributes.index} has not {size} bytes")
        expected.append((_own_path(session, place), size, attributes))
    outputs = []
    for path, size, attributes in expected:
        target = session.place / f"out{attributes.index}.bin"
        try:
            session.transport.pull(path, target, limit=size, moved=session.moved())
            outputs.append(output_of(attributes, target, want_float=want_float))
        finally:
            target.unlink(missing_ok=True)
    session.transport.remove([path for path, _, _ in expected])
    return tuple(outputs)


def _own_path(session: BoardSession, place: JsonObject) -> str:
    """The path of an output, made anew: nothing comes from the board but its last name."""
    folder, _, name = str(place.get("path")).rpartition("/")
    if folder != session.at(OUTPUTS) or not _OUTPUT.fullmatch(name):
        raise misfit_error("an output is not in the folder that was named")
    return f"{session.at(OUTPUTS)}/{name}"
