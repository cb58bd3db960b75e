"""The terminal is given back whatever happens, and a lost one ends the interface but no job."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import ended, python, start
from tests.safety import PATIENCE
from tests.tui.terminal import Terminal


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGQUIT, 131)],
    ids=["SIGTERM", "SIGHUP", "SIGQUIT"],
)
def test_a_signal_gives_the_terminal_back(number: int, code: int) -> None:
    with Terminal() as terminal:
        assert "1049" in terminal.not_restored()
        terminal.process.send_signal(number)
        assert terminal.ended(PATIENCE) == code
        assert terminal.not_restored() == []


def test_a_signal_ends_even_a_blocked_interface() -> None:
    code = (
        "import time\n"
        "from rknntui.app import Workbench\n"
        "Workbench.action_theme = lambda self: time.sleep(3600)\n"
        "app = Workbench()\n"
        "app.bind('x', 'theme')\n"
        "app.run()\n"
    )
    with Terminal(code=code) as terminal:
        terminal.type("x")
        terminal.pump(0.5)
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.ended(PATIENCE) == 143
        assert terminal.not_restored() == []


def test_quitting_gives_the_terminal_back() -> None:
    with Terminal() as terminal:
        terminal.type("q")
        assert terminal.ended() == 0
        assert terminal.not_restored() == []


def test_a_crash_is_told_in_a_line_and_kept_in_a_file(own_home: Path) -> None:
    code = (
        "import sys\n"
        "from rknntui import launch\n"
        "from rknntui.app import Workbench\n"
        "def broken(self): raise RuntimeError('made by a test')\n"
        "Workbench.action_jump = broken\n"
        "sys.exit(launch.open_workbench())\n"
    )
    with Terminal(code=code) as terminal:
        terminal.type("\x0f")
        assert terminal.ended() == 70
        assert terminal.not_restored() == []
        said = bytes(terminal.raw).decode().rpartition("\x1b")[2]
        assert "RuntimeError: made by a test" in said
        assert "Traceback" not in bytes(terminal.raw).decode()
        logs = [p for p in (own_home / ".local/state/rknntui").rglob("*") if p.is_file()]
        assert any("made by a test" in p.read_text() for p in logs)


@pytest.mark.parametrize("ignore_hangup", [False, True], ids=["default", "SIGHUP ignored"])
def test_a_closed_window_ends_the_interface(ignore_hangup) -> None:
    with Terminal(ignore_hangup=ignore_hangup) as terminal:
        terminal.hang_up()
        terminal.process.wait(PATIENCE)


HEAVY = "numpy onnx onnx_ir onnxruntime adbutils yaml PIL click asyncssh watchdog"


def test_nothing_heavy_is_imported_before_the_first_paint(tmp_path: Path) -> None:
    report = tmp_path / "modules"
    code = (
        "import sys\n"
        "from rknntui.launch import open_workbench\n"
        "from rknntui.app import Workbench\n"
        "painted = Workbench._painted\n"
        "def look(self):\n"
        f"    open({str(report)!r}, 'w').write(chr(10).join(sys.modules))\n"
        "    painted(self)\n"
        "Workbench._painted = look\n"
        "sys.exit(open_workbench())\n"
    )
    with Terminal(code=code) as terminal:
        terminal.type("q")
        terminal.ended()
        loaded = set(report.read_text().splitlines())
        assert "rknntui.app" in loaded
        assert sorted(loaded & set(HEAVY.split())) == []


def test_a_verb_never_loads_the_interface() -> None:
    code = (
        "import sys\n"
        "from rknntui.__main__ import main\n"
        "code = main(['--version'])\n"
        "print(sorted({'textual', 'rich', 'numpy', 'onnx'} & set(sys.modules)), code)\n"
    )
    done = python(code)
    assert done.stdout.splitlines()[-1] == "[] 0"


def test_a_hostile_folder_is_not_imported(tmp_path: Path, monkeypatch) -> None:
    trap = "open({!r}, 'w').write('run')\n"
    sprung = tmp_path / "sprung"
    for name in ("engine/__init__.py", "themes.py", "onnx.py", "textual/__init__.py", "click.py"):
        path = tmp_path / "hostile" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(trap.format(str(sprung)))
    monkeypatch.chdir(tmp_path / "hostile")
    with Terminal() as terminal:
        terminal.wait_for("idle")
        terminal.type("q")
        assert terminal.ended() == 0
    assert not sprung.exists()


def test_without_a_terminal_it_names_the_verbs() -> None:
    ran = ended(start(stdin=subprocess.DEVNULL))
    assert ran.code == 2
    assert "needs a terminal" in ran.err
