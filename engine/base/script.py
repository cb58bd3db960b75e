"""The environment of a script of the vendor's toolkit that this program runs.

``engine/api/drop_in`` holds packages with the vendor's names, ``rknn`` and ``rknnlite``; they are
found only where that folder is on the path. Standard library only.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from engine.base.process import is_site_folder

_ROOT = Path(__file__).resolve().parents[2]
DROP_IN = _ROOT / "engine" / "api" / "drop_in"
"""The folder that holds the packages ``rknn`` and ``rknnlite``."""
SCRIPT = "RKNNTUI_SCRIPT"
"""Environment variable: set where a user asked for these names, by ``rknntui script``."""
GENERATION = "RKNNTUI_GENERATION"
"""Environment variable: 1 or 2, whose rules hold for ``RKNN()`` of a script."""
COMPILER = "RKNNTUI_COMPILER"
"""Environment variable: ``rockchip`` where ``export_rknn`` is to write what an NPU runs."""


def script_environment(
    given: Mapping[str, str], *, generation: str | None = None, compiler: str | None = None
) -> dict[str, str]:
    """The variables of a process in which ``from rknn.api import RKNN`` gives ours.

    Args:
        given: the variables it starts from. Entries of ``PYTHONPATH`` stay, behind ours.
        generation: ``1`` or ``2``; None: the first ``config`` of the script decides.
        compiler: of ``export_rknn``; None: as ``given`` says.
    """
    environment = dict(given)
    paths = [str(DROP_IN), *filter(None, given.get("PYTHONPATH", "").split(os.pathsep))]
    if not is_site_folder(str(_ROOT)):
        paths.insert(1, str(_ROOT))
    environment["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
    environment[SCRIPT] = "1"
    said = {GENERATION: generation, COMPILER: compiler}
    return environment | {name: value for name, value in said.items() if value is not None}
