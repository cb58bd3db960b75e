"""An ONNX graph with Q/DQ in the making: of each tensor that torch gave, how it is stored.

A tensor of integers is a ``QuantizeLinear`` in the parameters that torch's tensor has; who reads it
reads a ``DequantizeLinear`` of it. Imported in the child process only: it needs torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import torch

from engine.base.errors import UnsupportedOperatorError
from engine.base.text import sanitize
from engine.frontends.emit import Emitter

_KINDS = {torch.quint8: "uint8", torch.qint8: "int8"}


def no_rule(what: str) -> UnsupportedOperatorError:
    """The error for what only torch's own exporters may know."""
    return UnsupportedOperatorError(
        f"{sanitize(what, 100)} is not written by layers.",
        remedy="Load it by another pytorch_route.",
    )


def integers_of(tensor: torch.Tensor) -> np.ndarray:
    """The stored integers of a quantized tensor, in its logical order."""
    array: np.ndarray = tensor.int_repr().contiguous().numpy()
    return array


@dataclass(frozen=True)
class Stored:
    """How integers stand for numbers: ``(q - zero_point) * scale``.

    Attributes:
        scale, zero_point: arrays of no dimension, or of one where they go along ``axis``.
    """

    scale: np.ndarray
    zero_point: np.ndarray
    axis: int = 0

    @classmethod
    def of(cls, tensor: torch.Tensor) -> Stored:
        """Of a quantized tensor.

        Raises:
            UnsupportedOperatorError: its integers are not of 8 bits.
        """
        kind = _KINDS.get(tensor.dtype)
        if kind is None:
            raise no_rule(f"A tensor of {tensor.dtype}")
        if tensor.qscheme() in (torch.per_channel_affine, torch.per_channel_symmetric):
            scales = tensor.q_per_channel_scales().numpy().astype(np.float32)
            points = tensor.q_per_channel_zero_points().numpy()
            return cls(scales, points.astype(kind), tensor.q_per_channel_axis())
        if tensor.qscheme() not in (torch.per_tensor_affine, torch.per_tensor_symmetric):
            raise no_rule(f"Quantization {tensor.qscheme()}")
        return cls(np.array(tensor.q_scale(), np.float32), np.array(tensor.q_zero_point(), kind))


class IntegerGraph:
    """Nodes, constants, and which tensor of torch is which value.

    Attributes:
        given: what torch gave for each value that is stored or computed, by its name: integers for
            what is quantized, else numbers.
        operators: of torch, which gave each of them.
    """

    def __init__(self) -> None:
        self.given: dict[str, np.ndarray] = {}
        self.operators: dict[str, str] = {}
        self._emit = Emitter("integers")
        self._names: dict[int, str] = {}
        self._stored: dict[str, Stored] = {}
        self._real: dict[str, str] = {}
        self._kept: list[torch.Tensor] = []  # so that no other tensor gets the number of one

    def knows(self, tensor: torch.Tensor) -> bool:
        """Whether it depends on an input; what does not is a constant."""
        return id(tensor) in self._names

    def feed(self, tensor: torch.Tensor, name: str) -> None:
        """Say that a tensor is an input of the graph."""
        array = tensor.numpy()
        self._know(tensor, self._emit.input(name, array.shape, array.dtype.name))

    def hide(self, tensor: torch.Tensor) -> None:
        """Say that a tensor depends on an input and has no form here."""
        self._know(tensor, "")

    def real(self, tensor: torch.Tensor) -> str:
        """The name of its numbers: of a quantized one, behind a ``DequantizeLinear``.

        Raises:
            UnsupportedOperatorError: the tensor has no form here.
        """
        name = self._names.get(id(tensor))
        if name == "":
            raise no_rule("What an operator gives besides its numbers")
        if name is None:
            if tensor.is_quantized:
                return self.weight(tensor)
            return self.constant(tensor.detach().contiguous().numpy())
        if name not in self._stored:
            return name
        if name not in self._real:
            self._real[name] = self._dequantized(name, self._stored[name])
        return self._real[name]

    def weight(self, tensor: torch.Tensor) -> str:
        """The numbers of quantized weights, which keep their integers."""
        stored = Stored.of(tensor)
        return self._dequantized(self.constant(integers_of(tensor), "weight"), stored)

    def bias(self, values: torch.Tensor, stored: Stored) -> str:
        """The numbers of a bias, stored as torch's kernels do: int32 in steps of ``stored``."""
        real = values.detach().numpy().astype(np.float64)
        steps = np.rint(real / np.asarray(stored.scale, np.float64))
        limits = np.iinfo(np.int32)
        whole = np.clip(steps, limits.min, limits.max).astype(np.int32)
        return self._dequantized(self.constant(whole, "bias"), stored)

    def node(self, kind: str, *inputs: Any, **attributes: Any) -> str:
        """Add a node; the name of its output.

        Args:
            inputs: names; or a tensor, a number of float32, whole numbers of int64, an array.
        """
        return self.nodes(kind, 1, *inputs, **attributes)[0]

    def nodes(self, kind: str, outputs: int, *inputs: Any, **attributes: Any) -> list[str]:
        """Add a node of several outputs; their names, none of which an output of a model has."""
        read = [self._input(value) for value in inputs]
        return self._emit.nodes(kind, read, [f"layer/{kind.lower()}"] * outputs, **attributes)

    def _input(self, value: Any) -> str:
        if isinstance(value, str):
            return value
        if isinstance(value, torch.Tensor):
            return self.real(value)
        if isinstance(value, float):
            return self.constant(np.array(value, np.float32), "number")
        whole = value if isinstance(value, np.ndarray) else np.array(value, np.int64)
        return self.constant(whole, "numbers")

    def constant(self, array: np.ndarray, what: str = "constant") -> str:
        """Add a constant."""
        return self._emit.constant(np.asarray(array), f"layer/{what}")

    def give(self, tensor: torch.Tensor, real: str, operator: str) -> None:
        """Say that a tensor of torch is what a node computes, quantized where the tensor is.

        Args:
            operator: of torch, which gave it.
        """
        if tensor.is_quantized:
            stored = Stored.of(tensor)
            points = [self.constant(number, "step") for number in (stored.scale, stored.zero_point)]
            name = self.node("QuantizeLinear", real, *points, **_along(stored))
            self._stored[name] = stored
            self.given[name] = integers_of(tensor)
        else:
            name = real
            self.given[name] = tensor.detach().contiguous().numpy().copy()
        self.operators[name] = operator
        self._know(tensor, name)

    def model(self, outputs: Sequence[tuple[str, torch.Tensor]]) -> onnx.ModelProto:
        """The finished model; ``outputs`` are their names, and the tensors that they are."""
        for name, tensor in outputs:
            kind = "float32" if tensor.is_quantized else tensor.detach().numpy().dtype.name
            self._emit.output(self._emit.node("Identity", [self.real(tensor)], name), kind)
        return self._emit.proto()

    def _dequantized(self, name: str, stored: Stored) -> str:
        scale = self.constant(np.asarray(stored.scale, np.float32), "scale")
        point = self.constant(stored.zero_point, "zero_point")
        return self.node("DequantizeLinear", name, scale, point, **_along(stored))

    def _know(self, tensor: torch.Tensor, name: str) -> None:
        self._names[id(tensor)] = name
        self._kept.append(tensor)


def _along(stored: Stored) -> dict[str, int]:
    return {"axis": stored.axis} if stored.scale.ndim else {}
