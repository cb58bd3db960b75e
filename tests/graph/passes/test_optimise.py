"""Levels, pipelines, logs and failures."""

from __future__ import annotations

import time

import numpy as np
import onnx
import pytest
from onnx import helper

from engine.base.errors import JobCancelledError, PassError
from engine.base.events import CallbackReporter, LogLine
from engine.graph.ir import ORIGIN, Graph, verify
from engine.graph.passes import (
    LEVELS,
    OPTIONAL,
    PASSES,
    PIPELINES,
    NodePass,
    Pass,
    Pipeline,
    optimise,
    run_pipeline,
)
from tests.graph.models import finish, model, nodes_of, tensor
from tests.graph.passes.support import furthest, operators, random_feeds, run

RNG = np.random.default_rng(3)


def block() -> Graph:
    """Conv, BatchNormalization, Relu, Identity, and a dead branch."""
    nodes = nodes_of(
        "[conv] a = Conv (x, w); [bn] n = BatchNormalization (a, s, b, m, v); "
        "[relu] r = Relu (n); [end] y = Identity (r); [dead] unused = Sigmoid (a)"
    )
    constants = {"w": RNG.normal(size=(4, 3, 3, 3)).astype(np.float32)}
    constants |= {k: RNG.uniform(0.5, 1.5, 4).astype(np.float32) for k in "sbmv"}
    return model(nodes, {"x": (1, 3, 8, 8)}, ["y"], constants)


def test_each_level_includes_the_one_below() -> None:
    assert list(PIPELINES) == [0, 1, 2, 3] == list(LEVELS)
    assert PIPELINES[0].repeated == PIPELINES[0].last == ()
    for low, high in ((0, 1), (1, 2), (2, 3)):
        assert set(PIPELINES[low].repeated) < set(PIPELINES[high].repeated)
    assert {*PIPELINES[3].repeated, *PIPELINES[3].last} == set(PASSES)


def test_every_pass_is_registered_named_and_described() -> None:
    def leaves(cls):
        below = cls.__subclasses__()
        return [leaf for c in below for leaf in leaves(c)] if below else [cls]

    found = {c for c in leaves(Pass) if c.__module__.startswith("engine.")}
    every = (*PASSES, *OPTIONAL)
    assert found == set(every)
    assert len({c.name for c in every}) == len(every)
    assert all(c.summary.endswith(".") and 1 <= c.level <= 3 for c in every)


def test_what_levels_do() -> None:
    graph = block()
    feeds = random_feeds(graph)
    reference = run(graph, feeds)
    expected = {
        0: ["Conv", "BatchNormalization", "Relu", "Identity", "Sigmoid"],
        1: ["Conv", "BatchNormalization", "Relu"],
        2: ["Conv", "Relu"],
        3: ["Conv", "Relu"],
    }
    for level, ops in expected.items():
        done = optimise(graph, level)
        assert operators(done.graph) == ops
        assert furthest(reference, run(done.graph, feeds)) < 1e-6
        verify(done.graph)


def test_the_source_stays_as_it_is() -> None:
    graph = block()
    before = graph.to_bytes()
    done = optimise(graph, 3)
    assert graph.to_bytes() == before
    assert done.graph is not graph


def test_names_and_origins() -> None:
    done = optimise(block(), 3)
    assert [s.name for s in done.graph.inputs] == ["x"]
    assert [s.name for s in done.graph.outputs] == ["y"]
    conv = done.graph.node("conv")
    assert conv.metadata_props[ORIGIN].split("\n") == ["conv", "bn"]
    assert conv.outputs[0].name == "n"
    assert done.graph.constant("w") is not None
    assert ORIGIN not in done.graph.node("relu").metadata_props


def test_the_log_tells_what_each_pass_did_and_what_it_missed() -> None:
    nodes = nodes_of("[conv] a = Conv (x, w); [mul] b = Mul (a, k); [add] y = Add (a, b)")
    constants = {"w": np.ones((2, 3, 1, 1), np.float32), "k": np.full((2, 1, 1), 2, np.float32)}
    done = optimise(model(nodes, {"x": (1, 3, 4, 4)}, ["y"], constants), 3)
    log = {r.name: r for r in done.log}
    assert [r.name for r in done.log] == [c.name for c in PASSES]
    fold = log["fold-into-weights"]
    assert not fold.modified
    assert not fold.counts
    assert ("mul", "the output of conv is read elsewhere too") in [
        (m.node, m.reason) for m in fold.reasons
    ]
    folded = {r.name: r for r in optimise(block(), 3).log}["fold-into-weights"]
    assert folded.modified
    assert folded.counts == {"BatchNormalization into Conv": 1}


def test_twice_is_once() -> None:
    once = optimise(block(), 3)
    twice = optimise(once.graph, 3)
    assert not any(r.modified for r in twice.log)
    assert twice.graph.to_bytes() == once.graph.to_bytes()


def test_equal_graphs_give_equal_bytes() -> None:
    graph = block()
    assert optimise(graph, 3).graph.to_bytes() == optimise(graph.copy(), 3).graph.to_bytes()


class _Fails(NodePass):
    name = "fails"
    level = 1
    summary = "Fails."
    roots = frozenset({"Relu"})

    def rewrite(self, node, edit):
        raise KeyError("no such thing")


class _Breaks(NodePass):
    name = "breaks"
    level = 1
    summary = "Breaks."
    roots = frozenset({"Relu"})

    def rewrite(self, node, edit):
        node.op_type = "NoSuchOperator"
        return self.did("broken")


class _Restless(NodePass):
    name = "restless"
    level = 1
    summary = "Never settles."
    roots = frozenset({"Relu"})

    def rewrite(self, node, edit):
        edit.touched.append(node)
        return self.did("again")


def test_a_failure_names_the_pass_and_those_before_it() -> None:
    dead_code = PIPELINES[3].repeated[0]
    with pytest.raises(PassError, match="'fails'") as caught:
        run_pipeline(block(), Pipeline("x", (dead_code, _Fails)))
    assert dead_code.name in caught.value.cause
    assert "lower optimization level" in caught.value.remedy


def test_a_pass_that_breaks_the_graph_is_caught() -> None:
    with pytest.raises(PassError, match="not valid after the pipeline 'x'") as caught:
        run_pipeline(block(), Pipeline("x", (_Breaks,), rounds=1))
    assert "breaks" in caught.value.cause


def test_rules_that_undo_each_other_end_with_an_error() -> None:
    with pytest.raises(PassError, match="do not settle"):
        run_pipeline(block(), Pipeline("x", (_Restless,)))


def test_an_unknown_level() -> None:
    with pytest.raises(PassError, match="level 4"):
        optimise(block(), 4)


def test_cancelling_and_reporting() -> None:
    with pytest.raises(JobCancelledError):
        optimise(block(), 3, CallbackReporter(lambda _: None, lambda: True))
    lines = []
    optimise(block(), 3, CallbackReporter(lines.append))
    assert any(isinstance(e, LogLine) and "fold-into-weights" in e.text for e in lines)


def _chain(count: int, kinds: tuple[str, ...]) -> Graph:
    nodes, constants, last = [], {}, "x"
    for i in range(count):
        kind, out, inputs, attributes = kinds[i % len(kinds)], f"t{i}", [last], {}
        if kind == "Conv":
            constants[f"w{i}"] = np.full((2, 2, 1, 1), 0.5, np.float32)
            inputs.append(f"w{i}")
        elif kind in ("Add", "Mul"):
            constants[f"w{i}"] = np.full((2, 1, 1), 1.001, np.float32)
            inputs.append(f"w{i}")
        elif kind == "Transpose":
            attributes["perm"] = [0, 2, 3, 1] if i % len(kinds) == 0 else [0, 3, 1, 2]
        nodes.append(helper.make_node(kind, inputs, [out], f"n{i}", **attributes))
        last = out
    return model(nodes, {"x": (1, 2, 2, 2)}, [last], constants)


@pytest.mark.parametrize(
    ("kinds", "left"),
    [
        (("Sigmoid",), 1.0),
        (("Identity",), 0.0),
        (("Conv", "Mul", "Add", "Relu"), 0.5),
        (("Transpose", "Sigmoid", "Tanh", "Transpose"), 0.5),
        (("Transpose",), 0.0),
    ],
)
def test_time_is_linear_in_nodes(kinds, left) -> None:
    """Four times the nodes take about four times the CPU; 16 times would be quadratic."""
    seconds = []
    for count in (240, 960):
        graph = _chain(count, kinds)
        best = np.inf
        for _ in range(2):
            begun = time.process_time()
            done = optimise(graph, 3)
            best = min(best, time.process_time() - begun)
        assert len(done.graph) == pytest.approx(left * count, abs=2)
        seconds.append(best)
    assert seconds[1] < 9 * seconds[0] + 0.05


def test_many_readers_of_one_tensor() -> None:
    nodes = [helper.make_node("Sigmoid", ["x"], ["s"], "s")]
    nodes += [helper.make_node("Clip", ["s", "low", "high"], [f"c{i}"]) for i in range(300)]
    nodes += [helper.make_node("Sum", [f"c{i}" for i in range(300)], ["y"])]
    constants = {"low": np.array(0.25, np.float32), "high": np.array(0.5, np.float32)}
    graph = model(nodes, {"x": (1, 4)}, ["y"], constants)
    feeds = random_feeds(graph)
    done = optimise(graph, 3)
    assert operators(done.graph).count("Clip") == 1
    assert furthest(run(graph, feeds), run(done.graph, feeds)) == 0


def test_sizes_that_are_computed_block_by_block() -> None:
    """A shifted window in every block, whose indices are computed from the size before it."""
    nodes, value = [], "x"
    for n in range(12):
        names = ("size", "float", "row", "moved", "turned", "index", "rolled", "scaled")
        size, real, row, moved, turned, index, rolled, scaled = (f"{name}{n}" for name in names)
        nodes += [
            helper.make_node("Shape", [value], [f"{size}v"], start=2, end=3),
            helper.make_node("Squeeze", [f"{size}v"], [size]),
            helper.make_node("Cast", [size], [real], to=onnx.TensorProto.FLOAT),
            helper.make_node("Range", ["zero", real, "one"], [row]),
            helper.make_node("Add", [row, "three"], [moved]),
            helper.make_node("Cast", [moved], [turned], to=onnx.TensorProto.INT64),
            helper.make_node("Mod", [turned, size], [index]),
            helper.make_node("Gather", [value, index], [rolled], axis=2),
            helper.make_node("Mul", [rolled, value], [scaled]),
        ]
        value = scaled
    constants = {"zero": np.float32(0), "one": np.float32(1), "three": np.float32(3)}
    graph = model(nodes, {"x": (1, 2, 7, 5)}, [value], constants)
    done = optimise(graph).graph
    assert set(operators(done)) == {"Gather", "Mul"}
    feeds = random_feeds(graph)
    assert furthest(run(graph, feeds), run(done, feeds)) == 0


def test_an_unknown_shape_is_left_alone() -> None:
    nodes = nodes_of("[flatten] f = Flatten (x); [shape] y = Shape (f)")
    end = tensor("y", 2, dtype=onnx.TensorProto.INT64)
    done = optimise(Graph.from_proto(finish(nodes, [tensor("x", "n", 3, 2)], [end])), 3)
    assert operators(done.graph) == ["Flatten", "Shape"]
    log = {r.name: r for r in done.log}
    assert log["canonical-reshape"].reasons[0].node == "flatten"


def test_the_documentation_lists_every_pass(repository) -> None:
    rows = [
        line.split("|")
        for line in (repository / "docs" / "passes.md").read_text().splitlines()
        if line.startswith("| `")
    ]
    listed = [(r[1].strip(" `"), int(r[2]), r[4].strip() == "yes") for r in rows]
    assert listed == [(c.name, c.level, c.keeps_bits) for c in PASSES]


@pytest.mark.parametrize(
    ("op", "dividend", "divisor", "left"),
    [
        ("Div", 3, 0, ["Div", "Cast"]),
        ("Mod", 3, 0, ["Mod", "Cast"]),
        ("Div", np.iinfo(np.int64).min, -1, ["Div", "Cast"]),
        ("Mod", np.iinfo(np.int64).min, -1, ["Mod", "Cast"]),
        ("Div", 6, -1, []),
        ("Mod", 6, 4, []),
    ],
)
def test_a_division_without_a_result_is_not_computed(op, dividend, divisor, left) -> None:
    # ONNX Runtime's kernel ends the process there (SIGFPE); the divisor is itself computed
    nodes = [
        helper.make_node("Neg", ["minus"], ["divisor"]),
        helper.make_node(op, ["dividend", "divisor"], ["c"]),
        helper.make_node("Cast", ["c"], ["d"], to=onnx.TensorProto.FLOAT),
        helper.make_node("Add", ["x", "d"], ["y"]),
    ]
    constants = {"dividend": np.array([dividend]), "minus": np.array([-divisor])}
    folded = optimise(model(nodes, {"x": (1,)}, ["y"], constants)).graph
    assert operators(folded) == [*left, "Add"]
