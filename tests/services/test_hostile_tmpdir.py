"""Another user of the machine makes the well-known names in TMPDIR before a sweep or a build."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from rknntui.demo import demo_recipe
from tests.safety import ran

ROOT = Path(__file__).parents[2]

# imported late by Dask or by this program, or as a plug-in
MODULES = ("psutil", "zict", "onnx", "onnxruntime", "PIL", "numpy", "lz4", "sitecustomize", "json")
FOLDERS = ("dask-scratch-space", f"dask-scratch-space-{os.getuid()}", "rknntui", "rknntui-sweep")
FOLDERS += ("rknntui-convert", "onnxruntime", "torchinductor_root", "tmp", "jax_cache")

PLANT = """
import os, sys
place, told, victim, modules, folders = sys.argv[1:]
for folder in folders.split(","):
    top = os.path.join(place, folder)
    os.mkdir(top)
    os.chmod(top, 0o777)
    for name in modules.split(","):
        with open(os.path.join(top, name + ".py"), "w") as stream:
            stream.write(f"open({told!r}, 'a').write(__name__ + chr(10))\\nraise ImportError\\n")
    for name in ("global.lock", "purge.lock"):
        os.symlink(victim, os.path.join(top, name))
"""

# what every Python process of ours opens and makes in TMPDIR, also those that it starts
WATCH = """
import os, sys
place, log = os.environ["WATCHED"] + "/", os.environ["WATCH_LOG"]
def hook(event, arguments):
    if event in ("open", "os.mkdir", "os.rename", "os.link", "os.symlink") and arguments:
        path = arguments[0]
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        if isinstance(path, str) and path.startswith(place):
            handle = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            os.write(handle, (path[len(place):].split("/")[0] + chr(10)).encode())
            os.close(handle)
sys.addaudithook(hook)
"""

SPY = """
import os, sys, time
place, public, known = sys.argv[1:]
known, tried, got = set(known.split(",")), set(), set()
print("ready", flush=True)
while not os.path.exists(os.path.join(public, "stop")):
    for name in set(os.listdir(place)) - known:
        path = os.path.join(place, name)
        tried.add(name)
        try:
            held = os.listdir(path) if os.path.isdir(path) else open(path, "rb").read(20)
            got.add(f"{path} {held}")
        except OSError:
            pass
    time.sleep(0.02)
print(" ".join(tried))
print(*sorted(got), sep=chr(10))
"""

SWEEP = """
import json, sys
from engine.base.events import NullReporter
from engine.services.sweep import sweep
if __name__ == "__main__":
    result = sweep(json.loads(sys.argv[1]), NullReporter())
    print(json.dumps([row["state"] for row in result["rows"]]))
"""


def python_of_all() -> str:
    """Debian's own Python where ours lies in a folder that others may not read."""
    return shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable


@dataclass(frozen=True)
class Trap:
    """A TMPDIR that a stranger was in first.

    Attributes:
        place: the TMPDIR, as /tmp: everybody may write, nobody may remove what is not theirs.
        told: what a module of the stranger writes to when it is imported.
        victim: a file of ours that links of the stranger lead to.
        names: first parts of the paths under ``place`` that our processes used.
    """

    place: Path
    told: Path
    victim: Path
    names: Path
    environment: dict[str, str]

    def check(self) -> None:
        """Nothing of the stranger was imported, followed or written to."""
        assert not self.told.exists(), self.told.read_text()
        assert self.victim.read_text() == "mine"
        used = set(self.names.read_text().split()) if self.names.exists() else set()
        assert used, "nothing was watched"
        ours = re.compile(r"(rknntui-[a-z]+-|rknntui-|tmp|pymp-)?[a-z0-9_]{8}")
        assert [name for name in used if not ours.fullmatch(name)] == []
        for folder in FOLDERS:
            kept = {f"{name}.py" for name in MODULES} | {"global.lock", "purge.lock"}
            assert {entry.name for entry in (self.place / folder).iterdir()} == kept


@pytest.fixture
def trap(stranger: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trap]:
    """What the stranger prepared."""
    import tempfile

    # pytest's own folders are 0700: a stranger would not get there
    top = Path(tempfile.mkdtemp(dir="/tmp"))
    top.chmod(0o711)
    place, public, watch = top / "tmp", top / "public", top / "watch"
    for folder in (place, public):
        folder.mkdir()
        folder.chmod(0o1777)
    watch.mkdir()
    (watch / "sitecustomize.py").write_text(WATCH)
    victim = top / "victim"
    victim.write_text("mine")
    found = Trap(
        place,
        public / "told",
        victim,
        top / "names",
        {
            **os.environ,
            "TMPDIR": str(place),
            "WATCHED": str(place),
            "WATCH_LOG": str(top / "names"),
            "PYTHONPATH": f"{watch}:{ROOT}",
            "RKNNTUI_STATE": str(top / "state"),
        },
    )
    words = [str(place), str(found.told), str(victim), ",".join(MODULES), ",".join(FOLDERS)]
    subprocess.run(
        [python_of_all(), "-I", "-c", PLANT, *words],
        check=True,
        timeout=60,
        user=stranger,
        cwd="/",
    )
    yield found
    shutil.rmtree(top)


@contextmanager
def watched(trap: Trap, stranger: str) -> Iterator[list[str]]:
    """The stranger reads what can be read in TMPDIR, and gets nothing; gives what there was to try.

    Its ports are tried by ``test_sweep.py``.
    """
    public, tried = trap.told.parent, list[str]()
    words = [python_of_all(), "-I", "-c", SPY, str(trap.place), str(public), ",".join(FOLDERS)]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, text=True, user=stranger, group=stranger, cwd="/"
    ) as spy:
        assert spy.stdout is not None
        assert spy.stdout.readline() == "ready\n"
        try:
            yield tried
        finally:
            (public / "stop").touch()
            said = spy.stdout.read().splitlines()
    tried += said[0].split()
    assert [line for line in said[1:] if line] == []


@pytest.mark.long
def test_a_sweep_takes_nothing_from_folders_of_another_user(trap: Trap, stranger: str) -> None:
    pytest.importorskip("distributed")
    script = trap.victim.parent / "script.py"  # Dask's processes import the main module again
    script.write_text(SWEEP)
    asked = {"recipe": demo_recipe(), "axes": {"quantized_method": ["channel", "layer"]}}
    with watched(trap, stranger) as tried:
        found = ran(
            *(sys.executable, script, json.dumps(asked)),
            timeout=300,
            env=trap.environment,
            cwd=trap.victim.parent,
        )
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout) == ["done", "done"]
    trap.check()
    assert not list(trap.place.glob("rknntui-sweep-*"))
    assert any(name.startswith("rknntui-sweep-") for name in tried), "there was nothing to try"


@pytest.mark.long
def test_a_build_takes_nothing_from_folders_of_another_user(
    trap: Trap, stranger: str, tmp_path: Path
) -> None:
    recipe = demo_recipe()
    words = ["-m", "rknntui", "build", recipe["model"], "-o", str(tmp_path / "m.rknn")]
    words += ["--dataset", recipe["dataset"]]
    with watched(trap, stranger):
        found = ran(sys.executable, *words, timeout=300, env=trap.environment, cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    trap.check()
