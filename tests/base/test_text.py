"""Text from files is made safe for a screen."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from engine.base.text import did_you_mean, human_bytes, sanitize, shape_text


@given(st.text(max_size=300), st.integers(1, 100))
def test_printable_has_no_control_characters_and_is_bounded(text: str, limit: int) -> None:
    shown = sanitize(text, limit)
    assert len(shown) <= limit
    assert all(unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Co") for c in shown)


def test_printable_keeps_letters_of_all_scripts() -> None:
    assert sanitize("层/conv_1 ümläut\x1b[31m\u202e") == "层/conv_1 ümläut[31m"
    assert sanitize("a\nb\tc") == "a b c"


def test_did_you_mean() -> None:
    assert did_you_mean("quantised_dtype", ["quantized_dtype", "model"]) == (
        "Did you mean 'quantized_dtype'?"
    )
    assert did_you_mean("zzz", ["model"]) == ""


def test_units() -> None:
    assert human_bytes(10) == "10 B"
    assert human_bytes(1536) == "1.50 KiB"
    assert human_bytes(5 << 20) == "5.00 MiB"
    assert human_bytes(3 << 30) == "3.00 GiB"
    assert shape_text((1, 3, -1)) == "1x3x?"
    assert shape_text(()) == "scalar"
