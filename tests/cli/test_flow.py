"""From a folder of pictures to a container and back, with the verbs alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from rknntui.demo import demo_folder
from tests.cli.conftest import Run


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    (folder / "more").mkdir(parents=True)
    random = np.random.default_rng(1)
    for i in range(6):
        pixels = random.integers(0, 256, (8, 8), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / ("more" if i % 2 else "") / f"p{i}.png")
    (folder / "broken.jpg").write_bytes(b"\xff\xd8\xff half a picture")
    return folder


def test_dataset_recipe_build_accuracy_simulate_export(
    warm: Run, tmp_path: Path, photos: Path
) -> None:
    made = warm("dataset", "make", photos, "--count", "5", "--json", exit=0)
    assert made.json["samples"] == 5
    assert [s["file"] for s in made.json["skipped"]] != []
    assert len((tmp_path / "dataset.txt").read_text().splitlines()) == 5
    warm("dataset", "make", photos, exit=11)  # nothing is overwritten

    model = demo_folder() / "digits_demo.onnx"
    flags = ("--mean-values", "127.5", "--std-values", "127.5", "--dataset", "dataset.txt")
    warm("recipe", "new", model, *flags, "-o", "recipe.yaml", exit=0)
    warm("recipe", "check", "recipe.yaml", exit=0)

    built = warm("build", "recipe.yaml", "-o", "m.rknn", "--json", exit=0)
    assert built.json["samples"] == 5
    first = (tmp_path / "m.rknn").read_bytes()

    ranked = warm("accuracy", "recipe.yaml", "--output-dir", "snapshot", "--json", exit=0)
    assert ranked.json["layers"]
    (moved,) = ranked.json["rounding"]["outputs"]
    assert moved["name"] == "logits"
    assert moved["quantization_db"] > 20
    assert 0 <= moved["relative"] < 0.1
    assert ranked.json["rounding"]["label"] == "simulated"
    warm("accuracy", "recipe.yaml", says=("round. dB", "other roundings"))
    plain = warm("accuracy", "recipe.yaml", "--no-rounding")
    assert "rounding" not in plain.out
    text = (tmp_path / "snapshot" / "error_analysis.txt").read_text()
    assert "simulator_error" in text

    picture = photos / "p0.png"
    for target in ("recipe.yaml", "m.rknn"):
        ran = warm("simulate", target, "-i", picture, "--save", "out", "--force", "--json", exit=0)
        assert ran.json["outputs"][0]["label"] == "simulated"
        logits = np.load(tmp_path / "out" / "logits.npy")
        assert logits.shape == (1, 10)
        assert int(logits.argmax()) == ran.json["outputs"][0]["top"][0]["index"]
    warm("simulate", "m.rknn", "-i", picture, "--save", "out", exit=11)
    assert warm("simulate", "m.rknn", "-i", picture, "--as-compiled").code == 0
    for target in ("recipe.yaml", "m.rknn"):
        ran = warm("simulate", target, "-i", picture, "--arithmetic", "reference", "--json")
        assert (ran.code, ran.json["arithmetic"]) == (0, "reference"), ran.err

    warm("export", "recipe.yaml", "-o", "m.onnx", "--json", exit=0)
    tflite = warm("export", "recipe.yaml", "-o", "m.tflite", "--json", exit=0)
    assert tflite.json["format"] == "tflite"
    assert (tmp_path / "m.tflite").read_bytes()[4:8] == b"TFL3"
    warm("export", "recipe.yaml", "-o", "m.rknn", exit=11)
    again = warm("export", "recipe.yaml", "-o", "m.rknn", "--force")
    assert (again.code, "from the cache" in again.err) == (0, True)
    anew = warm("export", "recipe.yaml", "-o", "m.rknn", "--force", "--refresh")
    assert (anew.code, "from the cache" in anew.err) == (0, False)
    assert (tmp_path / "m.rknn").read_bytes() == first


@pytest.mark.long
def test_without_quantization(rknntui: Run, tmp_path: Path, photos: Path) -> None:
    model = demo_folder() / "digits_demo.onnx"
    built = rknntui("build", model, "--no-quantize", "-o", "f.rknn", exit=0)
    assert "every layer is simulated in float" in built.out
    refused = rknntui("export", model, "--no-quantize", "-o", "f.tflite")
    assert (refused.code, (tmp_path / "f.tflite").exists()) == (2, False)
    rknntui("simulate", "f.rknn", "-i", photos / "p0.png", "--json", exit=0)


@pytest.mark.long
def test_same_bytes_from_another_folder_and_spelling(
    rknntui: Run, tmp_path: Path, photos: Path
) -> None:
    model = demo_folder() / "digits_demo.onnx"
    flags = ("--mean-values", "[[127.5]]", "--std-values", "127.5", "--dataset")
    rknntui("build", model, *flags, photos, "-o", "a.rknn", exit=0)
    (tmp_path / "else").mkdir()
    rknntui("build", model, *flags, "../photos", "-o", "b.rknn", cwd=tmp_path / "else", exit=0)
    assert (tmp_path / "a.rknn").read_bytes() == (tmp_path / "else" / "b.rknn").read_bytes()


def test_a_suffix_that_says_no_form_is_refused_before_anything_is_built(
    warm: Run, tmp_path: Path
) -> None:
    model = demo_folder() / "digits_demo.onnx"
    for verb in ("export", "build"):
        done = warm(verb, model, "--no-quantize", "-o", tmp_path / "x.foo", exit=2)
        assert "x.foo" in done.err
        assert ".rknn, .onnx, .tflite" in done.err
        assert "Load the model" not in done.err
    assert not (tmp_path / "x.foo").exists()
    done = warm(
        "export", model, "--no-quantize", "-o", tmp_path / "x.foo", "--format", "onnx", exit=0
    )
