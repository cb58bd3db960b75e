"""Compiled models of generation 2 encrypted by the vendor's toolkit [RKNN-T2 2.3.0, 2.15].

The toolkit encrypts any file that it is given, takes another level than 1 to 3 as 1, and encrypts
what is encrypted once more (seen with 2.3.2): all of that is checked here first.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from engine.base.errors import CompilerError, ContainerError, UsageError
from engine.base.events import Reporter
from engine.base.text import sanitize
from engine.container.vendor import inspect_vendor
from engine.toolkit.environments import find
from engine.toolkit.one_run import one_run
from engine.wire.vendor import ToolkitEnvironment

_NOT_THERE = ("rv1103", "rv1103b", "rv1106", "rv1106b", "rk2118")
"""Chips whose runtime opens no encrypted model."""
_SECONDS = 600.0


def encrypt_compiled(
    path: Path,
    output: Path,
    level: int,
    *,
    environment: ToolkitEnvironment | None = None,
    toolkit: str | None = None,
    overwrite: bool = False,
    reporter: Reporter | None = None,
) -> tuple[int, str]:
    """Have a compiled model encrypted.

    Args:
        path: of the model.
        output: the file to make.
        level: 1 to 3.
        environment: of the toolkit; None: found by ``toolkit``.
        toolkit: name of the environment; None: the default of generation 2.
        overwrite: whether ``output`` may be there.
        reporter: told what the toolkit prints, asked whether to stop.

    Returns:
        The size of ``output`` in bytes, and the toolkit that made it.

    Raises:
        UsageError: the model is encrypted, or for a chip that has no encrypted models.
        ToolkitError: there is no toolkit of generation 2.
        CompilerError: it failed.
        OutputError: the file cannot be written.
    """
    require_fit(path)
    with one_run(environment or find(2, toolkit), reporter) as run:
        plain, encrypted = run.toolkit.work / "model.rknn", run.toolkit.work / "model.crypt.rknn"
        shutil.copyfile(path, plain)
        run.do("export_encrypted_rknn_model", str(plain), str(encrypted), level, seconds=_SECONDS)
        obtained = _level(encrypted)
        if obtained != level:
            raise CompilerError(
                "The vendor's toolkit said that it encrypted the model, and did not.",
                cause="What it wrote is missing, or "
                + ("no encrypted model." if obtained is None else f"of level {obtained}."),
                remedy="Check the toolkit with `rknntui vendor check`.",
            )
        return run.keep(encrypted, output, overwrite=overwrite), run.name


def _level(path: Path) -> int | None:
    try:
        return inspect_vendor(path).encryption_level
    except ContainerError:
        return None


def require_fit(path: Path) -> None:
    """Refuse what the vendor's runtime would never open.

    Raises:
        UsageError: it says why.
        ContainerError: it cannot be read.
    """
    name, model = sanitize(path.name, 200), inspect_vendor(path)
    if model.encryption_level is not None:
        raise UsageError(
            f"{name} is encrypted already (level {model.encryption_level}).",
            remedy="Encrypt the model that it was made from.",
        )
    if model.generation != 2 or model.kind == "op-package":
        raise UsageError(
            f"{name} is {model.form}, and no compiled model of generation 2.",
            cause="The runtimes of the other generations open no encrypted models.",
            remedy="Compile the model for a chip of generation 2.",
        )
    without = [chip for chip in model.chips if chip in _NOT_THERE]
    if without:
        raise UsageError(
            f"{name} is for {', '.join(without)}, whose runtime opens no encrypted models.",
            cause="The vendor's manual names RV1103, RV1103B, RV1106, RV1106B and RK2118.",
            remedy="Keep the model as it is on such a board.",
        )
