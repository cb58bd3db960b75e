"""What a file of PyTorch holds: its zip archive, read within bounds, and its pickles, not executed.

``pickletools.genops`` gives the instructions; a stack of plain values follows them. Names of
classes stay names, calls stay records of a name and its arguments: nothing is imported, built or
called.

The archive around it (torch/csrc/jit/docs/serialization.md) has below one folder ``data.pkl`` (the
tree of modules), ``data/N`` (storages), ``code/**.py`` (TorchScript as text), ``constants.pkl``,
``constants/N``, ``version``, and of traced modules ``traced_inputs.pkl``.
"""

from __future__ import annotations

import pickletools
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

from engine.base.errors import SourceModelError
from engine.base.files import sha256_of
from engine.base.text import human_bytes, sanitize
from engine.frontends.facts import words

_MAX_INSTRUCTIONS = 4_000_000
_MAX_DIMS = 64


class Unreadable(ValueError):  # noqa: N818 - names a file's state, like UnicodeError's cousins
    """The bytes are no pickle or no code, or not as PyTorch writes them."""


@dataclass(frozen=True)
class Name:
    """A class or function that the pickle names: ``torch._utils._rebuild_tensor_v2``."""

    text: str


@dataclass
class Made:
    """What a call would have made.

    Attributes:
        name: of the class or function.
        arguments: it would have been called with.
        state: what would have been set on the result: attributes of a module, items of a mapping.
    """

    name: str
    arguments: Any = ()
    state: Any = None
    items: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class TensorRecord:
    """A tensor: where its data are, and its form.

    Attributes:
        storage: name of the record under ``data/``.
        dtype: of numpy, ``bfloat16``, or ``qint8``, ``quint8`` and ``qint32``.
        shape: as stored.
    """

    storage: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        """How many numbers it has."""
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        """Size of its numbers."""
        return self.elements * _WIDTHS.get(self.dtype, 4)


_STORAGES = {
    "FloatStorage": "float32",
    "DoubleStorage": "float64",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
    "QInt8Storage": "qint8",
    "QUInt8Storage": "quint8",
    "QInt32Storage": "qint32",
}
_WIDTHS = {"float64": 8, "int64": 8, "float16": 2, "bfloat16": 2, "int16": 2, "int8": 1,
           "uint8": 1, "bool": 1, "qint8": 1, "quint8": 1}  # fmt: skip
_REBUILD = (
    "torch._utils._rebuild_tensor",
    "torch._utils._rebuild_tensor_v2",
    "torch._utils._rebuild_tensor_v3",
    "torch._utils._rebuild_qtensor",
)
_PARAMETER = ("torch._utils._rebuild_parameter", "torch._utils._rebuild_parameter_with_state")
_MARK = object()


def read_values(stream: BinaryIO | bytes) -> Any:
    """The value that the pickle at the stream's position describes.

    Returns:
        Numbers, texts, None, lists, tuples and dictionaries as they are (a key that is none of the
        simple ones is left out), :class:`TensorRecord` for tensors, :class:`Made` for other calls.

    Raises:
        Unreadable: see there.
    """
    machine = _Machine()
    try:
        for number, (opcode, argument, _) in enumerate(pickletools.genops(stream)):
            if number > _MAX_INSTRUCTIONS:
                raise Unreadable("too many instructions")
            machine.step(opcode.name, argument)
        return machine.stack[-1]
    except Unreadable:
        raise
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise Unreadable(str(error)) from error


class _Machine:
    """The stack and memo of a pickle."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def step(self, opcode: str, argument: Any) -> None:
        if opcode in _PUSHED:
            self.stack.append(argument)
        elif opcode in _CONSTANTS:
            self.stack.append(_CONSTANTS[opcode]())
        elif opcode in _ACTIONS:
            _ACTIONS[opcode](self, argument)
        elif opcode not in ("PROTO", "FRAME", "STOP"):
            raise Unreadable(f"instruction {opcode}")

    def since_mark(self) -> list[Any]:
        for start in range(len(self.stack) - 1, -1, -1):
            if self.stack[start] is _MARK:
                items = self.stack[start + 1 :]
                del self.stack[start:]
                return items
        raise Unreadable("no mark")

    def tuple_of(self, count: int) -> None:
        items = tuple(self.stack[len(self.stack) - count :])
        if len(items) != count:
            raise Unreadable("stack too short")
        del self.stack[len(self.stack) - count :]
        self.stack.append(items)

    def call(self) -> None:
        arguments, name = self.stack.pop(), self.stack.pop()
        self.stack.append(_made(name, arguments))

    def set_items(self, pairs: list[Any]) -> None:
        target = self.stack[-1]
        table = target if isinstance(target, dict) else None
        if isinstance(target, Made):
            target.state = target.state if isinstance(target.state, dict) else {}
            table = target.state
        if table is None:
            raise Unreadable("items of no mapping")
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            if isinstance(key, str | int | float | bool):
                table[key] = value

    def append(self, values: list[Any]) -> None:
        target = self.stack[-1]
        (target.items if isinstance(target, Made) else target).extend(values)

    def build(self) -> None:
        state, target = self.stack.pop(), self.stack[-1]
        if isinstance(target, Made):
            old, new = target.state, state
            both = isinstance(old, dict) and isinstance(new, dict)
            target.state = {**old, **new} if both else new
        elif not isinstance(target, dict | list | tuple | TensorRecord):
            raise Unreadable("state of nothing")


def _name(machine: _Machine, argument: str) -> None:
    machine.stack.append(Name(argument.replace(" ", ".", 1)))


def _stack_name(machine: _Machine, argument: Any) -> None:
    last, first = machine.stack.pop(), machine.stack.pop()
    machine.stack.append(Name(f"{first}.{last}"))


def _item(machine: _Machine, argument: Any) -> None:
    value, key = machine.stack.pop(), machine.stack.pop()
    machine.set_items([key, value])


def _one(machine: _Machine, argument: Any) -> None:
    value = machine.stack.pop()
    machine.append([value])


def _memorise(machine: _Machine, argument: Any) -> None:
    machine.memo[int(argument)] = machine.stack[-1]


_ACTIONS: dict[str, Callable[[_Machine, Any], object]] = {
    "MARK": lambda m, a: m.stack.append(_MARK),
    "POP": lambda m, a: m.stack.pop(),
    "DUP": lambda m, a: m.stack.append(m.stack[-1]),
    "POP_MARK": lambda m, a: m.since_mark(),
    "GLOBAL": _name,
    "STACK_GLOBAL": _stack_name,
    "TUPLE": lambda m, a: m.stack.append(tuple(m.since_mark())),
    "TUPLE1": lambda m, a: m.tuple_of(1),
    "TUPLE2": lambda m, a: m.tuple_of(2),
    "TUPLE3": lambda m, a: m.tuple_of(3),
    "LIST": lambda m, a: m.stack.append(m.since_mark()),
    "APPEND": _one,
    "APPENDS": lambda m, a: m.append(m.since_mark()),
    "SETITEM": _item,
    "SETITEMS": lambda m, a: m.set_items(m.since_mark()),
    "REDUCE": lambda m, a: m.call(),
    "NEWOBJ": lambda m, a: m.call(),
    "BUILD": lambda m, a: m.build(),
    "BINPERSID": lambda m, a: m.stack.append(Made("storage", m.stack.pop())),
    "PUT": _memorise,
    "BINPUT": _memorise,
    "LONG_BINPUT": _memorise,
    "MEMOIZE": lambda m, a: m.memo.__setitem__(len(m.memo), m.stack[-1]),
    "GET": lambda m, a: m.stack.append(m.memo[int(a)]),
    "BINGET": lambda m, a: m.stack.append(m.memo[int(a)]),
    "LONG_BINGET": lambda m, a: m.stack.append(m.memo[int(a)]),
}
_PUSHED = words(
    "INT BININT BININT1 BININT2 LONG LONG1 LONG4 FLOAT BINFLOAT STRING BINSTRING "
    "SHORT_BINSTRING UNICODE BINUNICODE SHORT_BINUNICODE BINUNICODE8 BINBYTES SHORT_BINBYTES "
    "BINBYTES8"
)
_CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_TUPLE": tuple,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "EMPTY_SET": list,
}


def _made(name: Any, arguments: Any) -> Any:
    text = _named(name)
    if text in _REBUILD and isinstance(arguments, tuple):
        return _tensor(arguments)
    if text in _PARAMETER and isinstance(arguments, tuple) and arguments:
        return arguments[0]
    # torch/csrc/jit/serialization/unpickler.cpp: these restore what a pickle has no form for
    if text == "torch.jit._pickle.restore_type_tag" and isinstance(arguments, tuple) and arguments:
        return arguments[0]
    if text == "collections.OrderedDict":
        return Made(text, arguments, {})
    return Made(text, arguments)


def _named(called: Any) -> str:
    if isinstance(called, Made) and isinstance(called.arguments, tuple):
        # the old form of torch.save: a persistent id ("module", class, file, source code)
        called = called.arguments[1] if len(called.arguments) > 1 else None
    return called.text if isinstance(called, Name) else "?"


def _tensor(arguments: tuple[Any, ...]) -> Any:
    """``(storage, offset, size, stride, ...)`` of torch/_utils.py; storage is a persistent id."""
    storage, shape = arguments[0], arguments[2]
    identity = storage.arguments if isinstance(storage, Made) else ()
    if not (isinstance(identity, tuple) and len(identity) >= 5 and identity[0] == "storage"):
        raise Unreadable("a tensor without storage")
    sizes = tuple(shape)
    if len(sizes) > _MAX_DIMS or not all(type(n) is int and 0 <= n < 1 << 40 for n in sizes):
        raise Unreadable("a tensor of no size")
    kind = identity[1].text.rpartition(".")[2] if isinstance(identity[1], Name) else ""
    return TensorRecord(str(identity[2]), _STORAGES.get(kind, "float32"), sizes)


def all_tensors(value: Any) -> Iterator[tuple[str, TensorRecord]]:
    """(path, tensor) of everything below ``value``; each object is visited once."""
    waiting: list[tuple[str, Any]] = [("", value)]
    seen: set[int] = set()
    while waiting:
        path, item = waiting.pop()
        if isinstance(item, TensorRecord):
            yield path, item
            continue
        if id(item) in seen:
            continue
        seen.add(id(item))
        waiting.extend(reversed([(_join(path, key), part) for key, part in _parts(item)]))


def _parts(item: Any) -> list[tuple[str, Any]]:
    if isinstance(item, dict):
        return [(str(key), value) for key, value in item.items()]
    if isinstance(item, list | tuple):
        return [(str(index), value) for index, value in enumerate(item)]
    if isinstance(item, Made):
        return [*_parts(item.state), *_parts(item.items), *_parts(item.arguments)]
    return []


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


# ------------------------------------------------------------------------------------- the archive


_MAX_RECORDS = 200_000
_MAX_BYTES = 16 << 30
_MAX_RATIO = 200
_FREE_BYTES = 64 << 20
_CHUNK = 1 << 20
_ZIP_ERRORS = (
    *(OSError, zipfile.BadZipFile, zlib.error, EOFError),
    *(ValueError, RuntimeError, NotImplementedError),
)


class Archive:
    """An open archive; a context manager.

    Attributes:
        path: the file.
        records: record -> size when unpacked; names without the outer folder.

    Raises:
        SourceModelError: it cannot be read, is no zip archive, or unpacks to more than it may.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._zip = zipfile.ZipFile(path)
        except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError, EOFError) as error:
            raise self._damaged(str(error)) from error
        entries = self._zip.infolist()
        try:
            if len(entries) > _MAX_RECORDS:
                raise self._damaged(f"it lists {len(entries)} records")
            self._refuse_twins(entries)
            self._check_sizes(entries)
        except SourceModelError:
            self._zip.close()
            raise
        self._entries = {e.filename.partition("/")[2] or e.filename: e for e in entries}
        self.records = {name: entry.file_size for name, entry in self._entries.items()}

    def __enter__(self) -> Archive:
        return self

    def __exit__(
        self,
        *_error: object,
    ) -> None:
        self._zip.close()

    def _refuse_twins(self, entries: list[zipfile.ZipInfo]) -> None:
        """One folder, and one record of a name: torch's reader would take another than this one.

        It reads the folder that the first record is in, and does not tell capital letters.
        """
        folders = {entry.filename.partition("/")[0] for entry in entries}
        names = {entry.filename.lower() for entry in entries}
        if len(folders) > 1 or len(names) < len(entries):
            raise self._damaged("it has several folders, or two records of one name")

    def _check_sizes(self, entries: list[zipfile.ZipInfo]) -> None:
        """Refuse a bomb before anybody unpacks it: torch's writer stores tensors uncompressed."""
        total = sum(entry.file_size for entry in entries)
        size = self.path.stat().st_size
        if total > _MAX_BYTES or total > _FREE_BYTES + _MAX_RATIO * size:
            raise SourceModelError(
                f"{sanitize(self.path.name)} has {human_bytes(size)} and says that it unpacks to "
                f"{human_bytes(total)}.",
                cause="It is damaged, or made to fill the memory.",
                remedy="Save it again with torch.jit.save.",
            )

    def read(self, name: str, limit: int) -> bytes:
        """The bytes of a record of at most ``limit`` bytes.

        Raises:
            SourceModelError: missing, longer, cut, or its checksum is wrong.
        """
        entry = self._entries.get(name)
        if entry is None:
            raise self._damaged(f"it has no {name}")
        if entry.file_size > limit:
            raise self._damaged(f"its record {name} has {human_bytes(entry.file_size)}")
        try:
            with self._zip.open(entry) as stream:
                return stream.read(limit + 1)[:limit]
        except _ZIP_ERRORS as error:
            raise self._damaged(f"{name}: {error}") from error

    def check(self) -> None:
        """Read every record once, in chunks, and compare its checksum.

        Raises:
            SourceModelError: as of :meth:`read`.
        """
        for name, entry in self._entries.items():
            try:
                with self._zip.open(entry) as stream:
                    while stream.read(_CHUNK):
                        pass
            except _ZIP_ERRORS as error:
                raise self._damaged(f"{name}: {error}") from error

    def digest(self) -> str:
        """Hexadecimal SHA-256 of the file."""
        try:
            return sha256_of(self.path)
        except OSError as error:
            raise self._damaged(str(error)) from error

    def _damaged(self, why: str) -> SourceModelError:
        return SourceModelError(
            f"{sanitize(self.path.name)} is a damaged TorchScript archive: {sanitize(why, 200)}.",
            cause="A download or copy was cut short, or the file was changed.",
            remedy="Copy or download it again, or save it again with torch.jit.save.",
        )
