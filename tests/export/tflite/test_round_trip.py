"""Operators of TFLite there and back: read, exported, run by TFLite's interpreter, read again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.base.errors import QuantizationError, UnsupportedOperatorError, UsageError
from engine.export.tflite import TfliteModel, to_tflite
from engine.graph.execute import Session
from engine.graph.ir import Graph
from engine.pipeline.pipeline import Pipeline
from engine.pipeline.stages import STAGES
from engine.quantize import QuantizeSettings, calibrate, quantize
from engine.recipe import Recipe
from engine.services.build import tflite_model
from tests.export.tflite.cases import interpreted, steps_apart, stored_as
from tests.frontends.tflite.op_cases import CASES
from tests.frontends.tflite.quant_cases import CASES as QUANTIZED
from tests.frontends.tflite.recurrent_cases import CASES as RECURRENT
from tests.frontends.tflite.tflite_models import Case, feeds_for, load_bytes, spread, write_case

_REFUSED = {
    # indices that are computed, or that add to what is there
    *("DYNAMIC_UPDATE_SLICE", "SCATTER_ND", "SPARSE_TO_DENSE", "gather-batch"),
    *("SEGMENT_SUM", "UNSORTED_SEGMENT_MAX", "UNSORTED_SEGMENT_MIN"),
    *("UNSORTED_SEGMENT_PROD", "UNSORTED_SEGMENT_SUM"),
    # TFLite has them, this version does not write them
    *("BITWISE_XOR", "CONV_3D", "floor_mod"),
}
_STEPS = {
    "bidirectional_sequence_lstm-batch-major-clip": 4  # sums of sums in fixed point
}
_READ_BACK = {"RESIZE_BILINEAR": 2}


def _quantized(graph: Graph, feed: dict[str, np.ndarray]) -> Graph:
    """On 8 bits where anything in it has a form of 8 bits."""
    try:
        return quantize(graph, calibrate(graph, [feed, feed]), QuantizeSettings()).graph
    except QuantizationError:
        return graph


_PLAIN = [case for case in (*CASES, *RECURRENT) if case.op != "FILL"]  # no input of elements


@pytest.mark.parametrize("case", spread(_PLAIN, 1))
def test_an_operator_keeps_its_layout_and_its_numbers(case: Case, tmp_path: Path) -> None:
    _there_and_back(case, tmp_path, quantized=False)


@pytest.mark.parametrize(
    "case", spread([c for c in QUANTIZED if c.inputs[0] and c.inputs[0].dtype == "int8"], 1)
)
def test_an_int8_operator_keeps_its_integers(case: Case, tmp_path: Path) -> None:
    _there_and_back(case, tmp_path, quantized=True)


def _there_and_back(case: Case, folder: Path, *, quantized: bool) -> None:
    loaded = load_bytes(write_case(case), folder)
    names = [spec.name for spec in loaded.graph.inputs]
    feed = dict(zip(names, feeds_for(case).values(), strict=True))
    graph = loaded.graph if quantized else _quantized(loaded.graph, feed)
    if {case.op, case.id} & _REFUSED:
        with pytest.raises(UnsupportedOperatorError):
            to_tflite(graph, inputs_last=False, outputs_last=False)
        return
    model = to_tflite(graph, inputs_last=False, outputs_last=False)
    ports = [port.shape for port in (*model.inputs, *model.outputs)]
    assert ports == [tuple(s.shape) for s in (*loaded.graph.inputs, *loaded.graph.outputs)]
    assert steps_apart(graph, model, feed) <= _STEPS.get(case.id, 1) + 1e-3
    allowed = max(_STEPS.get(case.id, 1), _READ_BACK.get(case.op, 1))
    assert _read_again(model, feed, folder) <= allowed + 1e-3


def _read_again(model: TfliteModel, feed: dict[str, np.ndarray], folder: Path) -> float:
    """How far our reading of a file is from TFLite's own, in steps; of floats in 1/256."""
    graph = load_bytes(model.data, folder).graph
    given = {
        spec.name: stored_as(port, feed[port.source])
        for port, spec in zip(model.inputs, graph.inputs, strict=True)
    }
    found, wanted = Session(graph).run(given), interpreted(model, feed)
    worst = 0.0
    for port, ours in zip(model.outputs, found.values(), strict=True):
        theirs = wanted[port.source]
        theirs = np.moveaxis(theirs, 1, -1) if port.channels_last else theirs
        assert ours.shape == theirs.shape
        gap = np.abs(ours.astype(np.float64) - theirs.astype(np.float64))
        worst = max(
            worst, float(np.nanmax(gap, initial=0)) * (256 if ours.dtype.kind == "f" else 1)
        )
    return worst


def _exported(model: Path, folder: Path, **options: Any) -> tuple[Pipeline, TfliteModel]:
    rng = np.random.default_rng(4)
    pipeline = Pipeline(Recipe.from_values({"model": str(model), **options}), STAGES)
    shapes = [[int(n) for n in spec.shape] for spec in pipeline.loaded.graph.graph.inputs]
    rows = []
    for row in range(2):
        names = [folder / f"{row}-{at}.npy" for at in range(len(shapes))]
        for name, shape in zip(names, shapes, strict=True):
            np.save(name, rng.random(shape, dtype=np.float32))
        rows.append(" ".join(map(str, names)))
    dataset = folder / "dataset.txt"
    dataset.write_text("\n".join(rows) + "\n", encoding="utf-8")
    values = {"model": str(model), "dataset": str(dataset), **options}
    pipeline = Pipeline(Recipe.from_values(values), STAGES)
    return pipeline, tflite_model(pipeline)


@pytest.mark.zoo
@pytest.mark.parametrize("nchw", [False, True])
def test_a_tflite_model_comes_out_in_the_layout_it_came_in(
    nchw: bool, zoo: Path, tmp_path: Path
) -> None:
    model = zoo / "tflite" / "resnet8_cifar10_float.tflite"
    options = {"input_is_nchw": True} if nchw else {}
    pipeline, made = _exported(model, tmp_path, **options)
    assert made.inputs[0].shape == (1, 32, 32, 3)
    feed = next(iter(pipeline.feeds()))
    assert steps_apart(pipeline.quantized.graph.graph, made, feed) <= 1


@pytest.mark.zoo
@pytest.mark.long
@pytest.mark.parametrize(
    "name", ["kws_dscnn_int8", "micro_speech_int8", "person_detect_int8", "vww_96_int8"]
)
def test_an_int8_model_comes_out_with_its_integers(name: str, zoo: Path, tmp_path: Path) -> None:
    loaded = load_bytes((zoo / "tflite" / f"{name}.tflite").read_bytes(), tmp_path)
    made = to_tflite(loaded.graph, inputs_last=False, outputs_last=False)
    shape = tuple(loaded.graph.inputs[0].shape)
    assert made.inputs[0].shape == shape
    rng = np.random.default_rng(1)
    for _ in range(3):
        feed = {made.inputs[0].source: rng.integers(-128, 128, shape).astype(np.int8)}
        assert steps_apart(loaded.graph, made, feed) == 0
        assert _read_again(made, feed, tmp_path) == 0


@pytest.mark.zoo
def test_a_quantized_model_needs_no_dataset(zoo: Path) -> None:
    model = zoo / "tflite" / "resnet8_cifar10_int8.tflite"
    values = {"model": str(model), "do_quantization": False}
    pipeline = Pipeline(Recipe.from_values(values), STAGES)
    made = tflite_model(pipeline)
    assert made.inputs[0].quant is not None
    assert made.inputs[0].shape == (1, 32, 32, 3)
    pipeline = Pipeline(
        Recipe.from_values({**values, "model": str(model.with_stem("resnet8_cifar10_float"))}),
        STAGES,
    )
    with pytest.raises(UsageError, match="without quantization"):
        tflite_model(pipeline)


@pytest.mark.zoo
@pytest.mark.long
def test_a_tensorflow_model_comes_out_in_the_layout_it_came_in(zoo: Path, tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    pipeline, made = _exported(zoo / "tensorflow" / "kws_dscnn.pb", tmp_path)
    graph = pipeline.loaded.graph.graph
    ports = [port.shape for port in (*made.inputs, *made.outputs)]
    assert ports == [tuple(spec.shape) for spec in (*graph.inputs, *graph.outputs)]
    feed = next(iter(pipeline.feeds()))
    assert steps_apart(pipeline.quantized.graph.graph, made, feed) <= 1
