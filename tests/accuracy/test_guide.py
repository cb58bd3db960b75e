"""The accuracy guide: its order, its verdicts, and what each step finds on models made for it."""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from PIL import Image

from engine.accuracy.guide import STEPS, Fact, cosine_verdict, next_step, worst_verdict
from engine.base.errors import UsageError
from engine.base.events import NullReporter
from engine.graph.execute import Session
from engine.graph.ir import Graph
from engine.services import guide_float
from engine.services.guide import guide
from tests.accuracy.build import float_graph

# ---------------------------------------------------------------------------------------- the data


def order(**facts: bool) -> list[str]:
    done: list[str] = []
    while (step := next_step(done, lambda fact: holds(fact, facts))) is not None:
        done.append(step.id)
    return done


def holds(fact: Fact, facts: dict[str, bool]) -> bool:
    return fact == "always" or facts.get(fact.replace(" ", "_"), False)


def test_a_later_stage_is_not_begun_while_an_earlier_one_fails() -> None:
    assert order(float_wrong=True) == ["A1", "A2", "A3"]


def test_a_good_build_needs_nothing_but_the_board() -> None:
    assert order(float_right=True, board_due=True) == ["A1", "B1", "C1"]


def test_methods_come_cheap_to_costly_and_layers_after_them() -> None:
    facts = dict.fromkeys(
        (
            "float_right",
            "quantized_short",
            "per_layer",
            "before_kl_divergence",
            "before_mmse",
            "before_accurate",
            "board_due",
        ),
        True,
    )
    ids = order(**facts)
    assert ids == [step.id for step in STEPS if step.due != "float wrong"]
    assert ids.index("B3.1") < ids.index("B3.2") < ids.index("B3.3") < ids.index("B4.2")


@pytest.mark.parametrize(
    ("cosine", "verdict"),
    [(1.0, "pass"), (0.99, "pass"), (0.9899, "warning"), (0.98, "warning"), (0.9799, "fail")],
)
def test_verdicts_are_the_manuals(cosine: float, verdict: str) -> None:
    assert cosine_verdict(cosine) == verdict


def test_no_number_is_wrong() -> None:
    assert cosine_verdict(float("nan")) == "fail"
    assert worst_verdict(["pass", "warning", "pass"]) == "warning"
    assert worst_verdict([]) == "pass"


def test_every_step_can_run() -> None:
    checks = importlib.import_module("engine.services.guide")._CHECKS
    assert list(checks) == [step.id for step in STEPS]


# ----------------------------------------------------------------------------------------- the job


@pytest.fixture
def recipe(tmp_path: Path) -> dict[str, Any]:
    """A small float model with pictures."""
    onnx.save(float_graph().to_proto(), tmp_path / "small.onnx")
    rng = np.random.default_rng(0)
    names = []
    for index in range(6):
        pixels = rng.integers(0, 255, (8, 8, 3), np.uint8)
        pixels[..., 0] //= 4  # so that the order of channels matters
        Image.fromarray(pixels).save(tmp_path / f"{index}.png")
        names.append(f"{index}.png")
    (tmp_path / "dataset.txt").write_text("\n".join(names) + "\n")
    return {
        "model": str(tmp_path / "small.onnx"),
        "dataset": str(tmp_path / "dataset.txt"),
        "mean_values": [[127.5] * 3],
        "std_values": [[127.5] * 3],
    }


def step(recipe: dict[str, Any], name: str, **params: Any) -> dict[str, Any]:
    found = guide({"recipe": recipe, "step": name, **params}, NullReporter())["step"]
    assert isinstance(found, dict)
    return found


def walk(recipe: dict[str, Any]) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = []
    while True:
        answer = guide({"recipe": recipe, "done": [s["id"] for s in steps]}, NullReporter())
        steps.append(answer["step"])
        if answer["next"] is None:
            return steps
        assert set(answer["next"]) == {"id", "title", "why"}


def test_a_good_model_passes(recipe: dict[str, Any]) -> None:
    steps = walk(recipe)
    assert [s["id"] for s in steps] == ["A1", "B1", "C1"]
    assert [s["verdict"] for s in steps] == ["pass", "pass", "told"]
    assert set(steps[0]) == {
        "id",
        "stage",
        "title",
        "source",
        "did",
        "found",
        "verdict",
        "advice",
        "changes",
    }
    assert {tuple(found) for found in steps[0]["found"]} == {("label", "value", "verdict")}
    assert "no board was named" in steps[2]["did"]
    over = guide({"recipe": recipe, "done": [s["id"] for s in steps]}, NullReporter())
    assert over["step"] is None
    assert over["next"] is None


def test_unknown_steps_and_missing_samples(recipe: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="done is a list"):
        guide({"recipe": recipe, "done": ["Z9"]}, NullReporter())
    with pytest.raises(UsageError, match="no step"):
        guide({"recipe": recipe, "step": "B9"}, NullReporter())
    with pytest.raises(UsageError, match="needs samples"):
        guide({"recipe": {"model": recipe["model"]}, "done": []}, NullReporter())


def reference(
    recipe: dict[str, Any], folder: Path, mean: float, std: float, bgr: bool
) -> list[str]:
    """Outputs of the model for the first picture, prepared as another framework would."""
    pixels = np.asarray(Image.open(Path(recipe["dataset"]).parent / "0.png")).astype(np.float32)
    pixels = pixels[..., ::-1] if bgr else pixels
    feed = ((pixels - mean) / std).transpose(2, 0, 1)[None]
    outputs = Session(float_graph()).run({"x": np.ascontiguousarray(feed)})
    paths = []
    for name, array in outputs.items():
        paths.append(str(folder / f"{name}.npy"))
        np.save(paths[-1], array)
    return paths


def test_a_reference_finds_mean_std_and_channel_order(
    recipe: dict[str, Any], tmp_path: Path
) -> None:
    files = reference(recipe, tmp_path, 0, 255, bgr=True)
    answer = guide({"recipe": recipe, "done": [], "reference": files}, NullReporter())
    assert answer["step"]["verdict"] == "fail"
    assert answer["next"]["id"] == "A2"
    found = step(recipe, "A2", reference=files)
    assert found["verdict"] == "pass"
    assert found["changes"] == {
        "mean_values": [[0.0] * 3],
        "std_values": [[255.0] * 3],
        "quant_img_RGB2BGR": True,
    }
    better = step({**recipe, **found["changes"]}, "A1", reference=files)
    assert better["verdict"] == "pass"
    with pytest.raises(UsageError, match="1 reference files for 2 outputs"):
        step(recipe, "A1", reference=files[:1])
    with pytest.raises(UsageError, match="could not be read"):
        step(recipe, "A1", reference=[str(tmp_path / "none.npy")] * 2)


def test_a_pass_that_breaks_the_model_is_named(
    recipe: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    passes = importlib.import_module("engine.graph.passes")
    sound = passes.optimise

    def broken(graph: Graph, level: int = 3, *rest: Any) -> Any:
        done = sound(graph, level, *rest)
        if level < 2:
            return done
        proto = done.graph.to_proto()
        for node in proto.graph.node:
            if node.op_type == "Softmax":  # another order of the classes
                node.op_type = "LogSoftmax"
        return replace(done, graph=Graph.from_proto(proto))

    monkeypatch.setattr(passes, "optimise", broken)
    monkeypatch.setattr("engine.services.guide_float.optimise", broken)
    found = step(recipe, "A3")
    assert found["verdict"] == "fail"
    assert found["changes"] == {"optimization_level": 1}
    assert [f["verdict"] for f in found["found"]][:2] == ["pass", "pass"]


def test_values_beyond_half_precision_are_named(recipe: dict[str, Any]) -> None:
    proto = float_graph().to_proto()
    for tensor in proto.graph.initializer:
        if tensor.name == "w1":
            large = onnx.numpy_helper.to_array(tensor) * 1e6
            tensor.CopyFrom(onnx.numpy_helper.from_array(large.astype(np.float32), "w1"))
    onnx.save(proto, recipe["model"])
    found = step(recipe, "A1")["found"]
    assert any("float16 holds 65504" in f["value"] and f["verdict"] == "fail" for f in found)


def test_a_short_build_is_led_to_a_remedy(recipe: dict[str, Any]) -> None:
    short = {**recipe, "quantized_dtype": "w4a8", "quantized_method": "layer"}
    begun = guide({"recipe": short, "done": ["A1"]}, NullReporter())
    assert begun["step"]["id"] == "B1"
    assert begun["step"]["verdict"] != "pass"
    assert begun["next"]["id"] == "B2.1"
    found = step(short, "B2.1")
    assert found["verdict"] == "pass"
    assert found["changes"] == {"quantized_dtype": "w8a8"}
    after = guide({"recipe": {**short, **found["changes"]}, "done": ["A1", "B1"]}, NullReporter())
    assert after["step"]["id"] == "C1"


def test_steps_of_configuration(recipe: dict[str, Any]) -> None:
    colours = step(recipe, "B2.2")
    assert colours["verdict"] == "told"
    assert "only you know" in colours["advice"]
    assert step(recipe, "B2.3")["verdict"] == "pass"
    count = step(recipe, "B2.4")
    assert count["verdict"] == "warning"
    assert count["found"] == [{"label": "samples", "value": "6", "verdict": "warning"}]
    assert step(recipe, "B2.5")["verdict"] == "pass"


def test_layers_are_ranked_by_their_own_error(recipe: dict[str, Any]) -> None:
    found = step(recipe, "B4.1")["found"]
    own = [float(f["value"].split(" ")[1]) for f in found]
    assert own == sorted(own)
    assert {"told"} == {step(recipe, name)["verdict"] for name in ("B5", "C1")}


def test_the_float_verdict_is_kept_between_steps(
    recipe: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    guide({"recipe": recipe, "done": []}, NullReporter())

    def again(*_: Any) -> Any:
        raise AssertionError("the float model ran again")

    monkeypatch.setattr(guide_float, "_half_cosines", again)
    assert guide({"recipe": recipe, "done": ["A1"]}, NullReporter())["step"]["id"] == "B1"
