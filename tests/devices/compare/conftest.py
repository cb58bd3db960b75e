"""Emulated boards that answer as the simulator does, and the demo model's build."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.pipeline.pipeline import Pipeline
from engine.recipe import Recipe
from engine.services.state import get_pipeline
from rknntui.demo import demo_recipe
from rknntui_emulator.runtime.build import build as build_library
from rknntui_emulator.runtime.build import compiler, stand_in_of
from tests.devices.faulty_board import FaultyBoard
from tests.safety import ends

Equip = Callable[[FaultyBoard], FaultyBoard]
"""Gives a board its runtime library, whose answers are simulated."""


@pytest.fixture(autouse=True)
def patience() -> Iterator[None]:
    with ends():
        yield


@pytest.fixture
def equip(tmp_path_factory: pytest.TempPathFactory) -> Equip:
    if compiler() is None:
        pytest.skip("there is no C compiler")

    def ready(made: FaultyBoard) -> FaultyBoard:
        kind = stand_in_of(made.board.library)
        made.image.install_runtime(build_library(kind, tmp_path_factory.getbasetemp() / "libs"))
        made.simulate()
        return made

    return ready


@pytest.fixture
def build() -> Pipeline:
    return get_pipeline(Recipe.from_values(demo_recipe(), Path.cwd()))
