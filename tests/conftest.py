"""What every test stands on: a home of its own, the demo model, the zoo where there is one."""

from __future__ import annotations

import gc
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from rknntui.demo import demo_folder

# Before anything imports onnxruntime: else a device id and a database land in the home folder.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

# Some two hundred processes start: without compiled files each compiles all that it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A run that was started by nohup or by `&` in a script ignores these, and hands that on to every
# program that a test starts, which then does not end by Ctrl-C.
for _signal in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
    if signal.getsignal(_signal) is signal.SIG_IGN:
        signal.signal(
            _signal, signal.default_int_handler if _signal is signal.SIGINT else signal.SIG_DFL
        )

# The clock of a shared machine proves nothing. Under CI hypothesis has a profile of its own, with
# more examples where a test does not say how many.
if not os.environ.get("CI"):
    settings.register_profile("rknntui", deadline=None, max_examples=30)
    settings.load_profile("rknntui")

# Where the vendor's toolkit is follows from the user's home, which every test hides.
ENVIRONMENT = dict(os.environ)

REPOSITORY = Path(__file__).resolve().parents[1]

REQUIRED = frozenset(
    {"zoo", "netron", "adb", "sshd", "vendor", "cc", "boards", "torch", "tensorflow"}
)
"""Markers of tests that need something from outside; ``.ci/run`` accepts no skip of theirs."""

EXTRAS = frozenset({"torch", "tensorflow", "boards"})
"""Markers of tests of a framework, and of the vendor's board-side libraries, whose agent is in C;
``.ci/run`` asks for them in one environment only."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that uses the fixture ``zoo`` is a test of the zoo."""
    for item in items:
        if {"zoo", "shared"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.zoo)


def pytest_collection_finish() -> None:
    """Modules and collected tests stay to the end: the collector need not walk them again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Under ``RKNNTUI_REQUIRE`` a skipped test with one of the markers named there fails."""
    report = yield
    required = REQUIRED & set(os.environ.get("RKNNTUI_REQUIRE", "").split())
    if any(item.get_closest_marker(name) for name in EXTRAS - required):
        return report  # where the extra is not asked for, its tests need not run
    unmet = sorted(name for name in required if item.get_closest_marker(name))
    if unmet and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"skipped, though RKNNTUI_REQUIRE asks for {' '.join(unmet)}: {reason}"
    return report


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Let no test read or write the user's home, settings, history or cache.

    Set by hand and not by ``monkeypatch``: a test that undoes its own patches keeps this one.
    """
    with _home(tmp_path_factory.mktemp("home")) as home:
        yield home


@contextmanager
def _home(home: Path) -> Iterator[Path]:
    """Everything that decides where the program keeps its files points into ``home``."""
    ours = {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_STATE_HOME": str(home / ".local" / "state"),
        "XDG_CACHE_HOME": str(home / ".cache"),
        "XDG_DATA_HOME": str(home / ".local" / "share"),
        "LC_ALL": "C.UTF-8",
        "ORT_DISABLE_TELEMETRY": "1",
    }
    before = {name: os.environ.get(name) for name in (*ours, "RKNNTUI_VENDOR")}
    os.environ.update(ours)
    # who needs the vendor's toolkit asks for it, by the fixture of that name
    os.environ.pop("RKNNTUI_VENDOR", None)
    yield home
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@pytest.fixture(scope="session", autouse=True)
def session_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The same for what lives longer than a test, such as a warm worker, and starts before it."""
    with _home(tmp_path_factory.mktemp("session")) as home:
        yield home


@pytest.fixture(scope="session")
def repository() -> Path:
    """The checkout that holds these tests."""
    return REPOSITORY


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of specifications, facts and benchmark splits beside the checkout."""
    folder = REPOSITORY.parent / "shared"
    if not folder.is_dir():
        pytest.skip(f"there is no {folder}")
    return folder


@pytest.fixture(scope="session")
def vendor_folder() -> Path:
    """The environment of the vendor's toolkit 2: ``RKNNTUI_VENDOR``, or that of the user."""
    program = "from engine.toolkit.environments import find; print(find(2).folder)"
    found = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        env=ENVIRONMENT,
        check=False,
    )
    if found.returncode:
        pytest.skip("there is no environment of the vendor's toolkit: run rknntui vendor install")
    return Path(found.stdout.strip())


@pytest.fixture
def toolkit2(vendor_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, as the default of generation 2 in this test; its interpreter is ``bin/python``."""
    monkeypatch.setenv("RKNNTUI_VENDOR", str(vendor_folder))
    return vendor_folder


@pytest.fixture(scope="session")
def zoo() -> Path:
    """The model zoo: ``RKNNTUI_ZOO``, or ``../shared/zoo``."""
    given = os.environ.get("RKNNTUI_ZOO")
    folder = Path(given) if given else REPOSITORY.parent / "shared" / "zoo"
    if not folder.is_dir():
        pytest.skip(f"there is no model zoo at {folder}: set RKNNTUI_ZOO")
    return folder


@pytest.fixture(scope="session")
def demo() -> Path:
    """The folder of the demo model: digits_demo.onnx, dataset.txt, calibration/, test.npz."""
    return demo_folder()


@pytest.fixture
def stranger() -> Iterator[str]:
    """Name of a user of this machine that exists for one test."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a second user")
    if shutil.which("useradd") is None or shutil.which("userdel") is None:
        pytest.skip("there is no useradd")
    name = f"rkstranger{secrets.token_hex(4)}"
    subprocess.run(["useradd", "--system", "--no-create-home", name], check=True, timeout=30)
    yield name
    subprocess.run(["userdel", name], check=True, timeout=30)
