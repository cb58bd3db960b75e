"""The parts of the workspaces alone: without the workbench, its session or a worker."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from textual.app import App, ComposeResult
from textual.message import Message

from engine import Finding
from engine.build import BuildSummary
from engine.wire.build import Analysis, Distance, LayerAccuracy
from engine.wire.layer_tables import QUALITY
from engine.wire.model import LOAD, OPEN, LoadParams, Tensor
from engine.wire.requests import ModelTarget
from rknntui.screens.bench.tracks import Track
from rknntui.screens.model.panes import DetailPane, SourceLoad, needed_option, tell_value
from rknntui.session.job_view_model import JobView
from rknntui.session.messages import JobEnded, RecipeChanged
from rknntui.session.state import Session
from rknntui.workspaces import load_all
from tests.tui.conftest import driven
from tests.tui.flow import model_view


@pytest.fixture(autouse=True, scope="module")
def registered() -> None:
    load_all()


class Alone(App[None]):
    """Shows one widget and keeps what it posts."""

    def __init__(self, widget: Any) -> None:
        super().__init__()
        self.widget = widget
        self.posted: list[Message] = []

    def compose(self) -> ComposeResult:
        yield self.widget

    def heard(self, kind: type[Message]) -> list[Any]:
        return [message for message in self.posted if isinstance(message, kind)]

    def on_layer_detail_wanted(self, message: Message) -> None:
        self.posted.append(message)

    def on_build_findings_joins_wanted(self, message: Message) -> None:
        self.posted.append(message)

    def on_build_findings_counted(self, message: Message) -> None:
        self.posted.append(message)

    def on_detail_pane_tensor_wanted(self, message: Message) -> None:
        self.posted.append(message)


class Stub:
    """What a controller is given in the place of a workspace."""

    shown = True

    def __init__(self) -> None:
        self.session = Session(lambda _: None)
        self.asked: list[tuple[Any, Any, Any, Any]] = []
        self.started: list[tuple[Any, Any, str]] = []
        self.posted: list[Message] = []
        self.said: list[str] = []
        self.errors: list[Exception] = []
        self.workbench = SimpleNamespace(show_error=self.errors.append)
        self.reason = ""

    def disabled_reason(self, method: str) -> str:
        return self.reason

    def ask(
        self, method: Any, params: Any, then: Any, *, failed: Any = None, group: str = ""
    ) -> None:
        self.asked.append((method, params, then, failed))

    def start_job(self, method: Any, params: Any, title: str) -> None:
        self.started.append((method, params, title))

    def post_message(self, message: Message) -> None:
        self.posted.append(message)

    def notify(self, message: str, **_: Any) -> None:
        self.said.append(message)


def test_the_session_fills_its_layers_from_the_jobs_of_the_build() -> None:
    session, recipe = Session(lambda _: None), {"model": "m"}
    session.recipe = session.built = recipe
    names = {"id": "n", "op": "Conv", "tensor": "t", "node": "n", "dtype": "int8", "sources": ()}
    none = dict.fromkeys(("added_share", "saturation", "output_impact", "cumulative"))
    figures = {"sqnr": 20.0, "isolated_sqnr": 30.0, "isolated": Distance(0.99, 1.0)}
    row = LayerAccuracy(**names, **none, **figures, inner=False, aliases=())
    result = Analysis(1, "the first calibration sample", (row,), ())
    for asked, known in (({"model": "m", "optimization_level": 1}, []), (recipe, [30.0])):
        job = JobView("1", "accuracy", "accuracy", 0.0, {"recipe": asked}, "done")
        session.result_found(job, result)
        assert [QUALITY.column("isolated_sqnr").of(row) for row in session.layers.rows] == known


async def test_the_detail_pane_asks_for_the_largest_constant() -> None:
    pane = DetailPane(id="detail")
    app = Alone(pane)
    async with driven(app) as pilot:
        await pilot.pause()
        assert "o " in pane.text()
        assert "open a model" in pane.text()
        pane.show(partial(tell_value, "input", Tensor("x", (1, 3), "float32")))
        assert "x" in pane.text()
        assert app.heard(DetailPane.TensorWanted) == []


def summary(*findings: Finding) -> BuildSummary:
    texts = dict.fromkeys(("key", "name", "next_command", "quantized_dtype"), "x")
    texts |= dict.fromkeys(("quantized_algorithm", "quantized_method"), "x")
    counts = ("samples", "float_bytes", "quantized_bytes", "container_bytes", "nodes")
    lists = dict.fromkeys(("layers", "outputs", "worst", "stages"), ())
    return BuildSummary(
        **texts, **dict.fromkeys(counts, 1), **lists, quantized=True, findings=findings
    )


def test_the_load_looks_again_when_its_options_change() -> None:
    stub = Stub()
    load = SourceLoad(stub)  # type: ignore[arg-type]
    assert load.why_not_load() == "a source model is not open ({app.open} opens one)."
    stub.session.recipe = {"model": "m.pt", "input_size_list": [[1, 3]]}
    stub.session.model = model_view("m.pt", kind="pytorch", loaded=False)
    load.recipe_changed(RecipeChanged(frozenset({"mean_values"})))
    assert stub.asked == []
    load.recipe_changed(RecipeChanged(frozenset({"input_size_list"})))
    assert stub.asked[0][:2] == (OPEN, ModelTarget("m.pt", source={"input_size_list": [[1, 3]]}))
    load.load()
    assert stub.started[0][:2] == (LOAD, LoadParams(recipe=stub.session.recipe))
    load.job_ended(JobEnded("1", "load", "failed"))
    assert len(stub.asked) == 1
    load.job_ended(JobEnded("1", "load", "done"))
    assert len(stub.asked) == 2
    needed = Finding("x", "error", "input_size_list", "It is missing.")
    stub.session.model = replace(stub.session.model, findings=(needed,))
    assert needed_option(stub.session.model) == "input_size_list"
    assert "{model.findings}, Enter opens it" in load.why_not_load()


def test_the_figures_of_a_soak_are_drawn_from_its_begin_on_in_any_width() -> None:
    track = Track(str, whole=True)
    for look in range(5000):  # of 40 minutes
        track.add(float(look))
    for room in (10, 117, 10_000):
        drawn = track.means(room)
        assert len(drawn) <= room
        assert drawn[0] < 5000 / len(drawn), "its begin"
        assert drawn[-1] > 4500 * (1 - 1 / len(drawn)), "and its end"
        assert list(drawn) == sorted(drawn)
    assert track.span == "0.0 to 4999.0"
    assert Track(str).means(10) == ()
