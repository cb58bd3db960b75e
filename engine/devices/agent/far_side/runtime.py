"""The runtime library of either generation: found, loaded and called."""

import ctypes
import mmap
import os
from typing import Any, List, Optional, Sequence

from engine.base.peers.far import Refused
from engine.devices.agent.far_side import abi
from engine.devices.agent.far_side.files import board_path, is_cut_off
from engine.devices.agent.far_side.noise import Noise
from engine.devices.agent.far_side.words import KIND, explain

__all__ = ["PLACES", "Library", "load"]

PLACES = (
    "/usr/lib/librknnrt.so",
    "/usr/lib64/librknnrt.so",
    "/usr/lib/aarch64-linux-gnu/librknnrt.so",
    "/usr/lib/arm-linux-gnueabihf/librknnrt.so",
    "/vendor/lib64/librknnrt.so",
    "/vendor/lib/librknnrt.so",
    "/oem/usr/lib/librknnmrt.so",
    "/usr/lib/librknnmrt.so",
    "/usr/lib/librknn_runtime.so",
    "/usr/lib64/librknn_runtime.so",
    "/usr/lib/librknn_api.so",
    "/usr/lib64/librknn_api.so",
)
"""Where images of the vendor have it; a process loads the first that fits."""

_ATTRS = {"input": abi.Query.INPUT_ATTR, "output": abi.Query.OUTPUT_ATTR}
_NATIVE_ATTRS = {
    "input": abi.Query.NATIVE_INPUT_ATTR,
    "output": abi.Query.NATIVE_NHWC_OUTPUT_ATTR,
}


def load(paths: Sequence[str], generation: Optional[int], noise: Noise) -> "Library":
    """The first library that can be loaded and is of the generation.

    Args:
        paths: where to look; none at all stands for :data:`PLACES`.
        generation: 1, 2, or None for either.
        noise: what it writes.

    Raises:
        Refused: there is none; each place is named with its reason.
    """
    tried = []  # type: List[str]
    for path in paths or PLACES:
        real = board_path(path)
        if not os.path.exists(real):
            continue
        if is_cut_off(real):  # which would end this process, not be an error
            tried.append("{}: it is cut off, a part of the file is missing".format(path))
            continue
        try:
            library = Library(path, ctypes.CDLL(real), noise)
        except OSError as error:  # another architecture, or a library that it needs is missing
            tried.append("{}: {}".format(path, error))
            continue
        if generation is None or generation == library.generation:
            return library
        tried.append("{}: it is of generation {}".format(path, library.generation))
    bits = "The Python of this board has {} bits.".format(abi.POINTER_BITS)
    if tried:
        what = "No runtime library of the NPU could be loaded: {}.".format("; ".join(tried))
        remedy = "Install the library of this board's architecture."
        if "cut off" in what:
            remedy = "Copy the library to the board again."
        raise Refused(what, bits, remedy, kind=KIND)
    raise Refused(
        "There is no runtime library of the NPU on this board.",
        "None of these exists: {}.".format(", ".join(paths or PLACES)),
        "Install librknnrt.so (generation 2) or librknn_runtime.so (generation 1) of the vendor.",
        kind=KIND,
    )


# librknnmrt exports these in every release from 1.3.0b0 to 2.3.2, and each fails there: -5,
# "context config invalid!"; "not supported in mini runtime"
_MINI_LACKS = frozenset(
    ["rknn_inputs_set", "rknn_outputs_get", "rknn_outputs_release", "rknn_dup_context"]
)


def _is_mini(path: str) -> bool:
    """Whether a library is the smallest runtime, by the version that it writes."""
    with open(path, "rb") as stream:
        if not os.fstat(stream.fileno()).st_size:
            return False
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return content.find(b"librknnmrt version") >= 0


class Library:
    """A loaded runtime library; functions that it may lack are looked up when they are called.

    Attributes:
        path: where it is on the board.
        generation: 1 or 2.
        mini: whether it is librknnmrt of RV1103 and RV1106: memory of the NPU alone, one thread.
    """

    mini = False

    def __init__(self, path: str, library: Any, noise: Noise) -> None:
        self.path = path
        self._library = library
        self._noise = noise
        name = os.path.basename(path)
        first = name.startswith("librknn_runtime") or name == "librknn_api.so"
        self.generation = 1 if first or self.has("rknn_inputs_map") else 2
        self._structures = abi.GENERATIONS[self.generation]
        self.mini = _is_mini(board_path(path))

    def has(self, name: str) -> bool:
        """Whether it has a function of this name that works."""
        return hasattr(self._library, name) and not (self.mini and name in _MINI_LACKS)

    def new(self, name: str) -> Any:
        """A structure of the header of its generation, all zero."""
        return self._structures[name][0]()

    def array(self, name: str, length: int) -> Any:
        """Several of one structure, all zero."""
        return (self._structures[name][0] * length)()

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function.

        Raises:
            Refused: it is not there, or returned an error.
        """
        mark = self._noise.mark()
        code = self.code(name, *arguments)
        if code < 0:
            raise explain(name, code, self._noise.since(mark), self.path)

    def code(self, name: str, *arguments: Any) -> int:
        """What a function returns; the arguments are ctypes values, so that none is cut.

        Raises:
            Refused: it is not there.
        """
        try:
            function = getattr(self._library, name)
        except AttributeError:
            what = "{} has no function {}.".format(self.path, name)
            raise Refused(what, "It is too old, or of a smaller kind.", kind=KIND) from None
        function.restype = ctypes.c_int
        return int(function(*arguments))

    def init(self, model: str, content: Optional[bytes], flags: int) -> Any:
        """A new context.

        Args:
            model: path of the model.
            content: its bytes, for generation 1, which takes no path; they have to outlive it.
            flags: ``RKNN_FLAG_*``.
        """
        context = abi.Context(0)
        flag = ctypes.c_uint32(flags)
        if self.generation == 1:
            data = content or b""
            size = ctypes.c_uint32(len(data))
            self.call("rknn_init", ctypes.byref(context), ctypes.c_char_p(data), size, flag)
        else:
            path = ctypes.c_char_p(os.fsencode(board_path(model)))
            nothing = ctypes.c_void_p(None)
            size = ctypes.c_uint32(0)
            self.call("rknn_init", ctypes.byref(context), path, size, flag, nothing)
        return context

    def duplicate(self, context: Any) -> Any:
        """A context of the same model for another thread, generation 2."""
        another = abi.Context(0)
        self.call("rknn_dup_context", ctypes.byref(context), ctypes.byref(another))
        return another

    def destroy(self, context: Any) -> None:
        """Free a context."""
        self.code("rknn_destroy", context)

    def query(self, context: Any, command: int, structure: Any) -> Any:
        """``rknn_query``; returns the structure, filled.

        Raises:
            Refused: the library does not know the command, or not now.
        """
        size = ctypes.c_uint32(ctypes.sizeof(structure))
        command_ = ctypes.c_int32(command)
        self.call("rknn_query", context, command_, ctypes.byref(structure), size)
        return structure

    def asked(self, context: Any, command: int, structure: Any) -> Optional[Any]:
        """The same; None where the library cannot answer."""
        try:
            return self.query(context, command, structure)
        except Refused:
            return None

    def counts(self, context: Any) -> Any:
        """How many inputs and outputs there are."""
        return self.query(context, abi.Query.IN_OUT_NUM, self.new("rknn_input_output_num"))

    def attributes(self, context: Any, side: str, index: int) -> Any:
        """The attributes of an ``input`` or ``output``, as they are handed over."""
        attr = self.new("rknn_tensor_attr")
        attr.index = index
        commands = _ATTRS if self.copies else _NATIVE_ATTRS
        return self.query(context, commands[side], attr)

    @property
    def copies(self) -> bool:
        """Whether it copies and converts inputs and outputs; the smallest ones do not."""
        return self.has("rknn_inputs_set")

    def memory(self, context: Any, size: int) -> Any:
        """A pointer to memory of the NPU, ``rknn_tensor_mem``; a null pointer where none is left.

        Raises:
            Refused: the library has no such function.
        """
        if not self.has("rknn_create_mem"):
            what = "{} has no function rknn_create_mem.".format(self.path)
            raise Refused(what, "It is too old.", kind=KIND)
        function = self._library.rknn_create_mem
        function.restype = ctypes.POINTER(self._structures["rknn_tensor_mem"][0])
        return function(context, ctypes.c_uint32(size))
