"""Branches and loops whose conditions are constants: the graph that runs is written out."""

from __future__ import annotations

from engine.frontends.tflite.layer import Handler, Layer
from engine.frontends.tflite.values import Value

__all__ = ["HANDLERS"]

_MAX_ROUNDS = 2000


def _decided(layer: Layer, value: Value) -> bool:
    if value.array is None or value.array.size != 1:
        raise layer.refusal("its condition depends on the data")
    return bool(value.array.reshape(-1)[0])


def _give(layer: Layer, values: list[Value]) -> None:
    for index in range(layer.outputs):
        layer.same(index, values[index])


def _if(layer: Layer) -> None:
    chosen = "then_subgraph" if _decided(layer, layer.input(0)) else "else_subgraph"
    inputs = [layer.input(index) for index in range(1, len(layer.inputs))]
    _give(layer, layer.inline(layer.int_option(chosen), inputs))


def _while(layer: Layer) -> None:
    values = [layer.input(index) for index in range(len(layer.inputs))]
    condition, body = layer.int_option("cond_subgraph"), layer.int_option("body_subgraph")
    for _ in range(_MAX_ROUNDS):
        if not _decided(layer, layer.inline(condition, values)[0]):
            _give(layer, values)
            return
        values = layer.inline(body, values)
    raise layer.refusal(f"it runs for more than {_MAX_ROUNDS} rounds")


def _composite(layer: Layer) -> None:
    """STABLEHLO_COMPOSITE: the graph that says what it computes."""
    inputs = [layer.input(index) for index in range(len(layer.inputs))]
    _give(layer, layer.inline(layer.int_option("decomposition"), inputs))


HANDLERS: dict[str, Handler] = {"IF": _if, "STABLEHLO_COMPOSITE": _composite, "WHILE": _while}
