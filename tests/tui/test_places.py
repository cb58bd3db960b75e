"""The keys of workspaces and links between them, and the keys that texts name."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import rknntui
from rknntui.keys.actions import REGISTRY, key_text, with_keys
from rknntui.links import GoTo, GoToLayer, GoToOption, RunAction
from rknntui.workspaces import WORKSPACES, load_all
from tests.tui.conftest import until, workbench


def test_the_key_of_a_workspace_is_no_other_action_s() -> None:
    load_all()
    taken = {k for action in REGISTRY for k in action.keys if action.noun != "go"}
    keys = [k for name in WORKSPACES for k in REGISTRY.keys_of(f"go.{name}")]
    assert not taken & set(keys)
    assert len(keys) == len(set(keys)) == 2 * len(WORKSPACES)


def test_a_text_names_the_key_that_the_user_has(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "{app.open} opens one; {app.build} builds, {job.cancel} stops {x}"
    assert with_keys(text) == "o opens one; b builds, ctrl+x stops {x}"
    mine = {"app.open": "f3,o", "app.build": "ctrl+b"}
    monkeypatch.setattr(REGISTRY, "user_keys", mine)
    assert with_keys(text) == "F3 opens one; ctrl+b builds, ctrl+x stops {x}"
    assert [key_text(a) for a in ("builds.back", "layers.lift", "app.help", "model.search")] == [
        "Esc",
        "Space",
        "?",
        "/",
    ]
    with pytest.raises(KeyError):
        key_text("app.nothing")
    with pytest.raises(KeyError, match="has no key"):
        key_text("app.theme")


async def test_texts_and_tabs_follow_the_keymap(own_home: Path) -> None:
    folder = own_home / ".config" / "rknntui"
    folder.mkdir(parents=True)
    (folder / "keymap.toml").write_text(
        '[keys]\n"app.open" = "f3"\n"go.recipe" = "f4"\n"app.build" = "f12"\n'
    )
    async with workbench(size=(120, 24)) as (app, pilot):
        await pilot.sees("F3 opens a model", " F4 Recipe")
        await pilot.press("question_mark")
        await until(pilot, lambda: "f12 " in app.screen.query_one("TextRows").text(), "help")


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
async def test_links_lead_to_other_workspaces() -> None:
    async with workbench() as (app, pilot):
        app.workspace.post_message(GoToOption("std_values"))
        await until(pilot, lambda: app.current == "recipe")
        await until(pilot, lambda: app.workspace.form.rows.option.name == "std_values")
        app.workspace.post_message(GoToLayer("relu1"))
        await until(pilot, lambda: app.current == "layers")
        assert app.workspace.view == "Quality"
        app.workspace.post_message(GoTo("builds"))
        await until(pilot, lambda: app.current == "builds")
        app.workspace.post_message(RunAction("builds.refresh"))
        await until(pilot, lambda: app.current == "builds")
        await pilot.sees("Not now: no model is open (o opens")
