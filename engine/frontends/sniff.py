"""What a file is, by its first bytes and never by its suffix.

Of protobuf files the outer fields are read; the message itself is not loaded.
"""

from __future__ import annotations

import json
import os
import re
import stat
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from engine.base.content import reading
from engine.base.errors import SourceModelError
from engine.base.files import missing_error
from engine.base.formats.protobuf import (
    LENGTH,
    VARINT,
    ProtobufError,
    TruncatedError,
    file_fields,
)
from engine.options import OPTIONS, SECTIONS
from engine.options.dataset import IMAGE_SUFFIXES

_HEAD = 4096


@dataclass(frozen=True)
class Recognised:
    """What a path is.

    Attributes:
        kind: a source model's main file: ``onnx``, ``caffe`` (prototxt), ``tensorflow`` (frozen
            GraphDef), ``tflite``, ``darknet`` (configuration), ``pytorch`` (TorchScript), ``mxnet``
            (symbol); its weights: ``caffe_weights``, ``darknet_weights``, ``mxnet_weights``; what
            has to be converted by its framework first: ``saved_model``, ``checkpoint``,
            ``pytorch_state``, ``pytorch_pickle``, ``pytorch_program``; ``rknn`` (our container),
            ``rknn_vendor``, ``rknnop``; ``recipe``, ``dataset``, ``picture`` (a sample: picture or
            npy array), ``npz``, ``folder``, or ``unknown``.
        format: what it is, in words (``PyTorch zip archive``, ``text file``).
        why: what was seen that says so.
    """

    kind: str
    format: str
    why: str

    @property
    def named(self) -> str:
        """The format with its article."""
        return f"{'an' if self.format[:1].lower() in 'aeiou' else 'a'} {self.format}"

    @property
    def cause(self) -> str:
        """How such a file comes to stand for a model; empty where nobody knows."""
        return _CAUSES.get(self.format, "")


_CAUSES = {
    "Git LFS pointer, not the file itself": "The repository was cloned without git-lfs.",
    "web page (HTML)": "A download link gave a page instead of the file.",
    "empty file": "A download or an export was interrupted.",
}


def sniff(path: str | os.PathLike[str]) -> Recognised:
    """Recognise a file or folder; reads its first 4 KiB, of protobuf files the field headers too.

    Raises:
        SourceModelError: the path does not exist, cannot be read, or is no file (a device, a pipe).
    """
    place = Path(path)
    try:
        mode = place.stat().st_mode
        if stat.S_ISDIR(mode):
            return _folder(place)
        if not stat.S_ISREG(mode):
            raise SourceModelError(
                f"{place} is not a file but a device, pipe or socket.",
                cause="Files are read more than once, which these cannot.",
                remedy="Give a file.",
            )
        with reading(), place.open("rb") as stream:
            return _recognise(stream, place.stat().st_size)
    except FileNotFoundError as error:
        raise missing_error(place) from error
    except (OSError, ValueError) as error:
        raise SourceModelError(
            f"{place} could not be read: {getattr(error, 'strerror', None) or error}.",
            cause="You may not read it, or it is not a path of a file.",
            remedy="Check that it is a file and that you have permission to read it.",
        ) from error


def _folder(place: Path) -> Recognised:
    for name in ("saved_model.pb", "saved_model.pbtxt"):
        if (place / name).is_file():
            return Recognised("saved_model", "TensorFlow SavedModel", f"it holds {name}")
    return Recognised("folder", "folder", "it holds no saved_model.pb")


def _recognise(stream: BinaryIO, size: int) -> Recognised:
    if size == 0:
        return Recognised("unknown", "empty file", "it has no bytes")
    head = stream.read(_HEAD)
    if head[:4] == b"PK\x03\x04":
        return _zip(stream, head)
    for check in (_magic, _flat_buffer, _text):
        recognised = check(head)
        if recognised is not None:
            plain = recognised.format == "text file"
            return _late_text(stream, recognised) if plain else recognised
    protobuf = _protobuf(stream, size)
    if protobuf is not None:
        return protobuf
    stream.seek(max(0, size - 8))
    if stream.read(8) == _TABLE_END:
        return Recognised(
            "checkpoint", "TensorFlow checkpoint (index)", "ends like a table of tensors"
        )
    major, minor = (int.from_bytes(head[i : i + 4], "little", signed=True) for i in (0, 4))
    if size >= 16 and major == 0 and minor in (1, 2) and not any(head[9:12]):
        return Recognised("darknet_weights", "Darknet weights", f"version 0.{minor} at byte 0")
    return Recognised("unknown", "unknown binary file", f"begins with {head[:8].hex(' ')}")


# kTableMagicNumber of tensorflow/core/lib/io/format.h, little endian
_TABLE_END = bytes.fromhex("57fb808b247547db")

# bytes at 0 -> kind, format
_MAGIC: tuple[tuple[bytes, str, str], ...] = (
    (b"OPENCRYP", "rknn", "encrypted RKNN TUI container"),
    (b"CYPTRKNN", "rknn_vendor", "encrypted vendor RKNN model"),
    (b"RKNX", "rknn_vendor", "vendor RKNN model (RKNX)"),
    (b"VPMN", "rknn_vendor", "precompiled model of generation 1 (NBG)"),
    (b"\xff\xd8\xff", "picture", "JPEG image"),
    (b"\x89PNG\r\n\x1a\n", "picture", "PNG image"),
    (b"\x93NUMPY", "picture", "numpy array"),
    (b"GIF8", "unknown", "GIF image"),
    (b"\x89HDF\r\n\x1a\n", "unknown", "HDF5 file (Keras .h5)"),
    (b"\x1f\x8b", "unknown", "gzip archive"),
    (b"BZh", "unknown", "bzip2 archive"),
    (b"7z\xbc\xaf\x27\x1c", "unknown", "7z archive"),
    (b"\xfd7zXZ\x00", "unknown", "xz archive"),
    (b"\x28\xb5\x2f\xfd", "unknown", "zstd archive"),
    (b"%PDF", "unknown", "PDF document"),
    (b"\x7fELF", "unknown", "ELF program or library"),
    (b"\x12\x01\x00\x00\x00\x00\x00\x00", "mxnet_weights", "MXNet parameters"),
)


def _magic(head: bytes) -> Recognised | None:
    for magic, kind, words in _MAGIC:
        if head.startswith(magic):
            return Recognised(kind, words, f"begins with {magic!r}")
    if head[:2] == b"BM" and head[14:15] in b"\x28\x0c\x6c\x7c" and head[15:18] == bytes(3):
        return Recognised("picture", "BMP image", "begins with b'BM' and a bitmap header")
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return Recognised("unknown", "WebP image", "begins with RIFF....WEBP")
    if head[:4] == b"RKNN":
        if head[24:32] == b"OPENMODL":
            return Recognised("rknn", "RKNN TUI container", "RKNN and OPENMODL in its header")
        if head[8:9] == b"\x02" and head[24:28] == b"SHDR":
            words = "vendor package of a custom operator (.rknnop)"
            return Recognised("rknnop", words, "begins with RKNN, then a compiled kernel")
        return Recognised("rknn_vendor", "vendor RKNN model", "begins with RKNN")
    if head[:1] == b"\x80" and head[1:2] in b"\x02\x03\x04\x05" and len(head) > 1:
        words = "Python pickle (an old PyTorch file?)"
        return Recognised(
            "pytorch_pickle", words, f"begins with the pickle opcode {head[:2].hex(' ')}"
        )
    return None


def _zip(stream: BinaryIO, head: bytes) -> Recognised:
    """What a zip archive is, by the names in it; its data are not touched."""
    try:
        with reading(), zipfile.ZipFile(stream) as archive:
            names = {name.partition("/")[2] or name for name in archive.namelist()[:_MAX_NAMES]}
    except (OSError, ValueError):
        kind = "pytorch" if b"/data.pkl" in head or b"/constants.pkl" in head else "unknown"
        words = "damaged zip archive" if kind == "unknown" else "damaged TorchScript archive"
        return Recognised("unknown", words, "begins with PK, but its list of files is broken")
    if "constants.pkl" in names and any(name.startswith("code/") for name in names):
        return Recognised("pytorch", "TorchScript model", "a zip archive with code/ and constants")
    if "data.pkl" in names:
        words = "PyTorch file of torch.save (a state dict or a pickled network)"
        return Recognised("pytorch_state", words, "a zip archive with data.pkl and no code")
    if "model.weights.h5" in names or {"config.json", "metadata.json"} <= names:
        return Recognised("unknown", "Keras model (.keras)", "a zip archive of a Keras model")
    if any(name.endswith(".npy") for name in names):
        return Recognised("npz", "numpy .npz archive", "a zip archive of .npy files")
    if "models/model.json" in names or "archive_format" in names:
        return Recognised(
            "pytorch_program", "PyTorch exported program (.pt2)", "a zip archive of torch.export"
        )
    return Recognised("unknown", "zip archive", "begins with PK")


_MAX_NAMES = 100_000


_FLAT_BUFFERS = {
    b"TFL3": ("tflite", "TensorFlow Lite model"),
    b"RKNN": ("rknn_vendor", "vendor RKNN model (bare FlatBuffer)"),
    b"ORTM": ("unknown", "ONNX Runtime model (.ort)"),
}


def _flat_buffer(head: bytes) -> Recognised | None:
    known = _FLAT_BUFFERS.get(mark := head[4:8])
    return None if known is None else Recognised(*known, f"{mark.decode()} at byte 4")


def _text(head: bytes) -> Recognised | None:
    text = _decoded(head)
    if text is None:
        return None
    kinds = (check(text) for check in _TEXT_CHECKS)
    plain = Recognised("unknown", "text file", "its bytes are text")
    return next((kind for kind in kinds if kind is not None), plain)


def _decoded(head: bytes) -> str | None:
    """The text that bytes are: UTF-8, or mostly ASCII with comments in another character set."""
    # the last character may be cut by the 4 KiB
    text = head.decode("utf-8", "ignore")
    if len(text.encode()) < len(head) - 3:
        if sum(byte < 0x80 for byte in head) < _ASCII_SHARE * len(head):
            return None
        text = head.decode("latin-1")
    return None if any(ord(c) < 32 and c not in "\t\n\r\f\x1b" for c in text) else text


_ASCII_SHARE = 0.7
_LATE = 256 << 10


def _late_text(stream: BinaryIO, plain: Recognised) -> Recognised:
    """What a text file is whose first 4 KiB are comments, a licence for example."""
    stream.seek(0)
    framework = _framework_text(stream.read(_LATE).decode("latin-1"))
    return plain if framework is None else framework


def _lines(text: str) -> list[str]:
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def _json_text(text: str) -> Recognised | None:
    start = text.lstrip("\ufeff \t\r\n")
    if not start.startswith(("{", "[")):
        return None
    if '"network_platform"' in text:  # it has nodes with an op as MXNet's has
        return Recognised("rknn_vendor", "vendor RKNN model (bare JSON)", "JSON, network_platform")
    if '"nodes"' in text and ('"op"' in text or '"arg_nodes"' in text):
        return Recognised("mxnet", "MXNet symbol (JSON)", 'JSON with "nodes" and "op"')
    words = "JSON file"
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        words = "text file"
    return Recognised("unknown", words, "begins with a bracket")


def _recipe_text(text: str) -> Recognised | None:
    keys = {
        line.split(":", 1)[0] for line in text.splitlines() if ":" in line and line[:1].isalpha()
    }
    sections = keys & {"version", *SECTIONS}
    named = {option.name for option in OPTIONS if "_" in option.name}
    if len(sections) > 1 or ("source" in keys and "\n  model:" in text):
        return Recognised("recipe", "recipe", "YAML with the sections of a recipe")
    if keys & named:  # without its sections: the reader says what is missing
        return Recognised("recipe", "recipe", "YAML with options of a recipe")
    return None


_CAFFE_LAYER = re.compile(r"^\s*layers?\s*:?\s*\{", re.MULTILINE)
_GRAPH_NODE = re.compile(r"^\s*node\s*\{\s*name\s*:", re.MULTILINE)
_DARKNET_NET = re.compile(r"^\s*\[net(work)?\]\s*$", re.MULTILINE)


def _framework_text(text: str) -> Recognised | None:
    stripped = text.lstrip()
    if "<html" in text[:500].lower() or stripped.lower().startswith("<!doctype"):
        return Recognised("unknown", "web page (HTML)", "begins with an HTML tag")
    if stripped.startswith("version https://git-lfs.github.com"):
        words = "Git LFS pointer, not the file itself"
        return Recognised("unknown", words, "begins with the address of git-lfs")
    if _DARKNET_NET.search(text) or "\n[convolutional]" in text:
        return Recognised("darknet", "Darknet configuration", "sections in square brackets")
    if _CAFFE_LAYER.search(text):
        return Recognised("caffe", "Caffe network (prototxt)", "text with layer { ... }")
    if _GRAPH_NODE.search(text):
        return Recognised("unknown", "TensorFlow graph as text (.pbtxt)", "text with node { ... }")
    if stripped.startswith("model_checkpoint_path:"):
        return Recognised("checkpoint", "TensorFlow checkpoint", "names a model_checkpoint_path")
    return None


_SAMPLE_SUFFIXES = (*sorted(IMAGE_SUFFIXES), ".npy")


def _dataset_text(text: str) -> Recognised | None:
    lines = _lines(text)[:20]
    complete = lines[:-1] if len(text) >= _HEAD - 8 and len(lines) > 1 else lines
    if complete and all(
        all(word.lower().endswith(_SAMPLE_SUFFIXES) for word in line.split()) for line in complete
    ):
        return Recognised("dataset", "calibration dataset", "every line names images or arrays")
    return None


_TEXT_CHECKS: tuple[Callable[[str], Recognised | None], ...] = (
    _framework_text,
    _json_text,
    _recipe_text,
    _dataset_text,
)


# ---------------------------------------------------------------------------------------- protobuf


_ONNX = ("onnx", "ONNX model")
_CAFFE = ("caffe_weights", "Caffe model (weights)")
# field of onnx.ModelProto -> wire type; onnx.proto of onnx 1.23
_MODEL_FIELDS = {
    **dict.fromkeys((1, 5), VARINT),
    **dict.fromkeys((2, 3, 4, 6, 7, 8, 14, 20, 25, 26), LENGTH),
}
_GRAPH = 7
_GRAPH_DEF_FIELDS = {1: LENGTH, 2: LENGTH, 3: VARINT, 4: LENGTH, 5: LENGTH}
# ModelProto has a dozen kinds of fields; repeated ones (metadata, functions) stay far below this
MAX_FIELDS = 100_000


def _protobuf(stream: BinaryIO, size: int) -> Recognised | None:
    """What a file is by its outer fields; cut and damaged models are told by their readers."""
    fields: list[tuple[int, int, int, int]] = []
    end: ProtobufError | None = None
    try:
        fields.extend(file_fields(stream, size, MAX_FIELDS))
    except ProtobufError as error:
        end = error
    numbers = Counter(number for number, _, _, _ in fields)
    kinds = [(number, wire) for number, wire, _, _ in fields]
    cut = isinstance(end, TruncatedError)
    if all(_MODEL_FIELDS.get(number) == wire for number, wire in kinds):
        # a cut model still starts with its IR version
        if cut and 1 in numbers:
            return Recognised(*_ONNX, "begins like an ONNX model, but ends too early")
        if end is None and _GRAPH in numbers:
            return Recognised(*_ONNX, "its protobuf fields are an ONNX model's")
    # caffe.NetParameter: name = 1, layers = 2 (V1), layer = 100
    texts = all(wire == LENGTH for number, wire in kinds if number in (1, 2, 100))
    if texts and (end is None or cut):
        if 100 in numbers:
            return Recognised(*_CAFFE, "its protobuf fields are a Caffe net's")
        # V1LayerParameter starts with bottom 2, top 3, name 4 or type 5; GraphDefs repeat field 1
        begins = _first(stream, fields, 2)
        if numbers[1] <= 1 and begins and begins[:1] in b"\x12\x1a\x22\x28":
            return Recognised(*_CAFFE, "its protobuf fields are an old Caffe net's (V1 layers)")
    # tensorflow.SavedModel: saved_model_schema_version = 1 (number), meta_graphs = 2
    if end is None and kinds[:1] == [(1, VARINT)] and set(kinds[1:]) == {(2, LENGTH)}:
        words = "TensorFlow SavedModel file"
        return Recognised("saved_model", words, "its protobuf fields are a SavedModel's")
    # tensorflow.GraphDef: node = 1, library = 2, version = 3 (number), versions = 4; a NodeDef
    # starts with its name, field 1, which is text and never empty
    begins = _first(stream, fields, 1)
    name = begins[2 : 2 + begins[1]] if len(begins) > 1 else b""
    named = name and begins[:1] == b"\x0a" and name.isascii() and name.decode().isprintable()
    if named and all(_GRAPH_DEF_FIELDS.get(number) == wire for number, wire in kinds):
        words = "TensorFlow graph (GraphDef)"
        return Recognised("tensorflow", words, f"begins with {numbers[1]} node messages")
    return None


def _first(stream: BinaryIO, fields: list[tuple[int, int, int, int]], number: int) -> bytes:
    """The first bytes of the first field of a number that has any."""
    for found, _, start, length in fields:
        if found == number and length:
            stream.seek(start)
            return stream.read(min(length, 16))
    return b""
