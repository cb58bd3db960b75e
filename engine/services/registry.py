"""Which function answers which method of the protocol.

They are named, not imported: a worker loads what a request needs.
"""

from __future__ import annotations

__all__ = ["QUERIES", "TASKS"]

QUERIES: dict[str, str] = {
    "ping": "engine.services.model:ping",
    "warm": "engine.services.model:warm",
    "sniff": "engine.services.model:sniff_file",
    "pairs": "engine.services.model:source_pairs",
    "open": "engine.services.model:open_model",
    "graph": "engine.services.model:graph",
    "node": "engine.services.model:node",
    "tensor": "engine.services.model:tensor",
    "layer": "engine.services.model:layer",
    "hybrid.table": "engine.services.hybrid:table",
    "joins": "engine.services.hybrid:joins",
    "ranges": "engine.services.tables:ranges",
    "validate": "engine.services.recipes:validate",
    "code.files": "engine.services.code:files",
    "code.confirm": "engine.services.code:confirm_file",
    "recipe.load": "engine.services.recipes:load",
    "recipe.save": "engine.services.recipes:save",
    "dataset.list": "engine.services.tables:samples",
    "dataset.check": "engine.services.datasets:check",
    "dataset.preview": "engine.services.datasets:preview",
    "dataset.make": "engine.services.datasets:make",
    "doctor": "engine.services.doctor:doctor",
}
TASKS: dict[str, str] = {
    "load": "engine.services.build:load",
    "build": "engine.services.build:build",
    "accuracy": "engine.services.build:accuracy",
    "simulate": "engine.services.build:simulate",
    "export": "engine.services.build:export",
    "score": "engine.services.scoring:score",
    "guide": "engine.services.guide:guide",
    "evaluate": "engine.services.scoring:evaluate",
    "sweep": "engine.services.sweep:sweep",
    "hybrid.effect": "engine.services.hybrid:effect",
    "hybrid.propose": "engine.services.hybrid:propose",
    "hybrid.search": "engine.services.hybrid:search",
    "hybrid.step1": "engine.services.steps:step1",
    "hybrid.step2": "engine.services.steps:step2",
}
