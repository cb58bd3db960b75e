"""Models of the vendor's generation 1 in segments: by its toolkit, for nobody else knows how."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.base.errors import CompilerError, ContainerError, UsageError
from engine.base.events import Reporter
from engine.base.files import atomic_copy, refuse_existing, sha256_of
from engine.base.text import sanitize, some_of
from engine.container.vendor import VendorModel, inspect_vendor
from engine.toolkit.environments import find
from engine.toolkit.toolkit import one_run
from engine.wire.segments import SegmentLayer
from engine.wire.vendor import ToolkitEnvironment

_SECONDS = 600.0
_SHOWN = 12


@dataclass(frozen=True)
class CutModel:
    """The file that was made: its place, size and content, and the toolkit that made it."""

    path: Path
    size: int
    sha256: str
    toolkit: str


def vendor_layers(path: Path) -> tuple[SegmentLayer, ...]:
    """The layers of a model of generation 1, with their uids.

    Raises:
        ContainerError: it cannot be read.
        UsageError: it is no such model, or its file does not tell uids.
    """
    return _layers(path, inspect_vendor(path))


def _layers(path: Path, model: VendorModel) -> tuple[SegmentLayer, ...]:
    name = sanitize(path.name, 200)
    if model.generation != 1 or model.kind == "op-package":
        raise UsageError(
            f"{name} is {model.form}, which has no segments.",
            cause="Segments are of the vendor's generation 1 (RK1808, RK3399Pro, RV1109, RV1126).",
            remedy="Cut a container of this program, or a model of generation 1.",
        )
    layers = model.graphs[0].layers if model.graphs else ()
    with_uid = tuple(
        SegmentLayer(uid=layer.uid, id=layer.name, op=layer.op)
        for layer in layers
        if layer.uid is not None
    )
    if not with_uid:
        raise UsageError(
            f"The file of {name} tells no uids of layers.",
            cause="A precompiled model is one layer for the toolkit; it cannot be cut any more.",
            remedy="Cut the model before it is precompiled.",
        )
    return with_uid


def cut_vendor_model(
    path: Path,
    uids: Sequence[int],
    output: Path,
    *,
    environment: ToolkitEnvironment | None = None,
    toolkit: str | None = None,
    overwrite: bool = False,
    reporter: Reporter | None = None,
) -> CutModel:
    """Have sync layers put behind the layers of these uids.

    The vendor's manual warns that a uid which is none has results that nobody can foresee: they are
    checked against those in the file.

    Args:
        path: of the model.
        uids: of layers.
        output: the file to make; may be ``path``.
        environment: of the toolkit; None: found by ``toolkit``.
        toolkit: name of the environment; None: the default of generation 1.
        overwrite: whether ``output`` may be there.
        reporter: told what the toolkit prints, asked whether to stop.

    Raises:
        UsageError: the model has no such uid, or is of another generation.
        ToolkitError: there is no toolkit of generation 1.
        CompilerError: it failed.
        OutputError: the file cannot be written.
    """
    _check_uids(path, uids)
    refuse_existing(output, overwrite=overwrite)
    place = environment or find(1, toolkit)
    before = sha256_of(path)
    with one_run(place, reporter) as rknn:
        plain, segmented = rknn.toolkit.work / "model.rknn", rknn.toolkit.work / "segments.rknn"
        shutil.copyfile(path, plain)
        rknn.do(
            "export_rknn_sync_model",
            input_model=str(plain),
            sync_uids=[int(uid) for uid in uids],
            output_model=str(segmented),
            seconds=_SECONDS,
        )
        if not segmented.is_file() or not _is_cut(segmented, before):
            raise CompilerError(
                "The vendor's toolkit said that it cut the model, and did not.",
                cause="What it wrote is missing, the same as before, or no model of generation 1.",
                remedy="Try another version of the toolkit.",
            )
        size = atomic_copy(segmented, output, overwrite=overwrite)
        return CutModel(output, size, sha256_of(output), rknn.toolkit.words)


def _check_uids(path: Path, uids: Sequence[int]) -> None:
    known = [layer.uid for layer in vendor_layers(path)]
    unknown = [uid for uid in uids if uid not in known]
    if unknown or not uids:
        raise UsageError(
            f"{sanitize(path.name, 200)} has no layer with the uid {unknown[0]}."
            if unknown
            else "No uid is given to cut after.",
            cause=f"Its layers have the uids {some_of([*map(str, sorted(known))], _SHOWN)}.",
            remedy="Take uids from the Uid column of eval_perf (perf_debug=True), or from "
            "`rknntui segment MODEL`.",
        )


def _is_cut(model: Path, before: str) -> bool:
    try:
        return sha256_of(model) != before and inspect_vendor(model).generation == 1
    except ContainerError:
        return False
