"""Which environments are known, and which of them is used."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.base.errors import OutputError, ToolkitError, UsageError
from engine.base.findings import Finding
from engine.base.paths import cache_folder, state_folder
from engine.toolkit.environments import find, held, known
from engine.toolkit.environments.places import READY, UNFINISHED, site_time, toolkits_folder
from engine.toolkit.environments.registry import Entry, changed, check_name, read


def made(folder: Path, *, dist: str = "rknn_toolkit2-2.3.2", ready: bool = True) -> Path:
    """What an environment looks like to who runs nothing in it."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").touch()
    (folder / "pyvenv.cfg").write_text("home = /x\nversion = 3.11.7\n", encoding="utf-8")
    (folder / "lib" / "python3.11" / "site-packages" / f"{dist}.dist-info").mkdir(parents=True)
    if ready:
        (folder / READY).write_text("a hash\n", encoding="utf-8")
    return folder


def adopt(name: str, folder: Path, **more: object) -> None:
    with changed() as entries:
        entries[name] = Entry(name, str(folder), str(folder / "bin" / "python"), **more)  # type: ignore[arg-type]


def test_none_is_known_and_the_remedy_is_the_verb() -> None:
    assert known() == ()
    with pytest.raises(ToolkitError, match="rknn-toolkit2") as raised:
        find(2)
    assert "rknntui vendor install" in raised.value.remedy
    with pytest.raises(ToolkitError) as raised:
        find(1)
    assert "rknntui vendor adopt" in raised.value.remedy
    assert raised.value.exit_code == 15


@pytest.mark.parametrize("where", ["data", "cache"])
def test_one_that_was_made_is_found_without_the_registry(where: str) -> None:
    folder = toolkits_folder() / "toolkit2" if where == "data" else cache_folder() / "vendor"
    made(folder)
    found = find(2)
    assert (found.name, found.folder, found.version) == ("toolkit2", str(folder), "2.3.2")
    assert (found.python_version, found.state) == ("3.11.7", "ready")
    assert found.managed
    assert found.default


def test_the_variable_names_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(toolkits_folder() / "toolkit2")
    given = made(tmp_path / "given", ready=False)
    monkeypatch.setenv("RKNNTUI_VENDOR", str(given))
    first, second = known()
    assert (first.folder, first.name, first.managed) == (str(given), "toolkit2", False)
    assert first.state == "unchecked"
    assert second.name == "toolkit2-2"
    assert not second.default
    assert find(2) == first
    assert find(2, "toolkit2-2") == second


def test_generations_are_apart(tmp_path: Path) -> None:
    adopt("old", made(tmp_path / "old", dist="rknn_toolkit-1.7.5", ready=False), generation=1)
    with pytest.raises(ToolkitError, match="no environment"):
        find(2)
    found = find(1)
    assert (found.version, found.generation, found.managed) == ("1.7.5", 1, False)
    with pytest.raises(ToolkitError, match="this chip needs rknn-toolkit2"):
        find(2, "old")
    with pytest.raises(ToolkitError) as raised:
        find(1, "odl")
    assert "'old'" in raised.value.cause


def test_unfinished_missing_and_broken_ones_are_not_used(tmp_path: Path) -> None:
    folder = made(toolkits_folder() / "toolkit2")
    (folder / UNFINISHED).touch()
    with pytest.raises(ToolkitError, match="not finished") as raised:
        find(2)
    assert "vendor install" in raised.value.remedy
    adopt("gone", tmp_path / "gone")
    assert {one.name: one.state for one in known()} == {"toolkit2": "unfinished", "gone": "missing"}
    with pytest.raises(ToolkitError, match="gone"):
        find(2, "gone")
    mine = made(tmp_path / "mine", ready=False)
    finding = Finding("toolkit-package", "error", "numpy", "numpy 2 does not fit.", "", "Do this.")
    adopt("mine", mine, checked=True, site=site_time(mine), findings=(finding,))
    with pytest.raises(ToolkitError, match="numpy 2 does not fit") as raised:
        find(2, "mine")
    assert raised.value.remedy == "Do this."
    # packages came or went since: it may be right now
    (mine / "lib" / "python3.11" / "site-packages" / "new").mkdir()
    assert find(2, "mine").state == "unchecked"


def test_what_was_marked_as_default_is_used(tmp_path: Path) -> None:
    adopt("a", made(tmp_path / "a", ready=False))
    adopt("b", made(tmp_path / "b", ready=False), default=True)
    assert find(2).name == "b"
    assert [one.name for one in known()] == ["b", "a"]


def test_sizes_are_added_up_on_request(tmp_path: Path) -> None:
    folder = made(toolkits_folder() / "toolkit2")
    (folder / "large").write_bytes(bytes(300_000))
    assert known()[0].size == 0
    assert known(sizes=True)[0].size >= 300_000


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"{",
        b"[1]",
        b"\xff\xfe",
        b'{"environments": 3}',
        b'{"environments": [3, {}]}',
        b'{"environments": [{"name": "a", "folder": "relative", "python": "/x"}]}',
        b'{"environments": [{"name": "../a", "folder": "/x", "python": "/x"}]}',
        b'{"environments": [{"name": "a", "folder": "/x", "python": "/x", "generation": 9}]}',
        b"[" * 100_000,
    ],
)
def test_a_damaged_registry_loses_rows_and_no_more(damage: bytes, tmp_path: Path) -> None:
    path = state_folder() / "toolkits.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(damage)
    assert known() == ()
    adopt("mine", made(tmp_path / "mine", ready=False))
    assert find(2).name == "mine"


def test_good_rows_beside_bad_ones_stay(tmp_path: Path) -> None:
    adopt("mine", made(tmp_path / "mine", ready=False))
    path = state_folder() / "toolkits.json"
    text = path.read_text("utf-8")
    path.write_text(text.replace('"environments": [', '"environments": [{"name": 3}, '), "utf-8")
    assert [entry.name for entry in read()] == ["mine"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_registry_that_cannot_be_written_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    path = state_folder() / "toolkits.json"
    path.mkdir(parents=True)
    with pytest.raises(OutputError), changed():
        pass


def test_names_are_fit_for_a_folder() -> None:
    assert check_name("toolkit2-2.3.2") == "toolkit2-2.3.2"
    for name in ("", "..", "a/b", "-x", "a b", "x" * 41, "a\n"):
        with pytest.raises(UsageError):
            check_name(name)


def test_use_and_removal_exclude_each_other(tmp_path: Path) -> None:
    folder = tmp_path / "vendor"
    taken = pytest.raises(ToolkitError, match="in use")
    with held(folder), held(folder), taken, held(folder, alone=True):
        pass
    taken = pytest.raises(ToolkitError, match="made or removed")
    with held(folder, alone=True), taken, held(folder):
        pass
    with held(folder, alone=True):
        pass
