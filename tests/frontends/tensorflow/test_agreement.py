"""How far a quantized TensorFlow graph may be: an error figure of :mod:`engine.graph.metrics`."""

from __future__ import annotations

import numpy as np
import pytest

from engine.base.errors import SourceModelError
from engine.frontends.tensorflow.load import FAKE_QUANT_SHARE, _difference


def test_the_error_of_a_quantized_output_is_measured_as_everywhere() -> None:
    wanted = np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)
    found = wanted * np.float32(1 + FAKE_QUANT_SHARE / 2)
    share = _difference("o", wanted, found, quantized=True)
    assert share == pytest.approx(FAKE_QUANT_SHARE / 2, rel=1e-4)
    for far in (wanted * 1.1, np.full_like(wanted, np.nan)):
        with pytest.raises(SourceModelError, match="of its energy"):
            _difference("o", wanted, far.astype(np.float32), quantized=True)
