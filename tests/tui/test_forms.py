"""Forms out of the wire: nothing is left out without a reason, nothing is declared twice."""

from __future__ import annotations

import ast
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Annotated, Literal

import pytest
from textual.app import App

import rknntui.screens
from engine.wire.codec import Text, Whole
from engine.wire.flags import Argument, Flag, form_params
from engine.wire.record import record
from rknntui.screens.dialogs.request import Form, RequestDialog
from rknntui.widgets.entries import ChoiceLine
from tests.tui.conftest import driven, screen_text, until

MODULES = [
    import_module(module.name)
    for module in walk_packages(rknntui.screens.__path__, "rknntui.screens.")
    if not module.ispkg
]
FORMS = [value for m in MODULES for value in vars(m).values() if isinstance(value, Form)]
FORMS = [form for number, form in enumerate(FORMS) if form not in FORMS[:number]]


def test_a_number_with_a_unit_has_it_beside_its_name() -> None:
    labels = {param.label for form in FORMS for param in form.params.values()}
    assert labels >= {"floor (dB)", "budget (layers)", "budget (ms)", "seconds", "minutes"}


def test_the_forms_of_all_workspaces_are_walked() -> None:
    asked = {request.__name__ for form in FORMS for request in form.requests}
    assert asked >= {"CompileParams", "EncryptParams", "SearchParams", "WhatIf", "SweepParams"}


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.title)
def test_every_parameter_stands_in_its_form_or_is_told_why_not(form: Form) -> None:
    every = {param.path[0] for request in form.requests for param in form_params(request)}
    assert every == form.params.keys() | form.without.keys()
    assert not form.params.keys() & form.without.keys()
    assert all(form.without.values())
    for param in form.params.values():
        assert param.flag.help, param.path
        assert len(param.path) == 1, param.path


def test_no_screen_says_again_what_a_parameter_says() -> None:
    requests = {request for form in FORMS for request in form.requests}
    for module in MODULES:
        others = (request for request in requests if request.__module__ != module.__name__)
        told = {param.flag.help for request in others for param in form_params(request)}
        tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
        texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
        assert not (told - {""}) & texts, module.__name__


@record(kw_only=True)
class Asked:
    """One parameter of each kind."""

    path: Annotated[Text, Argument(help="The model.")]
    repeat: Annotated[int, Whole(1, 9), Flag(help="How often.")] = 1
    limit: Annotated[
        Annotated[int, Whole(1, 1 << 40)] | None, Flag(help="Default: all.", unit="ms")
    ] = None
    whose: Annotated[Literal["ours", "vendor"] | None, Flag(help="Whose it is.")] = None
    anew: Annotated[bool, Flag(help="Make it anew.")] = False
    word: Annotated[Text | None, Flag(help="A key.", kind="secret")] = None
    force: Annotated[bool, Flag(help="Overwrite.")] = False


NOW = Asked(path="/a.onnx")


async def test_a_form_shows_bounds_choices_boxes_and_what_nothing_means(tmp_path: Path) -> None:
    asked: list[Asked] = []
    app: App[None] = App()
    async with driven(app) as pilot:
        form = Form("A form", (Asked,), {"force": "asked for later"})
        form.ask(app, NOW, then=asked.append)
        await pilot.sees("A form")
        text = screen_text(app)
        parts = (
            "F2 choose path",
            "limit (ms)",
            "1 to 9",
            "all",
            "not set",
            "from 1",
            "ours or vendor",
            "[ ]",
        )
        for part in parts:
            assert part in text, part
        assert "force" not in text
        assert "The model." in text  # the help of the line with the focus
        await pilot.press("down", "ctrl+u", "1", "0", "enter", sees="a whole number from 1 to 9")
        await pilot.press("ctrl+u", "3", "down", "down", *"vendor", "down", "space", "down")
        await pilot.press("k", "down", "x", "enter", sees="another one than")
        await pilot.press("backspace", "k", "enter")
        assert asked == [replace(NOW, repeat=3, whose="vendor", anew=True, word="k")]
        form.ask(app, NOW, then=asked.append)
        await until(pilot, lambda: isinstance(app.screen, RequestDialog), "the form again")
        line = app.screen.query_one("#whose", ChoiceLine)
        line.focus()
        await pilot.press("left", "right", "right", "right")
        assert line.value == "vendor"
        await pilot.press("right", "up", "up", "up", "ctrl+u", "enter", sees="path: it is needed")
        await pilot.press("escape")
        assert len(asked) == 1
