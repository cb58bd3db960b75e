"""Running on a board as a stage of a pipeline: a build compared three ways on one sample.

It is no part of a build: its result depends on a board, so nothing of it is kept.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from engine.accuracy.analyse import Sink
from engine.accuracy.rounding import judgement, rounding_where_it_runs
from engine.accuracy.rows import Row
from engine.accuracy.three_way import (
    LayerOnBoard,
    board_rows,
    compare_sides,
    first_divergence,
)
from engine.base.errors import RecipeError, UsageError
from engine.base.leftovers import owned_file
from engine.base.text import did_you_mean, sanitize, shape_text
from engine.devices.board.results import OpenModel
from engine.devices.board.runtime import BoardRuntime
from engine.devices.board.tensors import BoardInput, BoardOutput, TensorAttributes
from engine.devices.connected import choose, open_board
from engine.devices.probe.identify import identify
from engine.devices.transports import reach
from engine.graph.execute import fused_roundings
from engine.graph.ir import TensorSpec
from engine.pipeline.comparison_model import comparison_container, output_groups
from engine.pipeline.layers import quantized_of
from engine.toolkit.compile.neutral_names import port_in_file
from engine.wire.compare import Comparison
from engine.wire.devices import BoardAnswer

if TYPE_CHECKING:
    from engine.pipeline.pipeline import Pipeline
    from engine.quantize import Quantized
    from engine.wire.accuracy import RoundingSensitivity

# Which input and which layer a tensor of a model on a board is, and its values as we have them.

_NAME_BYTES = 255
"""Of ``RKNN_MAX_NAME_LEN``, without the zero at the end."""


def _told(name: str) -> str:
    """A name as a runtime tells it, fit to be shown."""
    return sanitize(name.encode("utf-8", "replace")[:_NAME_BYTES].decode("utf-8", "ignore"), 300)


def match_inputs(found: Sequence[TensorAttributes], own: Sequence[TensorSpec]) -> tuple[str, ...]:
    """Names of the build's inputs in the order in which the model on the board takes them.

    Raises:
        UsageError: they are not those of the build.
    """
    names = {_told(spec.name): spec for spec in own}
    order = [names.get(port.name) for port in found]
    if len(found) == len(own) and (None in order or len({*map(id, order)}) != len(own)):
        order = list(own)  # a compiler that gives inputs names of its own keeps their order
    if len(found) != len(own) or any(
        spec is None or math.prod(spec.shape) != port.elements
        for spec, port in zip(order, found, strict=True)
    ):
        takes = ", ".join(f"{port.name} {shape_text(port.shape)}" for port in found[:5])
        expected = ", ".join(f"{sanitize(s.name, 80)} {shape_text(s.shape)}" for s in own[:5])
        raise UsageError(
            "The compiled model is of another build: its inputs differ.",
            cause=f"It takes {takes}; the build takes {expected}.",
            remedy="Compile the comparison model of this build (`rknntui export --layers`).",
        )
    return tuple(spec.name for spec in order if spec is not None)


def match_outputs(found: Sequence[TensorAttributes], rows: Sequence[Row]) -> Mapping[str, int]:
    """Tensor of a row (``golden``) -> place of the output that has it.

    A row is found by its tensor's name; where no output has that, by another name that is its
    layer's alone. A compiled file may have a long name cut.
    """
    places: dict[str, int] = {}
    for port in found:
        places.setdefault(port.name, port.index)
    named = [
        {_told(port) for name in _names(row) for port in (name, port_in_file(name))} for row in rows
    ]
    count = Counter(name for names in named for name in names)
    places_of_rows: dict[str, int] = {}
    for row, names in zip(rows, named, strict=True):
        own = [_told(port) for port in (row.golden, port_in_file(row.golden))]
        others = sorted(name for name in names if count[name] == 1)
        place = next((places[name] for name in (*own, *others) if name in places), None)
        if place is not None:
            places_of_rows[row.golden] = place
    return places_of_rows


def _names(row: Row) -> Iterator[str]:
    """Names that mean the result of the row's layer, and no tensor inside it."""
    yield from (row.golden, row.label)
    layer = row.result_of
    if layer is not None and row.golden == layer.tensor:
        yield from (layer.id, layer.nodes[-1])
        yield from () if layer.inner else layer.sources


def values_of(output: BoardOutput, shape: Sequence[int]) -> np.ndarray:
    """An output as float32 in the layout of the build.

    Raises:
        UsageError: it has not as many values as the layer.
    """
    array: np.ndarray = np.asarray(output.channels_first, np.float32)
    own_shape = tuple(shape)
    if array.size != math.prod(own_shape):
        raise UsageError(
            f"{output.name} has the shape {shape_text(array.shape)} on the board, and "
            f"{shape_text(own_shape)} in the build.",
            cause="The compiled model is of another build, or has another batch size.",
            remedy="Compile the comparison model of this build (`rknntui export --layers`).",
        )
    return np.ascontiguousarray(array).reshape(own_shape)


_STEPS = (
    "Write its comparison model (`rknntui export MODEL -o layers.onnx --layers`), compile that "
    "with the vendor's toolkit (load_onnx, build(do_quantization=False), export_rknn) and give "
    "that file (command line: --compiled; Run: Compiled model…; Python: compiled=...)."
)


@dataclass(frozen=True)
class BoardChoice:
    """Which board, and what runs there.

    Attributes:
        device: see :mod:`engine.devices.address`; None for the only board.
        target: the chip that it must have; None for any.
        compiled: a compiled model whose outputs are layers; needed where the board is real.
    """

    device: str | None = None
    target: str | None = None
    compiled: Path | None = None


@dataclass(frozen=True)
class OnBoard:
    """What a comparison found.

    Attributes:
        layers: in the order of the graph.
        head: which board it was.
        sha256: of the inputs.
        missing: ids of layers that the board did not give.
        rounding: how far other roundings move the net; None where that was not measured.
        fused: whether the compiler leaves roundings between layers out at its default level.
    """

    layers: tuple[LayerOnBoard, ...]
    head: BoardAnswer
    sha256: str
    missing: tuple[str, ...] = ()
    rounding: RoundingSensitivity | None = None
    fused: bool = False

    @property
    def judged(self) -> tuple[str, ...]:
        """Of each output that the board gave, whether its difference is more than rounding."""
        if self.rounding is None:
            return ()
        outputs = {output.name: output.rounding_db for output in self.rounding.outputs}
        return tuple(
            judgement(
                layer.row.golden,
                layer.between.sqnr,
                outputs[layer.row.golden],
                fused=self.fused and bool(layer.inside),
            )
            for layer in self.layers
            if layer.row.golden in outputs
        )

    @property
    def first(self) -> LayerOnBoard | None:
        """The first layer that diverges."""
        return first_divergence(self.layers)

    @property
    def verdict(self) -> str:
        """The result in a sentence."""
        first = self.first
        counted = f"{len(self.layers)} layer{'s' if len(self.layers) != 1 else ''}"
        if first is None:
            return f"The board computes what the simulator does: {counted} agree up to rounding."
        name = sanitize(first.row.layer, 200)
        steps = first.own_steps
        how = "" if steps is None else f" (up to {steps:.3g} steps of its quantization)"
        if not first.inside:
            return f"{name} is the first layer that the board computes otherwise{how}."
        return (
            f"The board differs from the simulator at {name}{how}, or in one of the "
            f"{len(first.inside)} layers before it that it did not give."
        )

    def told(self, files: Sequence[Path] = ()) -> Comparison:
        """As the wire has it."""
        rounded = {} if self.rounding is None else {r.id: r for r in self.rounding.layers}
        return Comparison(
            **vars(self.head),
            layers=tuple(replace(layer, rounding=rounded.get(layer.id)) for layer in self.layers),
            first="" if self.first is None else self.first.row.layer,
            verdict=self.verdict,
            sha256=self.sha256,
            missing=self.missing,
            files=tuple(map(str, files)),
            judged=self.judged,
            rounding=self.rounding,
        )


def input_digest(feeds: Mapping[str, np.ndarray]) -> str:
    """SHA-256 over the names, dtypes, shapes and bytes of a sample, in the model's order."""
    total = hashlib.sha256()
    for name, array in feeds.items():
        total.update(f"{name}\0{array.dtype.str}\0{array.shape}\0".encode("utf-8", "replace"))
        total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()


def compare_on_board(
    pipeline: Pipeline,
    feeds: Mapping[str, np.ndarray],
    chosen: BoardChoice,
    *,
    layers: Sequence[str] | None = None,
    sink: Sink | None = None,
    rounding: bool = False,
) -> OnBoard:
    """Compare a quantized build with a board, layer by layer, on one sample.

    Args:
        pipeline: of the build; stages that are missing run.
        feeds: the sample as the model takes it: the same bytes for all three sides.
        chosen: the board, and what runs there.
        layers: the layers to compare, by any of their names; None for all.
        sink: gets the tensors.
        rounding: whether to measure how far other roundings move the net.

    Raises:
        UsageError: a real board and no compiled model, or a compiled model of another build.
        RecipeError: ``layers`` names none.
        DeviceError: the board cannot be reached or used, or is lost.
    """
    build = quantized_of(pipeline)
    rows = _asked(build, layers)
    check = pipeline.reporter.check_cancelled
    with ExitStack() as held:
        address = choose(chosen.device)
        if chosen.target is None:
            board = reach(address)
            held.callback(board.close)
            identity = identify(board)
        else:
            board, identity = open_board(chosen.target, str(address))
            held.callback(board.close)
        if chosen.compiled is None and not identity.emulated:
            raise UsageError(
                f"The layers of a build cannot be read from {address} as it is.",
                cause="A real board runs compiled models and gives their outputs, no layers.",
                remedy=_STEPS,
            )
        runtime = BoardRuntime(board, chip=identity.chip or "", check=check)
        held.callback(runtime.close)
        side = _Side(pipeline, build, runtime, rows, chosen.compiled)
        layers_compared = compare_sides(
            build, feeds, side.groups, side, sink=sink, reporter=pipeline.reporter
        )
        opened = side.opened
    moved = rounding_where_it_runs(build, [feeds], pipeline.reporter) if rounding else None
    compared = {layer.row.layer for layer in layers_compared}
    versions = ("", "") if opened is None else (opened.api_version, opened.driver_version)
    head = BoardAnswer(
        label="emulated" if identity.emulated else "measured",
        device=str(address),
        chip=identity.chip or "",
        runtime=versions[0],
        driver=versions[1],
        notes=tuple(dict.fromkeys(side.notes)),
    )
    return OnBoard(
        layers_compared,
        head,
        input_digest(feeds),
        tuple(dict.fromkeys(row.layer for row in rows if row.layer not in compared)),
        moved,
        chosen.compiled is not None and bool(fused_roundings(build.graph)),
    )


def _asked(build: Quantized, names: Sequence[str] | None) -> list[Row]:
    rows = list(board_rows(build))
    if names is None:
        return rows
    known = {row.layer: row for row in rows}
    layer_ids = set()
    for name in names:
        layer = build.layers.find(name)
        if layer is None or layer.id not in known:
            raise RecipeError(
                f"There is no layer {sanitize(name, 120)!r} that can be compared.",
                remedy=did_you_mean(name, known) or "`rknntui accuracy MODEL` lists the layers.",
            )
        layer_ids.add(layer.id)
    return [row for row in rows if row.layer in layer_ids]


class _Side:
    """The board's side: a compiled model, or containers of ours on an emulated board.

    Attributes:
        groups: rows that the board gives, a run each.
        opened: the model that ran last.
        notes: what is to be known.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        build: Quantized,
        runtime: BoardRuntime,
        rows: Sequence[Row],
        compiled: Path | None,
    ) -> None:
        self._pipeline, self._build, self._runtime = pipeline, build, runtime
        self.opened: OpenModel | None = None
        self.notes: list[str] = []
        self._compiled = compiled
        if compiled is None:
            self.groups = output_groups(rows)
        else:
            opened = self._open(compiled)
            places_of_tensors = match_outputs(opened.outputs, rows)
            if not places_of_tensors:
                raise _no_layers_error(compiled, opened)
            self.groups = [[row for row in rows if row.golden in places_of_tensors]]

    def run(
        self, feeds: Mapping[str, np.ndarray], outputs: Sequence[str] | None = None, /
    ) -> dict[str, np.ndarray]:
        """The tensors of a group of rows, by ``Row.golden``."""
        rows = next(rows for rows in self.groups if [row.golden for row in rows] == outputs)
        opened = None if self._compiled is None else self.opened
        if opened is None:
            content = comparison_container(self._pipeline, rows)
            with owned_file("board", "comparison.rknn", content) as path:
                opened = self._open(path)
        order = match_inputs(opened.inputs, self._build.graph.inputs)
        inputs = [_board_input(feeds[name]) for name in order]
        result = self._runtime.run(inputs)
        places = match_outputs(opened.outputs, rows)
        arrays = {}
        for row in rows:
            shape = self._build.reference.spec(row.golden).shape
            if row.golden not in places:
                raise _no_layers_error(self._compiled or Path("the comparison model"), opened)
            arrays[row.golden] = values_of(result.outputs[places[row.golden]], shape)
        return arrays

    def _open(self, path: Path) -> OpenModel:
        self.opened = self._runtime.open(path)
        self.notes += self.opened.notes
        return self.opened


def _board_input(array: np.ndarray) -> BoardInput:
    return BoardInput(array, "NCHW" if array.ndim == 4 else None)


def _no_layers_error(path: Path, opened: OpenModel) -> UsageError:
    names = ", ".join(port.name for port in opened.outputs[:5])
    return UsageError(
        f"No output of {path.name} is a layer of this build.",
        cause=f"It was compiled from another model: it gives {sanitize(names, 300)}.",
        remedy=_STEPS,
    )
