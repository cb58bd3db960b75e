"""Comparison models: a build whose layers' tensors are outputs, so that a board gives them.

A runtime library gives a model's outputs and nothing else. An emulated board runs a comparison
model as a container of ours; for a real one the vendor's toolkit compiles it from ONNX.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.options import OPTIONS
from engine.pipeline.layers import quantized_of, require_comparable

if TYPE_CHECKING:
    from engine.accuracy.rows import Row
    from engine.graph.ir import Graph
    from engine.pipeline.pipeline import Pipeline

GROUP_BYTES = 256 << 20
"""Float32 tensors that one run of a board gives; larger models take several runs."""
GROUP_OUTPUTS = 200
"""Outputs of one model; a runtime says no more than 256."""


def output_groups(rows: Sequence[Row], most_bytes: int = GROUP_BYTES) -> list[list[Row]]:
    """Rows in groups that one run of a board gives, at least one row each."""
    from engine.accuracy.analyse import parts_of

    return parts_of(rows, most_bytes, GROUP_OUTPUTS)


def with_outputs(graph: Graph, tensors: Sequence[str], *, keep: bool) -> Graph:
    """A copy of a graph with other outputs.

    Args:
        graph: of the build.
        tensors: names of the tensors that it gives.
        keep: whether it gives its own outputs too, before them.
    """
    from engine.graph.ir import Graph

    copy = graph.copy()
    outputs = copy.model.graph.outputs
    if not keep:
        outputs.clear()
    present = {value.name for value in outputs}
    outputs.extend(copy.value(name) for name in dict.fromkeys(tensors) if name not in present)
    return Graph(copy.model)


def comparison_container(pipeline: Pipeline, rows: Sequence[Row]) -> bytes:
    """A container of ours whose outputs are the rows' tensors, in their order.

    It takes samples that are preprocessed already: its recipe has no mean, std or order of
    channels, which a board would apply again.
    """
    from engine.container import write_container
    from engine.pipeline.stages.container import content_of

    names = [row.simulated or "" for row in rows]
    graph = with_outputs(pipeline.quantized.graph.graph, names, keep=False)
    plain = {option.name: option.default for option in OPTIONS if option.section == "preprocess"}
    return write_container(content_of(pipeline, graph, pipeline.recipe.with_values(**plain)))


def comparison_onnx(pipeline: Pipeline) -> list[bytes]:
    """ONNX of opset 19 whose outputs are the model's, then the layers' tensors, for the vendor's
    toolkit; several files where one would have more outputs than a board takes.

    The layers read inner outputs from a DequantizeLinear of their own, as every file of
    :func:`~engine.quantize.lower_for_vendor` has it: where an output and the next layer share one,
    toolkit 2.3.2 compiles that layer in float16, which is another model than the deployed one.

    Raises:
        UsageError: the build is not quantized.
        QuantizationError: opset 19 lacks an operator.
    """
    from engine.accuracy.three_way import board_rows
    from engine.quantize import lower_for_vendor

    require_comparable(pipeline)
    graph = pipeline.quantized.graph.graph
    models: list[bytes] = []
    for group in output_groups(board_rows(quantized_of(pipeline))):
        names = [row.simulated or "" for row in group]
        model = lower_for_vendor(with_outputs(graph, names, keep=True))
        models.append(model.SerializeToString(deterministic=True))
    return models
