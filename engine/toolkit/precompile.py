"""Precompiled models of generation 1: made by the vendor's toolkit, or by it on a board.

Such a model starts faster and runs on hardware alone. ``build(pre_compile=True)`` makes it on this
machine [RKNN-T1 1.3.2, 3.6.4]; ``init_runtime(rknn2precompile=True)`` and
``export_rknn_precompile_model`` have a board make it of a model that was built before (Trouble
Shooting 1.4.0, 1.6). Both are the toolkit's work: what a script said is said to it again.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.base.errors import CompilerError, ContainerError, ToolkitError, UsageError
from engine.base.events import Reporter
from engine.base.files import atomic_copy
from engine.base.text import sanitize
from engine.container.vendor import inspect_vendor
from engine.toolkit.environments import find
from engine.toolkit.toolkit import RemoteRKNN, one_run
from engine.wire.vendor import ToolkitEnvironment

_PRECOMPILED = ("layers-nbg", "nbg")
_SIZE_LIMIT = 2 << 30


@dataclass(frozen=True)
class ToolkitCall:
    """A method of the toolkit with its arguments; paths are absolute."""

    method: str
    keywords: Mapping[str, Any] = field(default_factory=dict)


def require_toolkit1(what: str, otherwise: str) -> ToolkitEnvironment:
    """The default environment of generation 1.

    Args:
        what: needs it, such as ``pre_compile``.
        otherwise: another way, as a sentence; may be empty.

    Raises:
        ToolkitError: there is none; says what is missing.
    """
    try:
        return find(1)
    except ToolkitError as error:
        raise ToolkitError(
            f"{what} needs the vendor's toolkit of generation 1: {error.what}",
            cause="Only its compiler makes precompiled models.",
            remedy=f"{error.remedy} {otherwise}".strip(),
        ) from error


def precompiled(
    calls: Sequence[ToolkitCall],
    environment: ToolkitEnvironment,
    reporter: Reporter | None = None,
) -> bytes:
    """The model that a toolkit builds precompiled.

    Args:
        calls: of a script, ``build`` or step 2 with ``pre_compile`` the last of them.
        environment: with the toolkit of generation 1.
        reporter: told what it prints, asked whether to stop.

    Raises:
        CompilerError: a call failed, or what came out is not precompiled.
    """
    with one_run(environment, reporter, reads=_named_files(calls)) as rknn:
        for call in calls:
            rknn.do(call.method, **call.keywords)
        target = rknn.toolkit.work / "precompiled.rknn"
        rknn.do("export_rknn", str(target))
        return _content(target, rknn)


class BoardConversion:
    """A toolkit with a board that makes a precompiled model of one that was built before.

    Args:
        model: a model of generation 1.
        target, device_id: as of ``init_runtime``; the toolkit finds the board by itself.
        environment: with the toolkit of generation 1.
        reporter: told what it prints, asked whether to stop.

    Raises:
        UsageError: the model is of another kind, or precompiled already.
        CompilerError: the toolkit does not reach the board, or the board refuses.
    """

    def __init__(
        self,
        model: Path,
        target: str,
        device_id: str | None,
        environment: ToolkitEnvironment,
        reporter: Reporter | None = None,
    ) -> None:
        facts = inspect_vendor(model)
        if facts.generation != 1 or facts.kind not in ("layers", "layers-bare"):
            raise UsageError(
                f"{sanitize(model.name, 200)} is {facts.form}; it cannot be precompiled.",
                cause="A board precompiles models that the toolkit of generation 1 built for it.",
                remedy="Load such a model with load_rknn.",
            )
        with ExitStack() as held:
            self._rknn = held.enter_context(one_run(environment, reporter, board=True))
            copied = self._rknn.toolkit.work / "model.rknn"
            shutil.copyfile(model, copied)
            self._rknn.do("load_rknn", path=str(copied))
            keywords: dict[str, Any] = {"target": target, "rknn2precompile": True}
            if device_id is not None:
                keywords["device_id"] = device_id
            self._rknn.do("init_runtime", **keywords)
            self._held = held.pop_all()

    def export(self, output: Path) -> int:
        """Write the precompiled model; it overwrites. Its size in bytes.

        Raises:
            CompilerError: the board or the toolkit failed.
            OutputError: it cannot be written.
        """
        target = self._rknn.toolkit.work / "precompiled.rknn"
        self._rknn.do("export_rknn_precompile_model", str(target))
        _content(target, self._rknn)
        return atomic_copy(target, output, overwrite=True)

    def close(self) -> None:
        """Let the board and the toolkit go."""
        self._held.close()


def _named_files(calls: Sequence[ToolkitCall]) -> list[Path]:
    """The files that calls name, and those that a dataset lists."""
    paths = []
    for call in calls:
        texts = [Path(one) for one in call.keywords.values() if isinstance(one, str) and "/" in one]
        paths += [path for path in texts if path.exists()]
        dataset = call.keywords.get("dataset")
        if isinstance(dataset, str):
            with contextlib.suppress(OSError, UnicodeDecodeError):
                paths += map(Path, Path(dataset).read_text("utf-8").split())
    return paths


def _content(path: Path, rknn: RemoteRKNN) -> bytes:
    """What was made, looked at.

    Raises:
        CompilerError: it is missing, or not precompiled.
    """
    kind: str = "nothing"
    try:
        if path.is_file():
            kind = inspect_vendor(path).kind
    except ContainerError as error:
        kind = error.what
    if kind not in _PRECOMPILED or path.stat().st_size > _SIZE_LIMIT:
        raise CompilerError(
            f"{rknn.toolkit.words} said that it precompiled the model, and did not.",
            cause=f"What it wrote is no precompiled model ({sanitize(kind, 200)}).",
            remedy="The compiler (gcc) that the toolkit calls may be missing: see its log, "
            f"{rknn.toolkit.log}.",
        )
    return path.read_bytes()
