"""What a file is, by its first bytes and never by its suffix.

Of protobuf files the outer fields are read; the message itself is not loaded.
"""

from __future__ import annotations

import json
import os
import re
import stat
import zipfile
from collections.abc import Callable, Iterator
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
    for name, words in (("saved_model.pb", "SavedModel"), ("saved_model.pbtxt", "SavedModel")):
        if (place / name).is_file():
            return Recognised("saved_model", f"TensorFlow {words}", f"it holds {name}")
    return Recognised("folder", "folder", "it is a directory")


def _recognise(stream: BinaryIO, size: int) -> Recognised:
    if size == 0:
        return Recognised("unknown", "empty file", "it has no bytes")
    head = stream.read(_HEAD)
    if head[:4] == b"PK\x03\x04":
        return _zip(stream, head)
    for check in (_magic, _flat_buffer, _text):
        recognised = check(head)
        if recognised is not None:
            return (
                _late_text(stream, recognised) if recognised.format == "text file" else recognised
            )
    protobuf = (
        (looks_like_onnx, _ONNX),
        (looks_like_caffe, _CAFFE),
        (looks_like_saved_model, _SAVED_MODEL),
        (looks_like_graph_def, _GRAPH_DEF),
    )
    for read, known in protobuf:
        why = read(stream, size)
        if why:
            return Recognised(*known, why)
    stream.seek(max(0, size - 8))
    if stream.read(8) == _TABLE_END:
        return Recognised(
            "checkpoint", "TensorFlow checkpoint (index)", "ends like a table of tensors"
        )
    major, minor = (int.from_bytes(head[i : i + 4], "little", signed=True) for i in (0, 4))
    if size >= 16 and major == 0 and minor in (1, 2) and not any(head[9:12]):
        return Recognised("darknet_weights", "Darknet weights", f"version 0.{minor} at byte 0")
    return Recognised("unknown", "unknown binary file", f"begins with {head[:8].hex(' ')}")


_ONNX = ("onnx", "ONNX model")
_CAFFE = ("caffe_weights", "Caffe model (weights)")
_GRAPH_DEF = ("tensorflow", "TensorFlow graph (GraphDef)")
# kTableMagicNumber of tensorflow/core/lib/io/format.h, little endian
_TABLE_END = bytes.fromhex("57fb808b247547db")
_SAVED_MODEL = ("saved_model", "TensorFlow SavedModel file")

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
    if head[:2] == b"BM" and head[14:18] in (
        b"\x28\0\0\0",
        b"\x0c\0\0\0",
        b"\x6c\0\0\0",
        b"\x7c\0\0\0",
    ):
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


def _flat_buffer(head: bytes) -> Recognised | None:
    if head[4:8] == b"TFL3":
        return Recognised("tflite", "TensorFlow Lite model", "TFL3 at byte 4")
    if head[4:8] == b"RKNN":
        return Recognised("rknn_vendor", "vendor RKNN model (bare FlatBuffer)", "RKNN at byte 4")
    if head[4:8] == b"ORTM":
        return Recognised("unknown", "ONNX Runtime model (.ort)", "ORTM at byte 4")
    return None


def _text(head: bytes) -> Recognised | None:
    text = _decoded(head)
    if text is None:
        return None
    for check in _TEXT_CHECKS:
        recognised = check(text)
        if recognised is not None:
            return recognised
    return Recognised("unknown", "text file", "its bytes are text")


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
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        complete = False
    else:
        complete = True
    return Recognised("unknown", "JSON file" if complete else "text file", "begins with a bracket")


def _recipe_text(text: str) -> Recognised | None:
    keys = {
        line.split(":", 1)[0] for line in text.splitlines() if ":" in line and line[:1].isalpha()
    }
    sections = {"version", "preprocess", "quantization", "target", "dataset"}
    if "source" in keys and (keys & sections or "\n  model:" in text):
        return Recognised("recipe", "recipe", "YAML with the sections of a recipe")
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


_SAMPLE_SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".npy")


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


# field of onnx.ModelProto -> wire type; onnx.proto of onnx 1.23
_MODEL_FIELDS = {
    **dict.fromkeys((1, 5), VARINT),
    **dict.fromkeys((2, 3, 4, 6, 7, 8, 14, 20, 25, 26), LENGTH),
}
_GRAPH = 7
# ModelProto has a dozen kinds of fields; repeated ones (metadata, functions) stay far below this
_MAX_FIELDS = 100_000


def outer_fields(stream: BinaryIO, size: int) -> Iterator[tuple[int, int, int, int]]:
    """See :func:`engine.base.formats.protobuf.file_fields`."""
    return file_fields(stream, size, _MAX_FIELDS)


def looks_like_onnx(stream: BinaryIO, size: int) -> str:
    """Why a file looks like an ONNX model, also a truncated one; empty when it does not."""
    seen: set[int] = set()
    try:
        for field, wire, _, _ in outer_fields(stream, size):
            if _MODEL_FIELDS.get(field) != wire:
                return ""
            seen.add(field)
    except TruncatedError:
        # a cut model still starts with its IR version; the loader then says what is missing
        return "begins like an ONNX model, but ends too early" if 1 in seen else ""
    except ProtobufError:
        return ""
    return "its protobuf fields are an ONNX model's" if _GRAPH in seen else ""


def looks_like_caffe(stream: BinaryIO, size: int) -> str:
    """Why a file looks like a caffemodel; empty when it does not."""
    # caffe.NetParameter: name = 1, layers = 2 (V1), layer = 100
    counts: dict[int, int] = {}
    begins = b""
    try:
        for field, wire, start, length in outer_fields(stream, size):
            if field in (1, 2, 100) and wire != LENGTH:
                return ""
            counts[field] = counts.get(field, 0) + 1
            if field == 2 and not begins:
                begins = _payload(stream, start, length)
    except TruncatedError:
        pass  # a cut file still starts with its name and layers; the reader says what is missing
    except ProtobufError:
        return ""
    if 100 in counts:
        return "its protobuf fields are a Caffe net's"
    # V1LayerParameter starts with bottom 2, top 3, name 4 or type 5; GraphDefs have many field 1
    old = counts.get(1, 0) <= 1 and counts.get(2, 0) > 0 and begins[:1] in b"\x12\x1a\x22\x28"
    return "its protobuf fields are an old Caffe net's (V1 layers)" if old and begins else ""


def looks_like_saved_model(stream: BinaryIO, size: int) -> str:
    """Why a file looks like ``saved_model.pb``; empty when it does not."""
    # tensorflow.SavedModel: saved_model_schema_version = 1 (number), meta_graphs = 2
    try:
        fields = [(field, wire) for field, wire, _, _ in outer_fields(stream, size)]
    except ProtobufError:
        return ""
    matches = fields[:1] == [(1, VARINT)] and set(fields[1:]) == {(2, LENGTH)}
    return "its protobuf fields are a SavedModel's" if matches else ""


def looks_like_graph_def(stream: BinaryIO, size: int) -> str:
    """Why a file looks like a TensorFlow GraphDef, also a damaged one; empty when not."""
    # tensorflow.GraphDef: node = 1, library = 2, version = 3 (number), versions = 4
    begins, nodes = b"", 0
    try:
        for field, wire, start, length in outer_fields(stream, size):
            if {1: LENGTH, 2: LENGTH, 3: VARINT, 4: LENGTH, 5: LENGTH}.get(field) != wire:
                return ""
            if field == 1:
                nodes += 1
                begins = begins or _payload(stream, start, length)
    except ProtobufError:
        pass  # what begins with a node is told to be a damaged graph by its reader
    # a NodeDef starts with its name, field 1, which is text and never empty
    name = begins[2 : 2 + begins[1]] if len(begins) > 1 else b""
    named = begins[:1] == b"\x0a" and name.isascii() and name.decode("ascii").isprintable()
    return f"begins with {nodes} node messages" if name and named else ""


def _payload(stream: BinaryIO, start: int, length: int) -> bytes:
    """The first bytes of a field."""
    stream.seek(start)
    return stream.read(min(length, 16))
