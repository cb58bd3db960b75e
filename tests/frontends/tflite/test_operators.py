"""Every operator against TFLite's own interpreter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.frontends.tflite.op_cases import CASES
from tests.frontends.tflite.quant_cases import CASES as QUANTIZED
from tests.frontends.tflite.recurrent_cases import CASES as RECURRENT
from tests.frontends.tflite.tflite_models import Case, largest_difference


def _spread(cases: Sequence[Case], count: int) -> list[Any]:
    """The first ``count`` cases of every operator; the others run with the long tests."""
    seen: Counter[str] = Counter()
    params = []
    for case in cases:
        seen[case.op] += 1
        marks = pytest.mark.long if seen[case.op] > count else ()
        params.append(pytest.param(case, id=case.id, marks=marks))
    return params


@pytest.mark.parametrize("case", _spread(CASES, 3))
def test_an_operator_gives_what_tflite_gives(case: Case, tmp_path: Path) -> None:
    assert largest_difference(case, tmp_path) <= case.tolerance


@pytest.mark.parametrize("case", _spread(QUANTIZED, 2))
def test_a_quantized_operator_is_within_the_stated_steps(case: Case, tmp_path: Path) -> None:
    assert largest_difference(case, tmp_path) <= case.tolerance


@pytest.mark.parametrize("case", RECURRENT, ids=lambda case: case.id)
def test_a_recurrent_layer_gives_what_tflite_gives(case: Case, tmp_path: Path) -> None:
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
