"""Every action has a method, a help and keys of its own."""

from __future__ import annotations

from rknntui.keys.actions import REGISTRY
from rknntui.workspaces import WORKSPACES, load_all


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
