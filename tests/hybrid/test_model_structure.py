"""The structure file: its graph comes back as it was; what is none is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from engine.base.errors import RecipeError
from engine.graph.execute import Session
from engine.hybrid import Layers, read_structure, structure_json
from tests.hybrid.nets import chain


def test_the_graph_of_generation_1_comes_back(tmp_path: Path) -> None:
    graph, feeds = chain()
    text, weights = structure_json(Layers(graph))
    path = tmp_path / "m.json"
    path.write_bytes(text)
    assert weights  # not in the text
    parts = {name.removeprefix("weights/"): data for name, data in weights.items()}
    again = read_structure(path, parts)
    (name,) = (spec.name for spec in graph.outputs)
    np.testing.assert_array_equal(
        Session(again).run(feeds[0])[name], Session(graph).run(feeds[0])[name]
    )


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"{}",
        b'{"format": "rknntui-hybrid-structure", "version": 7}',
        b'{"format": "rknntui-hybrid-structure", "version": 1, "graph": 3}',
        json.dumps(
            {"format": "rknntui-hybrid-structure", "version": 1, "graph": {"graph": {"node": 1}}}
        ).encode(),
        b"\x08\x0a\x3a\xff\xff\xff\xff\x01",
        b"\x80\x04\x95 a pickle",
        b'{"a":' * 100_000,
    ],
    ids=str.split("empty open nothing version number shape onnx pickle deep"),
)
def test_what_is_none_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "m.model"
    path.write_bytes(content)
    with pytest.raises(RecipeError):
        read_structure(path, {})
