"""The stages of a build: the one list, from which every other list of stages follows.

A further stage is a module here and a row in :data:`STAGES`; ``pipeline.get(STAGE)`` gives its
result. A compiled model (``compiled.py``) has no row: its stage is made for a chip and a toolkit.
"""

from __future__ import annotations

from typing import Any

from engine.pipeline.pipeline import Stage
from engine.pipeline.stages.container import CONTAINER
from engine.pipeline.stages.deploy import DEPLOY
from engine.pipeline.stages.estimate import ESTIMATE
from engine.pipeline.stages.graph import LOAD, OPTIMISE
from engine.pipeline.stages.quantize import CALIBRATE, EVALUATE, QUANTIZE

__all__ = ["STAGES"]

STAGES: tuple[Stage[Any], ...] = (
    LOAD,
    OPTIMISE,
    ESTIMATE,
    CALIBRATE,
    QUANTIZE,
    EVALUATE,
    DEPLOY,
    CONTAINER,
)
"""The stages of a build in order, each behind its inputs."""
