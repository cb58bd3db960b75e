"""The numbers of an LSTM cell, as the operators of TFLite list them among their inputs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.base.findings import Finding
from engine.frontends.tflite.layer import Layer
from engine.frontends.tflite.values import Value

__all__ = ["GATES", "Cell", "cell_of", "note_state", "weights_of"]

_TANH = 4
GATES = ("input", "forget", "cell", "output")


@dataclass(frozen=True)
class Cell:
    """The numbers of one LSTM cell; gates in the order of ``GATES``, the first None if coupled.

    Weights are (units, features) and (units, outputs), the projection is (units, outputs).
    """

    kernel: tuple[np.ndarray | None, ...]
    recurrent: tuple[np.ndarray | None, ...]
    peephole: tuple[np.ndarray | None, ...]
    bias: tuple[np.ndarray | None, ...]
    projection: np.ndarray | None
    projection_bias: np.ndarray | None
    norm: tuple[np.ndarray | None, ...]
    hidden: Value
    state: Value
    cell_clip: float
    projection_clip: float

    @property
    def units(self) -> int:
        """Width of the cell."""
        return 0 if self.kernel[1] is None else len(self.kernel[1])

    @property
    def outputs(self) -> int:
        """Width of what it gives: of the projection where there is one."""
        return self.units if self.projection is None else self.projection.shape[1]

    @property
    def gates(self) -> tuple[int, ...]:
        """The gates that have weights."""
        return tuple(i for i in range(4) if self.kernel[i] is not None)

    def plain(self, steps: int) -> bool:
        """Whether ONNX's LSTM computes the same.

        From a cell of zeros, each step adds less than 1 to it: a clip of ``steps`` or more never
        acts.
        """
        zero = self.state.array is not None and not self.state.array.any()
        idle = self.cell_clip == 0 or (zero and steps <= self.cell_clip)
        return (
            idle
            and self.projection is None
            and len(self.gates) == 4
            and not any(norm is not None for norm in self.norm)
        )


def weights_of(layer: Layer, index: int) -> np.ndarray | None:
    """Constant weights in real numbers; None where they are left out."""
    if not layer.has(index):
        return None
    value = layer.input(index)
    array = layer.array(index, "weights")
    if value.quant is None:
        if array.dtype != np.float32:
            raise layer.refusal(f"its weights are {array.dtype}")
        return array
    scale, zero = value.quant.scale, value.quant.zero_point
    if value.quant.axis >= 0:
        shape = [-1 if axis == value.quant.axis else 1 for axis in range(array.ndim)]
        scale, zero = scale.reshape(shape), zero.reshape(shape)
    real: np.ndarray = ((array.astype(np.int64) - zero) * scale).astype(np.float32)
    return real


def cell_of(layer: Layer, first: int, states: int, norms: int | None) -> Cell:
    """The cell whose weights begin at input ``first``."""

    def group(start: int, count: int) -> tuple[np.ndarray | None, ...]:
        return tuple(weights_of(layer, start + number) for number in range(count))

    if layer.int_option("activation") != _TANH:
        raise layer.refusal("its activation is not tanh")
    if layer.input(0).dtype != "float32":
        raise layer.refusal("it computes in integers, whose rounding ONNX cannot express")
    kernel = group(first, 4)
    recurrent = group(first + 4, 4)
    projection = weights_of(layer, first + 15)
    cell = Cell(
        kernel=kernel,
        recurrent=recurrent,
        peephole=group(first + 8, 3),
        bias=group(first + 11, 4),
        projection=None if projection is None else projection.T,
        projection_bias=weights_of(layer, first + 16),
        norm=group(norms, 4) if norms is not None else (None,) * 4,
        hidden=layer.input(states),
        state=layer.input(states + 1),
        cell_clip=layer.float_option("cell_clip"),
        projection_clip=layer.float_option("proj_clip"),
    )
    missing = [
        name
        for name, w, r in zip(GATES[1:], kernel[1:], recurrent[1:], strict=True)
        if w is None or r is None
    ]
    if missing or (kernel[0] is None) != (recurrent[0] is None):
        raise ValueError(f"its {', '.join(missing) or 'input'} gate has no weights")
    for index in cell.gates:
        w, r = kernel[index], recurrent[index]
        if w is None or r is None or w.ndim != 2 or r.shape != (cell.units, cell.outputs):
            raise ValueError(f"the weights of its {GATES[index]} gate do not fit")
    note_state(layer)
    return cell


def note_state(layer: Layer) -> None:
    """A finding: the state does not last from run to run."""
    layer.tensors.note(
        Finding(
            code="state-starts-at-zero",
            severity="info",
            where=layer.tensors.file,
            what="The state of recurrent layers starts at zero in every run.",
            cause="TFLite keeps it between calls until it is reset; a graph has no memory.",
        )
    )
