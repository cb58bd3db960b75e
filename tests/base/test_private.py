"""What this program keeps is this user's alone, and what a killed process left goes."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.base import leftovers
from engine.base.cache import StageCache
from engine.base.files import atomic_write
from engine.base.leftovers import clear_leftovers, make_owned, owned_folder
from engine.base.paths import (
    cache_folder,
    log_crash,
    private_file,
    private_folder,
    state_folder,
)
from engine.base.trust import trust_file
from engine.jobs.record import new_record

pytestmark = pytest.mark.usefixtures("own_home")


@pytest.fixture(params=[0o000, 0o022, 0o777], ids=["000", "022", "777"])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def modes(root: Path) -> dict[str, int]:
    """Path below ``root`` -> mode of what is not as it must be."""
    wrong = {}
    for path in (root, *root.rglob("*")):
        mode = stat.S_IMODE(path.lstat().st_mode)
        if mode != (0o700 if path.is_dir() else 0o600):
            wrong[str(path.relative_to(root.parent))] = mode
    return wrong


@pytest.mark.usefixtures("umask")
def test_state_and_cache_are_private_whatever_the_umask(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    code = private_folder(Path(tempfile.mkdtemp()) / "of-theirs") / "code.py"
    with private_file(code) as stream:
        stream.write(b"x = 1\n")
    trust_file(code)
    shutil.rmtree(code.parent.parent)
    recorder = new_record()
    recorder.start("hybrid.effect", "t", {})
    recorder.end("done", result={})
    log_crash(ValueError("x"))
    from rknntui.session import kept

    kept.save_state(kept.State(theme="dark"), pytest.fail)
    StageCache().put("load", "k", {"a": b"b"})
    assert (state_folder() / "confirmed-code.json").exists()
    assert (state_folder() / "interface.json").exists()
    assert modes(state_folder()) == {}
    assert stat.S_IMODE((cache_folder() / "stages").stat().st_mode) == 0o700
    assert stat.S_IMODE(cache_folder().stat().st_mode) == 0o700


def test_what_an_older_version_left_open_is_closed() -> None:
    state_folder().mkdir(parents=True, mode=0o755)
    (state_folder() / "jobs").mkdir(mode=0o755)
    private_folder(state_folder() / "jobs")
    assert modes(state_folder()) == {}


def test_a_folder_of_the_users_keeps_its_mode(tmp_path: Path) -> None:
    place = tmp_path / "theirs"
    place.mkdir(mode=0o755)
    private_folder(place / "ours")
    assert stat.S_IMODE(place.stat().st_mode) == 0o755
    assert stat.S_IMODE((place / "ours").stat().st_mode) == 0o700


def test_a_result_follows_the_umask(tmp_path: Path) -> None:
    atomic_write(tmp_path / "a", b"x")
    atomic_write(tmp_path / "b", b"x", private=True)
    assert stat.S_IMODE((tmp_path / "b").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) & 0o400


KILLED = """
import sys, time
from pathlib import Path
from engine.base.leftovers import make_owned
made = [make_owned("convert"), make_owned("jobs"), make_owned("x", Path(sys.argv[1]), "acc")]
for folder in made:
    (folder / "file").write_bytes(b"x")
print(*made, sep="\\n", flush=True)
time.sleep(600)
"""


def test_what_a_killed_process_left_goes_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    theirs = [temporary / "rknntui-convert-of-mine", temporary / "rknntui-x", tmp_path / ".a.part"]
    for folder in theirs:
        folder.mkdir()
        os.utime(folder, (0, 0))
    environment = {**os.environ, "TMPDIR": str(temporary)}
    words = [sys.executable, "-c", KILLED, str(tmp_path)]
    child = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment)
    assert child.stdout is not None
    made = [Path(child.stdout.readline().strip()) for _ in range(3)]
    assert made[2].parent == tmp_path
    assert made[2].name.startswith(".acc.")
    with owned_folder("sweep") as mine:
        assert clear_leftovers() == 0  # both processes live
        assert all((folder / "file").exists() for folder in made)
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert clear_leftovers() == 3
        assert mine.is_dir()
    assert not mine.exists()
    assert not any(folder.exists() for folder in made)
    assert all(folder.is_dir() for folder in theirs)
    assert not list((state_folder() / "leftovers").iterdir())


def test_a_folder_without_an_owner_goes_when_it_is_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    old, new, link = (
        tmp_path / f"rknntui-{n}" for n in ("jobs-aaaaaaaa", "jobs-bbbbbbbb", "jobs-cccccccc")
    )
    target = tmp_path / "target"
    for folder in (old, new, target):
        folder.mkdir()
    link.symlink_to(target)
    for path in (old, target):
        os.utime(path, (0, 0))
    assert clear_leftovers() == 1
    assert not old.exists()
    assert new.is_dir()
    assert target.is_dir()


def test_the_worker_clears_at_its_start(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    left = tmp_path / "rknntui-convert-abcdefgh"
    left.mkdir()
    (left / ".owner").touch()
    words = [sys.executable, "-P", "-m", "engine.services"]
    root = Path(leftovers.__file__).parents[2]
    subprocess.run(
        words, check=True, input=b"", env=environment | {"PYTHONPATH": str(root)}, timeout=60
    )
    assert not left.exists()


def test_a_snapshot_that_ends_leaves_no_note(tmp_path: Path) -> None:
    folder = make_owned("snapshot", tmp_path, "acc")
    assert len(list((state_folder() / "leftovers").iterdir())) == 1
    leftovers.let_go(folder)
    assert not list((state_folder() / "leftovers").iterdir())
    assert not folder.exists()
