"""Looking at models: what a file is, its view, and a load."""

from __future__ import annotations

from engine.base.findings import Finding
from engine.base.plain import Values
from engine.build import BuildSummary
from engine.wire.codec import Omit
from engine.wire.graph import Tensor, VendorQuant
from engine.wire.method import Nothing, Query, Task
from engine.wire.record import record
from engine.wire.requests import AtPath, ModelTarget
from engine.wire.segments import Segment


@record
class LoadParams(ModelTarget):
    """A model to load; ``refresh`` takes nothing from the cache."""

    refresh: bool = False


@record
class WorkerFacts:
    """The worker: version, process number, resident memory in MB (10**6 bytes)."""

    version: str
    pid: int
    rss_mb: float


@record
class FileKind:
    """What a file is, by its content; ``why`` it is taken for that."""

    kind: str
    format: str
    why: str


@record
class Pair:
    """A model of two files."""

    model: str
    weights: str


@record
class Pairs:
    """The models that a file may be one half of."""

    pairs: tuple[Pair, ...]


@record
class Port(Tensor):
    """An input or output of a vendor's model, as the file declares it."""

    layout: str
    runtime_dtype: str
    runtime_layout: str
    source_dtype: str
    mean: tuple[float | None, ...]
    std: tuple[float | None, ...]
    rgb2bgr: bool | None
    quant: VendorQuant | None


@record
class Candidates:
    """Names of tensors that suit as inputs and outputs of a model."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@record
class Preflight:
    """What a load is going to meet.

    Attributes:
        versions: (name, what was found, what is read).
        operators: (operator, how many, why it is refused or empty).
    """

    recognised: FileKind
    files: tuple[str, ...]
    versions: tuple[tuple[str, str, str], ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    candidates: Candidates
    operators: tuple[tuple[str, int, str], ...]
    notes: tuple[str, ...]


@record
class GraphFacts:
    """A loaded graph in figures.

    Attributes:
        operators: operator -> count, most frequent first.
        parameters: elements of all weights; ``weights_bytes`` their bytes.
    """

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    nodes: int
    operators: dict[str, int]
    parameters: int
    weights_bytes: int


@record
class ModelView:
    """A model as a whole, of any kind of file.

    Attributes:
        operators: operator -> count, most frequent first.
        parameters: elements of all weights; ``weights_bytes`` their bytes.
        recipe: of a container, or of the recipe that was opened.
        summary: of a container's build, with what the file itself cannot know.
        preflight: of a source model.
        vendor: what only a vendor's file has, name -> fact, nested.
        loaded: whether a source model's graph is there.
        segments: of a container that is cut into some.
    """

    kind: str
    path: str
    name: str
    format: str
    sha256: str
    inputs: tuple[Port | Tensor, ...]
    outputs: tuple[Port | Tensor, ...]
    nodes: int
    operators: dict[str, int]
    parameters: int
    weights_bytes: int
    findings: tuple[Finding, ...]
    recipe: Values | None
    summary: BuildSummary | None
    preflight: Omit[Preflight] = None
    vendor: Omit[Values] = None
    loaded: Omit[bool] = None
    segments: Omit[tuple[Segment, ...]] = None


@record
class Loaded:
    """A source model that was loaded; ``seconds`` measured, ``cached`` when nothing was done."""

    framework: str
    format: str
    producer: str
    files: tuple[tuple[str, str], ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    nodes: int
    operators: dict[str, int]
    parameters: int
    weights_bytes: int
    findings: tuple[Finding, ...]
    seconds: float
    cached: bool


PING = Query("ping", Nothing, WorkerFacts)
WARM = Query("warm", Nothing, WorkerFacts)
SNIFF = Query("sniff", AtPath, FileKind)
PAIRS = Query("pairs", AtPath, Pairs)
OPEN = Query("open", ModelTarget, ModelView)
LOAD = Task("load", LoadParams, Loaded)
