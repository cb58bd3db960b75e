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
    made = warm("dataset", "make", photos, "--count", "5", "--json")
    assert made.code == 0, made.err
    assert made.json["samples"] == 5
    assert [s["file"] for s in made.json["skipped"]] != []
    assert len((tmp_path / "dataset.txt").read_text().splitlines()) == 5
    assert warm("dataset", "make", photos).code == 11  # nothing is overwritten

    model = demo_folder() / "digits_demo.onnx"
    flags = ("--mean-values", "127.5", "--std-values", "127.5", "--dataset", "dataset.txt")
    new = warm("recipe", "new", model, *flags, "-o", "recipe.yaml")
    assert new.code == 0, new.err
    assert warm("recipe", "check", "recipe.yaml").code == 0

    built = warm("build", "recipe.yaml", "-o", "m.rknn", "--json")
    assert built.code == 0, built.err
    assert built.json["samples"] == 5
    first = (tmp_path / "m.rknn").read_bytes()

    ranked = warm("accuracy", "recipe.yaml", "--output-dir", "snapshot", "--json")
    assert ranked.code == 0, ranked.err
    assert ranked.json["layers"]
    (moved,) = ranked.json["rounding"]["outputs"]
    assert moved["name"] == "logits"
    assert moved["quantization_db"] > 20
    assert 0 <= moved["relative"] < 0.1
    assert ranked.json["rounding"]["label"] == "simulated"
    told = warm("accuracy", "recipe.yaml")
    assert "round. dB" in told.out
    assert "other roundings" in told.out
    plain = warm("accuracy", "recipe.yaml", "--no-rounding")
    assert "rounding" not in plain.out
    text = (tmp_path / "snapshot" / "error_analysis.txt").read_text()
    assert "simulator_error" in text

    picture = photos / "p0.png"
    for target in ("recipe.yaml", "m.rknn"):
        ran = warm("simulate", target, "-i", picture, "--save", "out", "--force", "--json")
        assert ran.code == 0, ran.err
        assert ran.json["outputs"][0]["label"] == "simulated"
        logits = np.load(tmp_path / "out" / "logits.npy")
        assert logits.shape == (1, 10)
        assert int(logits.argmax()) == ran.json["outputs"][0]["top"][0]["index"]
    assert warm("simulate", "m.rknn", "-i", picture, "--save", "out").code == 11
    assert warm("simulate", "m.rknn", "-i", picture, "--as-compiled").code == 0
    for target in ("recipe.yaml", "m.rknn"):
        ran = warm("simulate", target, "-i", picture, "--arithmetic", "reference", "--json")
        assert (ran.code, ran.json["arithmetic"]) == (0, "reference"), ran.err

    onnx = warm("export", "recipe.yaml", "-o", "m.onnx", "--json")
    assert onnx.code == 0, onnx.err
    tflite = warm("export", "recipe.yaml", "-o", "m.tflite", "--json")
    assert tflite.code == 0, tflite.err
    assert tflite.json["format"] == "tflite"
    assert (tmp_path / "m.tflite").read_bytes()[4:8] == b"TFL3"
    assert warm("export", "recipe.yaml", "-o", "m.rknn").code == 11
    again = warm("export", "recipe.yaml", "-o", "m.rknn", "--force")
    assert (again.code, "from the cache" in again.err) == (0, True)
    anew = warm("export", "recipe.yaml", "-o", "m.rknn", "--force", "--refresh")
    assert (anew.code, "from the cache" in anew.err) == (0, False)
    assert (tmp_path / "m.rknn").read_bytes() == first


@pytest.mark.long
def test_without_quantization(rknntui: Run, tmp_path: Path, photos: Path) -> None:
    model = demo_folder() / "digits_demo.onnx"
    built = rknntui("build", model, "--no-quantize", "-o", "f.rknn")
    assert built.code == 0, built.err
    assert "every layer is simulated in float" in built.out
    refused = rknntui("export", model, "--no-quantize", "-o", "f.tflite")
    assert (refused.code, (tmp_path / "f.tflite").exists()) == (2, False)
    ran = rknntui("simulate", "f.rknn", "-i", photos / "p0.png", "--json")
    assert ran.code == 0, ran.err


@pytest.mark.long
def test_same_bytes_from_another_folder_and_spelling(
    rknntui: Run, tmp_path: Path, photos: Path
) -> None:
    model = demo_folder() / "digits_demo.onnx"
    flags = ("--mean-values", "[[127.5]]", "--std-values", "127.5", "--dataset")
    one = rknntui("build", model, *flags, photos, "-o", "a.rknn")
    assert one.code == 0, one.err
    (tmp_path / "else").mkdir()
    two = rknntui("build", model, *flags, "../photos", "-o", "b.rknn", cwd=tmp_path / "else")
    assert two.code == 0, two.err
    assert (tmp_path / "a.rknn").read_bytes() == (tmp_path / "else" / "b.rknn").read_bytes()


def test_a_suffix_that_says_no_form_is_refused_before_anything_is_built(
    warm: Run, tmp_path: Path
) -> None:
    model = demo_folder() / "digits_demo.onnx"
    for verb in ("export", "build"):
        done = warm(verb, model, "--no-quantize", "-o", tmp_path / "x.foo")
        assert done.code == 2
        assert "x.foo" in done.err
        assert ".rknn, .onnx, .tflite" in done.err
        assert "Load the model" not in done.err
    assert not (tmp_path / "x.foo").exists()
    done = warm("export", model, "--no-quantize", "-o", tmp_path / "x.foo", "--format", "onnx")
    assert done.code == 0, done.err
