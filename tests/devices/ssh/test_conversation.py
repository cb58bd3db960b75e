"""What a talk over an exec channel of a real sshd has alone; the rest: test_conversations.py."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from engine.base.errors import DeviceLostError
from engine.base.peers.near import PeerEndedError
from engine.devices.transports.ssh import SshTransport
from tests.devices.ssh.server import Sshd
from tests.devices.waiting import alive, ended, until
from tests.devices.ways import hanging, start_toy
from tests.safety import PATIENCE, ends

pytestmark = pytest.mark.sshd


def test_a_program_that_hears_no_end_is_killed(
    board: SshTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.devices.transports.ssh.conversation._GOODBYE_SECONDS", 0.3)
    conversation = board.converse(["sleep", str(4 * PATIENCE)])
    pid = conversation._program.pid
    assert alive(pid)
    conversation.end()
    until(partial(ended, pid), "it is gone")


def test_a_program_that_still_writes_is_let_go_without_a_word(
    board: SshTransport, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("engine.devices.transports.ssh.conversation._GOODBYE_SECONDS", 0.3)
    conversation = board.converse(["cat", "/dev/zero"])
    waiting = conversation._program.process.channel._recv_buf
    until(lambda: len(waiting) > 20, "its output waits for a reader")
    conversation.end()
    assert caplog.records == []


@pytest.mark.long
def test_a_silent_link_ends_the_talk(
    board: SshTransport, sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.devices.transports.ssh.login.KEEPALIVE_SECONDS", 0.5)
    there = tmp_path / "board"
    there.mkdir()
    conversation = start_toy(board, str(there), tmp_path)
    call = hanging(conversation)
    sshd.freeze()
    with ends(), pytest.raises(PeerEndedError):
        conversation.peer.wait(call)
    assert isinstance(conversation.lost(), DeviceLostError)
