"""One door to the seven front ends; each is imported when a model of its framework comes."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

from engine.base.errors import GraphError, SourceModelError
from engine.base.events import NullReporter, Reporter
from engine.frontends.source import SourceModel

if TYPE_CHECKING:
    from engine.frontends.loaded import Loaded
    from engine.frontends.summary import SourceSummary

__all__ = ["load_source", "look_source"]


def load_source(source: SourceModel, reporter: Reporter | None = None) -> Loaded:
    """The graph of a source model, numerically its framework's, or an error that says why not.

    Args:
        source: from :func:`engine.frontends.source.find_source`.
        reporter: told of progress where a conversion takes long, asked whether to stop.

    Raises:
        SourceModelError: damaged, incomplete, or with options that do not fit it.
        UnsupportedOperatorError: names the operator and the layer.
        WorkerError: the framework's process died (TensorFlow, PyTorch).
    """
    module = import_module(f"engine.frontends.{source.framework}")
    loaded = cast("Loaded", module.load(source, reporter or NullReporter()))
    _check_amounts(loaded, source)
    return loaded


def _check_amounts(loaded: Loaded, source: SourceModel) -> None:
    from engine.graph.ir.amounts import check_amounts

    try:
        check_amounts(loaded.graph)
    except GraphError as error:
        raise SourceModelError(
            f"{source.model.name}: {error.what}", cause=error.cause, remedy=error.remedy
        ) from error


def look_source(source: SourceModel) -> SourceSummary:
    """What a source model holds, without converting it.

    Raises:
        SourceModelError: it cannot be read, or is damaged.
    """
    module = import_module(f"engine.frontends.{source.framework}")
    return cast("SourceSummary", module.look(source))
