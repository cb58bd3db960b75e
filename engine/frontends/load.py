"""One door to the seven front ends; each is imported when a model of its framework comes."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

from engine.base.events import NullReporter, Reporter
from engine.frontends.source import SourceModel

if TYPE_CHECKING:
    from engine.frontends.loaded import Loaded
    from engine.frontends.summary import SourceSummary

_BY_ONNX = frozenset({"onnx", "tensorflow", "pytorch"})
"""Frameworks whose models are loaded by way of ONNX, which checks them."""


def load_source(source: SourceModel, reporter: Reporter | None = None) -> Loaded:
    """The graph of a source model, numerically its framework's, or an error that says why not.

    Args:
        source: from :func:`engine.frontends.find.find_source`.
        reporter: told of progress where a conversion takes long, asked whether to stop.

    Raises:
        SourceModelError: damaged, incomplete, or with options that do not fit it.
        UnsupportedOperatorError: names the operator and the layer.
        WorkerError: the framework's process died (TensorFlow, PyTorch).
    """
    from engine.frontends.loaded import check_loaded  # not for a look

    module = import_module(f"engine.frontends.{source.framework}")
    loaded = cast("Loaded", module.load(source, reporter or NullReporter()))
    if source.framework not in _BY_ONNX:
        check_loaded(loaded.graph, source.model.name)
    return loaded


def inspect_source(source: SourceModel) -> SourceSummary:
    """What a source model holds, without converting it.

    Raises:
        SourceModelError: it cannot be read, or is damaged.
    """
    module = import_module(f"engine.frontends.{source.framework}")
    return cast("SourceSummary", module.inspect(source))
