"""A module of integers as the layers that it runs, each held to torch on torch's own inputs.

torch.ao's converted modules (``quantized::conv2d`` and so on) run on a sample; each operator that
is dispatched becomes a node between ``DequantizeLinear`` and ``QuantizeLinear`` in the parameters
of torch's tensors, with the integers out of the packed weights. Then every layer is computed once
more from what torch gave for its inputs, and may be one step away: torch's engines are as well.
Imported in the child process only: it needs torch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import helper
from torch.utils._python_dispatch import TorchDispatchMode

from engine.base.errors import EngineError, SourceModelError
from engine.base.text import sanitize
from engine.frontends.numeric_check import compare_outputs
from engine.frontends.pytorch.inputs import Plan, leaves, unoptimised
from engine.frontends.pytorch.integer_graph import IntegerGraph, no_rule
from engine.frontends.pytorch.integer_operators import RULES
from engine.frontends.pytorch.quantized import exact
from engine.graph.execute.runtime import plain_session
from engine.graph.execute.session_setup import keep_sums_exact

_WITH_MORE = {
    "aten::_native_batch_norm_legit_no_training": "aten::_native_batch_norm_legit_no_training",
    "aten::max_pool2d_with_indices": "aten::max_pool2d",
}
"""Operators that give more than a tensor of numbers -> the rule for that one."""

_ONE_STEP = 1
_FLOAT = 1e-4


@dataclass(frozen=True)
class Layers:
    """How the layers of a module agree with torch, each on torch's own inputs.

    Attributes:
        count: layers whose results are integers.
        apart: share of their values that are a step away.
    """

    count: int
    apart: float


def write_by_layers(
    module: Any, plan: Plan, names: tuple[Sequence[str], Sequence[str]], count: int, out: Path
) -> Layers:
    """Write a module as ONNX, layer by layer.

    Args:
        module: a loaded script module.
        names: of inputs and outputs.
        count: samples that are run; the layers have to be the same for all.
        out: the file to write.

    Raises:
        UnsupportedOperatorError: an operator has no rule here, or which ones run depends on data.
        SourceModelError: a layer is more than a step from torch.
    """
    inputs, outputs = names
    apart, integers, layers = 0, 0, 0
    first = ""
    for seed in range(count):
        sample = [tensor.clone() for tensor in plan.sample(seed)]
        fed = dict(zip(inputs, sample, strict=True))
        recorder = _Recorder(fed)
        result = recorder.run(module, plan.signature.pack(sample))
        results = [tensor for _, tensor in leaves(result)]
        model = recorder.graph.model(list(zip(outputs, results, strict=True)))
        whole_file = model.SerializeToString(deterministic=True)
        digest = hashlib.sha256(whole_file).hexdigest()
        if not first:  # nothing else in it may come of the numbers that are fed
            first = digest
            out.write_bytes(whole_file)
        elif digest != first:
            raise no_rule("A module whose layers or constants depend on data")
        one, whole, layers = _held(model, recorder.graph, fed)
        apart, integers = apart + one, integers + whole
    return Layers(layers, apart / max(integers, 1))


class _Recorder(TorchDispatchMode):
    """Adds each operator that torch runs to a graph."""

    # TorchScript makes a RuntimeError without the words of every error inside it
    _problem: EngineError | None = None

    def __init__(self, fed: Mapping[str, torch.Tensor]) -> None:
        super().__init__()
        self.graph = IntegerGraph()
        for name, tensor in fed.items():
            self.graph.feed(tensor, name)

    def run(self, module: Any, arguments: tuple[Any, ...]) -> Any:
        """What the module gives; raises as :func:`write_by_layers`."""
        try:
            with torch.no_grad(), unoptimised(), self:
                return module(*arguments)
        except RuntimeError:
            if self._problem is not None:
                raise self._problem from None
            raise

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Run an operator and add it."""
        try:
            return self._added(func, args, kwargs or {})
        except EngineError as error:
            self._problem = error
            raise

    def _added(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        arguments = _arguments(func, args, kwargs)
        depends = any(self.graph.knows(t) for value in arguments.values() for t in _tensors(value))
        rule = RULES.get(func._schema.name)
        result = exact(func, args, kwargs)
        if not depends:
            return result  # of constants: read where it is used
        if rule is None or not isinstance(result, torch.Tensor):
            return self._parts(func, arguments, result)
        self.graph.give(result, rule(self.graph, arguments, result), func._schema.name)
        return result

    def _parts(self, func: Any, arguments: Mapping[str, Any], result: Any) -> Any:
        """Operators that give several tensors."""
        name = func._schema.name
        if name in ("aten::split", "aten::split_with_sizes", "aten::chunk", "aten::unsafe_chunk"):
            source = next(iter(arguments.values()))
            axis = int(arguments["dim"])
            sizes = np.array([part.shape[axis] for part in result], np.int64)
            parts = self.graph.nodes("Split", len(result), source, sizes, axis=axis)
            for tensor, part in zip(result, parts, strict=True):
                self.graph.give(tensor, part, name)
        elif name in _WITH_MORE:  # statistics or places, which nothing may read
            rule = RULES[_WITH_MORE[name]]
            self.graph.give(result[0], rule(self.graph, arguments, result[0]), name)
            for tensor in result[1:]:
                self.graph.hide(tensor)
        else:
            raise no_rule(name)
        return result


def _arguments(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call by their names, defaults too."""
    values: dict[str, Any] = {}
    for at, argument in enumerate(func._schema.arguments):
        if at < len(args):
            values[argument.name] = args[at]
        elif argument.name in kwargs:
            values[argument.name] = kwargs[argument.name]
        else:
            values[argument.name] = argument.default_value
    return values


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, list | tuple):
        return [item for item in value if isinstance(item, torch.Tensor)]
    return []


# ------------------------------------------------------------------------------------------ check


def _held(
    model: onnx.ModelProto, graph: IntegerGraph, fed: Mapping[str, torch.Tensor]
) -> tuple[int, int, int]:
    """Compute every layer from what torch gave for its inputs.

    Returns:
        Values that are a step away, values that were compared, layers of integers.

    Raises:
        SourceModelError: one is further away.
    """
    layers_apart = _in_layers(model, graph.given).SerializeToString()
    session = plain_session(layers_apart, keep_sums_exact)
    feeds = {name: tensor.numpy() for name, tensor in fed.items()}
    feeds |= {_fed(name): array for name, array in graph.given.items()}
    known = {value.name for value in session.get_inputs()}
    names = list(graph.given)
    arrays = session.run(names, {name: feeds[name] for name in feeds if name in known})
    apart = compared = layers = 0
    for name, array in zip(names, arrays, strict=True):
        want = graph.given[name]
        if want.dtype not in (np.uint8, np.int8):
            check = compare_outputs([want], [array])
            if not check.within(_FLOAT):
                raise _differs(graph, name, check.misfit or f"by {check.error:.1e} of its range")
            continue
        gap = np.abs(array.astype(np.int16) - want)
        if array.shape != want.shape or gap.max(initial=0) > _ONE_STEP:
            raise _differs(graph, name, f"by {gap.max(initial=0)} steps")
        apart, compared, layers = apart + int((gap > 0).sum()), compared + gap.size, layers + 1
    return apart, compared, layers


def _in_layers(model: onnx.ModelProto, arrays: Mapping[str, np.ndarray]) -> onnx.ModelProto:
    """A model cut at every value that torch gave: each is an output, and read as an input."""
    cut = deepcopy(model)
    kinds = helper.np_dtype_to_tensor_dtype
    del cut.graph.output[:]
    for name, array in arrays.items():
        kind = kinds(array.dtype)
        cut.graph.input.append(helper.make_tensor_value_info(_fed(name), kind, array.shape))
        cut.graph.output.append(helper.make_tensor_value_info(name, kind, array.shape))
    for node in cut.graph.node:
        for at, name in enumerate(node.input):
            if name in arrays:
                node.input[at] = _fed(name)
    return cut


def _fed(name: str) -> str:
    return f"{name}/fed"


def _differs(graph: IntegerGraph, name: str, by: str) -> SourceModelError:
    place = 1 + list(graph.given).index(name)
    return SourceModelError(
        f"Operator {place} of {len(graph.given)}, {sanitize(graph.operators[name], 100)}, differs "
        f"from PyTorch on PyTorch's own inputs: {by}.",
        cause="An operator in it is converted to something else than it computes.",
        remedy="Please report it. Until then give the float model, and quantize it here.",
    )
