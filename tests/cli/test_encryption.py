"""``rknntui encrypt`` and ``decrypt``, and verbs that open an encrypted container."""

from __future__ import annotations

import os
import pty
import select
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.container import write_container
from tests.cli.conftest import ROOT, Run
from tests.container.build import content

DATA = write_container(content())


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "net.rknn"
    path.write_bytes(DATA)
    return path


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "key.txt"
    path.write_text("correct horse\n")
    return path


@pytest.fixture(autouse=True)
def forgotten(warm: Run) -> Iterator[None]:
    """The worker holds no key of an earlier test, nor later ones a key of this."""
    import asyncio

    from engine.wire.encryption import ENCRYPTION_KEY, KeyParams
    from rknntui.cli import session

    async def forget() -> None:
        worker = await session.Worker.start()
        await worker.call(ENCRYPTION_KEY, KeyParams())

    asyncio.run(forget())
    yield
    asyncio.run(forget())


def test_there_and_back(
    warm: Run, model: Path, key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = warm("encrypt", model, "--key-file", key, "--json")
    assert made.code == 0, made.err
    assert made.json["path"] == str(tmp_path / "net.crypt.rknn")
    assert (made.json["level"], made.json["ours"]) == (1, True)
    assert warm("encrypt", model, "--key-file", key).code == 11  # it is there already

    secret = tmp_path / "net.crypt.rknn"
    text = warm("inspect", secret, "--key-file", key)
    assert "RKNN TUI container, encrypted (level 1)" in text.out
    back = warm("decrypt", secret, "-o", "back.rknn", "--key-file", key)
    assert back.code == 0, back.err
    assert (tmp_path / "back.rknn").read_bytes() == DATA

    key.write_text("Correct horse")
    wrong = warm("decrypt", secret, "--key-file", key, "--force", "--json")
    assert (wrong.code, wrong.json["error"]["kind"]) == (9, "wrong key")
    assert model.read_bytes() == DATA
    monkeypatch.setenv("RKNNTUI_KEY", "correct horse")
    assert warm("decrypt", secret, "--force").code == 0


def test_without_a_key(warm: Run, model: Path, key: Path, tmp_path: Path) -> None:
    none = warm("encrypt", model)
    assert none.code == 2
    assert "--key-file" in none.err
    assert not (tmp_path / "net.crypt.rknn").exists()


def test_inspect_without_its_key(
    warm: Run, model: Path, key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from engine.container.encrypted_files import encrypt_file
    from engine.container.keys import key_of_file

    secret = tmp_path / "s.rknn"
    encrypt_file(model, secret, key_of_file(key))
    for verb in (("inspect", secret), ("simulate", secret, "-i", "x.npy"), ("decrypt", secret)):
        none = warm(*verb, "--json")
        assert (none.code, none.json["error"]["kind"]) == (9, "key needed")
        assert "RKNNTUI_KEY_FILE" in none.json["error"]["remedy"]
    monkeypatch.setenv("RKNNTUI_KEY_FILE", str(key))
    assert warm("inspect", secret).code == 0


def typed(command: list[str], answers: list[str], folder: Path) -> tuple[int, str]:
    """Run a command at a terminal of its own; an answer is typed behind each colon."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.environ["PYTHONPATH"] = str(ROOT)
        os.execv(sys.executable, [sys.executable, "-P", "-m", "rknntui", *command])  # noqa: S606
    seen, waiting, until = "", list(answers), time.monotonic() + 120
    try:
        while time.monotonic() < until:
            if not select.select([terminal], [], [], 1)[0]:
                continue
            try:
                got = os.read(terminal, 4096)
            except OSError:  # the other end is closed
                break
            if not got:
                break
            seen += got.decode("utf-8", "replace")
            if waiting and seen.endswith(": "):
                os.write(terminal, waiting.pop(0).encode() + b"\n")
    finally:
        os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), seen


@pytest.mark.long
def test_the_key_is_typed_and_not_shown(model: Path, tmp_path: Path) -> None:
    word = "battery staple"
    code, seen = typed(["encrypt", "net.rknn", "-q"], [word, word], tmp_path)
    assert code == 0, seen
    assert "Key of net.rknn" in seen
    assert word not in seen
    code, seen = typed(["inspect", "net.crypt.rknn"], [word], tmp_path)
    assert code == 0, seen
    assert "encrypted (level 1)" in seen
    code, seen = typed(["inspect", "net.crypt.rknn"], ["wrong"], tmp_path)
    assert code == 9
    assert "does not open" in seen
    code, seen = typed(["decrypt", "net.crypt.rknn", "--force"], [""], tmp_path)
    assert code == 2
    assert "The key is empty." in seen
    history = Path(os.environ["XDG_STATE_HOME"])
    kept = [one for one in history.rglob("*") if one.is_file()]
    assert kept  # the job of encrypting is recorded, and what was typed is not
    assert not any(word.encode() in one.read_bytes() for one in kept)
