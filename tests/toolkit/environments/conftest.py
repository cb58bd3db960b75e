"""Pins of stand-ins, in place of the vendor's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.toolkit.environments import wheels
from tests.toolkit.environments.standins import PINS, VERSION


@pytest.fixture
def stand_in_pins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """For the Python of these tests: toolkits 2.3.2 and 2.4.0, each with two small packages.

    The stand-in does not ask for setuptools, and has it from the environment itself.
    """
    folder = tmp_path / "pinned"
    folder.mkdir()
    for version in ("2.3.2", "2.4.0"):
        text = PINS.format(version=version).replace("rknn-", "setuptools==75.0\nrknn-")
        (folder / f"rknn-toolkit2-{version}-py{VERSION}.txt").write_text(text, "utf-8")
    monkeypatch.setattr(wheels, "_FOLDER", folder)
    wheels.all_pins.cache_clear()
    yield folder
    wheels.all_pins.cache_clear()
