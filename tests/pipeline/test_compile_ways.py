"""Which ways are tried where the toolkit fails, and in which order."""

from __future__ import annotations

from typing import Any

import pytest

from engine.base.errors import CompilerError
from engine.pipeline.compile_sources import HandedModel
from engine.pipeline.compile_ways import (
    changes,
    failed_ways,
    vendors_way,
    ways,
)
from engine.services.state import get_pipeline, recipe_of
from engine.wire.compile import QuantizedBy
from rknntui.demo import demo_recipe


def asked(by: QuantizedBy = "ours", generation: int = 2, **recipe: Any) -> HandedModel:
    return HandedModel(get_pipeline(recipe_of({**demo_recipe(), **recipe})), by, generation)


@pytest.mark.parametrize(
    ("handed", "quantizer", "words"),
    [
        (
            asked(),
            None,
            [
                "optimization_level 2",
                "optimization_level 0",
                "quantized_method layer",
                "the toolkit's own quantization",
            ],
        ),
        (
            asked(optimization_level=1),
            "ours",
            ["optimization_level 0", "quantized_method layer"],
        ),
        (
            asked(optimization_level=0, quantized_method="layer"),
            None,
            ["the toolkit's own quantization"],
        ),
        (asked("vendor"), "vendor", ["optimization_level 2", "optimization_level 0"]),
        (
            asked("nobody", do_quantization=False),
            None,
            ["optimization_level 2", "optimization_level 0"],
        ),
        (asked("vendor", generation=1), None, []),
    ],
)
def test_ways_go_from_what_costs_least(
    handed: HandedModel, quantizer: str | None, words: list[str]
) -> None:
    first, *others = ways(handed, quantizer)
    assert first.handed is handed
    assert first.words == ""
    assert [each.words for each in others] == words
    for each in others:
        recipe = each.handed.pipeline.recipe
        for name, value in changes(handed.pipeline, each.handed.pipeline).items():
            assert each.words == f"{name} {value}"
            assert recipe.value(name) == value
        assert each.remedy


def test_what_is_not_quantized_here_has_no_build_of_ours() -> None:
    way = vendors_way(asked(), ours=False)
    assert way.handed.by == "vendor"
    assert not way.handed.pipeline.quantized_build


def test_the_error_is_that_of_the_first_way() -> None:
    error = CompilerError("It failed.", cause="So.", remedy="Look.")
    assert failed_ways(error, []) is error
    told = failed_ways(error, ["optimization_level 2"])
    assert (told.what, told.cause, type(told)) == ("It failed.", "So.", CompilerError)
    assert told.remedy == "Tried as well, in vain: optimization_level 2. Look."
