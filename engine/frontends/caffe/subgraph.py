"""Which subgraph of a net can be converted where some layers cannot."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from engine.base.text import sanitize
from engine.frontends.caffe.spec import LayerSpec

__all__ = ["cut_around"]

_MOST_NAMES = 16


def cut_around(
    layers: Sequence[LayerSpec], refused: Collection[int], outputs: Iterable[str]
) -> str:
    """The remedy for layers that are not converted: outputs that keep all that can be.

    A detector may be refused for one layer of several that its last one reads (its priors): what
    the last one reads beside it is named, too, so that one cut is enough.

    Args:
        layers: of the net, in order, each reading what stands before it.
        refused: indices of those that are not converted.
        outputs: values that the net would give.
    """
    made: set[str] = set()
    lost: set[str] = set()
    ends: dict[str, None] = {}
    for index, spec in enumerate(layers):
        if index in refused or not lost.isdisjoint(spec.reads):
            lost.update(spec.makes)
            ends.update(dict.fromkeys(value for value in spec.reads if value in made))
        else:
            made.update(spec.makes)
    ends.update(dict.fromkeys(value for value in outputs if value in made))
    if not ends:
        return "No part of the net before it can be converted: name values behind it as 'inputs'."
    names = [repr(sanitize(value, 80)) for value in ends]
    shown = ", ".join(names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")
    return (
        f"End the graph before it with outputs=[{shown}], and do its work on the CPU with what "
        "these give."
    )
