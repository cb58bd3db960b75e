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

from engine.base.paths import cache_folder
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


@pytest.mark.long
def test_there_and_back(
    warm: Run, model: Path, key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = warm("encrypt", model, "--key-file", key, "--json", exit=0)
    assert made.json["path"] == str(tmp_path / "net.crypt.rknn")
    assert (made.json["level"], made.json["ours"]) == (1, True)
    warm("encrypt", model, "--key-file", key, exit=11)  # it is there already

    secret = tmp_path / "net.crypt.rknn"
    warm("inspect", secret, "--key-file", key, says="RKNN TUI container, encrypted (level 1)")
    warm("decrypt", secret, "-o", "back.rknn", "--key-file", key, exit=0)
    assert (tmp_path / "back.rknn").read_bytes() == DATA

    key.write_text("Correct horse")
    wrong = warm("decrypt", secret, "--key-file", key, "--force", "--json")
    assert (wrong.code, wrong.json["error"]["kind"]) == (9, "wrong key")
    assert model.read_bytes() == DATA
    monkeypatch.setenv("RKNNTUI_KEY", "correct horse")
    warm("decrypt", secret, "--force", exit=0)


def test_a_short_key_and_what_stays_are_told(
    warm: Run, model: Path, key: Path, tmp_path: Path
) -> None:
    told = ("is short: 13 bytes", "openssl rand", "in plain form there is still:")
    made = warm("encrypt", model, "--key-file", key, exit=0, says=told)
    assert f"{model} (what was encrypted" in made.out
    for name, _ in content().provenance.source:
        assert f"{name} (its source model" in made.out
    assert model.exists()
    key.write_text("x" * 16)
    made = warm("encrypt", model, "--key-file", key, "--force")
    assert "is short" not in made.out


@pytest.mark.long
def test_wipe_removes_what_this_program_wrote(
    rknntui: Run, model: Path, key: Path, tmp_path: Path
) -> None:
    kept = cache_folder() / "stages" / "load-0123"
    other = cache_folder() / "compiled-builds" / "build-0123"
    for folder in (kept, other):
        folder.mkdir(parents=True)
        (folder / "graph.onnx").write_bytes(b"weights")
    source = tmp_path / "net.onnx"
    source.write_bytes(b"the user's own")
    made = rknntui("encrypt", model, "--key-file", key, "--wipe", "--json", exit=0)
    assert {each["what"] for each in made.json["wiped"]} == {"model", "cache"}
    assert {each["what"] for each in made.json["stays"]} <= {"source", "dataset"}
    assert not model.exists()
    assert not kept.exists()
    assert not other.exists()
    assert source.exists()
    rknntui("decrypt", tmp_path / "net.crypt.rknn", "--key-file", key, exit=0)
    assert model.read_bytes() == DATA


def test_nothing_is_wiped_where_the_encrypted_file_is_another(
    model: Path, key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from engine.base.errors import ContainerError
    from engine.container.keys import key_of_file
    from engine.export import encryption
    from engine.export.encryption import encrypt_model

    def changed(path: Path, encrypted: Path, *, ours: bool) -> object:
        model.write_bytes(DATA[:-1] + b"?")  # another program, between the two
        return copies(path, encrypted, ours=ours)

    copies = encryption.plain_copies
    monkeypatch.setattr(encryption, "plain_copies", changed)
    with pytest.raises(ContainerError, match="does not hold"):
        encrypt_model(model, key=key_of_file(key), wipe_plain=True)
    assert model.exists()


def test_without_a_key(warm: Run, model: Path, key: Path, tmp_path: Path) -> None:
    warm("encrypt", model, exit=2, says="--key-file")
    assert not (tmp_path / "net.crypt.rknn").exists()


def test_inspect_without_its_key(
    warm: Run, model: Path, key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from engine.container.encryption import encrypt_file
    from engine.container.keys import key_of_file

    secret = tmp_path / "s.rknn"
    encrypt_file(model, secret, key_of_file(key))
    for verb in (("inspect", secret), ("simulate", secret, "-i", "x.npy"), ("decrypt", secret)):
        none = warm(*verb, "--json")
        assert (none.code, none.json["error"]["kind"]) == (9, "key needed")
        assert "RKNNTUI_KEY_FILE" in none.json["error"]["remedy"]
    monkeypatch.setenv("RKNNTUI_KEY_FILE", str(key))
    warm("inspect", secret, exit=0)


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
