"""What a newcomer is told: of a recipe that is not there, a chip that is not given, a sweep."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Run


def test_a_missing_recipe_names_the_verb_that_writes_one(warm: Run) -> None:
    warm("build", "recipe.yaml", exit=4, says="`rknntui recipe new MODEL -o FILE` writes a recipe.")
    assert "recipe new" not in warm("build", "model.onnx").err


@pytest.mark.parametrize(("verb", "estimate"), [("perf", "perf estimate"), ("memory", "memory")])
def test_a_source_model_without_a_board_leads_to_its_estimate(
    warm: Run, demo: Path, verb: str, estimate: str
) -> None:
    warm(verb, demo / "digits_demo.onnx", exit=9, says=f"`rknntui {estimate} FILE --chip rk3588`")


@pytest.mark.long
def test_a_sweep_whose_every_row_fails_fails(rknntui: Run, demo: Path) -> None:
    """Here quantization has no dataset."""
    words = ["sweep", demo / "digits_demo.onnx", "--axis", "quantized_dtype=w8a8,w8a16"]
    ran = rknntui(*words, exit=3)
    assert ran.out.count("needs a calibration dataset") == 2
    given = ["--dataset", demo / "dataset.txt"]
    part = rknntui("sweep", words[1], "--axis", "quantized_dtype=w8a8,w9a9", *given)
    assert part.code == 2, part.err  # as --quantized-dtype w9a9
