"""What a model costs on each chip: a stage that runs only where somebody asks for it.

It takes the optimised graph for the layers' ids, and the loaded one for everything else: the
vendor's compiler is given the source model. No build waits for it, and nothing of it is in a
container's bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.base.plain import JsonObject
from engine.pipeline.layers import by_layer
from engine.pipeline.pipeline import Codec, Pipeline, Stage
from engine.pipeline.results import Files
from engine.wire.codec import encode, typed
from engine.wire.cost import ChipEstimate, WhatIf

if TYPE_CHECKING:
    from engine.cost.estimate import CostSettings
    from engine.graph.layers import LayerMap


@dataclass(frozen=True)
class Estimated:
    """Every chip that was asked for, each with its layers."""

    key: str
    chips: tuple[ChipEstimate, ...]

    def to_files(self) -> Files:
        """For the cache."""
        return {"estimates.json": json.dumps(encode(self)).encode("ascii")}

    @classmethod
    def from_files(cls, key: str, files: Mapping[str, bytes]) -> Estimated:
        """From the cache."""
        return typed(cls, {**json.loads(files["estimates.json"]), "key": key})


def estimate_stage(what_if: WhatIf) -> Stage[Estimated]:
    """The stage for something else than the recipe has."""

    def run(pipeline: Pipeline, key: str) -> Estimated:
        from engine.cost.estimate import estimate

        graph = pipeline.loaded.graph.graph
        return Estimated(key, estimate(graph, *cost_inputs(pipeline, what_if)))

    return Stage(
        name="estimate",
        title="Estimate the cost on each chip",
        run=run,
        inputs=("optimise",),
        on_request=True,
        codec=Codec(Estimated.to_files, lambda _, key, files: Estimated.from_files(key, files)),
        facts=lambda pipeline: _facts(pipeline, what_if),
    )


def cost_inputs(pipeline: Pipeline, what_if: WhatIf) -> tuple[CostSettings, LayerMap]:
    """What an estimate of the pipeline's model depends on beside its graph."""
    from engine.cost.estimate import CostSettings
    from engine.quantize import plan

    options = pipeline.recipe.quantization
    lifted = options.quantized_layers or {}
    layers = plan(pipeline.optimised.graph.graph).layers
    settings = CostSettings(
        chips=what_if.chips,
        dtype=what_if.dtype,
        quantized_dtype=options.quantized_dtype if pipeline.quantized_build else "float16",
        layer_dtypes=by_layer(pipeline, lifted) if pipeline.quantized_build else {},
        op_target=by_layer(pipeline, options.op_target or {}),
        batch=_batch(pipeline, what_if),
        cores=what_if.cores,
        npu_mhz=what_if.npu_mhz,
    )
    return settings, layers


def _batch(pipeline: Pipeline, what_if: WhatIf) -> int:
    return what_if.batch or pipeline.recipe.quantization.rknn_batch_size or 1


def _facts(pipeline: Pipeline, what_if: WhatIf) -> JsonObject:
    options = pipeline.recipe.quantization
    return {
        "quantized": pipeline.quantized_build,
        "quantized_dtype": options.quantized_dtype,
        "quantized_layers": dict(options.quantized_layers or {}),
        "op_target": dict(options.op_target or {}),
        "chips": list(what_if.chips),
        "dtype": what_if.dtype,
        "batch": _batch(pipeline, what_if),
        "cores": what_if.cores,
        "npu_mhz": what_if.npu_mhz,
    }


ESTIMATE = estimate_stage(WhatIf())
"""Of every chip, as the recipe has it."""
