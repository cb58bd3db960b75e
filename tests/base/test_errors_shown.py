"""Names from files in errors cannot steer a terminal, in whatever front end shows them."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.base.errors import EngineError, OutputError, OutputExistsError, error_from_dict
from engine.base.files import refuse_existing
from engine.base.text import sanitize


def test_parts_of_an_error_are_printable_and_bounded() -> None:
    name = "a\x1b[31m\x07b\u202ec\udce9"
    error = EngineError(f"{name} is odd.", cause=name, remedy=f"Do this:\n  {name}\nand that.")
    assert error.what == "a[31mbc\ufffd is odd."
    assert error.cause == "a[31mbc\ufffd"
    assert error.remedy == "Do this:\n  a[31mbc\ufffd\nand that."
    assert str(error).splitlines()[0] == error.what
    assert error.args == (error.what,)
    assert len(EngineError("x" * 1_000_000).what) == 2000
    assert len(EngineError("x\n" * 1_000_000).what) <= 8000
    told = error_from_dict({"kind": "output", "what": "\x9b2J gone"})
    assert isinstance(told, OutputError)
    assert told.what == "2J gone"


def test_printable_marks_bytes_that_are_no_text() -> None:
    assert sanitize("b\udce9d\tx\ny") == "b\ufffdd x y"


def test_an_output_is_refused_before_the_work(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.write_text("mine")
    refuse_existing(tmp_path / "new", overwrite=False)
    refuse_existing(there, overwrite=True)
    with pytest.raises(OutputExistsError):
        refuse_existing(there, overwrite=False)
    for path in (tmp_path, tmp_path / "none" / "x", there / "x", tmp_path / ("x" * 300)):
        with pytest.raises(OutputError) as caught:
            refuse_existing(path, overwrite=True)
        assert caught.value.cause
        assert caught.value.remedy
    assert sorted(p.name for p in tmp_path.iterdir()) == ["there"]
