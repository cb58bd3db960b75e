"""What a file is, by its first bytes and never by its suffix."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from engine.base.errors import SourceModelError
from engine.frontends.wire import looks_like_caffe, looks_like_onnx

__all__ = ["Recognised", "sniff"]

_HEAD = 4096


@dataclass(frozen=True)
class Recognised:
    """What a path is.

    Attributes:
        kind: ``onnx``, ``rknn`` (our container), ``rknn_vendor``, ``recipe``, ``dataset``,
            ``picture`` (a sample: picture or npy array), ``folder``, or
            ``unknown`` for what this version does not open.
        format: what it is, in words (``PyTorch zip archive``, ``text file``).
        why: what was seen that says so.
    """

    kind: str
    format: str
    why: str


def sniff(path: str | os.PathLike[str]) -> Recognised:
    """Recognise a file or folder; reads its first 4 KiB, of protobuf files the field headers too.

    Raises:
        SourceModelError: the path does not exist, cannot be read, or is no file (a device, a pipe).
    """
    place = Path(path)
    try:
        mode = place.stat().st_mode
        if stat.S_ISDIR(mode):
            return Recognised("folder", "folder", "it is a directory")
        if not stat.S_ISREG(mode):
            raise SourceModelError(
                f"{place} is no file but a device, pipe or socket.",
                cause="Files are read more than once, which these cannot.",
                remedy="Give a file.",
            )
        with place.open("rb") as stream:
            return _recognise(stream, place.stat().st_size)
    except FileNotFoundError as error:
        raise SourceModelError(
            f"{place} does not exist.",
            cause="The path is misspelled, or the file was moved or deleted.",
            remedy="Check the path; relative paths start at the current folder, in a recipe at "
            "the recipe's folder.",
        ) from error
    except (OSError, ValueError) as error:
        raise SourceModelError(
            f"{place} could not be read: {getattr(error, 'strerror', None) or error}.",
            cause="You may not read it, or it is no path of a file.",
            remedy="Check that it is a file and that you may read it.",
        ) from error


def _recognise(stream: BinaryIO, size: int) -> Recognised:
    if size == 0:
        return Recognised("unknown", "empty file", "it has no bytes")
    head = stream.read(_HEAD)
    for check in (_magic, _flat_buffer, _text):
        found = check(head)
        if found is not None:
            return found
    protobuf = (
        (looks_like_onnx, _ONNX),
        (looks_like_caffe, _CAFFE),
        (_looks_like_graph_def, _GRAPH_DEF),
    )
    for read, known in protobuf:
        stream.seek(0)
        why = read(stream, size)
        if why:
            return Recognised(*known, why)
    if head[:4] == b"\x00\x00\x00\x00" and head[4:8] == b"\x02\x00\x00\x00":
        return Recognised("unknown", "Darknet weights", "version 0.2 at byte 0")
    return Recognised("unknown", "unknown binary file", f"begins with {head[:8].hex(' ')}")


_ONNX = ("onnx", "ONNX model")
_CAFFE = ("unknown", "Caffe weights")
_GRAPH_DEF = ("unknown", "TensorFlow graph")

# bytes at 0 -> kind, format
_MAGIC: tuple[tuple[bytes, str, str], ...] = (
    (b"CYPTRKNN", "rknn_vendor", "encrypted vendor RKNN model"),
    (b"RKNX", "rknn_vendor", "vendor RKNN model (RKNX)"),
    (b"VPMN", "rknn_vendor", "precompiled model of generation 1 (NBG)"),
    (b"\xff\xd8\xff", "picture", "JPEG picture"),
    (b"\x89PNG\r\n\x1a\n", "picture", "PNG picture"),
    (b"\x93NUMPY", "picture", "numpy array"),
    (b"GIF8", "unknown", "GIF picture"),
    (b"\x89HDF\r\n\x1a\n", "unknown", "HDF5 file (Keras .h5)"),
    (b"\x1f\x8b", "unknown", "gzip archive"),
    (b"BZh", "unknown", "bzip2 archive"),
    (b"7z\xbc\xaf\x27\x1c", "unknown", "7z archive"),
    (b"\xfd7zXZ\x00", "unknown", "xz archive"),
    (b"\x28\xb5\x2f\xfd", "unknown", "zstd archive"),
    (b"%PDF", "unknown", "PDF document"),
    (b"\x7fELF", "unknown", "ELF program or library"),
    (b"\x12\x01\x00\x00\x00\x00\x00\x00", "unknown", "MXNet parameters"),
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
        return Recognised("picture", "BMP picture", "begins with b'BM' and a bitmap header")
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return Recognised("unknown", "WebP picture", "begins with RIFF....WEBP")
    if head[:4] == b"RKNN":
        if head[24:32] == b"OPENMODL":
            return Recognised("rknn", "RKNN TUI container", "RKNN and OPENMODL in its header")
        return Recognised("rknn_vendor", "vendor RKNN model", "begins with RKNN")
    if head[:4] == b"PK\x03\x04":
        if b".npy" in head[:200]:
            return Recognised("unknown", "numpy .npz archive", "begins with PK, holds .npy files")
        pytorch = b"/data.pkl" in head or b"/constants.pkl" in head or b"/version" in head[:256]
        words = "PyTorch zip archive" if pytorch else "zip archive"
        return Recognised("unknown", words, "begins with PK")
    if head[:1] == b"\x80" and head[1:2] in b"\x02\x03\x04\x05" and len(head) > 1:
        words = "Python pickle (an old PyTorch file?)"
        return Recognised("unknown", words, f"begins with the pickle opcode {head[:2].hex(' ')}")
    return None


def _flat_buffer(head: bytes) -> Recognised | None:
    if head[4:8] == b"TFL3":
        return Recognised("unknown", "TensorFlow Lite model", "TFL3 at byte 4")
    if head[4:8] == b"RKNN":
        return Recognised("rknn_vendor", "vendor RKNN model (bare FlatBuffer)", "RKNN at byte 4")
    if head[4:8] == b"ORTM":
        return Recognised("unknown", "ONNX Runtime model (.ort)", "ORTM at byte 4")
    return None


def _text(head: bytes) -> Recognised | None:
    try:
        # the last character may be cut by the 4 KiB
        text = head.decode("utf-8", "strict" if len(head) < _HEAD else "ignore")
    except UnicodeDecodeError:
        return None
    if any(ord(c) < 32 and c not in "\t\n\r\f\x1b" for c in text) or not _mostly_text(head):
        return None
    for check in _TEXT_CHECKS:
        found = check(text)
        if found is not None:
            return found
    return Recognised("unknown", "text file", "its bytes are text")


def _mostly_text(head: bytes) -> bool:
    return len(head.decode("utf-8", "ignore").encode()) >= len(head) - 3


def _lines(text: str) -> list[str]:
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def _json_text(text: str) -> Recognised | None:
    start = text.lstrip("\ufeff \t\r\n")
    if not start.startswith(("{", "[")):
        return None
    if '"nodes"' in text and ('"op"' in text or '"arg_nodes"' in text):
        return Recognised("unknown", "MXNet symbol (JSON)", 'JSON with "nodes" and "op"')
    if '"network_platform"' in text:
        return Recognised("rknn_vendor", "vendor RKNN model (bare JSON)", "JSON, network_platform")
    try:
        json.loads(text)
    except ValueError:
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


def _framework_text(text: str) -> Recognised | None:
    stripped = text.lstrip()
    if "<html" in text[:500].lower() or stripped.lower().startswith("<!doctype"):
        return Recognised("unknown", "web page (HTML)", "begins with an HTML tag")
    if stripped.startswith("version https://git-lfs.github.com"):
        words = "Git LFS pointer, not the file itself"
        return Recognised("unknown", words, "begins with the address of git-lfs")
    if stripped.startswith("[net]") or "\n[convolutional]" in text:
        return Recognised("unknown", "Darknet configuration", "sections in square brackets")
    if "layer {" in text or "layers {" in text or "layer{" in text:
        return Recognised("unknown", "Caffe prototxt", "text with layer { ... }")
    return None


_SAMPLE_SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".npy")


def _dataset_text(text: str) -> Recognised | None:
    lines = _lines(text)[:20]
    complete = lines[:-1] if len(text) >= _HEAD - 8 and len(lines) > 1 else lines
    if complete and all(
        all(word.lower().endswith(_SAMPLE_SUFFIXES) for word in line.split()) for line in complete
    ):
        return Recognised("dataset", "calibration dataset", "every line names pictures or arrays")
    return None


_TEXT_CHECKS: tuple[Callable[[str], Recognised | None], ...] = (
    _framework_text,
    _json_text,
    _recipe_text,
    _dataset_text,
)


def _looks_like_graph_def(stream: BinaryIO, size: int) -> str:
    # GraphDef: field 1 (node) is a message whose field 1 (name) is a string
    head = stream.read(4)
    is_node = len(head) == 4 and head[0] == 0x0A and b"\x0a" in head[2:4]
    return "begins with a node message" if is_node and size > 16 else ""
