"""Workspaces beyond the first nine, and the keys that texts name."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from textual.widgets import Static

import rknntui
from rknntui.app import Workbench
from rknntui.keys.actions import REGISTRY, Action, bindings, declared, key_text, with_keys
from rknntui.links import GoTo, GoToLayer, GoToOption, RunAction
from rknntui.screens.base.workspace import Workspace
from rknntui.workspaces import CLASSES, WORKSPACES, Place, load_all
from tests.tui.conftest import screen_text, settle, until

MORE = {"fleet": Place("Fleet", letter="O")}
"""With it there are twelve: the line of tabs has room for one more than there are."""


def workspace_module(name: str) -> ModuleType:
    """What a new workspace is in source: a class with a name, its actions and its widgets."""
    module = ModuleType(f"rknntui.screens.{name}.workspace")
    REGISTRY.add((Action(f"{name}.act", "Act", "Do what it is for.", ("b",), True),))

    class New(Workspace):
        NAME = name
        HELP = f"Of {name}: {{{name}.act}} acts."
        acted = 0

        def compose(self) -> Iterator[Static]:
            yield Static(f"this is {name}", markup=False)

        def action_act(self) -> None:
            type(self).acted += 1

    module.New = New  # type: ignore[attr-defined]
    return module


@pytest.fixture
def twelve(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Workbench]]:
    """A workbench of twelve workspaces: a row and a module for a new one."""
    load_all()
    known = dict(REGISTRY._actions)
    for name, place in MORE.items():
        monkeypatch.setitem(WORKSPACES, name, place)
        REGISTRY.add(declared())
        module = workspace_module(name)
        monkeypatch.setitem(sys.modules, module.__name__, module)

    class Bench(Workbench):
        BINDINGS = bindings(REGISTRY[f"go.{name}"] for name in MORE)
        CSS_PATH = Path(rknntui.__file__).parent / Workbench.CSS_PATH

    yield Bench
    REGISTRY._actions = known
    for name in MORE:
        CLASSES.pop(name, None)


@pytest.mark.long
@pytest.mark.usefixtures("no_engine")
async def test_those_beyond_the_ninth_open_by_their_keys_at_80_columns(
    twelve: type[Workbench],
) -> None:
    app = twelve(state_kept=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        for key, name in {
            "7": "chips",
            "0": "run",
            "J": "jobs",
            "O": "fleet",
            "1": "model",
        }.items():
            await pilot.press(key)
            await until(pilot, lambda name=name: app.current == name, name)
            await settle(pilot)
            if name in MORE:
                assert f"this is {name}" in screen_text(app)
        await pilot.press("alt+O")
        await until(pilot, lambda: app.current == "fleet")
        assert "b Act" in screen_text(app).splitlines()[-1]
        await pilot.press("b")
        await until(pilot, lambda: CLASSES["fleet"].acted == 1)
        await pilot.press("question_mark")
        await until(pilot, lambda: "Of fleet: b acts." in screen_text(app), "its help")
        await pilot.press("escape", "ctrl+o", "7")
        await until(pilot, lambda: app.current == "chips", "jump mode")


@pytest.mark.usefixtures("no_engine")
@pytest.mark.parametrize("width", [80, 120])
async def test_every_tab_of_twelve_is_in_the_line_with_its_key(
    twelve: type[Workbench], width: int
) -> None:
    app = twelve(state_kept=False)
    async with app.run_test(size=(width, 24)) as pilot:
        await settle(pilot)
        line = screen_text(app).splitlines()[1]
        tabs = [
            f" {key_text(f'go.{name}')} {place.title[:3]}" for name, place in WORKSPACES.items()
        ]
        assert len(tabs) == 12
        places = [line.index(tab) for tab in tabs]
        assert places == sorted(places)
        bar = app.screen.query_one("TopBar")
        assert bar._tabs[-1][1] <= width
        await pilot.click("TopBar", offset=(places[-1] + 2, 1))
        await until(pilot, lambda: app.current == "fleet", "a click on the last tab")


def test_the_key_of_a_workspace_is_no_other_action_s(twelve: type[Workbench]) -> None:
    load_all()
    taken = {k for action in REGISTRY for k in action.keys if action.noun != "go"}
    keys = [k for name in WORKSPACES for k in REGISTRY.keys_of(f"go.{name}")]
    assert not taken & set(keys)
    assert len(keys) == len(set(keys)) == 24


def test_a_text_names_the_key_that_the_user_has(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "{app.open} opens one; {quantize.build} builds, {job.cancel} stops {x}"
    assert with_keys(text) == "o opens one; b builds, ctrl+x stops {x}"
    mine = {"app.open": "f3,o", "quantize.build": "ctrl+b"}
    monkeypatch.setattr(REGISTRY, "user_keys", mine)
    assert with_keys(text) == "F3 opens one; ctrl+b builds, ctrl+x stops {x}"
    assert [key_text(a) for a in ("quantize.stop", "layers.lift", "app.help", "model.search")] == [
        "Esc",
        "Space",
        "?",
        "/",
    ]
    with pytest.raises(KeyError):
        key_text("app.nothing")
    with pytest.raises(KeyError, match="has no key"):
        key_text("layers.choose")


@pytest.mark.usefixtures("no_engine")
async def test_texts_and_tabs_follow_the_keymap(own_home: Path) -> None:
    folder = own_home / ".config" / "rknntui"
    folder.mkdir(parents=True)
    (folder / "keymap.toml").write_text(
        '[keys]\n"app.open" = "f3"\n"go.quantize" = "f4"\n"quantize.build" = "ctrl+b"\n'
    )
    app = Workbench(state_kept=False)
    async with app.run_test(size=(120, 24)) as pilot:
        await until(pilot, lambda: "F3  open a model" in screen_text(app), "what opens a model")
        assert " F4 Quantize" in screen_text(app)
        await pilot.press("5")
        await until(pilot, lambda: "F4 shows Quantize, ctrl+b builds" in screen_text(app), "5")
        await pilot.press("3")
        await until(pilot, lambda: "F3 opens one; then p chooses" in screen_text(app), "3")


_VERBS = (
    "(opens|chooses|builds|shows|runs|analyses|compares|sets|searches|begins|leads|reads|lifts|"
    "writes|stops|asks|goes|marks|converts|lists|pauses|keeps|applies|edits|measures|exports)"
)
_LITERAL = re.compile(
    rf"(^|[\s(;,])([b-zA-HJ-Z]|\d|F\d+|ctrl\+\w|Space) {_VERBS}\b|Esc (asks|stops)"
)


def test_no_text_has_a_key_of_its_own() -> None:
    """Keys in texts come by ``{noun.verb}`` or :func:`key_text`; those of a dialog stand in it."""
    assert _LITERAL.search("there is no build yet (b builds).")
    assert _LITERAL.search("3 chooses samples")
    root = Path(rknntui.__file__).parent
    found = []
    for path in root.rglob("*.py"):
        if path.is_relative_to(root / "cli"):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        told = {
            ast.get_docstring(n, clean=False) for n in ast.walk(tree) if isinstance(n, documented)
        }
        found += [
            f"{path.relative_to(root)}:{node.lineno}: {node.value}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and node.value not in told
            and _LITERAL.search(node.value)
        ]
    assert found == []


@pytest.mark.long
@pytest.mark.usefixtures("no_engine")
async def test_links_lead_to_other_workspaces() -> None:
    app = Workbench(state_kept=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        app.workspace.post_message(GoToOption("std_values"))
        await until(pilot, lambda: app.current == "recipe")
        await until(pilot, lambda: app.workspace.form.rows.option.name == "std_values")
        app.workspace.post_message(GoToLayer("relu1"))
        await until(pilot, lambda: app.current == "accuracy")
        await until(pilot, lambda: app.workspace.layer_pane.tensor == "relu1", "the layer")
        assert app.workspace.has_class("-drilled")
        app.workspace.post_message(GoTo("builds"))
        await until(pilot, lambda: app.current == "builds")
        app.workspace.post_message(RunAction("quantize.build"))
        await until(pilot, lambda: app.current == "quantize")
        await until(pilot, lambda: "Not now: no model is open (o opens" in screen_text(app), "why")
