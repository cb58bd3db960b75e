"""One name for a layer in accuracy, hybrid and the build; every other name of it finds it."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from engine.base.errors import QuantizationError, RecipeError, UsageError
from engine.base.events import NullReporter
from engine.build import BuildSummary
from engine.container import read_container
from engine.graph.layers import Layer, LayerMap
from engine.hybrid import Layers
from engine.pipeline.results import QuantizedGraph
from engine.quantize import plan
from engine.recipe import load_recipe
from engine.report import layers_counted, summary_text
from engine.services.build import accuracy, build
from engine.services.hybrid import effect, propose, step1, table
from engine.services.model import layer as layer_values
from engine.services.recipes import save as write_recipe
from engine.services.state import get_pipeline, recipe_of
from engine.wire.build import Analysis
from engine.wire.codec import typed
from rknntui.cli.root import cli
from rknntui.demo import demo_recipe
from tests.cli.conftest import commands_share_a_worker, kept_worker

__all__ = ["commands_share_a_worker", "kept_worker"]

QUIET = NullReporter()


def ran(*words: str) -> str:
    """What a command that ends well prints."""
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def recipe() -> dict[str, Any]:
    return {**demo_recipe(), "dataset_count": 8}


@pytest.fixture
def names(recipe: dict[str, Any]) -> tuple[Layer, ...]:
    """The layers of the recipe's model."""
    return plan(get_pipeline(recipe_of(recipe)).optimised.graph.graph).layers.layers


@pytest.fixture
def fused(names: tuple[Layer, ...]) -> Layer:
    """The first of several nodes."""
    return next(layer for layer in names if len(layer.nodes) > 1)


def test_the_tables_of_all_verbs_name_the_same_layers(recipe: dict[str, Any]) -> None:
    rows = table({"recipe": recipe})["rows"]
    analysed = accuracy({"recipe": recipe}, QUIET)
    summary = build({"recipe": recipe}, QUIET)
    ranked = propose({"recipe": recipe, "samples": 2}, QUIET)["ranking"]
    names = {row["tensor"]: (row["layer"], row["op"], list(row["aliases"])) for row in rows}
    shown = [row for row in analysed["layers"] if not row["inner"]]
    found = {
        row["tensor"]: (row["name"], row["op"], list(row["aliases"]))
        for row in shown
        if row["op"] not in ("Input", "exDataConvert")
    }
    assert found == names
    assert len(names) == len(rows) == 14
    assert layers_counted(typed(Analysis, analysed)) == "14 layers, 2 rows of inputs"
    for row in summary["worst"]:
        assert (row["layer"], row["op"]) == names[row["tensor"]][:2]
    for row in ranked:
        assert row["layer"] == names[row["tensor"]][0]


def test_every_alias_finds_its_layer(
    recipe: dict[str, Any], names: tuple[Layer, ...], fused: Layer
) -> None:
    layers = Layers(get_pipeline(recipe_of(recipe)).optimised.graph.graph)
    assert fused.op == "Conv"
    assert len(fused.tensors) == 2
    assert len(fused.sources) == 3  # Conv, BatchNormalization, Relu
    for layer in names:
        for alias in layer.aliases:
            assert LayerMap(names).find(alias) is not None
            assert layers.named(alias).tensor in {other.tensor for other in names}
        for alias in (layer.tensor, *layer.nodes, *layer.tensors):
            assert layers.named(alias).tensor == layer.tensor
    with pytest.raises(RecipeError, match="has no layer") as caught:
        layers.named(f"{fused.nodes[1]}x")
    assert fused.nodes[1] in caught.value.remedy


def test_the_values_of_a_layer_are_found_by_any_name(recipe: dict[str, Any], fused: Layer) -> None:
    for alias in (fused.id, *fused.nodes, *fused.tensors, fused.sources[0]):
        found = layer_values({"recipe": recipe, "tensor": alias, "bins": 4})
        assert (found["layer"], found["tensor"]) == (fused.id, fused.tensor), alias
    with pytest.raises(UsageError, match="computes") as caught:
        layer_values({"recipe": recipe, "tensor": f"{fused.id}x"})
    assert fused.id in caught.value.remedy


def test_the_map_of_a_build_comes_back_from_cache_and_container(
    recipe: dict[str, Any], tmp_path: Path
) -> None:
    pipeline = get_pipeline(recipe_of(recipe))
    kept = pipeline.quantized
    again = QuantizedGraph.from_files(kept.key, kept.to_files())
    assert again.layers == kept.layers
    path = tmp_path / "net.rknn"
    path.write_bytes(pipeline.packed.data)
    assert read_container(path).layers == kept.layers


def test_the_listing_of_a_container_has_a_layers_own_dtype(
    recipe: dict[str, Any], names: tuple[Layer, ...]
) -> None:
    """Beside a lifted layer its tensor is converted for its readers, which is not its dtype."""
    lifted = next(layer for layer in names[1:] if layer.op == "Conv")
    data = get_pipeline(recipe_of({**recipe, "quantized_layers": {lifted.id: "int16"}})).packed.data
    (size,) = struct.unpack_from("<Q", data, 16)
    nodes = json.loads(data[64 + size + 8 :])["nodes"]
    own = [node for node in nodes if node["lid"] == lifted.id]
    assert own[-1]["nn"]["attributes"]["output_dtype"] == "int16"


def test_a_recipe_takes_any_name(recipe: dict[str, Any], fused: Layer) -> None:
    for alias in (fused.id, fused.nodes[1], fused.sources[-1], fused.tensors[0]):
        asked = {**recipe, "quantized_layers": {alias: "float16"}}
        rows = {row["tensor"]: row["dtype"] for row in table({"recipe": asked})["rows"]}
        assert rows[fused.tensor] == "float16", alias
        found = effect({"recipe": recipe, "layers": {alias: "float16"}}, QUIET)
        assert [row["ok"] for row in found["honoured"]] == [True]
    ranged = {**recipe, "quantized_ranges": {fused.id: [0.0, 3.0]}}
    rows = {row["tensor"]: row["maximum"] for row in table({"recipe": ranged})["rows"]}
    assert rows[fused.tensor] == 3.0
    twice = {**recipe, "quantized_layers": {fused.id: "float16", fused.nodes[1]: "int16"}}
    with pytest.raises(QuantizationError, match="are one layer"):
        table({"recipe": twice})
    wrong = {**recipe, "quantized_layers": {f"{fused.id}x": "float16"}}
    with pytest.raises(QuantizationError, match="has no layer") as caught:
        table({"recipe": wrong})
    assert fused.id in caught.value.remedy


@pytest.mark.usefixtures("commands_share_a_worker")
def test_what_is_written_has_ids_and_what_was_written_is_read(
    recipe: dict[str, Any], names: tuple[Layer, ...], fused: Layer, tmp_path: Path
) -> None:
    old = {**recipe, "quantized_layers": {fused.tensor: "int16"}}  # as recipes had it
    found = propose({"recipe": old, "budget": 14, "samples": 1}, QUIET)
    ids = {layer.id for layer in names}
    assert found["layers"].keys() <= found["asked"].keys() <= ids
    assert fused.id in found["asked"]
    file = tmp_path / "old.yaml"
    write_recipe({"recipe": old, "path": str(file), "force": False})
    saved = tmp_path / "new.yaml"
    ran("hybrid", "search", str(file), "--budget", "1", "-q", "--save", str(saved))
    written = load_recipe(saved).quantization.quantized_layers or {}
    assert written[fused.id] == "int16"
    assert len(written) >= 2
    assert set(written) <= ids
    with pytest.raises(RecipeError, match="has no layer"):
        step1({"recipe": recipe, "folder": str(tmp_path), "custom_hybrid": [["x", "y"]]}, QUIET)


@pytest.mark.usefixtures("commands_share_a_worker")
@pytest.mark.parametrize("net", ["demo", pytest.param("RFB-320", marks=pytest.mark.long)])
def test_the_worst_layer_has_one_name_everywhere(
    net: str, recipe: dict[str, Any], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if net == "RFB-320":
        folder = request.getfixturevalue("zoo")
        pictures = sorted((folder / "images").rglob("*.jpg"))[:2]
        dataset = tmp_path / "dataset.txt"
        dataset.write_text("".join(f"{path}\n" for path in pictures), encoding="utf-8")
        model = folder / "onnx" / "version-RFB-320_simplified.onnx"
        recipe = {"model": str(model), "dataset": str(dataset), "std_values": [[128.0] * 3]}
    summary = build({"recipe": recipe}, QUIET)
    worst = summary["worst"][0]
    own = {row["layer"]: row for row in table({"recipe": recipe})["rows"]}[worst["layer"]]
    assert own["tensor"] == worst["tensor"]
    assert own["sqnr_db"] == worst["sqnr_db"]
    analysed = accuracy({"recipe": recipe}, QUIET)["layers"]
    (row,) = [one for one in analysed if one["tensor"] == worst["tensor"] and not one["inner"]]
    assert row["name"] == worst["layer"]
    spread = layer_values({"recipe": recipe, "tensor": worst["layer"], "bins": 4})
    assert (spread["layer"], spread["sqnr_db"]) == (
        worst["layer"],
        pytest.approx(worst["sqnr_db"], abs=0.02),
    )
    covered = {one["layer"] for one in summary["layers"]}
    assert covered <= {one["name"] for one in analysed}
    text = summary_text(typed(BuildSummary, summary))
    assert worst["layer"] in text
    path = tmp_path / "net.rknn"
    pipeline = get_pipeline(recipe_of(recipe))
    path.write_bytes(pipeline.packed.data)
    assert worst["layer"] in ran("inspect", str(path))
    ranked = propose({"recipe": recipe, "samples": 1, "budget": 3}, QUIET)["ranking"]
    assert ranked
    for one in ranked:
        assert {r["name"] for r in analysed if r["tensor"] == one["tensor"]} == {one["layer"]}
    file = tmp_path / "net.yaml"
    write_recipe({"recipe": recipe, "path": str(file), "force": False})
    for verb in (["accuracy", "-q"], ["hybrid", "table"]):
        told = ran(*verb, str(file))
        assert any(worst["layer"] in line.split() for line in told.splitlines()), verb


@pytest.mark.usefixtures("commands_share_a_worker")
def test_the_command_line_shows_and_takes_these_names(
    recipe: dict[str, Any], names: tuple[Layer, ...], fused: Layer
) -> None:
    words = [recipe["model"], "--dataset", recipe["dataset"], "--dataset-count", "8"]
    words += ["--mean-values", "127.5", "--std-values", "127.5", "-q"]
    lines = ran("accuracy", *words, "--no-rounding").splitlines()
    assert lines[0].startswith("14 layers, 2 rows of inputs")
    shown = {word for line in lines[2:] for word in line.split()}
    assert shown >= {layer.id for layer in names}
    asked = ["--quantized-layers", f"{fused.nodes[1]}=float16", "--json"]
    rows = json.loads(ran("hybrid", "table", *words[:-1], *asked))["rows"]
    (row,) = [r for r in rows if r["tensor"] == fused.tensor]
    assert (row["layer"], row["dtype"]) == (fused.id, "float16")
    priced = ran("hybrid", "table", *words[:-1], "--target-platform", "rk3588")
    about, heads = priced.splitlines()[:2]
    assert "costs estimated" in about
    assert "+ms" in heads
    assert "time on rk3588: " in priced
