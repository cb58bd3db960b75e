"""What a request names: the file, how its pictures are prepared, and the layers of its build."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import ContainerError, UsageError
from engine.base.events import NullReporter
from engine.container import read_container
from engine.services.board_models import model_source
from engine.wire.requests import ModelTarget
from rknntui.demo import demo_folder
from tests.devices.demo_container import demo_container

RECIPE: dict[str, Any] = {
    "model": str(demo_folder() / "digits_demo.onnx"),
    "mean_values": [[0]],
    "std_values": [[16]],
    "resize_fit": "crop",
}


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return demo_container(tmp_path_factory.mktemp("demo") / "demo.rknn", "rk3588")


def ids(target: ModelTarget, build: ModelTarget | None = None) -> list[str] | None:
    layers = model_source(target, build, NullReporter()).layers()
    return None if layers is None else [layer.id for layer in layers.layers]


def test_a_recipe_names_the_layers_without_a_calibration(model: Path, container: Path) -> None:
    """The recipe has no dataset: nothing of it can be quantized."""
    layers = read_container(container).layers
    assert layers is not None
    expected = [layer.id for layer in layers.layers]
    compiled = ModelTarget(str(model))
    assert ids(compiled) is None
    assert ids(ModelTarget(str(model), RECIPE)) == expected
    assert ids(compiled, ModelTarget(recipe=RECIPE)) == expected
    assert ids(compiled, ModelTarget(str(container))) == expected
    assert ids(ModelTarget(str(container), RECIPE)) == expected
    gone = {**RECIPE, "dataset": "/nowhere/dataset.txt"}
    assert ids(ModelTarget(str(model), gone)) == expected
    # the workspace has no model open
    assert ids(ModelTarget(str(model), {})) is None


def test_pictures_are_prepared_as_the_build_says(model: Path, container: Path) -> None:
    reporter = NullReporter()
    own = model_source(ModelTarget(str(container)), None, reporter)
    assert own.preprocess.std == ((16.0,),)
    assert (own.path, own.title) == (container, "demo.rknn")
    given = model_source(ModelTarget(str(model), RECIPE), None, reporter)
    assert (given.path, given.preprocess.resize_fit) == (model, "crop")
    built = model_source(ModelTarget(recipe=RECIPE), None, reporter)
    assert (built.path, built.title) == (None, "digits_demo.onnx")
    plain = model_source(ModelTarget(str(model)), None, reporter)
    assert plain.preprocess.mean is None


def test_what_a_board_gives_stands_beside_float(model: Path) -> None:
    picture = demo_folder() / "calibration" / "005.png"
    source = model_source(ModelTarget(recipe=RECIPE), None, NullReporter())
    (floats,) = source.floats([picture])
    (output,), notes = source.figures(["logits"], [floats + 0.5], [picture], 3, "measured")
    assert output.beside is not None
    assert (output.label, notes) == ("measured", ())
    assert output.beside.largest == pytest.approx(0.5, abs=1e-3)
    assert output.beside.at[0] == pytest.approx(output.top[0].value - 0.5, abs=1e-3)
    for recipe, words in ((None, ""), ({**RECIPE, "model": "/nowhere.onnx"}, "with float")):
        unknown = model_source(ModelTarget(str(model), recipe), None, NullReporter())
        (output,), notes = unknown.figures(["logits"], [floats], [picture], 3, "measured")
        assert output.beside is None
        assert words in " ".join(notes)


def test_what_names_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="names no recipe and no path"):
        model_source(ModelTarget(), None, NullReporter())
    with pytest.raises(ContainerError, match="no model that a board"):
        model_source(ModelTarget(__file__), None, NullReporter())
