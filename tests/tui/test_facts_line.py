"""The line on top: what matters least goes first, and no word is cut."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from rknntui.widgets.one_line import Fact, fit_facts

FACTS = (
    Fact("3 of 73 layers changed"),
    Fact("2 marked", rank=1),
    Fact("outputs as built, over 9 of 20 calibration samples", ("outputs as built",), 2),
    Fact("own dB over 1 sample", rank=3),
)
ALL = " · ".join(fact.text for fact in FACTS[:3])


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (120, f"{ALL} · own dB over 1 sample"),
        (108, ALL),
        (85, "3 of 73 layers changed · 2 marked · outputs as built"),
        (51, "3 of 73 layers changed · 2 marked"),
        (32, "3 of 73 layers changed"),
        (20, "3 of 73 layers …"),
        (17, "3 of 73 layers …"),
        (15, "3 of 73 …"),
    ],
)
def test_the_least_important_goes_first(width: int, shown: str) -> None:
    assert fit_facts(FACTS, width) == shown


def test_of_equal_rank_the_last_goes_first_and_places_stay() -> None:
    facts = (Fact("a path", rank=1), Fact("stays"), Fact("", rank=0), Fact("seconds", rank=1))
    assert fit_facts(facts, 80) == "a path · stays · seconds"
    assert fit_facts(facts, 20) == "a path · stays"
    assert fit_facts(facts, 8) == "stays"


def test_a_word_longer_than_the_line_is_cut_in_its_middle() -> None:
    shown = fit_facts((Fact("a_name_that_is_longer_than_the_line"),), 20)
    assert cell_len(shown) == 20
    assert shown.startswith("a_name")
    assert shown.endswith("line")


def test_a_sentence_is_cut_behind_a_word_and_a_long_path_in_its_middle() -> None:
    def cut(text: str) -> str:
        return fit_facts((Fact(text),), 40)

    assert (
        cut("a sentence that is much longer than the line")
        == "a sentence that is much longer than …"
    )
    shown = cut("line 3: /data/with/rather/long/names/none.jpg does not exist")
    assert shown.startswith("line 3: /da")
    assert shown.endswith(".jpg does not exist")
