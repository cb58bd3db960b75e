"""An installation that is cancelled, killed or goes wrong: nothing of it is taken for ready."""

from __future__ import annotations

import contextlib
import http.server
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.base.errors import JobCancelledError, ToolkitError
from engine.base.events import CallbackReporter, NullReporter
from engine.toolkit.environments import check, find, install, known
from engine.toolkit.environments import wheels as pinned
from engine.toolkit.environments.places import UNFINISHED, toolkits_folder
from engine.wire.vendor import ToolkitInstallParams
from tests.devices.waiting import until
from tests.toolkit.environments.standins import site_of, wheels

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("stand_in_pins")]


class _Silent(http.server.BaseHTTPRequestHandler):
    """An index that takes a request and never answers: pip waits for it."""

    def do_GET(self) -> None:
        assert isinstance(self.server, _Index)
        self.server.asked.set()
        self.server.over.wait(120)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class _Index(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Silent)
        self.asked, self.over = threading.Event(), threading.Event()


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Index]:
    """The only index that pip knows."""
    server = _Index()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/simple")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    yield server
    server.over.set()
    server.shutdown()
    thread.join()
    server.server_close()


def _running(folder: Path) -> list[int]:
    """Processes with a folder in their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if os.fsencode(folder) in path.read_bytes():
                found.append(int(path.parent.name))
    return found


def test_cancelled(index: _Index) -> None:
    """Nothing is left: no process, no folder."""
    reporter = CallbackReporter(lambda _: None, index.asked.is_set)
    with pytest.raises(JobCancelledError):
        install(ToolkitInstallParams(), reporter)
    assert index.asked.is_set()
    place = toolkits_folder() / "toolkit2"
    assert not place.exists()
    assert _running(place) == []
    assert known() == ()


def test_killed(index: _Index, tmp_path: Path) -> None:
    """Its children die with it, the mark stays, and the next installation makes it anew."""
    program = (
        "import sys\nfrom pathlib import Path\n"
        "from engine.base.events import NullReporter\n"
        "from engine.toolkit.environments import install, wheels\n"
        "from engine.wire.vendor import ToolkitInstallParams\n"
        "wheels._FOLDER = Path(sys.argv[1])\n"
        "install(ToolkitInstallParams(), NullReporter())\n"
    )
    place = toolkits_folder() / "toolkit2"
    command = [sys.executable, "-c", program, str(pinned._FOLDER)]
    with subprocess.Popen(command, cwd=Path(__file__).resolve().parents[3]) as process:
        assert index.asked.wait(120)
        assert _running(place)
        process.send_signal(signal.SIGKILL)
    until(lambda: not _running(place), "its children end")
    assert (place / UNFINISHED).exists()
    (found,) = known()
    assert (found.name, found.state) == ("toolkit2", "unfinished")
    with pytest.raises(ToolkitError, match="not finished") as raised:
        find(2)
    assert "vendor install" in raised.value.remedy
    made = install(ToolkitInstallParams(wheels=str(wheels(tmp_path / "wheels"))), NullReporter())
    assert (made.state, made.folder) == ("ready", str(place))
    # a package is broken later: told, and put right by the same call
    (site_of(place) / "rknn" / "api" / "__init__.py").write_text("1 / 0\n", "utf-8")
    assert check(None, NullReporter()).state == "broken"
    again = install(ToolkitInstallParams(wheels=str(tmp_path / "wheels")), NullReporter())
    assert again.state == "ready"


def test_a_damaged_wheel(tmp_path: Path) -> None:
    folder = wheels(tmp_path / "wheels")
    (folder / "middle_part-2.1-py3-none-any.whl").write_bytes(b"PK\x03\x04 nothing more")
    with pytest.raises(ToolkitError, match="Installing what the toolkit needs failed") as raised:
        install(ToolkitInstallParams(wheels=str(folder)), NullReporter())
    assert "middle_part" in raised.value.cause
    assert "vendor-toolkit2.log" in raised.value.remedy
    assert not (toolkits_folder() / "toolkit2").exists()
    assert known() == ()


def test_an_index_that_cannot_be_reached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A folder of the user's stays, and is empty again."""
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_RETRIES", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    place = tmp_path / "mine"
    place.mkdir()
    with pytest.raises(ToolkitError, match="failed") as raised:
        install(ToolkitInstallParams(folder=str(place)), NullReporter())
    assert "cannot be reached" in raised.value.cause
    assert "--wheels" in raised.value.remedy
    assert list(place.iterdir()) == []
