"""Graphs that run in parts: the same tensors, every node once, few tensors at a time."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from engine.base.errors import UsageError
from engine.graph.execute import PartedRun, Session, release_pool
from engine.graph.ir import Graph, infer_shapes
from tests.graph.models import float_net
from tests.graph.passes.support import random_feeds
from tests.quantize.models import Net, small_cnn

parted = importlib.import_module("engine.graph.execute.submodels")


def _floats(graph: Graph) -> list[str]:
    names = [value.name or "" for node in graph.nodes for value in node.outputs]
    return [name for name in names if graph.spec(name).dtype == "float32"]


def _same(graph: Graph, names: list[str], feed: dict[str, np.ndarray]) -> PartedRun:
    """Compare what the parts give with one session's results."""
    want = Session(graph, outputs=names, level="extended").run(feed, names)
    run = PartedRun(graph, names)
    found: dict[str, np.ndarray] = {}
    for given in run.run(feed):
        assert not found.keys() & given.keys()
        found.update(given)
    assert list(found) == names
    for name, array in want.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-5)
    return run


@pytest.mark.parametrize("nbytes", [0, 3000, 1 << 30])
def test_parts_give_what_one_session_gives(nbytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parted, "PART_BYTES", nbytes)
    net, graph = small_cnn()
    names = _floats(graph)
    run = _same(graph, names, net.feeds(1)[0])
    sizes = [[4 * (graph.spec(n).size or 0) for n in group] for group in run.groups]
    assert all(sum(group) <= nbytes or len(group) == 1 for group in sizes)
    assert len(run.groups) == {0: len(names), 1 << 30: 1}.get(nbytes, len(run.groups))


def test_every_node_is_in_one_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of tensors that nobody wants and that several parts need."""
    monkeypatch.setattr(parted, "PART_BYTES", 0)
    model = importlib.import_module("engine.graph.execute.submodels")
    nodes: list[str] = []
    assemble = model.SubmodelBuilder.assemble

    def noted(self, members, *rest, **named):  # type: ignore[no-untyped-def]
        nodes.extend(node.name for node in members)
        return assemble(self, members, *rest, **named)

    monkeypatch.setattr(model.SubmodelBuilder, "assemble", noted)
    net = Net()
    x = net.input(1, 8, 6)
    hidden = net.op("Exp", net.op("Tanh", x))
    first, second = net.op("Split", hidden, axis=1, num_outputs=2, outputs=2)
    one = net.op("Mul", first, 2.0)
    two = net.op("Add", hidden, net.op("Concat", one, second, axis=1))
    three = net.op("Sub", two, net.op("Sqrt", hidden))
    graph = net.graph(three)
    _same(graph, [first, second, one, two, three], net.feeds(1)[0])
    assert sorted(nodes) == sorted(node.name or "" for node in graph.nodes)


def test_a_model_without_types_and_one_wrong_feed() -> None:
    graph = infer_shapes(Graph.from_proto(float_net()))
    _same(graph, _floats(graph), random_feeds(graph))
    with pytest.raises(UsageError, match="was not fed"):
        next(PartedRun(graph, _floats(graph)).run({}))


def test_what_a_part_gave_lives_on_when_the_pool_is_released() -> None:
    net, graph = small_cnn()
    feed = net.feeds(1)[0]
    names = _floats(graph)
    kept = list(PartedRun(graph, names).run(feed))
    want = [{name: array.copy() for name, array in given.items()} for given in kept]
    release_pool()
    list(PartedRun(graph, names).run({name: array + 1 for name, array in feed.items()}))
    for before, after in zip(want, kept, strict=True):
        for name, array in before.items():
            np.testing.assert_array_equal(after[name], array)
