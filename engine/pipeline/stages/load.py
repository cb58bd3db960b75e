"""The first stage: a source model becomes a graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from engine.base.errors import EngineError
from engine.base.plain import JsonObject
from engine.pipeline.fingerprints import digest_of
from engine.pipeline.pipeline import Codec, Pipeline, Stage
from engine.pipeline.results import GraphData, LoadedModel
from engine.pipeline.source import CONVERTED

if TYPE_CHECKING:
    from engine.frontends.loaded import Loaded


def loads_at_once(pipeline: Pipeline) -> bool:
    """Whether the graph is there in milliseconds: no other program has to convert it first."""
    return pipeline.source.model.framework not in CONVERTED or pipeline.has("load")


def _load(pipeline: Pipeline, key: str) -> LoadedModel:
    loaded = _read(pipeline)
    return LoadedModel(key, GraphData(loaded.graph), loaded.source, loaded.findings)


def _read(pipeline: Pipeline) -> Loaded:
    from engine.frontends.load import load_source

    return load_source(pipeline.source.model, pipeline.reporter)


def _from_files(pipeline: Pipeline, key: str, files: Mapping[str, bytes]) -> LoadedModel:
    def again() -> Any:
        return _read(pipeline).graph

    return LoadedModel.from_files(key, files, again, pipeline.source.operators)


def _contents(pipeline: Pipeline) -> JsonObject:
    # every stage asks for this key: none gives results of code that may not run
    _ = pipeline.source.operators
    return pipeline.source.contents()


def _is_valid(pipeline: Pipeline, loaded: LoadedModel) -> bool:
    """Whether external data of the model is what it was; what else it has is in the key."""
    if loaded.source.framework != "onnx":
        return True
    folder = pipeline.source.path.parent
    try:
        return all(digest_of(folder / name) == sha for name, sha in loaded.source.files[1:])
    except EngineError:
        return False


LOAD: Stage[LoadedModel] = Stage(
    name="load",
    title="Load the model",
    run=_load,
    codec=Codec(LoadedModel.to_files, _from_files),
    version=2,  # external data beside the model only, and listed
    contents=_contents,
    facts=lambda pipeline: pipeline.source.extra(),
    is_valid=_is_valid,
    weight=lambda pipeline: pipeline.source.path.stat().st_size,
    findings=lambda pipeline: pipeline.loaded.findings,
)
