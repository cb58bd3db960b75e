"""Real networks in segments, quantized and in float: the outputs of the uncut ones, bit by bit."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from engine.graph.execute import SegmentedSession, Session
from engine.graph.ir import Graph
from engine.graph.layers import LayerMap
from engine.graph.segments import places_of
from engine.options import Value
from engine.pipeline.pipeline import Pipeline
from engine.pipeline.stages import STAGES
from engine.quantize import layers_of
from engine.recipe import Recipe

MODELS: dict[str, dict[str, Value]] = {
    "onnx/version-RFB-320_without_postprocessing.onnx": {},
    "caffe/mtcnn_det1.prototxt": {"input_size_list": [[1, 3, 48, 64]]},
    "tflite/micro_speech_int8.tflite": {},
    "onnx/concat_block.onnx": {},
}


def forms(path: Path, given: dict[str, Value], tmp_path: Path) -> list[tuple[Graph, LayerMap]]:
    """The float graph and, where it is not quantized already, its w8a8 form."""
    recipe = Recipe.from_values({"model": str(path), "do_quantization": False, **given})
    graph = Pipeline(recipe, STAGES).optimised.graph.graph
    found = [(graph, layers_of(graph))]
    if "int8" in path.name:
        return found
    rng = np.random.default_rng(0)
    names = []
    for number, spec in enumerate(graph.inputs):
        np.save(tmp_path / f"{number}.npy", rng.normal(size=spec.shape).astype(spec.dtype))
        names.append(f"{number}.npy")
    (tmp_path / "dataset.txt").write_text(" ".join(names) + "\n")
    dataset = str(tmp_path / "dataset.txt")
    recipe = Recipe.from_values({"model": str(path), "dataset": dataset, **given})
    done = Pipeline(recipe, STAGES).quantized
    return [*found, (done.graph.graph, done.layers)]


@pytest.mark.long
@pytest.mark.parametrize("name", MODELS)
def test_random_cuts(name: str, zoo: Path, tmp_path: Path) -> None:
    chance, rng = random.Random(name), np.random.default_rng(1)
    for graph, layers in forms(zoo / name, MODELS[name], tmp_path):
        count = len(layers.layers)
        feeds = {
            spec.name: rng.normal(size=spec.shape).astype(spec.dtype)
            if "float" in spec.dtype
            else rng.integers(-100, 100, spec.shape).astype(spec.dtype)
            for spec in graph.inputs
        }
        want = Session(graph).run(feeds)
        places = places_of(graph, layers)
        cuts = [chance.sample(range(count - 1), min(count - 1, each)) for each in (1, 3, 9)]
        for after in (*cuts, list(range(count - 1))):
            found = SegmentedSession(graph, places, after).run(feeds)
            for output, array in want.items():
                assert array.tobytes() == found[output].tobytes(), (output, after)
