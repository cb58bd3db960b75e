"""A model on a board behind a real OpenSSH server, with the real agent and a stand-in library."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.devices.board import layout
from engine.devices.board.runtime import BoardRuntime
from engine.devices.transports.ssh import SshTransport
from rknntui_emulator.runtime.build import build, compiler
from tests.container.vendor import build as vendor
from tests.devices.known_model import answers, check_results
from tests.safety import ends


@pytest.mark.cc
@pytest.mark.sshd
def test_a_model_runs(board: SshTransport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if compiler() is None:
        pytest.skip("there is no C compiler")
    place = tmp_path / "userdata"
    monkeypatch.setattr(layout, "_LINUX", (str(place),))
    model = tmp_path / "it's a $(touch x) model.rknn"
    model.write_bytes(vendor.npu())
    library = build("librknnrt.so", tmp_path / "library")
    answers().into(library.parent / "answers", model)
    with ends(), BoardRuntime(board, chip="rk3588") as runtime:
        runtime.open(model, library=str(library))
        check_results(runtime)
        assert "MemTotal" in str(runtime.read(["/proc/meminfo"])["/proc/meminfo"])
    assert sorted(path.name[:5] for path in place.iterdir()) == ["agent", "model"]
