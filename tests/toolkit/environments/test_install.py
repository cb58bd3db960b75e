"""rknntui vendor install, with stand-ins of the vendor's wheels: no network, no torch."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import EngineError, OutputError, ToolkitError, UsageError
from engine.base.events import CallbackReporter, Event, NullReporter, Progress, StageStarted
from engine.base.paths import state_folder
from engine.toolkit.environments import find, held, install, known, making, remove
from engine.toolkit.environments.places import READY, UNFINISHED, toolkits_folder
from engine.toolkit.environments.wheels import pins_of
from engine.wire.vendor import ToolkitInstallParams, ToolkitName
from tests.toolkit.environments.standins import site_of, toolkit, wheel, wheels

pytestmark = pytest.mark.usefixtures("stand_in_pins")


def refused(kind: type[EngineError], words: str, **asked: Any) -> EngineError:
    """How an installation is refused that is asked for so."""
    with pytest.raises(kind, match=words) as raised:
        install(ToolkitInstallParams(**asked), NullReporter())
    return raised.value


@pytest.mark.long
def test_an_environment_from_a_folder_of_wheels(tmp_path: Path) -> None:
    """Made, found, not made twice, removed."""
    folder = wheels(tmp_path / "wheels")
    events: list[Event] = []
    made = install(ToolkitInstallParams(wheels=str(folder)), CallbackReporter(events.append))
    assert (made.name, made.version, made.state) == ("toolkit2", "2.3.2", "ready")
    assert made.managed
    assert made.default
    assert find(2) == made
    assert Path(made.folder) == toolkits_folder() / "toolkit2"
    assert not (Path(made.folder) / "tmp").exists()
    titles = [event.title for event in events if isinstance(event, StageStarted)]
    assert len(titles) == 4
    notes = [event.note for event in events if isinstance(event, Progress)]
    assert "base_part-1.0-py3-none-any" in notes
    assert "middle_part-2.1-py3-none-any" in notes
    counts = [(e.done, e.total) for e in events if isinstance(e, Progress) and e.total == 3]
    assert {(1, 3), (3, 3)} <= set(counts)
    assert (site_of(Path(made.folder)) / "further.py").exists()
    log = state_folder() / "logs" / "vendor-toolkit2.log"
    assert "Successfully installed" in log.read_text("utf-8")
    # again: it is there, and nothing is run
    events.clear()
    assert install(ToolkitInstallParams(wheels="/nowhere"), CallbackReporter(events.append)) == made
    assert not any(isinstance(event, StageStarted) for event in events)
    # the registry is lost: its own mark is enough
    (state_folder() / "toolkits.json").unlink()
    assert find(2).state == "ready"
    with held(Path(made.folder)), pytest.raises(ToolkitError, match="in use"):
        remove(ToolkitName("toolkit2"), NullReporter())
    gone = remove(ToolkitName(), NullReporter())
    assert gone.files_removed
    assert gone.freed > 0
    assert not Path(made.folder).exists()
    assert known() == ()


def test_missing_wheels_are_all_named_before_anything_is_made(tmp_path: Path) -> None:
    folder = wheels(tmp_path / "wheels")
    (folder / "base_part-1.0-py3-none-any.whl").unlink()
    (folder / "rknn_toolkit2-2.3.2-py3-none-any.whl").unlink()
    wheel(folder, toolkit(), "cp27-cp27m-any")
    error = refused(ToolkitError, "lacks 2 of the wheels", wheels=str(folder))
    for name in ("base-part==1.0", "rknn-toolkit2==2.3.2"):
        assert name in error.what
        assert name in error.remedy
    assert "middle-part" not in error.what
    assert not toolkits_folder().exists()
    refused(ToolkitError, "cannot be read", wheels=str(tmp_path / "none"))


def test_what_cannot_be_is_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = str(wheels(tmp_path / "wheels"))
    error = refused(ToolkitError, r"9\.9", version="9.9")
    assert "2.3.2 and 2.4.0" in error.remedy
    refused(ToolkitError, "no Python that has venv", python="/bin/false")
    refused(UsageError, "cannot be the name", name="../x")
    mine = tmp_path / "mine" / "file.txt"
    mine.parent.mkdir()
    mine.write_text("keep", encoding="utf-8")
    refused(ToolkitError, "something else", folder=str(mine.parent), wheels=folder)
    assert mine.read_text("utf-8") == "keep"
    refused(OutputError, "below", folder=str(mine / "below"), wheels=folder)
    full = shutil.disk_usage("/")._replace(free=1 << 20)
    monkeypatch.setattr("shutil.disk_usage", lambda _: full)
    refused(ToolkitError, "has room for", wheels=folder)
    assert not (toolkits_folder() / "toolkit2").exists()
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    refused(ToolkitError, "Linux on riscv64", wheels=folder)


def test_one_at_a_time(tmp_path: Path) -> None:
    folder = str(wheels(tmp_path / "wheels"))
    place = toolkits_folder() / "toolkit2"
    with held(place, alone=True), pytest.raises(ToolkitError, match="in use"):
        install(ToolkitInstallParams(wheels=folder), NullReporter())
    assert not place.exists()


def test_an_unfinished_one_keeps_its_name_and_another_version_gets_one(tmp_path: Path) -> None:
    place = toolkits_folder() / "toolkit2"
    place.mkdir(parents=True)
    (place / UNFINISHED).touch()
    assert making._target(ToolkitInstallParams(), "2.3.2") == ("toolkit2", place)
    (place / READY).write_text("x", "utf-8")
    site = place / "lib" / "python3.11" / "site-packages" / "rknn_toolkit2-2.3.2.dist-info"
    site.mkdir(parents=True)
    name, folder = making._target(ToolkitInstallParams(version="2.4.0"), "2.4.0")
    assert (name, folder) == ("toolkit2-2.4.0", toolkits_folder() / "toolkit2-2.4.0")
    assert making._target(ToolkitInstallParams(folder=str(tmp_path)), "2.3.2")[1] == tmp_path


def test_the_variable_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RKNNTUI_VENDOR", str(tmp_path / "given"))
    assert making._target(ToolkitInstallParams(), "2.3.2") == ("toolkit2", tmp_path / "given")


@pytest.mark.parametrize(
    ("free", "index", "warned"),
    [
        (5 << 29, None, True),
        ((9 << 30) - 1, None, True),
        (9 << 30, None, False),
        (5 << 29, "x", False),
    ],
)
def test_room_for_what_pip_unpacks(
    free: int, index: str | None, warned: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """2.5 GiB with the CPU build of torch, and 9 GiB with that for CUDA."""
    plan = making.Plan("t", tmp_path, pins_of(None)[0], "python", (), index)
    usage = shutil.disk_usage("/")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage._replace(free=free))
    events: list[Event] = []
    making._check_room(plan, CallbackReporter(events.append))
    assert bool(events) == warned
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage._replace(free=(5 << 29) - 1))
    with pytest.raises(ToolkitError, match="has room for"):
        making._check_room(plan, NullReporter())
