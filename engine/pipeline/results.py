"""What each stage of a build gives: frozen, and written to files of the cache and read back."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from engine.base.findings import Finding
from engine.build import LayerCoverage, LayerError, OutputFidelity
from engine.graph.layers import LayerMap
from engine.pipeline.source import CONVERTED
from engine.wire.codec import encode, typed

if TYPE_CHECKING:
    from engine.frontends.loaded import SourceInfo
    from engine.graph.ir import Graph, QuantTable
    from engine.graph.ir.custom import CustomOperators
    from engine.quantize import Observations

Files = dict[str, bytes]


class GraphData:
    """A graph as object and as bytes; the form that is missing is made when it is asked for.

    Args:
        graph: the object.
        data: its bytes.
        again: makes the object anew, where neither of the others was kept.
        operators: custom operators of the graph, which its bytes do not hold.
    """

    def __init__(
        self,
        graph: Graph | None = None,
        data: bytes | None = None,
        again: Callable[[], Graph] | None = None,
        operators: CustomOperators | None = None,
    ) -> None:
        self._graph = graph
        self._data = data
        self._again = again
        self._operators = operators

    @cached_property
    def graph(self) -> Graph:
        """The graph."""
        if self._graph is not None:
            return self._graph
        if self._again is not None:
            return self._again()
        from engine.graph.ir import Graph

        return Graph.from_bytes(self._data or b"", operators=self._operators)

    @cached_property
    def data(self) -> bytes:
        """The serialised graph, deterministic."""
        return self._data if self._data is not None else self.graph.to_bytes()


def _dump(value: Any) -> bytes:
    # not sorted: the order of a quant table is its graph's
    return json.dumps(value).encode("ascii")


def _findings(data: Any) -> tuple[Finding, ...]:
    return tuple(Finding.from_dict(item) for item in data)


@dataclass(frozen=True)
class LoadedModel:
    """A source model as graph. ``key`` here and below: the hash of what the stage depends on.

    The cache keeps what was noticed, and the graph only where another program converted it in
    seconds: else the source file is still there, and the optimised graph, which is what later
    stages need, is kept by its own stage.
    """

    key: str
    graph: GraphData
    source: SourceInfo
    findings: tuple[Finding, ...]

    def to_files(self) -> Files:
        """For the cache."""
        facts = {"source": asdict(self.source), "findings": [f.to_dict() for f in self.findings]}
        files = {"facts.json": _dump(facts)}
        if self.source.framework in CONVERTED:
            files["graph.onnx"] = self.graph.data
        return files

    @classmethod
    def from_files(
        cls,
        key: str,
        files: Mapping[str, bytes],
        again: Callable[[], Graph],
        operators: CustomOperators | None = None,
    ) -> LoadedModel:
        """From the cache; ``again`` loads a graph that is not there, should anybody ask for it."""
        from engine.frontends.loaded import SourceInfo

        facts = json.loads(files["facts.json"])
        data = files.get("graph.onnx")
        return cls(
            key,
            GraphData(again=again) if data is None else GraphData(data=data, operators=operators),
            typed(SourceInfo, facts["source"]),
            _findings(facts["findings"]),
        )


@dataclass(frozen=True)
class PassNote:
    """What one graph pass did: its name, and how often it changed something."""

    name: str
    changes: int


@dataclass(frozen=True)
class OptimisedGraph:
    """The float graph that is quantized and simulated."""

    key: str
    graph: GraphData
    log: tuple[PassNote, ...]
    findings: tuple[Finding, ...] = ()

    def to_files(self) -> Files:
        """For the cache."""
        return {
            "graph.onnx": self.graph.data,
            "log.json": _dump([asdict(n) for n in self.log]),
            "findings.json": _dump([f.to_dict() for f in self.findings]),
        }

    @classmethod
    def from_files(
        cls, key: str, files: Mapping[str, bytes], operators: CustomOperators | None = None
    ) -> OptimisedGraph:
        """From the cache."""
        log = tuple(PassNote(**note) for note in json.loads(files["log.json"]))
        findings = _findings(json.loads(files["findings.json"]))
        return cls(key, GraphData(data=files["graph.onnx"], operators=operators), log, findings)


@dataclass(frozen=True)
class Calibration:
    """What the calibration samples showed."""

    key: str
    observations: Observations
    samples: int
    findings: tuple[Finding, ...]

    def to_files(self) -> Files:
        """For the cache."""
        facts = {"samples": self.samples, "findings": [f.to_dict() for f in self.findings]}
        return {**self.observations.to_files(), "facts.json": _dump(facts)}

    @classmethod
    def from_files(cls, key: str, files: Mapping[str, bytes]) -> Calibration:
        """From the cache."""
        from engine.quantize import Observations

        facts = json.loads(files["facts.json"])
        return cls(
            key, Observations.from_files(files), int(facts["samples"]), _findings(facts["findings"])
        )


@dataclass(frozen=True)
class QuantizedGraph:
    """The QDQ graph, its table and layers.

    ``reference`` is the float graph whose layers the QDQ graph's are compared with; None where that
    is the optimised graph itself.
    """

    key: str
    graph: GraphData
    table: QuantTable
    findings: tuple[Finding, ...]
    reference: GraphData | None = None
    layers: LayerMap = field(default_factory=LayerMap)

    def to_files(self) -> Files:
        """For the cache."""
        files = {
            "graph.onnx": self.graph.data,
            "table.json": _dump(self.table.to_json()),
            "layers.json": _dump(self.layers.to_json()),
            "findings.json": _dump([f.to_dict() for f in self.findings]),
        }
        if self.reference is not None:
            files["reference.onnx"] = self.reference.data
        return files

    @classmethod
    def from_files(
        cls, key: str, files: Mapping[str, bytes], operators: CustomOperators | None = None
    ) -> QuantizedGraph:
        """From the cache."""
        from engine.graph.ir import QuantTable

        table = QuantTable.from_json(json.loads(files["table.json"]))
        return cls(
            key,
            GraphData(data=files["graph.onnx"], operators=operators),
            table,
            _findings(json.loads(files["findings.json"])),
            GraphData(data=files["reference.onnx"], operators=operators)
            if "reference.onnx" in files
            else None,
            LayerMap.from_json(json.loads(files["layers.json"]), table),
        )


@dataclass(frozen=True)
class Evaluation:
    """Simulated against float over the calibration samples: every output, every layer.

    ``coverage``: which layers run in integers.
    """

    key: str
    outputs: tuple[OutputFidelity, ...]
    layers: tuple[LayerError, ...]
    coverage: tuple[LayerCoverage, ...]

    @property
    def samples(self) -> int:
        """How many calibration samples the figures are over; 0 where it was not written down."""
        figures: list[OutputFidelity | LayerError] = [*self.outputs, *self.layers]
        return max((figure.samples for figure in figures), default=0)

    def to_files(self) -> Files:
        """For the cache."""
        return {"evaluation.json": _dump(encode(self))}

    @classmethod
    def from_files(cls, key: str, files: Mapping[str, bytes]) -> Evaluation:
        """From the cache."""
        return typed(cls, {**json.loads(files["evaluation.json"]), "key": key})


@dataclass(frozen=True)
class Deployed:
    """A build as it is simulated and packed.

    Attributes:
        graph: for the first set of input shapes.
        others: for the further sets of ``dynamic_input``, in their order.
        findings: what the options changed.
    """

    graph: Graph
    others: tuple[Graph, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """All of them; inputs and outputs have the same names and types."""
        return (self.graph, *self.others)


@dataclass(frozen=True)
class PackedContainer:
    """The bytes of a ``.rknn`` file."""

    key: str
    data: bytes

    def to_files(self) -> Files:
        """For the cache."""
        return {"container.rknn": self.data}

    @classmethod
    def from_files(cls, key: str, files: Mapping[str, bytes]) -> PackedContainer:
        """From the cache."""
        return cls(key, files["container.rknn"])
