"""What the user gives: sizes of inputs, with or without the batch, and predefined constants."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from engine.base.errors import SourceModelError
from engine.base.findings import Finding
from engine.base.text import sanitize, shape_text
from engine.graph.ir.arrays import read_npz

NHWC_FROM_NCHW = (0, 2, 3, 1)
_MAX_ELEMENTS = 1 << 28

Open = Sequence[int | None]


def fixed_shape(
    tensor: str,
    known: Open | None,
    given: Sequence[int] | None,
    *,
    nchw: bool,
    findings: list[Finding],
) -> tuple[int, ...]:
    """The sizes of an input, as the graph has them (NHWC).

    Sizes may lack the batch, which then is the graph's, or 1. Where the graph tells no rank, sizes
    of four axes and such that start with 1 are taken as complete. With ``nchw`` four sizes are
    NCHW; where only NHWC fits what the graph tells, they are NHWC.

    Args:
        known: sizes that the graph tells, None for open ones and for an unknown rank.
        findings: told of a batch that was set to 1.

    Raises:
        SourceModelError: they do not fit, are absurd, or missing.
    """
    if given is None:
        sizes = _without_sizes(tensor, known, findings)
    else:
        sizes = _with_batch(tensor, known, list(given))
        if nchw and len(sizes) == 4:
            turned = [sizes[axis] for axis in NHWC_FROM_NCHW]
            sizes = turned if _fits(known, turned) or not _fits(known, sizes) else sizes
    if any(size < 1 for size in sizes) or math.prod(sizes) > _MAX_ELEMENTS:
        raise SourceModelError(
            f"Input {sanitize(tensor)!r} would have the size {shape_text(sizes)}.",
            remedy=f"Give sizes of at least 1 and at most {_MAX_ELEMENTS} elements.",
        )
    return tuple(sizes)


def _with_batch(tensor: str, known: Open | None, size: list[int]) -> list[int]:
    if known is None:
        complete = len(size) >= 4 or (len(size) > 1 and size[0] == 1)
        return size if complete else [1, *size]
    if len(size) == len(known):
        return size
    if len(size) + 1 == len(known):
        return [known[0] or 1, *size]
    raise SourceModelError(
        f"'input_size_list' gives {shape_text(size)} for {sanitize(tensor)!r}, which has "
        f"{len(known)} axes ({_shown(known)}).",
        remedy="Give a size for each axis, or for each but the batch.",
    )


def _fits(known: Open | None, sizes: Sequence[int]) -> bool:
    return known is None or all(k is None or k == s for k, s in zip(known, sizes, strict=True))


def _without_sizes(tensor: str, known: Open | None, findings: list[Finding]) -> list[int]:
    if known is None or any(size is None for size in known[1:]):
        shape = "no shape at all" if known is None else _shown(known)
        raise SourceModelError(
            f"The size of input {sanitize(tensor)!r} is open ({shape}).",
            cause="An NPU needs fixed sizes, and only the batch has an obvious one.",
            remedy="Give the sizes, for example input_size_list: [[1, 224, 224, 3]].",
        )
    if not known or known[0] is not None:
        return [size or 0 for size in known]
    findings.append(
        Finding(
            code="dynamic-batch-fixed",
            severity="info",
            where=sanitize(tensor),
            what=f"The first axis of input {sanitize(tensor)!r} is dynamic ({_shown(known)}); it "
            "was set to 1.",
            cause="The model was frozen with an open batch; an NPU needs fixed sizes.",
            remedy="Give 'input_size_list' for another batch.",
        )
    )
    return [1, *(size or 0 for size in known[1:])]


def _shown(known: Open) -> str:
    return shape_text(-1 if size is None else size for size in known)


# ---------------------------------------------------------------------------- predefined constants


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
        arrays = read_npz(path, None, _MAX_BYTES)
    except OSError as error:
        raise SourceModelError(
            f"{sanitize(str(path))}, the predefined file, could not be read: "
            f"{error.strerror or error}.",
            remedy="Check the path.",
        ) from error
    except ValueError as error:
        raise _refusal(path, sanitize(str(error), 200)) from error
    if len(arrays) > _MAX_ARRAYS:
        raise _refusal(path, f"it holds more than {_MAX_ARRAYS} arrays")
    return {name.replace("#", "/"): array for name, array in arrays.items()}


def _refusal(path: Path, why: str) -> SourceModelError:
    return SourceModelError(
        f"{sanitize(str(path))} is not a file of predefined constants: {why}.",
        remedy="Write it with np.savez('prd.npz', **{'name#of#placeholder': value}).",
    )
