"""Parts: the numbers of the whole, and only what a change reaches is computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from engine.graph.execute import Session
from engine.hybrid import noise_terms, parts, sensitivity
from engine.hybrid.sensitivity import QuantizerToggles
from tests.hybrid.nets import built_chain


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What every part gives that ran, in order; small graphs are cut too."""
    ran: list[object] = []
    plain = parts.Parts._run

    def run(self: parts.Parts, part: Any, values: Any) -> Any:
        ran.append(part.outputs)
        return plain(self, part, values)

    monkeypatch.setattr(parts.Parts, "_run", run)
    monkeypatch.setattr(sensitivity, "_LARGE", 0)
    monkeypatch.setattr(sensitivity, "_SWITCHES", 2)
    return ran


def test_all_off_in_parts_is_the_float_graph(counted: list[object]) -> None:
    layers, built, feeds = built_chain()
    toggles = QuantizerToggles(layers, built)
    (name,) = toggles.outputs
    found = toggles.run(feeds[0])[name]
    assert len(counted) > 3
    expected = Session(layers.graph).run(feeds[0])[name]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_terms_are_those_of_the_whole_graph(
    counted: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    layers, built, feeds = built_chain()
    cut = noise_terms(layers, built, feeds[:2])
    monkeypatch.setattr(sensitivity, "_LARGE", 1 << 60)
    whole = noise_terms(layers, built, feeds[:2])
    assert [(t.tensor, t.weights, t.needs) for t in cut] == [
        (t.tensor, t.weights, t.needs) for t in whole
    ]
    for one, other in zip(cut, whole, strict=True):
        # a value on a tie may fall to the other side where kernels differ in the last bit
        np.testing.assert_allclose(one.noise, other.noise, rtol=0.02, atol=1e-12)


def test_a_late_rounding_runs_nothing_before_it(counted: list[object]) -> None:
    layers, built, feeds = built_chain()
    toggles = QuantizerToggles(layers, built)
    before = toggles.values(feeds[0])
    every, counted[:] = list(counted), []
    (name,) = toggles.outputs
    found = toggles.again(before, _of(toggles, name))[name]
    assert counted == every[-1:]
    counted.clear()
    toggles.again(before, _of(toggles, "image"))
    assert counted == every
    np.testing.assert_array_equal(found, toggles.run(feeds[0], _of(toggles, name))[name])


def test_what_changes_nothing_ends_there(counted: list[object]) -> None:
    layers, built, feeds = built_chain()
    toggles = QuantizerToggles(layers, built)
    zeros = {name: np.zeros_like(array) for name, array in feeds[0].items()}
    before = toggles.values(zeros)
    every, counted[:] = list(counted), []
    toggles.again(before, _of(toggles, "image"))  # 0 is exact
    assert len(counted) < len(every)


def _of(toggles: QuantizerToggles, tensor: str) -> Sequence[sensitivity.QuantizerToggle]:
    return [s for s in toggles.toggles if s.tensor == tensor and not s.weights]
