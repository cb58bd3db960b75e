"""The file of predefined constants: an npz, name -> value, read without unpickling anything."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from engine.base.errors import SourceModelError
from engine.base.text import sanitize
from engine.graph.ir.arrays import read_npz

__all__ = ["read_predef"]

_MAX_ARRAYS = 1000
_MAX_BYTES = 64 << 20


def read_predef(path: Path) -> dict[str, np.ndarray]:
    """Constants by the name of the placeholder that each takes the place of.

    The manual of toolkit 1 has them written by ``np.savez('prd.npz', **{name: value})``, with ``#``
    for every ``/`` of a name.

    Raises:
        SourceModelError: missing, no npz, one that holds Python objects, or more than 64 MiB.
    """
    try:
        found = read_npz(path, None, _MAX_BYTES)
    except OSError as error:
        raise SourceModelError(
            f"{sanitize(str(path))}, the predefined file, could not be read: "
            f"{error.strerror or error}.",
            remedy="Check the path.",
        ) from error
    except ValueError as error:
        raise _refusal(path, sanitize(str(error), 200)) from error
    if len(found) > _MAX_ARRAYS:
        raise _refusal(path, f"it holds more than {_MAX_ARRAYS} arrays")
    return {name.replace("#", "/"): array for name, array in found.items()}


def _refusal(path: Path, why: str) -> SourceModelError:
    return SourceModelError(
        f"{sanitize(str(path))} is not a file of predefined constants: {why}.",
        remedy="Write it with np.savez('prd.npz', **{'name#of#placeholder': value}).",
    )
