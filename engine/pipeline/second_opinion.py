"""The vendor's simulator beside our numbers in the same arithmetic; all is simulated.

The vendor's simulator computes a file with Q/DQ pairs in float32 and rounds where the file says so.
Ours in integer kernels gives the same number in all but a few values on the edge between two
integers, and depth multiplies those. So the two are compared in one arithmetic: the file that was
handed over, without any rewriting by the runtime.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from engine.base.errors import DatasetError, EngineError, JobCancelledError
from engine.base.leftovers import owned_folder
from engine.dataset import Preprocess, read_dataset
from engine.graph.execute import FUSING_LEVEL, Session, as_compiled, float16_layers
from engine.graph.execute.means import means_in_stages
from engine.graph.ir import Graph, TensorSpec, diff, params_of
from engine.pipeline.fingerprints import digest_of_dataset
from engine.pipeline.samples import seeded_dataset
from engine.quantize import is_quantized_source
from engine.report import sqnr_rank
from engine.toolkit.compile.agreement import Agreement, OutputsDifferError
from engine.wire.compile import OWN_SAMPLES, SamplesFrom, SecondOpinion

if TYPE_CHECKING:
    import onnx_ir as ir

    from engine.dataset import Dataset
    from engine.pipeline.compile_sources import HandedModel, ShapeSet
    from engine.toolkit.compile.compiler import CompilerRun
    from engine.wire.compile import OutputAgreement

_METHOD = "reference-5"
"""Changes where opinions are made otherwise: those in the cache are then made again."""

FILE_LOSS_DB = 6.0
"""A file whose outputs are as many dB farther from float than the build's is another model."""


@dataclass(frozen=True)
class OpinionSamples:
    """What the two simulators are compared on.

    Attributes:
        count: samples at most; 0: nothing is compared.
        path: of the user's own pictures (a folder, or a list of files); None: the recipe's dataset,
            and where it names none, values from a fixed seed.
    """

    count: int = 1
    path: Path | None = None

    @classmethod
    def of(cls, samples: int | str) -> OpinionSamples:
        """As :class:`engine.wire.compile.CompileParams` names them."""
        return cls(samples) if isinstance(samples, int) else cls(OWN_SAMPLES, Path(samples))

    def source(self, handed: HandedModel) -> SamplesFrom:
        """Where they come from."""
        if self.path is not None:
            return "given"
        return "calibration" if handed.pipeline.samples.is_named else "seeded"

    def dataset(self, handed: HandedModel) -> Dataset | None:
        """The samples; None: from a seed.

        Raises:
            DatasetError: the files cannot be read.
        """
        if self.path is not None:
            return read_dataset(self.path, count=self.count).first(self.count)
        if handed.pipeline.samples.is_named:
            return handed.pipeline.dataset.first(self.count)
        return None

    def digest(self, handed: HandedModel) -> list[str]:
        """What an opinion depends on beside the model, for the key of what is kept.

        Raises:
            DatasetError: the files cannot be read.
        """
        if not self.count:
            return []
        dataset, pipeline = self.dataset(handed), handed.pipeline
        content = "seeded" if dataset is None else digest_of_dataset(dataset)
        stage = "quantize" if pipeline.quantized_build else "optimise"
        return [_METHOD, str(self.count), content, pipeline.key(stage)]


def reference_session(graph: Graph) -> Session:
    """A graph in reference arithmetic: float32, each rounding of it, no fused kernel.

    What the vendor's simulator computes at its level 2.
    """
    return Session(graph, reference=True)


def numbers_of(graph: Graph, *, fused: bool) -> Graph:
    """The graph whose numbers the compiled model has: its float layers in half precision.

    Args:
        graph: with Q/DQ pairs.
        fused: without the roundings that the compiler leaves out at level 3.
    """
    halved = float16_layers(graph)
    return as_compiled(halved) if fused else halved


def fuses(handed: HandedModel) -> bool:
    """Whether the compiler leaves roundings out at the recipe's level."""
    level = handed.pipeline.recipe.quantization.optimization_level
    return handed.by == "ours" and level >= FUSING_LEVEL


def second_opinion(run: CompilerRun, handed: HandedModel, samples: OpinionSamples) -> SecondOpinion:
    """How near the two simulators are on each output, for every set of input shapes.

    Args:
        run: a compilation that is done.
        handed: what was compiled.
        samples: what to run; at least one.

    Raises:
        DatasetError: the user's own samples cannot be read.
        JobCancelledError: the user cancelled.
    """
    begun = time.perf_counter()
    dataset = samples.dataset(handed)
    opinion = SecondOpinion(samples_from=samples.source(handed))
    rows: list[OutputAgreement] = []
    cosines: list[float] = []
    at = ""
    try:
        for shapes in handed.shape_sets:
            at = shapes.text if rows else ""
            one = _OfShapes(handed, shapes)
            for raw, feed in opinion_samples(handed, shapes, dataset, samples.count):
                handed.pipeline.reporter.check_cancelled()
                one.add(run, raw, feed)
            rows += [row.told() for row in one.rows]
            cosines += one.wrong_in_file
    except JobCancelledError:
        raise
    except OutputsDifferError as error:
        opinion = replace(opinion, mismatch=f"At {at}: {error.what}" if at else error.what)
    except DatasetError:
        if samples.path is not None:
            raise
        opinion = replace(opinion, problem="The samples of the recipe do not fit the model.")
    except EngineError as error:
        if at:  # it ran with the first set of shapes
            mismatch = (
                f"At {at} the vendor's simulator does not run the compiled model: {error.what}"
            )
            opinion = replace(opinion, mismatch=mismatch)
        else:
            opinion = replace(opinion, problem=_words(error))
    return replace(
        opinion,
        outputs=tuple(rows),
        seconds=round(time.perf_counter() - begun, 3),
        file_cosine=min(cosines, default=None),
    )


def _words(error: EngineError) -> str:
    return " ".join(part for part in (error.what, error.cause) if part)


class _OfShapes:
    """The comparison of one set of input shapes; samples add up.

    With our quantization the file is ours to run. The vendor's own quantization has other scales
    than any graph of ours: its outputs stand beside those of our build, to be judged by float.
    """

    def __init__(self, handed: HandedModel, shapes: ShapeSet) -> None:
        self._handed = handed
        pipeline, fused = handed.pipeline, fuses(handed)
        text = shapes.text if len(handed.shape_sets) > 1 else ""
        self._true = Session(shapes.wanted)
        self._names = [spec.name for spec in shapes.wanted.outputs]
        self._build = self._file = None
        scales: Sequence[float | None] = [None] * len(self._names)
        if handed.by == "vendor":
            quantized = pipeline.quantized_build and len(handed.shape_sets) == 1
            self._ours = Session(pipeline.quantized.graph.graph) if quantized else self._true
        else:
            file = handed.file_at(shapes)
            scales = steps_of_outputs(file)
            self._file = file
            self._ours = reference_session(numbers_of(file, fused=fused))
            # a file that is the graph as it stands is no other model
            if is_quantized_source(shapes.graph) and not is_written_as(shapes.graph, file):
                build = shapes.graph if text else means_in_stages(shapes.graph)
                self._build = reference_session(numbers_of(build, fused=fused))
        named = list(zip(self._names, scales, strict=True))
        self.rows = [Agreement(name, scale, text) for name, scale in named]
        self.file_rows = [Agreement(name, scale) for name, scale in named if self._build]

    def add(
        self, run: CompilerRun, raw: Sequence[np.ndarray], feed: Mapping[str, np.ndarray]
    ) -> None:
        """Run both on a sample.

        Raises:
            CompilerError: the vendor's simulator does not run the model.
            OutputsDifferError: its outputs are others than ours.
        """
        batch = self._handed.pipeline.recipe.quantization.rknn_batch_size or 1
        # a compiled batch of several is given the sample as often, and the first of them counts
        theirs = run.simulate([np.repeat(array, batch, axis=0) for array in raw])
        if len(theirs) != len(self.rows):
            raise OutputsDifferError(
                f"The compiled model has {len(theirs)} outputs in the vendor's simulator, the "
                f"build {len(self.rows)}.",
                remedy="Compile with another optimization_level.",
            )
        true = self._true.run(feed)
        ours = list(
            self._ours.run(
                feed if self._file is None else self._handed.feed_of(self._file, feed)
            ).values()
        )
        built = None if self._build is None else self._build.run(feed)
        for at, (row, output) in enumerate(zip(self.rows, theirs, strict=True)):
            first = output.reshape(batch, -1)[0] if batch > 1 else output
            row.add(first, ours[at], true[row.name])
            if built is not None:
                self.file_rows[at].add(ours[at], built[row.name], true[row.name])

    @property
    def wrong_in_file(self) -> list[float]:
        """The cosine of each output of the file that is much farther from float than the build's.

        The two only differ in how a mean is written, which moves values on an edge.
        """
        rows = [row.told() for row in self.file_rows]
        return [
            row.cosine
            for row in rows
            if sqnr_rank(row.our_sqnr_db) - sqnr_rank(row.sqnr_db) >= FILE_LOSS_DB
        ]


def is_written_as(build: Graph, file: Graph) -> bool:
    """Whether a file is the build, but for a DequantizeLinear that stands in it twice.

    One that is an output and is read inside gets a second one in the file: the numbers are the same
    without a look.
    """
    difference = diff(build, file)
    if (
        difference.nodes_removed
        or difference.values_removed
        or difference.values_changed
        or difference.interface
    ):
        return False
    first = {
        _names(node.inputs): node for node in build.nodes if node.op_type == "DequantizeLinear"
    }
    again: dict[str, str] = {}
    for name, _ in difference.nodes_added:
        node = file.node(name)
        twin = first.get(_names(node.inputs)) if node.op_type == "DequantizeLinear" else None
        if twin is None or _settings(twin) != _settings(node):
            return False
        again.update(zip(_names(node.outputs), _names(twin.outputs), strict=True))
    return {*difference.values_added} == again.keys() and all(
        # its inputs are the one change
        len(change.changes) == 1
        and tuple(again.get(name, name) for name in _names(file.node(change.name).inputs))
        == _names(build.node(change.name).inputs)
        for change in difference.nodes_changed
    )


def _names(values: Sequence[ir.Value | None]) -> tuple[str, ...]:
    return tuple("" if value is None else value.name or "" for value in values)


def _settings(node: ir.Node) -> dict[str, object]:
    return {name: attribute.value for name, attribute in node.attributes.items()}


def steps_of_outputs(file: Graph) -> list[float | None]:
    """The step of each output that is quantized as a whole; None: it is float."""
    steps: list[float | None] = []
    for value in file.model.graph.outputs:
        node = value.producer()
        params = params_of(node) if node and node.op_type == "DequantizeLinear" else None
        steps.append(params.scale[0] if params is not None and len(params.scale) == 1 else None)
    return steps


def opinion_samples(
    handed: HandedModel, shapes: ShapeSet, given: Dataset | None, count: int
) -> Iterator[tuple[list[np.ndarray], dict[str, np.ndarray]]]:
    """Each sample as a program on a board has it, and as the graph takes it.

    Args:
        handed: what is compiled.
        shapes: of the inputs.
        given: the samples; None: from a seed.
        count: how many at most.

    Raises:
        DatasetError: one does not fit.
    """
    if given is None:
        with owned_folder("toolkit") as folder:
            recipe, generation = shapes.pipeline.recipe, shapes.pipeline.generation
            plans = Preprocess.from_recipe(recipe, generation).plans(shapes.wanted.inputs)
            yield from _read(handed, shapes, seeded_dataset(plans, folder, count), count)
        return
    read = _read(handed, shapes, given, count)
    first = handed.shape_sets[0]
    if shapes is first:
        yield from read
        return
    try:
        yield from read
    except DatasetError:  # arrays have the shape of the first set, which pictures are scaled to
        sizes = shapes.wanted.inputs
        raw_sizes = handed.file_inputs(sizes)
        for raw, feed in _read(handed, first, given, count):
            yield (
                [_wrapped(array, spec) for array, spec in zip(raw, raw_sizes, strict=True)],
                {spec.name: _wrapped(feed[spec.name], spec) for spec in sizes},
            )


def _wrapped(array: np.ndarray, spec: TensorSpec) -> np.ndarray:
    """An array cut, or repeated from its start, to the shape of an input."""
    for axis, size in enumerate(spec.shape):
        array = np.take(array, np.arange(size) % array.shape[axis], axis=axis)
    return array


def _read(
    handed: HandedModel, shapes: ShapeSet, dataset: Dataset, count: int
) -> Iterator[tuple[list[np.ndarray], dict[str, np.ndarray]]]:
    inputs: Sequence[TensorSpec] = shapes.wanted.inputs
    raw = handed.raw_samples(count, dataset, inputs)
    return islice(zip(raw, shapes.pipeline.samples.feeds(inputs, dataset), strict=False), count)
