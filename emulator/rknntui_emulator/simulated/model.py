"""A container of ours on an emulated board: what its runtime library tells of it, and its results.

The results are the simulator's, bit by bit: the same graph, the same sessions, inputs treated as
``RKNN.inference`` without a target treats them. For a compiled file stands the build that it comes
from, with the roundings of a compiled model (``rknntui simulate --as-compiled``).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from engine.base.content import reading
from engine.base.errors import ContainerError, DeviceError
from engine.base.files import open_regular, sha256_of
from engine.base.text import sanitize
from engine.container import other_format, read_container
from engine.dataset import Preprocess
from engine.devices.probe.compatibility import SAME_NPU
from engine.facts import chip
from engine.graph.execute import FUSING_LEVEL, Session, as_compiled
from engine.quantize import layers_of
from engine.recipe import Recipe, portable_values
from engine.toolkit.compile.side_file import kept_build
from rknntui_emulator.runtime.answers import Answers
from rknntui_emulator.runtime.build import stand_in_of
from rknntui_emulator.simulated.bend import bent_graph, read_bend
from rknntui_emulator.simulated.costs import layer_rows, memory_of, run_times
from rknntui_emulator.simulated.tensors import GivenInput, inputs_of, outputs_of

if TYPE_CHECKING:
    from engine.container import Container
    from engine.graph.ir import Graph
    from rknntui_emulator.boards import Board

_HEAD = 64


def read_model(path: Path, board: Board, digest: str = "") -> SimulatedBoardModel:
    """A model that is to run on an emulated board; of a compiled one the build that was kept.

    Args:
        path: of the model.
        board: with its chip and its runtime library.
        digest: SHA-256 of the file; empty computes it where it is needed.

    Raises:
        ContainerError: it cannot be read, or no simulator can run it.
        DeviceError: no runtime library could describe it.
    """
    build: bytes | None = None
    try:
        with open_regular(path) as stream:
            head = stream.read(_HEAD)
    except OSError as error:
        raise ContainerError(
            f"The model could not be read: {error.strerror}.",
            remedy="Check the path, and that you have permission to read it.",
        ) from error
    if other_format(head):
        build = kept_build(digest or sha256_of(path))
        if build is None:
            raise ContainerError(
                "It was compiled by the vendor's toolkit: no simulator can run that code, and the "
                "build that it comes from is not kept here.",
                cause="Another machine or user compiled it, the toolkit itself quantized it, or it "
                "is the oldest of more builds than are kept.",
                remedy="Compile it here with rknntui compile --quantizer ours, or give the board "
                "the build: rknntui build.",
            )
    with reading(_damaged):
        return SimulatedBoardModel(read_container(build or path), board, compiled=build is not None)


def _damaged(why: str) -> ContainerError:
    return ContainerError(f"The container does not run: {why}.", remedy="Export it again.")


class SimulatedBoardModel:
    """A container that runs on an emulated board.

    Args:
        container: of ours.
        board: with its chip and its runtime library.
        compiled: it stands for a compiled model, which rounds less at level 3.

    Raises:
        EngineError: it does not run, or no library could describe it.
    """

    def __init__(self, container: Container, board: Board, *, compiled: bool = False) -> None:
        self._container, self._board = container, board
        self._layers = container.layers or layers_of(container.graph)
        values = portable_values(container.recipe)
        values.pop("model", None)
        recipe = Recipe.from_values({k: v for k, v in values.items() if k != "dataset"})
        specs = container.graph.inputs
        plans = Preprocess.from_recipe(recipe, board.generation).plans(specs)
        self._inputs = inputs_of(plans, specs, self._layers)
        self._outputs = outputs_of(
            container, self._layers, channels_last=stand_in_of(board.library) == "librknnmrt.so"
        )
        self._fused = compiled and recipe.quantization.optimization_level >= FUSING_LEVEL
        self._session = self._session_for(container.graph)
        self._bent: tuple[str, Session] | None = None

    @property
    def platform(self) -> str:
        """The chip that it was built for, empty where it does not tell; one with the same NPU as
        the board's is the board's.
        """
        target = (self._container.target_platform or "").lower()
        facts = chip(target)
        name = target if facts is None else facts.name
        same = any({name, self._board.chip} <= set(pair) for pair in SAME_NPU)
        return self._board.chip if same else name

    @cached_property
    def answers(self) -> Answers:
        """What the runtime library tells of it; results are made when they are asked for."""
        graph, built_for = self._container.graph, chip(self.platform)
        inputs = tuple(tensor.facts for tensor in self._inputs)
        outputs = tuple(tensor.facts for tensor in self._outputs)
        rows = layer_rows(graph, self._layers, self._board, inputs, outputs)
        return Answers(
            inputs=inputs,
            outputs=outputs,
            results={},
            layers=rows,
            run_us=run_times(rows, self._board.cores),
            generation=self._board.generation if built_for is None else built_for.generation,
            memory=memory_of(graph),
            platform=self.platform,
            custom=self._container.custom_string or "",
            simulated=True,
        )

    def check_bend(self, text: str) -> None:
        """See whether a layer can be bent.

        Raises:
            UsageError: there is no such layer, or it gives no numbers.
        """
        self._session_of(text)

    def run(self, given: Sequence[GivenInput], bend: str = "") -> list[bytes]:
        """The bytes of each output.

        Args:
            given: the inputs in the model's order.
            bend: ``LAYER[:STRENGTH]``; empty for none.

        Raises:
            UsageError: there is no such layer.
            EngineError: an input does not fit, or the graph does not run.
        """
        if len(given) != len(self._inputs):
            raise DeviceError(
                f"The model has {len(self._inputs)} inputs, and {len(given)} were given.",
                remedy="Give each input, in the model's order.",
            )
        feeds = {
            tensor.plan.name: tensor.array(one)
            for tensor, one in zip(self._inputs, given, strict=True)
        }
        arrays = self._session_of(bend).run(feeds, [tensor.name for tensor in self._outputs])
        return [tensor.content(arrays[tensor.name]) for tensor in self._outputs]

    def _session_of(self, bend: str) -> Session:
        if not bend:
            return self._session
        if self._bent is None or self._bent[0] != bend:
            parsed = read_bend(bend, self._layers)
            graph = bent_graph(self._container, self._layers, parsed)
            self._bent = bend, self._session_for(graph)
        return self._bent[1]

    def _session_for(self, graph: Graph) -> Session:
        return Session(as_compiled(graph) if self._fused else graph)

    def __repr__(self) -> str:
        return f"SimulatedBoardModel({sanitize(self._container.name, 80)!r})"
