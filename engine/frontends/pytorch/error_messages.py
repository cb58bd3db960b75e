"""Errors for files of PyTorch that are no TorchScript: what they are, and how to export them."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any, BinaryIO

from engine.base.errors import SourceModelError
from engine.base.text import human_bytes, sanitize
from engine.frontends.pytorch.pickles import (
    Archive,
    Made,
    TensorRecord,
    Unreadable,
    all_tensors,
    read_values,
)

_MAX_PICKLE = 64 << 20
# torch/serialization.py, _legacy_save: a magic number, the protocol's version, facts of the system
_LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
_TRACE = "    torch.jit.trace(model, torch.zeros(1, 3, 224, 224)).save('model.pt')"
_STATE_REMEDY = (
    "Build the network in Python, load the state into it, and save TorchScript:\n"
    "    model.load_state_dict(torch.load({path!r}, weights_only=True)); model.eval()\n" + _TRACE
)
_PICKLE_REMEDY = (
    "In the Python that made it, load the network and save TorchScript:\n"
    "    model = torch.load({path!r}, weights_only=False).eval()\n" + _TRACE
)
_PROGRAM_REMEDY = (
    "Where PyTorch is, write ONNX from it and load that:\n"
    "    program = torch.export.load({path!r})\n"
    "    torch.onnx.export(program, dynamo=True).save('model.onnx')"
)


def explain_file(path: Path) -> SourceModelError:
    """The error that says what a file of PyTorch is and how to go on; nothing in it is executed.

    Args:
        path: what :func:`engine.frontends.sniff` calls ``pytorch_state`` or ``pytorch_pickle``, or
            an exported program.
    """
    shown = sanitize(path.name, 80)
    if zipfile.is_zipfile(path):
        try:
            with Archive(path) as archive:
                names = archive.records
                if "data.pkl" in names:
                    return _of_value(shown, read_values(archive.read("data.pkl", _MAX_PICKLE)))
        except SourceModelError as error:
            return error
        except Unreadable:
            return _unclear(shown)
        return SourceModelError(
            f"{shown} is an exported program of torch.export (.pt2), no TorchScript.",
            cause="It was saved by torch.export.save.",
            remedy=_PROGRAM_REMEDY.format(path=shown),
        )
    try:
        with path.open("rb") as stream:
            return _of_value(shown, _legacy_value(stream))
    except (OSError, Unreadable):
        return _unclear(shown)


def _legacy_value(stream: BinaryIO) -> Any:
    """The object of a file of torch.save before 1.6: the fourth of its pickles."""
    first = read_values(stream)
    if first != _LEGACY_MAGIC:
        return first
    for _ in range(2):
        read_values(stream)
    return read_values(stream)


def _of_value(shown: str, value: Any) -> SourceModelError:
    tensors = [tensor for _, tensor in all_tensors(value)]
    size = human_bytes(sum(tensor.bytes for tensor in tensors))
    holder, state = _state_in(value)
    if state:
        inside = f" under {holder!r}" if holder else ""
        return SourceModelError(
            f"{shown} is a state dict of {state} tensors{inside} ({size}): weights without the "
            "network.",
            cause="It was saved by torch.save(model.state_dict()).",
            remedy=_STATE_REMEDY.format(path=shown),
        )
    if isinstance(value, Made):
        return SourceModelError(
            f"{shown} is a pickled network of class {sanitize(value.name, 100)} with "
            f"{len(tensors)} tensors ({size}).",
            cause="It was saved by torch.save(model): it needs the Python code of that class, and "
            "opening it would execute whatever it names.",
            remedy=_PICKLE_REMEDY.format(path=shown),
        )
    return SourceModelError(
        f"{shown} is a file of torch.save with {len(tensors)} tensors ({size}) and no network.",
        cause="It was saved by torch.save.",
        remedy=_STATE_REMEDY.format(path=shown),
    )


def _state_in(value: Any) -> tuple[str, int]:
    """(key, tensors) of a state dict: the value itself, or one that a checkpoint holds."""
    table = value.state if isinstance(value, Made) and _is_mapping(value) else value
    if not isinstance(table, dict):
        return "", 0
    own = sum(isinstance(item, TensorRecord) for item in table.values())
    if own:
        return "", own
    best = ("", 0)
    for key, item in table.items():
        inner = item.state if isinstance(item, Made) and _is_mapping(item) else item
        if isinstance(inner, dict):
            count = sum(isinstance(part, TensorRecord) for part in inner.values())
            best = max(best, (sanitize(str(key), 60), count), key=lambda pair: pair[1])
    return best


def _is_mapping(value: Made) -> bool:
    return value.name == "collections.OrderedDict"


def _unclear(shown: str) -> SourceModelError:
    return SourceModelError(
        f"{shown} is a Python pickle that could not be understood without executing it.",
        cause="It is damaged, or no file of PyTorch.",
        remedy=_PICKLE_REMEDY.format(path=shown),
    )
