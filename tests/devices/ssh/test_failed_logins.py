"""A login that fails, by a real sshd: every verb says so first, and ends with its own exit code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from engine.api import RKNN
from engine.devices.doctor.examine import examine_board
from engine.wire.devices import ExamineParams
from tests.devices.ssh.server import Sshd
from tests.devices.ssh.test_doctor import FAILED, changed
from tests.devices.verbs import run

pytestmark = pytest.mark.sshd


def address_of(sshd: Sshd) -> str:
    return f"ssh:127.0.0.1:{sshd.port}"


def test_the_login_is_told_of_before_the_model(sshd: Sshd, model: Path) -> None:
    changed(sshd)
    asked = ExamineParams(address_of(sshd), str(model), test=True)
    found = tuple(examine_board(asked))
    assert [check.name for check in found[:2]] == ["transport", "model"]
    assert found[0].found.startswith("WARNING")
    assert "somebody stands between" in found[0].remedy


@pytest.mark.parametrize(("spoil", "said"), FAILED)
def test_the_vendors_class_says_it(
    sshd: Sshd,
    model: Path,
    spoil: Callable[[Sshd], None],
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    spoil(sshd)
    rknn = RKNN()
    assert rknn.load_rknn(str(model)) == 0
    assert rknn.init_runtime(target="rk3588", device_id=address_of(sshd)) == -1
    shown = capsys.readouterr()
    assert said in (shown.out + shown.err).strip().splitlines()[-3]


@pytest.mark.long
@pytest.mark.parametrize(("spoil", "said"), FAILED)
def test_every_verb_says_it_first(
    sshd: Sshd, model: Path, tmp_path: Path, spoil: Callable[[Sshd], None], said: str
) -> None:
    spoil(sshd)
    address = address_of(sshd)
    picture = tmp_path / "picture.npy"
    np.save(picture, np.zeros((1, 4, 4, 3), np.uint8))
    here = ("--device", address)
    verbs = {
        ("doctor", *here, "--model", str(model)): 1,
        ("run", str(model), *here, "-i", str(picture)): 13,
        ("perf", str(model), *here, "--loops", "2"): 13,
        ("memory", str(model), *here): 13,
        ("monitor", *here, "--seconds", "1"): 13,
        ("devices", "list", "--ssh", address.removeprefix("ssh:")): 13,
    }
    for words, code in verbs.items():
        done = run(*words)
        assert done.returncode == code, (words, done.stdout + done.stderr)
        lines = [x for x in (done.stdout + done.stderr).splitlines() if not x.startswith("[")]
        if words[0] == "devices":
            lines = lines[1 + lines.index(next(x for x in lines if x.startswith("ssh:"))) :]
        assert said in lines[0], words
        assert "measured" not in lines[0]
        if spoil is changed:
            assert "somebody stands between" in done.stdout + done.stderr, words
            assert "ssh-keygen -R" in done.stdout + done.stderr, words
