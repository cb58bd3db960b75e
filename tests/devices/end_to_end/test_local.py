"""The class ``RKNN`` where the program runs on the board itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pytest

from engine.api import RKNN
from engine.api.lite import RKNNLite
from engine.devices.transports import local
from tests.devices.end_to_end.conftest import Stand
from tests.devices.end_to_end.test_api import check_calls, check_outputs

pytestmark = [pytest.mark.long, pytest.mark.cc]


@pytest.fixture(params=["rk3588", "rk1808"])
def here(
    request: pytest.FixtureRequest,
    equipped: Callable[[str], Stand],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Stand]:
    """This machine with the files and programs of a board."""
    stand = equipped(request.param)
    variables = stand.board._sandbox.environment()
    there = partial(local.LocalTransport, stand.board.root, variables)
    monkeypatch.setattr(local, "LocalTransport", there)
    yield stand
    assert stand.left() == []


def test_every_call(here: Stand, digit: np.ndarray, capfd: pytest.CaptureFixture[str]) -> None:
    rknn = RKNN(generation=here.generation)
    check_calls(rknn, here, "local", digit, capfd)
    rknn.release()


def test_rknnlite_needs_no_target(here: Stand, digit: np.ndarray) -> None:
    """The calls of the vendor's examples of RKNN-Toolkit-Lite2, on the board itself."""
    lite = RKNNLite()
    assert lite.load_rknn(str(here.container)) == 0
    cores = {"core_mask": RKNNLite.NPU_CORE_0} if here.chip == "rk3588" else {}
    assert lite.init_runtime(**cores) == 0
    check_outputs(lite.inference(inputs=[digit]), here, digit)
    assert "emulated" in str(lite.get_sdk_version())
    lite.release()
