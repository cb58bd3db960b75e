"""Values on the bridge's wire: JSON, and arrays as ``.npy`` files of the private folder.

What JSON does not have is an object with the key ``$``: ``{"$": "tuple", "items": [..]}``, ``dict``
(with pairs, where a key is no text), ``float`` (the text of one that is not finite), ``bytes``,
``array`` (the name of its file) and ``class`` (a class of a Python file). Both sides use this file;
it is in the language of Python 3.6 and needs no numpy: without it arrays are memoryviews.
"""

import ast
import base64
import math
import os
import struct
import sys
from typing import Any, Tuple

_DEPTH = 40
_MAGIC = b"\x93NUMPY"
_HEADER_LIMIT = 1 << 16
_CODES = {
    "|b1": "?", "|i1": "b", "|u1": "B", "<i2": "h", "<u2": "H", "<i4": "i", "<u4": "I",
    "<i8": "q", "<u8": "Q", "<f2": "e", "<f4": "f", "<f8": "d",
}  # fmt: skip


class Unpackable(ValueError):  # noqa: N818 - it says what is so
    """A value that has no form on the wire; the text says which."""


class ClassInFile:
    """A class that the other side shall have, by the Python file that holds it.

    Args:
        path: of the file; it is run there.
        name: of the class.
    """

    def __init__(self, path: str, name: str) -> None:
        self.path = path
        self.name = name


class Arrays:
    """Arrays as files of one folder, which both sides may read and write.

    Args:
        folder: where they are.
        prefix: of the names that this side gives.
    """

    def __init__(self, folder: str, prefix: str) -> None:
        self._folder = folder
        self._prefix = prefix
        self._count = 0

    def known(self, value: Any) -> bool:
        """Whether a value is an array."""
        return isinstance(value, memoryview) or _is_ndarray(value)

    def save(self, value: Any) -> str:
        """Write an array, and return the name of its file.

        Raises:
            Unpackable: it holds objects.
            OSError: it cannot be written.
        """
        self._count += 1
        name = "{}{}.npy".format(self._prefix, self._count)
        path = os.path.join(self._folder, name)
        if isinstance(value, memoryview):
            _write_npy(path, value)
        else:
            numpy = sys.modules["numpy"]
            if value.dtype.hasobject or value.dtype.fields is not None:
                raise Unpackable("an array of {}".format(value.dtype))
            with open(path, "xb") as stream:
                numpy.save(stream, value, allow_pickle=False)
        return name

    def load(self, name: str) -> Any:
        """Read an array and remove its file.

        Raises:
            Unpackable: the name or the file is not one of ours.
            OSError: it cannot be read.
        """
        if not str(name).endswith(".npy") or "/" in name or name[0] == ".":
            raise Unpackable("a file of an array with such a name")
        path = os.path.join(self._folder, name)
        try:
            with open(path, "rb") as stream:
                dtype, shape, columns = _read_header(stream)
                data = bytearray(os.fstat(stream.fileno()).st_size - stream.tell())
                stream.readinto(data)
        finally:
            os.unlink(path)
        return _array(dtype, shape, columns, data)


def _is_ndarray(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def _read_header(stream: Any) -> Tuple[str, Tuple[int, ...], bool]:
    """Type, shape and whether the columns come first [numpy.lib.format, versions 1 and 2]."""
    head = stream.read(8)
    if head[:6] != _MAGIC or head[6] not in (1, 2):
        raise Unpackable("a file that is no array")
    form = "<H" if head[6] == 1 else "<I"
    try:
        (size,) = struct.unpack(form, stream.read(struct.calcsize(form)))
        if size > _HEADER_LIMIT:
            raise ValueError
        header = ast.literal_eval(stream.read(size).decode("latin-1").strip())
        dtype, shape, columns = header["descr"], header["shape"], header["fortran_order"]
    except (ValueError, SyntaxError, struct.error, KeyError, TypeError, RecursionError):
        raise Unpackable("an array with a damaged header") from None
    fits = isinstance(shape, tuple) and len(shape) <= 32
    if not fits or not all(type(n) is int and 0 <= n < 1 << 48 for n in shape):
        raise Unpackable("an array with such a shape")
    if not isinstance(dtype, str) or "O" in dtype:
        raise Unpackable("an array with such a type")
    return dtype, shape, bool(columns)


def _array(dtype: str, shape: Tuple[int, ...], columns: bool, data: bytearray) -> Any:
    try:
        import numpy
    except ImportError:
        code = _CODES.get(dtype)
        if code is None or columns:
            raise Unpackable("an array of {}, where numpy is not installed".format(dtype)) from None
        if 0 in shape:
            return memoryview(b"")
        return memoryview(data).cast(code, shape)  # type: ignore[call-overload]
    try:
        kind = numpy.dtype(dtype)
        if kind.hasobject or kind.itemsize * _product(shape) != len(data):
            raise ValueError
        values = numpy.frombuffer(data, kind)
        return values.reshape(shape, order="F" if columns else "C")
    except (TypeError, ValueError):
        raise Unpackable("an array that is shorter or longer than its header says") from None


def _product(shape: Tuple[int, ...]) -> int:
    count = 1
    for n in shape:
        count *= n
    return count


def _write_npy(path: str, view: memoryview) -> None:
    names = {code: name for name, code in _CODES.items()}
    dtype = names.get(view.format.lstrip("@").replace("l", "q").replace("L", "Q"))
    if dtype is None:
        raise Unpackable("a memoryview of {!r}".format(view.format))
    header = repr({"descr": dtype, "fortran_order": False, "shape": tuple(view.shape or ())})
    header += " " * (-(len(header) + 11) % 64) + "\n"
    with open(path, "xb") as stream:
        stream.write(_MAGIC + b"\x01\x00" + struct.pack("<H", len(header)))
        stream.write(header.encode("latin-1"))
        stream.write(view.tobytes())


def pack(value: Any, arrays: Arrays, depth: int = 0) -> Any:
    """A value as JSON: what JSON does not have becomes ``{"$": kind, ...}``.

    Raises:
        Unpackable: it has no such form.
        OSError: an array could not be written.
    """
    if depth > _DEPTH:
        raise Unpackable("a value that is nested too deep")
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"$": "float", "text": repr(float(value))}
    if isinstance(value, (bytes, bytearray)):
        return {"$": "bytes", "base64": base64.b64encode(value).decode("ascii")}
    if arrays.known(value):
        return {"$": "array", "file": arrays.save(value)}
    if isinstance(value, (list, tuple)):
        items = [pack(item, arrays, depth + 1) for item in value]
        return items if isinstance(value, list) else {"$": "tuple", "items": items}
    if isinstance(value, dict):
        if "$" not in value and all(type(key) is str for key in value):
            return {key: pack(item, arrays, depth + 1) for key, item in value.items()}
        pairs = [[pack(k, arrays, depth + 1), pack(v, arrays, depth + 1)] for k, v in value.items()]
        return {"$": "dict", "items": pairs}
    if isinstance(value, ClassInFile):
        return {"$": "class", "file": os.path.abspath(value.path), "name": value.name}
    if hasattr(value, "__fspath__"):
        return pack(os.fsdecode(value), arrays, depth)
    if _is_scalar(value):
        return pack(value.item(), arrays, depth + 1)
    raise Unpackable("a value of type {}".format(type(value).__name__))


def _is_scalar(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.generic)


def unpack(value: Any, arrays: Arrays, depth: int = 0) -> Any:
    """What :func:`pack` was given.

    Raises:
        Unpackable: it is none of its forms.
        OSError: an array could not be read.
    """
    if depth > _DEPTH:
        raise Unpackable("a value that is nested too deep")
    if isinstance(value, list):
        return [unpack(item, arrays, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    kind = value.get("$")
    if kind is None:
        return {key: unpack(item, arrays, depth + 1) for key, item in value.items()}
    try:
        if kind == "tuple":
            return tuple([unpack(item, arrays, depth + 1) for item in value["items"]])
        if kind == "dict":
            return {
                unpack(k, arrays, depth + 1): unpack(v, arrays, depth + 1)
                for k, v in value["items"]
            }
        if kind == "float":
            return float(value["text"])
        if kind == "bytes":
            return base64.b64decode(value["base64"])
        if kind == "array":
            return arrays.load(value["file"])
        if kind == "class":
            return _class(value["file"], value["name"])
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, Unpackable):
            raise
        raise Unpackable("a damaged value of kind {!r}".format(kind)) from error
    raise Unpackable("a value of kind {!r}".format(kind))


def _class(path: str, name: str) -> Any:
    """A class of a Python file of the user, as ``reg_custom_op`` takes it."""
    from importlib.util import module_from_spec, spec_from_file_location

    # a name that no other module has: "numpy.py" is a file name like any other
    module_name = "rknntui_class_{}".format(len(sys.modules))
    spec = spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise Unpackable("a class of {}, which is no Python file".format(path))
    module = module_from_spec(spec)
    sys.modules[module_name] = module  # where who looks for its source finds it
    spec.loader.exec_module(module)
    return getattr(module, name)
