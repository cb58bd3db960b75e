"""Whether the vendor's own package is installed under the same name: then ours is refused."""

from __future__ import annotations

import os
from collections.abc import Sequence

from engine.base.process import SCRIPT
from engine.base.version import version_of

__all__ = ["OF_LITE", "OF_TOOLKIT", "refuse_beside_vendor"]

OF_TOOLKIT = ("rknn-toolkit2", "rknn-toolkit")
"""The vendor's distributions with a package ``rknn``."""
OF_LITE = ("rknn-toolkit-lite2", "rknn-toolkit-lite")
"""The vendor's distributions with a package ``rknnlite``."""


def refuse_beside_vendor(package: str, distributions: Sequence[str]) -> None:
    """Refuse to stand in for a package that is there.

    Two distributions with one package overwrite each other's files, and the one that is imported is
    the one that was installed last. Under ``rknntui script`` the user has chosen ours.

    Raises:
        ImportError: a distribution of the vendor is installed; names it, and what to do.
    """
    if os.environ.get(SCRIPT):
        return
    for name in distributions:
        if (installed := version_of(name)) is None:
            continue
        raise ImportError(
            f"{package} is the package of rknntui-rknn-api, and the vendor's {name} {installed} is "
            "installed here too. Their files have the same names. To run a script with rknntui: "
            "pip uninstall rknntui-rknn-api, then rknntui script FILE.py. To use the vendor's: "
            f"pip uninstall rknntui-rknn-api, then install {name} again."
        )
