"""An open model: its attributes, its runs on one thread or several, and its memory."""

import ctypes
import os
import threading
import time
from typing import Any, List, Optional

from engine.base.peers.far import Message, Refused
from engine.devices.agent.far_side import abi, files
from engine.devices.agent.far_side.lanes import CopyLane, Given, Round
from engine.devices.agent.far_side.noise import Noise
from engine.devices.agent.far_side.runtime import Library, load
from engine.devices.agent.far_side.words import KIND
from engine.devices.agent.far_side.zero_copy import ZeroCopyLane

__all__ = ["Session"]

_TELL_SECONDS = 0.1
_MOST_THREADS = 32
_MOST_LOOPS = 1000000


class Session:
    """One model at a time; opening another closes it.

    Args:
        noise: what the library writes.
    """

    def __init__(self, noise: Noise) -> None:
        self._noise = noise
        self._library = None  # type: Optional[Library]
        self._contexts = []  # type: List[Any]
        # since the first context was made: its memory was asked for, memory was bound to it
        self._told_memory = False
        self._bound = False
        self._model = ""
        self._content = None  # type: Optional[bytes]
        self._flags = 0
        self._core_mask = None  # type: Optional[int]
        self._inputs = []  # type: List[Any]
        self._outputs = []  # type: List[Any]

    def open(self, request: Any) -> Message:
        """Load the library and the model; what both say of themselves."""
        params = request.params
        self.close()
        wrong = abi.check_sizes()
        if wrong:
            what = "The structure {} is laid out in another way here.".format(wrong)
            raise Refused(what, "This processor is not known to the agent.", kind=KIND)
        self._model = files.text_parameter(params, "model")
        paths = [path for path in params.get("libraries") or [] if isinstance(path, str)]
        library = load(paths, params.get("generation"), self._noise)
        self._library = library
        self._flags = _whole(params, "flags", 0, 0, (1 << 32) - 1)
        if params.get("perf"):
            self._flags |= abi.FLAG_COLLECT_PERF
        self._content = _model_content(self._model, library.generation)
        context = library.init(self._model, self._content, self._flags)
        self._contexts = [context]
        self._told_memory = self._bound = False
        try:
            return self._describe(library, context, params)
        except Exception:
            self.close()
            raise

    def _describe(self, library: Library, context: Any, params: Message) -> Message:
        notes = []  # type: List[str]
        self._core_mask = params.get("core_mask")
        if self._core_mask is not None:
            self._core_mask = _whole(params, "core_mask", 0, 0, (1 << 31) - 1)
            notes += self._set_core_mask(context)
        counts = library.counts(context)
        self._inputs = [library.attributes(context, "input", n) for n in range(counts.n_input)]
        self._outputs = [library.attributes(context, "output", n) for n in range(counts.n_output)]
        version = library.new("rknn_sdk_version")
        library.asked(context, abi.Query.SDK_VERSION, version)
        custom, memory = "", None
        if library.generation == 2:
            if not library.copies:
                notes.append("This runtime library tells neither its own time nor the layers.")
            string = library.new("rknn_custom_string")
            if library.asked(context, abi.Query.CUSTOM_STRING, string) is not None:
                custom = _text(string.string)
            sizes = library.new("rknn_mem_size")
            self._told_memory = True
            if library.asked(context, abi.Query.MEM_SIZE, sizes) is None:
                notes.append("This runtime library does not tell the model's memory.")
            else:
                memory = _memory(sizes)
        return {
            "library": library.path,
            "generation": library.generation,
            "api_version": _text(version.api_version),
            "driver_version": _text(version.drv_version),
            "custom_string": custom,
            "inputs": [_attribute(attr, library.generation) for attr in self._inputs],
            "outputs": [_attribute(attr, library.generation) for attr in self._outputs],
            "memory": memory,
            "notes": notes,
        }

    def _set_core_mask(self, context: Any) -> List[str]:
        """Choose the cores; a note where the library or the chip has no choice."""
        library = self._open_library()
        if not library.has("rknn_set_core_mask"):
            return ["This runtime library cannot choose cores: the mask is ignored."]
        code = library.code("rknn_set_core_mask", context, ctypes.c_int32(self._core_mask or 0))
        if code < 0:
            name = abi.ERRORS.get(code, "an unknown error")
            return ["The mask of cores is ignored: rknn_set_core_mask returned {}.".format(name)]
        return []

    def _open_library(self) -> Library:
        if self._library is None or not self._contexts:
            raise Refused("No model is open.", "", "Open one first.", kind=KIND)
        return self._library

    def memory(self, _request: Any) -> Message:
        """What the model takes of the NPU's memory, in bytes."""
        library = self._open_library()
        if library.generation == 1:
            raise Refused(
                "The memory of a model is not available on this runtime.",
                "The C interface of generation 1 has no such query.",
                kind=KIND,
            )
        sizes = library.new("rknn_mem_size")
        self._told_memory = True
        return _memory(library.query(self._contexts[0], abi.Query.MEM_SIZE, sizes))

    def close(self, _request: Any = None) -> Message:
        """Free the model."""
        contexts, self._contexts = self._contexts, []
        if self._library is not None:
            for context in reversed(contexts):
                self._library.destroy(context)
        self._content = None
        return {}

    def run(self, request: Any) -> Message:
        """Run the model: ``warmup`` runs, then ``loops`` runs on each of ``threads`` threads.

        Returns:
            ``outputs`` (of the last run of the first thread), ``wall_us`` and ``run_us`` of each
            run in the order of their ends, ``elapsed_us`` from the first measured run's begin to
            the last one's end, ``perf``.
        """
        library = self._open_library()
        params = request.params
        given = self._given(params.get("inputs"))
        folder = params.get("outputs")
        loops = _whole(params, "loops", 1, 1, _MOST_LOOPS)
        warmup = _whole(params, "warmup", 0, 0, _MOST_LOOPS)
        threads = _whole(params, "threads", 1, 1, _MOST_THREADS)
        if threads > 1 and library.mini:
            what = "The runtime library of this board runs a model on one thread, not on {}."
            why = "It has no call that makes another context of a model."
            raise Refused(what.format(threads), why, "Measure it with one thread.", kind=KIND)
        if library.mini and self._bound:
            self._load_anew(library)
        self._bound = True
        if len(self._contexts) < threads and self._told_memory and library.has("rknn_dup_context"):
            self._load_anew(library)
        while len(self._contexts) < threads:
            self._contexts.append(self._another(library))
        kind = CopyLane if library.copies else ZeroCopyLane  # type: Any
        lanes = [kind(library, one, len(self._outputs)) for one in self._contexts[:threads]]
        team = _Team(lanes, given, warmup, loops)
        team.want_float = bool(params.get("want_float"))
        team.want_outputs = folder is not None
        team.want_perf = bool(self._flags & abi.FLAG_COLLECT_PERF)
        try:
            last = team.work(request)
        finally:
            for lane in lanes:
                lane.close()
        written = _write_outputs(folder, last.outputs) if folder is not None else []
        return {
            "outputs": written,
            "wall_us": team.wall_us,
            "run_us": team.run_us,
            "elapsed_us": team.elapsed_us,
            "perf": last.perf,
        }

    def _load_anew(self, library: Library) -> None:
        """Load the model again: librknnrt 1.5.2 and 1.6.0 die by SIGSEGV where a context is
        duplicated that was asked for its memory.
        """
        while self._contexts:
            library.destroy(self._contexts.pop())
        self._contexts.append(library.init(self._model, self._content, self._flags))
        self._told_memory = self._bound = False
        if self._core_mask is not None:
            self._set_core_mask(self._contexts[0])

    def _another(self, library: Library) -> Any:
        """A context for one more thread."""
        if library.generation == 2 and library.has("rknn_dup_context"):
            context = library.duplicate(self._contexts[0])
        else:
            context = library.init(self._model, self._content, self._flags)
        if self._core_mask is not None:
            self._set_core_mask(context)
        return context

    def _given(self, inputs: Any) -> List[Given]:
        """The inputs of a request, read and compared with the model's."""
        if not isinstance(inputs, list) or len(inputs) != len(self._inputs):
            what = "The model takes {} inputs.".format(len(self._inputs))
            raise Refused(what, "The request has another number.", kind=KIND)
        found = []  # type: List[Given]
        for index, (one, attr) in enumerate(zip(inputs, self._inputs)):
            dtype = str(one.get("dtype"))
            layout = str(one.get("layout") or "UNDEFINED")
            if dtype not in abi.TYPES or layout not in abi.LAYOUTS:
                what = "Input {} has the type {!r} and the layout {!r}.".format(
                    index, dtype[:40], layout[:40]
                )
                raise Refused(what, "The runtime library has no such value.", kind=KIND)
            path = files.text_parameter(one, "path")
            try:
                with open(files.board_path(path), "rb") as stream:
                    content = stream.read()
            except OSError as error:
                raise files.storage_error("read", path, error) from error
            through = bool(one.get("pass_through"))
            wanted = attr.n_elems * abi.TYPE_BYTES.get(dtype, 0)
            if not through and wanted and len(content) != wanted:
                what = "Input {} has {} bytes; the model takes {} of {}, which are {}.".format(
                    index, len(content), attr.n_elems, dtype, wanted
                )
                raise Refused(what, "", "Compare its shape with the model's.", kind=KIND)
            found.append(Given(content, dtype, layout, through))
        return found


class _Team:
    """Threads that run a model side by side, each with a context of its own."""

    def __init__(self, lanes: List[Any], given: List[Given], warmup: int, loops: int) -> None:
        self._lanes = lanes
        self._given = given
        self._warmup = warmup
        self._loops = loops
        self._stop = threading.Event()
        self._errors = []  # type: List[Exception]
        self._warm = threading.Barrier(len(lanes))
        self._last = None  # type: Optional[Round]
        self._spans = []  # type: List[Any]
        self.want_float = self.want_outputs = self.want_perf = False
        self.wall_us = []  # type: List[int]
        self.run_us = []  # type: List[int]
        self.elapsed_us = 0

    def work(self, request: Any) -> Round:
        """Run all; progress ``{done, total, wall_us}`` goes to the request meanwhile.

        Returns:
            The last run of the first thread.

        Raises:
            Refused: a run failed, or the request was cancelled.
        """
        threads = [
            threading.Thread(target=self._run, args=(number, lane), daemon=True)
            for number, lane in enumerate(self._lanes)
        ]
        for thread in threads:
            thread.start()
        told = 0
        for thread in threads:
            while thread.is_alive():
                thread.join(_TELL_SECONDS)
                if request.cancelled:
                    self._end()
                told = self._tell(request, told)
        self._tell(request, told)
        if self._errors:
            raise self._errors[0]
        request.check_cancelled()
        begins, ends = zip(*self._spans)
        self.elapsed_us = int((max(ends) - min(begins)) * 1e6)
        assert self._last is not None  # noqa: S101 - no thread failed
        return self._last

    def _tell(self, request: Any, told: int) -> int:
        news = self.wall_us[told:]
        if news:
            total = self._loops * len(self._lanes)
            request.progress({"done": told + len(news), "total": total, "wall_us": news})
        return told + len(news)

    def _run(self, number: int, lane: Any) -> None:
        try:
            lane.set_inputs(self._given)
            for _ in range(self._warmup):
                if self._stop.is_set():
                    return
                lane.run(False, False, False)
            self._warm.wait()
            begun = time.perf_counter()
            for loop in range(self._loops):
                if self._stop.is_set():
                    return
                last = number == 0 and loop == self._loops - 1
                wanted = last and self.want_outputs
                found = lane.run(self.want_float, wanted, last and self.want_perf)
                self.wall_us.append(found.wall_us)
                if found.run_us is not None:
                    self.run_us.append(found.run_us)
                if last:
                    self._last = found
            self._spans.append((begun, time.perf_counter()))
        except threading.BrokenBarrierError:
            pass  # another thread failed, or the request was cancelled
        except Exception as error:  # noqa: BLE001 - it is raised again by `work`
            self._errors.append(error)
            self._end()

    def _end(self) -> None:
        self._stop.set()
        self._warm.abort()


def _model_content(model: str, generation: int) -> Optional[bytes]:
    """The model's bytes for generation 1; whether it can be read is asked for both."""
    try:
        with open(files.board_path(model), "rb") as stream:
            return stream.read() if generation == 1 else None
    except OSError as error:
        raise files.storage_error("read", model, error) from error


def _write_outputs(folder: Any, outputs: List[bytes]) -> List[Message]:
    written = []  # type: List[Message]
    real = files.board_path(folder)
    for index, content in enumerate(outputs):
        name = "output{}.bin".format(index)
        files.write_whole(os.path.join(real, name), content)
        written.append({"path": os.path.join(folder, name), "size": len(content)})
    return written


def _whole(params: Message, name: str, default: int, least: int, most: int) -> int:
    value = params.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        what = "{!r} has to be a whole number from {} to {}.".format(name, least, most)
        raise Refused(what, kind="device")
    return value


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _memory(sizes: Any) -> Message:
    return {
        "weight": sizes.total_weight_size,
        "internal": sizes.total_internal_size,
        "dma": sizes.total_dma_allocated_size,
        "sram": sizes.total_sram_size,
        "sram_free": sizes.free_sram_size,
    }


def _attribute(attr: Any, generation: int) -> Message:
    """The attributes of a tensor; dimensions in the order of its layout in both generations."""
    dims = [int(size) for size in attr.dims[: min(attr.n_dims, abi.MAX_DIMS)]]
    second = generation == 2
    return {
        "index": attr.index,
        "name": _text(attr.name),
        "dims": dims if second else dims[::-1],
        "layout": abi.name_of(abi.LAYOUTS, attr.fmt),
        "dtype": abi.name_of(abi.TYPES, attr.type),
        "quantization": abi.name_of(abi.QUANTIZATIONS, attr.qnt_type),
        "fl": attr.fl,
        "zero_point": attr.zp,
        "scale": attr.scale,
        "elements": attr.n_elems,
        "size": attr.size,
        "size_with_stride": attr.size_with_stride if second else attr.size,
        "w_stride": attr.w_stride if second else 0,
        "h_stride": attr.h_stride if second else 0,
        "pass_through": bool(attr.pass_through) if second else False,
    }
