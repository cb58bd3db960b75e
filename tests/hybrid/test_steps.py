"""Step 1 and step 2 over files, in both generations, as the class and as jobs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from engine.api import RKNN
from engine.base.errors import OutputExistsError, QuantizationError, RecipeError
from engine.base.events import NullReporter
from engine.container import read_container
from engine.hybrid import read_data, write_data
from engine.pipeline.hybrid_steps import build_step2
from engine.services import hybrid
from engine.services.build import build
from tests.pipeline.nets import project, small_net


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model and a dataset, and the current one."""
    monkeypatch.chdir(tmp_path)
    return project(tmp_path)


@pytest.fixture
def recipe(place: Path) -> dict[str, Any]:
    return {"model": str(place / "small.onnx"), "dataset": str(place / "dataset.txt")}


def loaded(generation: int) -> RKNN:
    rknn = RKNN(generation=generation)
    if generation == 1:
        rknn.config(channel_mean_value="128 128 128 64", reorder_channel="0 1 2")
    else:
        rknn.config(mean_values=[[128] * 3], std_values=[[64] * 3])
    assert rknn.load_onnx(model="small.onnx") == 0
    return rknn


FILES = {
    1: ("small.json", "small.data", "small.quantization.cfg"),
    2: ("small.model", "small.data", "small.quantization.cfg"),
}


@pytest.mark.parametrize("generation", [1, 2])
def test_both_steps_of_the_class(place: Path, generation: int) -> None:
    assert loaded(generation).hybrid_quantization_step1(dataset="dataset.txt") == 0
    assert {path.name for path in place.iterdir()} >= set(FILES[generation])
    config = place / "small.quantization.cfg"
    key = "customized_quantize_layers" if generation == 1 else "custom_quantize_layers"
    entry = "conv1: float32" if generation == 1 else "r1: float16"
    config.write_text(config.read_text().replace(f"{key}: {{}}", f"{key}:\n    {entry}"))

    rknn = RKNN(generation=generation)  # nothing is loaded or configured
    model, data, cfg = FILES[generation]
    given = {"model_input": model, "data_input": data, "model_quantization_cfg": cfg}
    assert rknn.hybrid_quantization_step2(**given) == 0
    assert rknn.export_rknn("small.rknn") == 0
    table = read_container(place / "small.rknn").table
    assert table["r1"].dtype == "float16"
    assert table["r2"].dtype in ("int8", "uint8")
    assert rknn.init_runtime() == 0
    outputs = rknn.inference(inputs=[np.zeros((1, 16, 16, 3), np.uint8)])
    assert outputs[0].shape == (1, 10)


def test_the_files_say_what_they_are(place: Path) -> None:
    assert loaded(2).hybrid_quantization_step1(dataset="dataset.txt") == 0
    assert {n.op_type for n in onnx.load("small.model").graph.node} >= {"Conv", "Gemm"}
    assert loaded(1).hybrid_quantization_step1(dataset="dataset.txt") == 0
    structure = json.loads(Path("small.json").read_text())
    assert "own" in structure["note"]
    assert [layer["output"] for layer in structure["layers"]][:2] == ["r1", "r2"]


def test_step2_is_the_build_with_the_same_layers(place: Path, recipe: dict[str, Any]) -> None:
    lifted = {"r1": "float16"}
    job = {"recipe": {**recipe, "quantized_layers": lifted}, "folder": str(place / "out")}
    files = hybrid.step1(job, NullReporter())["files"]
    done = hybrid.step2(files, NullReporter())
    whole = build({"recipe": job["recipe"]}, NullReporter())
    assert done["summary"]["outputs"] == whole["outputs"]
    assert [(row["asked"], row["got"], row["ok"]) for row in done["honoured"]] == [
        ("float16", "float16", True)
    ]
    assert done["honoured"][0]["line"] == 2


def test_step2_needs_neither_model_nor_dataset(place: Path, recipe: dict[str, Any]) -> None:
    job = {"recipe": recipe, "folder": str(place / "out"), "custom_hybrid": [["r1", "r2"]]}
    files = hybrid.step1(job, NullReporter())["files"]
    for path in [*place.glob("*.png"), place / "dataset.txt", place / "small.onnx"]:
        path.unlink()
    done = hybrid.step2({**files, "path": str(place / "x.rknn")}, NullReporter())
    assert [row["layer"] for row in done["honoured"]] == ["conv2"]
    assert done["summary"]["outputs"][0]["sqnr_db"] > 10
    assert (place / "x.rknn").stat().st_size > 0


def test_a_proposal_stands_in_the_file(place: Path) -> None:
    assert loaded(2).hybrid_quantization_step1("dataset.txt", None, True, 2) == 0
    head = Path("small.quantization.cfg").read_text().splitlines()[0]
    assert "dB" in head
    assert "simulated" in head


def test_files_are_not_overwritten_and_not_mixed(place: Path, recipe: dict[str, Any]) -> None:
    job = {"recipe": recipe, "folder": str(place / "out")}
    files = hybrid.step1(job, NullReporter())["files"]
    before = Path(files["config"]).read_bytes()
    with pytest.raises(OutputExistsError):
        hybrid.step1(job, NullReporter())
    assert Path(files["config"]).read_bytes() == before
    Path(files["model"]).write_bytes(small_net(seed=3).SerializeToString())
    with pytest.raises(RecipeError, match="belong together"):
        hybrid.step2(files, NullReporter())


def test_a_wrong_name_builds_nothing_and_loses_nothing(place: Path) -> None:
    rknn = loaded(2)
    assert rknn.hybrid_quantization_step1(dataset="dataset.txt") == 0
    config = Path("small.quantization.cfg")
    text = config.read_text().replace(": {}", ":\n    r9: float16", 1)
    config.write_text(text)
    assert rknn.hybrid_quantization_step2("small.model", "small.data", str(config)) == -1
    assert config.read_text() == text
    assert rknn.export_rknn("x.rknn") == -1


def test_a_damaged_data_file_is_no_mistake_of_this_program(place: Path) -> None:
    assert loaded(2).hybrid_quantization_step1(dataset="dataset.txt") == 0
    whole = read_data(Path("small.data"))
    missing = {name: data for name, data in whole.files.items() if name != "written.cfg"}
    torn = {
        name: data[: len(data) // 2] if name.startswith("calibration/") else data
        for name, data in whole.files.items()
    }
    for files in (missing, torn):
        Path("small.data").write_bytes(write_data(replace(whole, files=files)))
        with pytest.raises(RecipeError, match=r"step 1|calibration saw"):
            build_step2(Path("small.model"), Path("small.data"), Path("small.quantization.cfg"))


def test_arguments_that_cannot_be(place: Path) -> None:
    rknn = loaded(2)
    assert rknn.hybrid_quantization_step1("dataset.txt", custom_hybrid=[["r1"]]) == -1
    assert rknn.hybrid_quantization_step1("dataset.txt", custom_hybrid=[["r2", "r1"]]) == -1
    assert rknn.hybrid_quantization_step1("dataset.txt", proposal_dataset_size=0) == -1
    assert rknn.hybrid_quantization_step1("missing.txt") == -1
    assert RKNN().hybrid_quantization_step1("dataset.txt") == -1
    assert rknn.hybrid_quantization_step2("a.model", "b.data") == -1


def test_the_table_and_the_effect(recipe: dict[str, Any]) -> None:
    table = hybrid.table({"recipe": recipe})
    rows = {row["tensor"]: row for row in table["rows"]}
    assert rows["r1"]["choices"][0] == rows["r1"]["dtype"] == "int8"
    assert set(rows["r1"]["choices"]) == {"int8", "float16", "int16"}
    assert list(rows["r1"]["source"]) == ["conv1", "relu1"]
    assert rows["r1"]["minimum"] <= 0 < rows["r1"]["maximum"]
    every = {tensor: "float16" for tensor, row in rows.items() if row["kind"] != "float"}
    params = {"recipe": recipe, "layers": every, "ranges": {}, "rounding": False}
    found = hybrid.effect(params, NullReporter())
    (output,) = found["outputs"]
    assert output["before_db"] == pytest.approx(table["outputs"][0]["sqnr_db"], abs=1e-3)
    assert output["sqnr_db"] > output["before_db"] + 15
    assert all(row["ok"] for row in found["honoured"])
    assert output["rounding"] is output["rounding_before"] is None
    (moved,) = hybrid.effect({**params, "rounding": True}, NullReporter())["outputs"]
    assert moved["sqnr_db"] == output["sqnr_db"]
    assert moved["rounding_before"]["quantization_db"] == pytest.approx(
        output["before_db"],
        abs=3.0,  # of two samples, not of all
    )
    before, after = moved["rounding_before"]["relative"], moved["rounding"]["relative"]
    assert 0 <= after <= before, "a model in half precision has no edges of integers"


def test_a_chip_without_float16_is_not_offered_it(recipe: dict[str, Any]) -> None:
    rows = hybrid.table({"recipe": {**recipe, "target_platform": "rv1106"}})["rows"]
    assert all("float16" not in row["choices"] for row in rows if row["kind"] != "float")


def test_auto_hybrid_lifts_what_passes_its_threshold(recipe: dict[str, Any]) -> None:
    got = {}
    for threshold in (-1.0, 1.0):
        options = {"auto_hybrid": True, "auto_hybrid_cos_thresh": threshold}
        rows = hybrid.table({"recipe": {**recipe, **options}})["rows"]
        got[threshold] = {row["tensor"]: row["dtype"] for row in rows if row["kind"] != "float"}
    assert set(got[-1.0].values()) == {"int8"}
    assert set(got[1.0].values()) == {"float16"}


@pytest.mark.parametrize(
    "options", [{"auto_hybrid": True}, {"quantized_layers": {"r1": "float16"}}]
)
def test_a_chip_of_integers_alone_refuses_lifted_layers(
    recipe: dict[str, Any], options: dict[str, object]
) -> None:
    with pytest.raises(QuantizationError, match="rv1106"):
        hybrid.table({"recipe": {**recipe, "target_platform": "rv1106", **options}})
