"""``engine``'s own names: what front ends may import, and what that loads."""

from __future__ import annotations

import pytest

import engine
from tests.safety import printed

LIGHT = """
import sys, engine
for name in engine.__all__:
    if name not in sys.argv:
        getattr(engine, name)
heavy = "numpy onnx onnx_ir onnxruntime PIL platformdirs adbutils yaml google".split()
print(*[m for m in heavy if m in sys.modules])
"""


def test_every_name_is_there() -> None:
    assert sorted(engine.__all__) == sorted(set(engine.__all__))
    for name in engine.__all__:
        assert getattr(engine, name) is not None
    with pytest.raises(AttributeError):
        engine.nothing  # noqa: B018


HEAVY = [  # for scripts
    "BuiltModel",
    "LayerTable",
    "RKNN",
    "Recipe",
    "analyse_model",
    "build_model",
    "build_report",
    "check",
    "dump_recipe",
    "estimate",
    "layer_table",
    "layer_values",
    "load_recipe",
    "quantize_model",
    "simulate_model",
    "ways_to_rate",
]


def test_front_ends_load_the_standard_library_only() -> None:
    assert printed(LIGHT, *HEAVY) == []
