"""How long each layer of a container takes on a chip (estimated)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.base.errors import UsageError
from engine.container import Container
from engine.cost.estimate import CostSettings, chips_named, estimate_chip
from engine.graph.layers import LayerMap
from engine.recipe import Recipe, portable_values


@dataclass(frozen=True)
class LayerTimes:
    """Of the layers of a container on a chip, in their order.

    Attributes:
        chip: its name.
        ms: of each layer; 0 of one that the chip computes as a part of another.
        joined: whether it is computed together with the next one.
    """

    chip: str
    ms: tuple[float, ...]
    joined: tuple[bool, ...]


def layer_times(found: Container, layers: LayerMap, chip: str) -> LayerTimes:
    """The estimate of a chip, spread over the layers of ours.

    Where the chip computes several of ours at once, the last of them has the time, and the ones
    from the first to it are joined. What is nobody's (changes of layout) counts to the layer before
    it.

    Raises:
        UsageError: there is no such chip, or it cannot have the model.
    """
    name = chips_named((chip,))[0].name
    estimate = estimate_chip(found.graph, name, _settings(found, layers), layers)
    if estimate.problem:
        raise UsageError(estimate.problem, remedy=estimate.remedy)
    places = {layer.id: place for place, layer in enumerate(layers.layers)}
    ms = [0.0] * len(places)
    joined = [False] * len(places)
    last = 0
    for row in estimate.layers:
        own = sorted(places[layer_id] for layer_id in row.layers if layer_id in places)
        if own:
            last = own[-1]
            joined[own[0] : last] = (
                [True] * (last - own[0]) if _follows(own) else joined[own[0] : last]
            )
        if ms:
            ms[last] += row.time_ms
    return LayerTimes(name, tuple(ms), tuple(joined))


def _follows(own: Sequence[int]) -> bool:
    """Whether layers stand one behind the other; those of one row that do not are no one kernel."""
    return own[-1] - own[0] == len(own) - 1


def _settings(container: Container, layers: LayerMap) -> CostSettings:
    values = portable_values(container.recipe)
    recipe = Recipe.from_values({k: v for k, v in values.items() if k not in ("model", "dataset")})
    options = recipe.quantization
    dtypes: dict[str, str] = {}
    for named, dtype in (options.quantized_layers or {}).items() if container.quantized else ():
        layer = layers.find(named)
        if layer is not None:
            dtypes[layer.id] = str(dtype)
    return CostSettings(
        quantized_dtype=options.quantized_dtype if container.quantized else "float16",
        layer_dtypes=dtypes,
        batch=options.rknn_batch_size or 1,
    )
