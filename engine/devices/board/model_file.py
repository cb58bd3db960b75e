"""Which file is to run on a board, and whether that board can run it: asked before it is sent."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from engine.base.errors import ContainerError, RuntimeLibraryError
from engine.base.files import open_regular, sha256_of
from engine.base.text import sanitize
from engine.devices.probe.compatibility import ModelFacts, same_npu
from engine.facts import chip

if TYPE_CHECKING:
    from engine.container.vendor import VendorModel

_HEAD = 64


@dataclass(frozen=True, kw_only=True)
class ModelFile(ModelFacts):
    """A file that is to run on a board.

    Attributes:
        path: of this machine.
        sha256: of its content.
        encrypted: whether nothing of it can be seen.
    """

    path: Path
    sha256: str
    encrypted: bool = False

    @property
    def words(self) -> str:
        """What it was built for, for a message: ``rk3588 (generation 2)``."""
        named = ", ".join(self.chips)
        form = f"generation {self.generation}" if self.generation else "an unknown generation"
        return f"{named} ({form})" if named else form


def model_file(path: Path) -> ModelFile:
    """What a file is that is to run on a board.

    Raises:
        ContainerError: missing, unreadable or damaged; no compiled model.
    """
    # they load ONNX: a worker that looks at boards without a model is to stay small
    from engine.container.magic import unreadable_error
    from engine.container.other_formats import other_format
    from engine.container.vendor import inspect_vendor

    try:
        with open_regular(path) as stream:
            head = stream.read(_HEAD)
        size, sha256 = path.stat().st_size, sha256_of(path)
    except OSError as error:
        raise unreadable_error(path, error) from error
    kind = other_format(head)
    if not kind:
        return ModelFile(path=path, name=_name(path), size=size, sha256=sha256, ours=True)
    if head[:4] != b"RKNN" and head[:8] != b"CYPTRKNN":
        raise _no_model_error(path, kind)
    try:
        vendor = inspect_vendor(path)
    except ContainerError as error:
        raise ContainerError(
            f"{path.name} starts as a compiled model and cannot be read.",
            cause=error.what,
            remedy="Compile the model again, or copy the file again.",
        ) from error
    return _of_vendor(path, size, sha256, vendor)


def _of_vendor(path: Path, size: int, sha256: str, vendor: VendorModel) -> ModelFile:
    if vendor.kind == "op-package" or vendor.generation == 3:
        raise _no_model_error(path, vendor.form)
    return ModelFile(
        path=path,
        name=_name(path),
        size=size,
        sha256=sha256,
        generation=vendor.generation,
        chips=vendor.chips,
        toolkit=sanitize(vendor.toolkit, 80),
        encrypted=vendor.encryption_level is not None,
        dynamic=vendor.dynamic,
        container=vendor.container_version,
    )


def _name(path: Path) -> str:
    return sanitize(path.name, 80)


def _no_model_error(path: Path, kind: str) -> ContainerError:
    return ContainerError(
        f"{path.name} is {kind}, and no model that a board of generation 1 or 2 runs.",
        cause="Boards run the compiled models (.rknn) of the vendor's toolkits.",
        remedy="Compile the model for the board's chip and run that file. Without a board, "
        "`rknntui perf estimate FILE --chip rk3588` estimates its time, and `rknntui memory FILE "
        "--chip rk3588` its memory.",
    )


def require_fit(model: ModelFile, chip_name: str, *, emulated: bool) -> None:
    """Refuse a model that a board cannot run.

    Args:
        model: the file.
        chip_name: of the board; empty where it is not known, and then only what no board runs is
            refused.
        emulated: whether it is a board of ``devices emulate``, whose stand-in runtime takes
            containers of this program.

    Raises:
        RuntimeLibraryError: it was built for another generation or another chip, or it is a
            container of this program.
    """
    name = model.path.name
    if model.ours:
        if not emulated:
            raise RuntimeLibraryError(
                f"{name} is a container of this program, which runs on no NPU.",
                cause="It holds the quantized graph for the simulator. Code for an NPU is made by "
                "the vendor's compiler.",
                remedy="Compile the model with the vendor's toolkit and run that .rknn, or "
                "simulate this one.",
            )
        return
    board = chip(chip_name)
    if board is None:
        return
    if model.generation is not None and model.generation != board.generation:
        raise RuntimeLibraryError(
            f"{name} is for {model.words}, and the board has {board.name} (generation "
            f"{board.generation}).",
            cause="The runtimes of the two generations read different files.",
            remedy=f"Build the model for {board.name} and run that.",
        )
    if model.chips and not same_npu(board.name, model.chips):
        raise RuntimeLibraryError(
            f"{name} is for {', '.join(model.chips)}, and the board has {board.name}.",
            cause="Compiled code fits one kind of NPU.",
            remedy=f"Build the model for {board.name} and run that.",
        )
