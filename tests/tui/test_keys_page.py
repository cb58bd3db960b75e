"""The page about the workbench lists the keys that the program has."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from rknntui.keys.actions import REGISTRY
from rknntui.workspaces import WORKSPACES, load_all


@pytest.fixture
def script(repository: Path) -> ModuleType:
    path = repository / "scripts" / "make_key_tables.py"
    if not path.is_file():
        pytest.skip("not in a checkout")
    spec = importlib.util.spec_from_file_location("make_key_tables", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_has_the_keys_of_the_registry(script: ModuleType) -> None:
    page = script.PAGE.read_text(encoding="utf-8")
    assert page == script.page_with_tables(page), "run scripts/make_key_tables.py"


def test_every_action_of_a_workspace_is_there_with_its_method() -> None:
    load_all()
    from rknntui.workspaces import load

    for name in WORKSPACES:
        workspace = load(name)
        for action in REGISTRY.of(name):
            assert hasattr(workspace, f"action_{action.method}"), action.id
            assert action.help.endswith("."), action.id


def test_no_key_has_two_meanings_in_a_workspace_or_hides_a_global_one() -> None:
    load_all()
    everywhere = {key for action in REGISTRY for key in action.keys if action.noun == "app"}
    for name in WORKSPACES:
        keys = [key for action in REGISTRY.of(name) for key in action.keys]
        assert len(keys) == len(set(keys)), name
        assert not everywhere & set(keys), name
