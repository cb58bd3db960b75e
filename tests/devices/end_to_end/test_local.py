"""The class ``RKNN`` where the program runs on the board itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from engine.api import RKNN
from engine.api.lite import RKNNLite
from engine.devices.transports import local
from tests.devices.end_to_end.conftest import Stand

pytestmark = [pytest.mark.long, pytest.mark.cc]


@pytest.mark.parametrize("kind", ["rk3588", "rk1808"])
def test_every_call(
    kind: str, equipped: Callable[[str], Stand], digit: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand = equipped(kind)
    here = stand.board.root  # this machine with the files and programs of the board
    there = partial(local.LocalTransport, here, stand.board._sandbox.environment())
    monkeypatch.setattr(local, "LocalTransport", there)
    rknn = RKNN(generation=stand.generation)
    assert rknn.load_rknn(str(stand.container)) == 0
    asked = {"target": stand.chip, "device_id": "local"}
    assert rknn.init_runtime(**asked, perf_debug=True, eval_mem=True) == 0
    outputs = rknn.inference(inputs=[digit])
    assert outputs is not None
    for found, values in zip(outputs, stand.expected(digit).values(), strict=True):
        np.testing.assert_array_equal(found, values)
    assert rknn.eval_perf(is_print=False) != -1
    assert (rknn.eval_memory(is_print=False) == -1) == (stand.generation == 1)
    assert "emulated" in str(rknn.get_sdk_version())
    rknn.release()
    assert stand.left() == []


@pytest.mark.parametrize("kind", ["rk3588", "rk1808"])
def test_rknnlite_needs_no_target(
    kind: str, equipped: Callable[[str], Stand], digit: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The calls of the vendor's examples of RKNN-Toolkit-Lite2, on the board itself."""
    stand = equipped(kind)
    here = partial(local.LocalTransport, stand.board.root, stand.board._sandbox.environment())
    monkeypatch.setattr(local, "LocalTransport", here)
    lite = RKNNLite()
    assert lite.load_rknn(str(stand.container)) == 0
    cores = {"core_mask": RKNNLite.NPU_CORE_0} if kind == "rk3588" else {}
    assert lite.init_runtime(**cores) == 0
    outputs = lite.inference(inputs=[digit])
    assert outputs is not None
    for found, values in zip(outputs, stand.expected(digit).values(), strict=True):
        np.testing.assert_array_equal(found, values)
    assert "emulated" in str(lite.get_sdk_version())
    lite.release()
    assert stand.left() == []
