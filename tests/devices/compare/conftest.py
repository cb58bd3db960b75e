"""Emulated boards that answer as the simulator does, and the demo model's build."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.pipeline.pipeline import Pipeline
from engine.recipe import Recipe
from engine.services.state import get_pipeline
from rknntui.demo import demo_recipe
from tests.safety import patience

__all__ = ["patience"]


@pytest.fixture
def build() -> Pipeline:
    return get_pipeline(Recipe.from_values(demo_recipe(), Path.cwd()))
