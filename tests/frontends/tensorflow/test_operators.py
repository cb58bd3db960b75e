"""Each operator against TensorFlow's own result, through the whole load."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.base.events import NullReporter
from engine.frontends.load import find_source
from engine.frontends.tensorflow import load
from engine.frontends.tensorflow.selection import SUPPORTED
from engine.graph.execute.session import Session
from tests.frontends.tensorflow.op_cases import CASES, Case

pytestmark = [pytest.mark.long, pytest.mark.tensorflow, pytest.mark.usefixtures("installed")]


def feeds_of(case: Case) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    low, high = case.integers
    return [
        rng.normal(size=shape).astype(dtype)
        if dtype == "float32"
        else rng.integers(low, high, shape).astype(dtype)
        for shape, dtype in case.inputs
    ]


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_operator_computes_what_tensorflow_does(case: Case, tf: Any, tmp_path: Path) -> None:
    v1 = tf.compat.v1
    with v1.Graph().as_default() as graph:
        inputs = [
            v1.placeholder(dtype, shape, name=f"in{i}")
            for i, (shape, dtype) in enumerate(case.inputs)
        ]
        tf.identity(case.build(tf.raw_ops, *inputs), name="out")
    used = {node.op for node in graph.as_graph_def().node}
    assert used <= SUPPORTED
    feeds = feeds_of(case)
    with v1.Session(graph=graph) as session:
        wanted = session.run("out:0", {f"in{i}:0": array for i, array in enumerate(feeds)})
    path = tmp_path / "graph.pb"
    path.write_bytes(graph.as_graph_def().SerializeToString())
    loaded = load(find_source(path), NullReporter())
    assert not [f for f in loaded.findings if f.code == "numbers-not-compared"]
    names = [spec.name for spec in loaded.graph.inputs]
    found = Session(loaded.graph).run(dict(zip(names, feeds, strict=True)))["out:0"]
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    if wanted.dtype.kind == "f":
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    else:
        np.testing.assert_array_equal(found, wanted)
