"""The job ``evaluate``, and the verb over it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from engine.base.errors import DatasetError, RecipeError, UsageError
from engine.base.events import CallbackReporter, Event, NullReporter
from engine.base.trust import trust_file, trusting
from engine.graph.execute import Session, open_model
from engine.quantize import lower_for_vendor
from engine.services.scoring import evaluate, evaluate_build
from engine.services.state import get_pipeline, recipe_of
from engine.wire.codec import encode
from rknntui.cli.root import cli
from rknntui.demo import demo_folder, demo_recipe, demo_test_samples

CODE = """
def margin(outputs, label, sample):
    (scores,) = outputs.values()
    flat = scores.ravel()
    return {"right": float(flat.argmax() == label), "largest": float(flat.max())}
"""


def run(**params: Any) -> dict[str, Any]:
    asked = {"recipe": demo_recipe(), "labels": str(demo_test_samples()), **params}
    return evaluate(asked, NullReporter())


def test_top_1_of_the_demo_against_sums_of_our_own() -> None:
    data = run(top=3)
    one, three = data["scores"]
    assert (one["name"], three["name"], data["samples"]) == ("top-1", "top-3", 500)
    pipeline = get_pipeline(recipe_of(demo_recipe()))
    float_graph = pipeline.optimised.graph.graph
    (spec,) = float_graph.inputs
    with np.load(demo_test_samples()) as arrays:
        pixels = (arrays["samples"].astype(np.float32) - 127.5) / 127.5
        labels = arrays["labels"]
    for side, graph in (("float", float_graph), ("simulated", pipeline.quantized.graph.graph)):
        session = Session(graph)
        answers = [
            int(np.argmax(next(iter(session.run({spec.name: one.reshape(spec.shape)}).values()))))
            for one in pixels
        ]
        assert one_of(data, side) == pytest.approx(float((np.array(answers) == labels).mean()))


def test_both_arithmetics_are_scored_where_that_is_asked_for() -> None:
    data = run(top=1, rounding=True)
    (moved,) = data["rounding"]
    assert (moved["name"], moved["integer"]) == ("top-1", one_of(data, "simulated"))
    pipeline = get_pipeline(recipe_of(demo_recipe()))
    with np.load(demo_test_samples()) as arrays:
        pixels = (arrays["samples"].astype(np.float32) - 127.5) / 127.5
        labels = arrays["labels"]
    graph = pipeline.quantized.graph.graph
    file = open_model(lower_for_vendor(graph).SerializeToString(), level="disabled")
    integer, (spec,) = Session(graph), graph.inputs
    answers = [[], []]
    for one in pixels:
        feed = {spec.name: one.reshape(spec.shape)}
        for place, found in enumerate((file.run(None, feed)[0], *integer.run(feed).values())):
            answers[place].append(int(np.argmax(found)))
    reference, other = map(np.array, answers)
    assert moved["reference"] == pytest.approx(float((reference == labels).mean()))
    assert data["rounding_agreement"] == pytest.approx(float((reference == other).mean()))
    assert run(top=1)["rounding"] == []


def test_a_build_is_scored_in_python_as_by_the_job() -> None:
    pipeline = get_pipeline(recipe_of(demo_recipe()))
    found = encode(evaluate_build(pipeline, demo_test_samples(), top=3))
    assert found["scores"] == run(top=3)["scores"]


def one_of(data: dict[str, Any], side: str) -> float:
    return float(data["scores"][0][side])


def test_a_function_runs_only_where_the_user_said_so(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(f"from pathlib import Path\nPath(__file__ + '.ran').touch()\n{CODE}")
    code = f"{file}:margin"
    with pytest.raises(RecipeError, match="score: the recipe wants to run"):
        run(score=code)
    assert not (tmp_path / "own.py.ran").exists()
    with trusting([str(file)]):
        data = run(score=code)
    assert (tmp_path / "own.py.ran").exists()
    right = data["scores"][0]
    assert (right["name"], right["float"]) == ("right", run()["scores"][0]["float"])
    assert right["float_interval"][0] < right["float"] < right["float_interval"][1]
    trust_file(file)
    assert run(score=code)["scores"] == data["scores"]
    file.write_text(CODE + "\n")
    with pytest.raises(RecipeError, match="has changed since it was confirmed"):
        run(score=code)
    with trusting([str(file)]), pytest.raises(RecipeError, match="has no function nargin"):
        run(score=f"{file}:nargin")


def test_what_cannot_be_scored() -> None:
    with pytest.raises(UsageError, match="nothing to compare"):
        run(recipe={**demo_recipe(), "do_quantization": False})
    with pytest.raises(UsageError, match="no float output"):
        run(output="none")
    with pytest.raises(UsageError, match="top is a whole number"):
        run(top=0)


@pytest.mark.long
def test_a_missing_sample_is_told_before_anything_is_built(tmp_path: Path) -> None:
    labels = tmp_path / "labels.txt"
    labels.write_text(f"{demo_folder() / 'calibration' / '000.png'} 0\nnone.png 1\n")
    events: list[Event] = []
    asked = {"recipe": demo_recipe(), "labels": str(labels)}
    with pytest.raises(DatasetError, match=r"line 2: .*none\.png does not exist"):
        evaluate(asked, CallbackReporter(events.append))
    assert not events


def test_the_verbs(tmp_path: Path) -> None:
    """``evaluate`` and ``accuracy --guide`` in their own worker, as text and as JSON."""
    folder = demo_folder()
    model = [
        str(folder / "digits_demo.onnx"),
        *("--dataset", str(folder / "dataset.txt")),
        *("--mean-values", "127.5", "--std-values", "127.5", "-q"),
    ]
    labels = ["--labels", str(demo_test_samples())]
    told = invoke("evaluate", *model, *labels)
    assert "top-1" in told
    assert "Intervals: 95 %" in told
    assert "arithmetic" not in told
    both = invoke("evaluate", *model, *labels, "--rounding")
    assert "top-1 in the reference arithmetic: " in both
    assert "both arithmetics: same answer on " in both
    (tmp_path / "own.py").write_text(CODE)
    own = invoke("evaluate", *model, *labels, "--score", f"{tmp_path}/own.py:margin", "--json")
    assert [row["name"] for row in json.loads(own)["scores"]] == ["right", "largest"]
    steps = json.loads(invoke("accuracy", *model, "--guide", "--json"))
    assert [one["id"] for one in steps["steps"]] == ["A1", "B1", "C1"]
    assert steps["changes"] == {}
    short = invoke(
        "accuracy",
        *model,
        "--guide",
        *("--quantized-dtype", "w4a8", "--quantized-method", "layer"),
    )
    assert "C1" in short
    ranked = json.loads(
        invoke("accuracy", *model, "--sort", "output-impact", "--json", "--count", "3")
    )
    impacts = [layer["output_impact"] for layer in ranked["layers"]]
    assert impacts == sorted(impacts, reverse=True)
    older = invoke("accuracy", *model, "--sort", "damage", "--damage", "--json", "--count", "3")
    assert json.loads(older)["layers"] == ranked["layers"], "names of older versions are read"
    assert impacts[0] > 0


def invoke(*arguments: str) -> str:
    result = CliRunner().invoke(cli, list(arguments))
    assert result.exit_code == 0, result.output
    return result.stdout
