"""Every operator against TFLite's own interpreter."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.frontends.tflite.ops import FOLDS
from tests.frontends.tflite.op_cases import CASES
from tests.frontends.tflite.quant_cases import CASES as QUANTIZED
from tests.frontends.tflite.recurrent_cases import CASES as RECURRENT
from tests.frontends.tflite.tflite_models import (
    Case,
    difference,
    feeds_for,
    interpret,
    largest_difference,
    load_bytes,
    spread,
    write_case,
)


@pytest.mark.parametrize(
    "case", [*spread(CASES, 3), *spread(QUANTIZED, 2), *spread(RECURRENT, len(RECURRENT))]
)
def test_an_operator_gives_what_tflite_gives(case: Case, tmp_path: Path) -> None:
    """Of a quantized one within the steps that its case states."""
    assert largest_difference(case, tmp_path) <= case.tolerance


_CHEAP = frozenset({"ADD", "CONCATENATION", "PAD", "PRELU", "SLICE", "SOFTMAX"})


def _four() -> list[Any]:
    """Cases with inputs of four dimensions; most of them run with the long tests."""
    return [
        pytest.param(case, id=case.id, marks=() if case.op in _CHEAP else pytest.mark.long)
        for case in (*CASES, *QUANTIZED)
        if any(
            given is not None
            and len(given.shape) == 4
            and given.data is None
            and given.dtype in ("float32", "int8", "uint8")
            for given in case.inputs
        )
    ]


@pytest.mark.parametrize("case", _four())
def test_an_operator_gives_the_same_with_channels_first(case: Case, tmp_path: Path) -> None:
    assert largest_difference(case, tmp_path, windows=True) <= case.tolerance


def _constant(case: Case) -> Case:
    """The same case with constants in place of what is fed."""
    feeds = feeds_for(case)
    inputs = [
        given
        if given is None or given.data is not None
        else dataclasses.replace(given, data=feeds[f"x{position}"])
        for position, given in enumerate(case.inputs)
    ]
    return dataclasses.replace(case, inputs=inputs)


def _foldable(case: Case) -> bool:
    kept = {"fusedActivationFunction", "batchDims"}  # with these the operator stays
    return case.op in FOLDS and not kept & set(case.options)


_FOLDED = [case for case in CASES if _foldable(case)]


@pytest.mark.parametrize("case", spread(_FOLDED, 1))
def test_constants_are_computed_as_tflite_does(case: Case, tmp_path: Path) -> None:
    """The operator leaves no node, and what it gives is TFLite's."""
    case = _constant(case)
    shapes = [array.shape for array in interpret(write_case(case), {}, plain=True)]
    data = write_case(case, shapes, companion=True)
    feeds = {"other": np.ones((1, 2), np.float32)}
    loaded = load_bytes(data, tmp_path)
    assert {node.op_type for node in loaded.graph.nodes} == {"Identity", "Exp"}
    assert difference(loaded, data, feeds) <= case.tolerance
