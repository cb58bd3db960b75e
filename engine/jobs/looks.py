"""Quick answers about source models: from a look at the file, before anything loads it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.base.errors import EngineError
from engine.base.findings import Finding

if TYPE_CHECKING:
    from engine.frontends.onnx import SourceLook
    from engine.recipe import Recipe

__all__ = ["look_of", "plain_model", "source_view"]

CHECKED_NODES = 2000
"""Models of at most so many nodes are loaded when they are opened (30 ms for 100 nodes on two
cores), so that every finding is there at once; of larger ones a build or ``validate`` tells the
rest. They are not loaded behind the user's back: a load holds Python's lock for a second in which
no query is answered."""

CHECKED_BYTES = 64_000_000
"""Largest model file that is loaded when it is opened."""


def plain_model(params: Mapping[str, Any]) -> Path | None:
    """The ONNX file whose source graph a request asks for, if the file alone decides that graph.

    None where the recipe cuts it, sets sizes or gives inputs a value, or names no model: then only
    loading tells.

    Raises:
        UsageError, RecipeError: the request names neither path nor recipe, or an option is wrong.
    """
    from engine.jobs.warm import recipe_of

    source = recipe_of(params).source
    changed = (source.inputs, source.input_size_list, source.input_initial_val, source.outputs)
    if source.model is None or any(option is not None for option in changed):
        return None
    return Path(source.model)


def look_of(path: Path) -> SourceLook:
    """A look at a file, kept until it changes; opening and the graph view share one.

    Raises:
        SourceModelError: it cannot be read, or is damaged or something else.
    """
    from engine.frontends.onnx import look_at
    from engine.jobs.digests import stamp_of
    from engine.jobs.warm import KEPT

    try:
        key = f"look {stamp_of(path)}"
    except OSError:
        return look_at(path)  # which tells what is wrong
    look: SourceLook | None = KEPT.get(key)
    if look is None:
        look = look_at(path)
        KEPT.put(key, look, path.stat().st_size)
    return look


def source_view(recipe: Recipe, path: Path) -> dict[str, Any]:
    """The model view of a plain model; it need not be loadable.

    What loading would say of it stands among the findings: an error there is why it cannot be
    built.
    """
    from engine.jobs.warm import pipeline_of

    look = look_of(path)
    view = {**look.model, "path": str(path)}
    if view["nodes"] > CHECKED_NODES or path.stat().st_size > CHECKED_BYTES:
        return view
    findings: list[dict[str, Any]] = view["findings"]
    try:
        loaded = pipeline_of(recipe).loaded
        if look.open:
            look.complete(loaded.graph.graph)
        view["findings"] = [finding.to_dict() for finding in loaded.findings]
    except EngineError as error:
        if not any(finding["severity"] == "error" for finding in findings):
            view["findings"] = [_refused(path, error).to_dict(), *findings]
    return view


def _refused(path: Path, error: EngineError) -> Finding:
    return Finding(
        "not-loadable", "error", path.name, error.what, cause=error.cause, remedy=error.remedy
    )
