"""What is to run on a board: a file, or a build whose container an emulated board runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from engine.base.errors import EngineError, UsageError
from engine.base.leftovers import owned_file
from engine.dataset import Preprocess
from engine.devices.connected import Connected
from engine.simulate.outputs import figures_of_output

if TYPE_CHECKING:
    import numpy as np

    from engine.graph.layers import LayerMap
    from engine.wire.build import SimulatedOutput

FindLayers = Callable[[], "LayerMap | None"]
"""Finds the layers of a model's build, which may take a build; None where it is not known."""


def no_layers() -> LayerMap | None:
    """Of a model whose build is not known."""
    return None


def no_floats(_: Sequence[Path]) -> tuple[np.ndarray, ...]:
    """Of a model whose float graph is not known."""
    return ()


@dataclass(frozen=True)
class ModelSource:
    """A model that is to run on a board.

    Attributes:
        path: a compiled model, or a container of ours; None where it has to be built.
        content: builds it and gives its container; None where there is a path.
        preprocess: how pictures become its inputs.
        layers: finds the layers of its build.
        name: of the model that is built, for lists.
        floats: computes the outputs of the float graph for the files of a sample.
    """

    path: Path | None = None
    content: Callable[[], bytes] | None = None
    preprocess: Preprocess = field(default_factory=Preprocess)
    layers: FindLayers = no_layers
    name: str = ""
    floats: Callable[[Sequence[Path]], Sequence[np.ndarray]] = no_floats

    def figures(
        self,
        names: Sequence[str],
        arrays: Sequence[np.ndarray],
        paths: Sequence[Path],
        top: int,
        label: str,
    ) -> tuple[tuple[SimulatedOutput, ...], tuple[str, ...]]:
        """What a board gave for a sample, beside float where that is known; notes on it."""
        notes: tuple[str, ...] = ()
        try:
            floats = self.floats(paths)
        except EngineError as error:
            floats, notes = (), (f"Not compared with float: {error.what}",)
        beside = floats if len(floats) == len(arrays) else [None] * len(arrays)
        told = (
            figures_of_output(name, array, top, label, reference)
            for name, array, reference in zip(names, arrays, beside, strict=True)
        )
        return tuple(told), notes

    @property
    def title(self) -> str:
        """What a list calls it: the name of its file."""
        return self.name if self.path is None else self.path.name

    @cached_property
    def told(self) -> Callable[[str], str]:
        """Gives what a runtime says of a compiled model the user's names."""
        if self.path is None:
            return str
        from engine.toolkit.compile.side_file import names_of

        return names_of(self.path).told

    @contextmanager
    def file_for(self, board: Connected) -> Iterator[Path]:
        """The file that this board runs, for the time of the block.

        Raises:
            UsageError: it has to be built, and the board is a real one, whose code is made by the
                vendor's compiler.
            EngineError: it cannot be built.
        """
        if self.path is not None:
            yield self.path
            return
        if not board.identity.emulated or self.content is None:
            chip = board.identity.chip or "its chip"
            raise UsageError(
                f"A recipe cannot run on {board.address}.",
                cause="A board runs code for its NPU, and the vendor's toolkit makes that.",
                remedy="Export the build as ONNX (rknntui export --format onnx), compile it with "
                f"the vendor's toolkit for {chip}, and give the .rknn that comes out.",
            )
        with owned_file("board", "build.rknn", self.content()) as path:
            yield path
