"""The Caffe models of the zoo against OpenCV's outputs, and one detector in two frameworks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from engine.frontends.load import find_source, inspect_source, load_source
from engine.frontends.loaded import Loaded
from engine.frontends.onnx import load_onnx
from engine.frontends.source import LoadOptions
from engine.graph.execute.session import Session
from engine.graph.ir import verify

# prototxt, caffemodel where its name differs, reference, size of the input
MODELS = [
    ("RFB-320", "", "RFB-320", None),
    ("mobilenet_v2", "mobilenet_v2_random", "mobilenet_v2_random", None),
    ("mtcnn_det1", "", "mtcnn_det1", None),
    ("mtcnn_det1", "", "mtcnn_det1_121x163", ((3, 121, 163),)),
    ("mtcnn_det2", "", "mtcnn_det2", None),
    ("mtcnn_det3", "", "mtcnn_det3", None),
]


def _load(zoo: Path, net: str, weights: str = "", **options: object) -> Loaded:
    folder = zoo / "caffe"
    chosen = LoadOptions(**options)  # type: ignore[arg-type]
    other = folder / f"{weights or net}.caffemodel"
    return load_source(find_source(folder / f"{net}.prototxt", other, chosen))


@pytest.mark.parametrize(("net", "weights", "name", "size"), MODELS, ids=[m[2] for m in MODELS])
def test_zoo_models_give_their_references(
    zoo: Path, net: str, weights: str, name: str, size: tuple | None
) -> None:
    loaded = _load(zoo, net, weights, input_size_list=size)
    verify(loaded.graph)
    stored = np.load(zoo / "ref" / f"caffe_{name}.npz")
    feeds = [stored[key] for key in stored if key.startswith("in:")]
    names = [spec.name for spec in loaded.graph.inputs]
    found = Session(loaded.graph).run(dict(zip(names, feeds, strict=True)))
    wanted = {key[4:]: stored[key] for key in stored if key.startswith("out:")}
    assert list(found) == sorted(wanted)
    for output, value in wanted.items():
        assert np.abs(found[output] - value).max() <= 1e-4


@pytest.mark.parametrize("number", [0, pytest.param(1, marks=pytest.mark.long)])
def test_the_copies_of_rfb_320_agree_on_photographs(zoo: Path, number: int) -> None:
    picture = sorted((zoo / "images" / "faces").iterdir())[number]
    pixels = np.asarray(Image.open(picture).convert("RGB").resize((320, 240)), np.float32)
    x = np.ascontiguousarray(((pixels - 127) / 128).transpose(2, 0, 1)[None])
    ours = Session(_load(zoo, "RFB-320", outputs=("scores", "boxes")).graph)
    onnx = Session(load_onnx(zoo / "onnx" / "version-RFB-320_without_postprocessing.onnx").graph)
    results = []
    for session in (ours, onnx):
        given = session.run({session.inputs[0].name: x})
        results.append(sorted(given.values(), key=lambda value: value.shape[-1]))
    for found, wanted in zip(*results, strict=True):
        assert found.shape == wanted.shape
        assert np.abs(found - wanted).max() <= 1e-4


def test_a_look_tells_the_layers_with_their_shapes(zoo: Path) -> None:
    source = find_source(zoo / "caffe" / "mtcnn_det3.prototxt")
    summary = inspect_source(source)
    assert summary.framework == "caffe"
    assert [(t.name, t.shape) for t in summary.inputs] == [("data", (1, 3, 48, 48))]
    assert [(t.name, t.shape) for t in summary.outputs] == [
        ("conv6-2", (1, 4)),
        ("conv6-3", (1, 10)),
        ("prob1", (1, 2)),
    ]
    assert summary.operators["PReLU"] == 5
    assert summary.parameters == 389_040
    assert not summary.refused
    graph = load_source(source).graph
    for layer in summary.layers:
        value = graph.values.get(layer.outputs[0])
        if value is not None and value.shape is not None:
            assert tuple(value.shape.numpy()) == layer.shape


def test_mobilenet_without_weights_gets_random_ones(zoo: Path) -> None:
    source = find_source(
        zoo / "caffe" / "mobilenet_v2.prototxt", None, LoadOptions(random_weights=True)
    )
    loaded, again = load_source(source), load_source(source)
    assert [finding.code for finding in loaded.findings] == ["random-weights"]
    x = np.random.default_rng(0).normal(0, 50, (1, 3, 224, 224)).astype(np.float32)
    probabilities = [
        Session(one.graph).run({one.graph.inputs[0].name: x})["prob"] for one in (loaded, again)
    ]
    assert np.array_equal(*probabilities)
    assert np.isfinite(probabilities[0]).all()
    assert abs(probabilities[0].sum() - 1) < 1e-4
