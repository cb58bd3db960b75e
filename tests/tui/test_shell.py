"""The shell of the workbench, by keys alone at 80x24."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest
from textual.screen import Screen

from engine.base.process import ProcessId
from engine.build import LayerCoverage
from engine.wire.layer_tables import LAYER_SETS
from engine.wire.requests import RECIPE_SAVE, SaveParams
from rknntui.app import Workbench
from rknntui.bridge import PATIENCE_SECONDS
from rknntui.keys.actions import REGISTRY
from rknntui.keys.keymap import conflicts, indistinct
from rknntui.screens.bench.panes import BenchViews
from rknntui.screens.builds.workspace import TABLES
from rknntui.screens.chips.panes import ChipViews
from rknntui.screens.result.panes import Results
from rknntui.workspaces import WORKSPACES, keys_of, load, load_all
from tests.tui.conftest import residual_model, screen_text, settle, until, with_graph, workbench

SIZE = (80, 24)


def test_every_action_has_a_method_and_help() -> None:
    load_all()
    for action in REGISTRY:
        owner = load(action.noun) if action.noun in WORKSPACES else Workbench
        found = hasattr(owner, f"action_{action.method}")
        assert found, f"{action.id}: {owner.__name__} has no action_{action.method}"
        assert action.help.endswith("."), action.id


def test_keys_have_one_meaning_and_reach_every_terminal() -> None:
    load_all()
    assert conflicts(REGISTRY, {}) == []
    for action in REGISTRY:
        assert [key for key in action.keys if indistinct(key)] == [], action.id
    everywhere = {key for action in REGISTRY for key in action.keys if action.noun == "app"}
    for name in WORKSPACES:
        keys = {key for action in REGISTRY.of(name) for key in action.keys}
        assert not everywhere & keys, name
    assert conflicts(REGISTRY, {"layers.keep": "a"}) == [
        "a means both layers.apply and layers.keep."
    ]
    assert conflicts(REGISTRY, {"layers.keep": "R"}), "one of them works in all views of Search"
    assert conflicts(REGISTRY, {"layers.step": "K"}) == [], "they are of different views"


def test_the_views_of_an_action_are_views_of_its_workspace() -> None:
    more = {"bench": BenchViews.VIEWS, "chips": ChipViews.VIEWS, "result": Results.VIEWS}
    more["builds"] = TABLES
    more["layers"] = dict.fromkeys((*LAYER_SETS, "Search", "Guide"))
    for name in WORKSPACES:
        views = more.get(name) or getattr(load(name), "PANES", {})
        for action in REGISTRY.of(name):
            assert set(action.views) <= set(views), action.id


async def test_number_keys_reach_every_workspace_and_the_footer_holds_eight_keys() -> None:
    async with workbench(kept=True) as (app, pilot):
        for name in WORKSPACES:
            await pilot.press(keys_of(name)[0], until=lambda name=name: app.current == name)
            await settle(pilot)
            assert app.workspace in app.focused.ancestors_with_self
            footer = screen_text(app).splitlines()[-1]
            assert "? Help" in footer
            assert "^p Palette" in footer
            bar = app.screen.query_one("KeyBar")
            assert 2 <= len(bar._places) <= 8
            await pilot.press("left", "right", "pagedown", "s", "S")  # of nothing, which has none


async def test_the_palette_lists_every_action_and_runs_one() -> None:
    async with workbench(kept=True) as (app, pilot):
        await pilot.press("ctrl+p", rests=True)
        from textual.command import CommandPalette

        palette = app.screen
        assert isinstance(palette, CommandPalette)
        from rknntui.keys.provider import ActionProvider, PlaceProvider

        provider = ActionProvider(palette)
        await provider.startup()
        titles = [hit.text async for hit in provider.discover()]
        assert sorted(titles) == sorted(a.title for a in REGISTRY if a.palette)
        found = [str(hit.match_display) async for hit in provider.search("layer float16")]
        assert found == ["layers: Promote"], "its description has the words"
        best = [str(hit.match_display) async for hit in provider.search("undo")]
        assert "app: Undo" in best
        app.session.recipe = {"model": "x.onnx"}
        layer = LayerCoverage("Conv_42", "Conv", integer=True, kernel="QLinearConv")
        app.session.summary = SimpleNamespace(
            layers=(layer,),
            outputs=(),
            findings=(),
            quantized=False,
            float_bytes=1,
            quantized_bytes=1,
        )
        hits = [hit async for hit in provider.search("mean")]
        best = max(hits, key=lambda hit: hit.score)
        assert best.text == "option: mean_values", "before scattered letters, as of Copy command"
        found = [str(hit.match_display) async for hit in provider.search("conv_42")]
        assert found == ["layer: Conv_42"]
        for word in ("throughput", "temperature", "encrypt"):
            found = [str(hit.match_display) async for hit in provider.search(word)]
            assert found, word
        app.session.recent = ("/models/face.onnx",)
        jump = PlaceProvider(palette)
        await jump.startup()
        assert [hit.text async for hit in jump.discover()] == ["file: face.onnx", "layer: Conv_42"]
        app.session.recipe, app.session.summary = {}, None
        await pilot.press(*"go: builds", rests=True)
        await pilot.press("enter", "enter", until=lambda: app.current == "builds")


@pytest.mark.long
async def test_wide_screens_have_more_keys_in_the_footer() -> None:
    async with workbench(size=(120, 40), kept=True) as (app, pilot):
        for name in WORKSPACES:
            await pilot.press(keys_of(name)[0], until=lambda name=name: app.current == name)
            await settle(pilot)
            footer = screen_text(app).splitlines()[-1]
            for shown in (a for a in REGISTRY.of(name) if a.footer and not app.disabled_reason(a)):
                assert shown.label in footer, "the most needed keys come before the others"
            assert footer.rstrip().endswith("^p Palette")
            room = max(map(len, re.findall(" +", footer.rstrip())))
            assert "^q Quit" in footer or room - 2 < len(" ^q Quit ")
        await pilot.press(keys_of("layers")[0], "V", "V")  # the view Search
        await until(pilot, lambda: screen_text(app).splitlines()[-1].count("Search…") == 1, "once")


@pytest.mark.long
async def test_jump_reaches_a_pane_and_survives_a_resize() -> None:
    async with workbench(kept=True) as (app, pilot):
        await pilot.press(keys_of("model")[0], until=lambda: app.current == "model")
        await settle(pilot)
        assert app.focused.id == "tree"
        await pilot.press("ctrl+o")
        await pilot.resize_terminal(120, 40)
        await settle(pilot)
        await pilot.press("s", rests=True)
        assert app.focused.id == "detail"
        await pilot.press("ctrl+o", keys_of("builds")[0], until=lambda: app.current == "builds")


@pytest.mark.parametrize("key", ["question_mark", "ctrl+o", "o", "theme"])
@pytest.mark.parametrize("theme", ["dark", "ansi"])
async def test_a_dialog_leaves_the_screen_behind_it_to_be_seen(key: str, theme: str) -> None:
    async with workbench() as (app, pilot):
        app.theming.use(theme)
        await settle(pilot)
        await (pilot.press(key) if key != "theme" else app.run_action("theme"))
        await until(pilot, lambda: len(app.screen_stack) == 2, "a dialog")
        await settle(pilot)
        lines = screen_text(app).splitlines()
        assert lines[1].startswith(" 0 Ove"), "the workspaces stand behind it"
        assert lines[-1].endswith("Palette "), "and the keys"


@pytest.mark.long
async def test_any_size_from_60x18_to_200x60_and_a_polite_word_below() -> None:
    async with workbench(size=(50, 15), kept=True) as (app, pilot):
        assert "needs 60x18; this is 50x15" in screen_text(app)
        for size in ((60, 18), (80, 24), (81, 25), (120, 40), (200, 60), (80, 24)):
            await pilot.resize_terminal(*size)
            await settle(pilot)
            lines = screen_text(app).splitlines()
            assert len(lines) == size[1]
            assert "No model is open" in "".join(lines)
            assert "Palette" in lines[-1]
            assert f"{keys_of('builds')[0]} Bui" in lines[1]


async def test_another_size_is_laid_out_once_and_never_blank_between() -> None:
    async with workbench() as (app, pilot):
        body, focused = app.screen.query_one("#body"), app.focused
        laid_out: list[tuple[int, bool]] = []

        def look(screen: Screen[None]) -> None:
            laid_out.append((screen._compositor.size.width, bool(body.region)))

        app.screen.screen_layout_refresh_signal.subscribe(body, look, immediate=True)
        await pilot.resize_terminal(20, 5)
        await settle(pilot)
        await pilot.resize_terminal(*SIZE)
        await settle(pilot)
        assert laid_out[0] == (20, False)
        assert {shown for width, shown in laid_out if width == SIZE[0]} == {True}, laid_out
        assert focused is not None, "the keys of the view work"
        assert app.focused is focused, "and again"


async def test_a_notice_covers_nothing_and_passes_only_a_long_one_has_a_box() -> None:
    async with workbench(notices=True) as (app, pilot):
        work = screen_text(app).splitlines()[1:]
        app.notify("build m.onnx: done in 0.1 s", timeout=0.5, markup=False)
        app.notify("accuracy [0]: done", timeout=0.5)
        await pilot.sees("accuracy [0]: done")
        assert "done in 0.1 s  ·  accuracy" in screen_text(app).splitlines()[0]
        await pilot.press(keys_of("builds")[0], "0", rests=True)
        assert screen_text(app).splitlines()[1:] == work
        assert not app.screen.query("Toast")
        await until(pilot, lambda: "accuracy" not in screen_text(app).splitlines()[0], "its end")
        app.notify("long " * 30)
        await until(pilot, lambda: app.screen.query("Toast"), "a box")


async def test_a_keymap_made_to_hurt_is_told_in_plain_letters(own_home: Path) -> None:
    folder = own_home / ".config" / "rknntui"
    folder.mkdir(parents=True)
    (folder / "keymap.toml").write_text(
        '[keys]\n"go.builds" = "f\\u009b9"\n"a\\u202e.b\\u007f" = "f9"\n'
    )
    async with workbench(notices=True) as (app, _):
        said = " ".join(n.message for n in app._notifications)
        assert "There is no action a.b." in said
        assert "go.builds: keys have letters" in said
        assert said.isprintable()
        assert REGISTRY.user_keys == {}


async def test_the_users_keys_count_and_wrong_ones_are_reported(own_home: Path) -> None:
    folder = own_home / ".config" / "rknntui"
    folder.mkdir(parents=True)
    (folder / "keymap.toml").write_text(
        '[keys]\n"go.builds" = "f9"\n"app.jump" = "ctrl+i"\n"model.serch" = "x"\n'
        '"model.table" = "f9"\n"model.graph" = "slash"\n'
    )
    async with workbench(notices=True, kept=True) as (app, pilot):
        said = " ".join(n.message for n in app._notifications)
        assert "terminals send tab for ctrl+i" in said
        assert "Did you mean 'model.search'" in said
        assert "slash means both model.search and model.graph." in said
        await pilot.press(keys_of("builds")[0], rests=True)
        assert app.current == "overview"
        await pilot.press("1")
        app.screen.query_one("#detail").focus()
        await pilot.press("f9", until=lambda: app.current == "builds")


@pytest.mark.usefixtures("warm")
async def test_a_change_on_disk_is_offered(model: Path) -> None:
    async with with_graph(model, notices=True, kept=True) as (_, pilot):
        residual_model(2, model)
        await pilot.sees("changed on disk")
        await pilot.press("f5", sees="6 nodes")


@pytest.mark.usefixtures("warm")
async def test_copying_uses_the_terminals_clipboard(model: Path) -> None:
    async with with_graph(model, kept=True) as (app, pilot):
        await pilot.press("down", "y")
        assert app.clipboard.split() == ["input", "1x4x8x8"]
        await pilot.press("Y")
        assert app.clipboard == f"rknntui inspect {model}"


@pytest.mark.usefixtures("own_workers")
async def test_a_killed_worker_is_replaced(model: Path) -> None:
    async with with_graph(model, kept=True) as (app, pilot):
        pid = app.bridge._workers["main"].pid
        os.kill(pid, 9)
        await settle(pilot)
        await pilot.press("slash", *"conv", "enter", sees="operator")
        assert app.bridge._workers["main"].pid != pid


@pytest.mark.usefixtures("own_workers")
async def test_esc_ends_a_question_that_is_never_answered(model: Path) -> None:
    async with with_graph(model, notices=True, kept=True) as (app, pilot):
        worker = ProcessId.of(app.bridge._workers["main"].pid)
        os.kill(worker.pid, signal.SIGSTOP)  # as native code that does not return
        app.open_path(str(model))
        await asyncio.sleep(PATIENCE_SECONDS + 0.2)
        await pilot.press("escape", until=lambda: not worker.alive)
        await pilot.sees("request was cancelled")
        app.open_path(str(model))
        await until(pilot, lambda: app.bridge.state == "ready" and app.bridge._workers["main"].pid)


async def test_the_mouse_reaches_tabs_and_keys() -> None:
    async with workbench(kept=True) as (app, pilot):
        place = screen_text(app).splitlines()[1].index(" 7 ")
        await pilot.click("TopBar", offset=(place, 1))
        await until(pilot, lambda: app.current == "builds", "the workspace Builds")
        place = screen_text(app).splitlines()[-1].index("? Help")
        await pilot.click("KeyBar", offset=(place, 0))
        await settle(pilot)
        assert "Help: Builds" in screen_text(app)


@pytest.mark.usefixtures("warm")
async def test_our_own_saving_is_no_news(model: Path) -> None:
    async with with_graph(model, notices=True, kept=True) as (app, pilot):
        path = model.with_name("recipe.yaml")
        for level in (1, 2):
            app.session.set_value("optimization_level", level)
            params = SaveParams(app.session.recipe, str(path), force=True)
            await app.bridge.call(RECIPE_SAVE, params)
            app.session.recipe_saved(str(path))
            await pilot.pause(0.8)
        assert not app.session.dirty
        assert "changed on disk" not in screen_text(app)
        path.write_text(path.read_text() + "# touched\n")
        await pilot.sees("recipe changed on disk")


async def test_two_tellings_of_one_error_are_one_dialog() -> None:
    from engine import UsageError

    async with workbench(kept=True) as (app, pilot):
        for _ in range(2):
            app.show_error(UsageError("Odd.", remedy="Even."))
            await settle(pilot)
        await pilot.press("y")
        assert app.clipboard == "Odd.\nFix: Even."
        await pilot.press("escape")
        assert len(app.screen_stack) == 1
        app.show_error(ValueError("a mistake"))
        await settle(pilot)
        assert "Internal error in the workbench: ValueError: a mistake" in screen_text(app)


async def test_what_is_being_opened_is_said_until_it_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = asyncio.Event()

    async def open_path(*_: object) -> None:
        await read.wait()

    monkeypatch.setattr("rknntui.session.open_flow.open_path", open_path)
    (tmp_path / "slow.onnx").write_bytes(b"read by nobody")
    async with workbench(tmp_path / "slow.onnx", kept=True) as (app, pilot):
        app.bridge.state = "ready"
        await pilot.sees("opening slow.onnx")
        read.set()
        await pilot.sees("idle")
        assert "opening" not in screen_text(app)


async def test_a_key_that_cannot_act_says_why_in_one_line() -> None:
    async with workbench() as (app, pilot):
        for key, why in {
            "b": "! Build: no model is open (o opens one).",
            "u": "! Undo: there is nothing to undo.",
            "ctrl+x": "! Stop job: no job is running.",
        }.items():
            await pilot.press(key)
            await until(pilot, lambda why=why: why in screen_text(app).splitlines()[0], why)
        await pilot.press(keys_of("chips")[0], until=lambda: "chips" in app.visited)
        await settle(pilot)
        await pilot.press("i")
        why = "! Install: it is of the view Toolkits (v switches)."
        await pilot.sees(why)


async def test_a_pane_that_is_zoomed_leaves_the_lines_of_state_and_keys() -> None:
    async with workbench() as (app, pilot):
        await pilot.press("z", rests=True)
        lines = screen_text(app).splitlines()
        assert "Esc shows the other panes again" in lines[0]
        assert lines[-1].endswith("Palette "), "the keys stay"
        assert app.focused.region.height == SIZE[1] - 3, "and all else is the pane's"
        await pilot.press(keys_of("builds")[0], rests=True)
        assert app.screen.maximized is None, "another workspace is shown whole"
