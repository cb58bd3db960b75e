"""Export strategies: ways from a TorchScript module to an ONNX file; each result is checked.

Imported in the child process only: it needs torch.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.onnx.utils import register_custom_op_symbolic, unregister_custom_op_symbolic

from engine.frontends.pytorch.by_layers import Layers, write_by_layers
from engine.frontends.pytorch.inputs import Flattened, Plan, leaves, unoptimised
from engine.frontends.pytorch.operators import OPERATORS
from engine.frontends.pytorch.quantized import fake_quantization


@dataclass(frozen=True)
class Subject:
    """What is exported.

    Attributes:
        load: gives the module anew: exporters change the one that they work on.
        plan: how it is fed.
        paths: where in its result each output tensor is.
        inputs, outputs: names that the ONNX file gives them.
        large: whether its weights do not fit one ONNX file.
        fixable: whether sizes that it computes may be made constants: not where it is quantized,
            as that freezes the module.
        integers: whether it computes in integers (``torch.ao.quantization.convert``).
        samples: how many inputs it is compared on.
    """

    load: Callable[[], Any]
    plan: Plan
    paths: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    large: bool = False
    fixable: bool = True
    integers: bool = False
    samples: int = 1


@dataclass(frozen=True)
class ExportStrategy:
    """One way.

    Attributes:
        name: for the user.
        kind: ``script`` or ``export``.
        export: writes the file. One that has held each layer to PyTorch says how they agree.
        of_integers: whether it is for modules that compute in integers alone.
    """

    name: str
    kind: str
    export: Callable[[Subject, Path], Layers | None]
    of_integers: bool = False


def _by_layers(subject: Subject, out: Path) -> Layers:
    """Each operator that a module of integers runs, held to PyTorch layer by layer."""
    names = subject.inputs, subject.outputs
    return write_by_layers(subject.load(), subject.plan, names, subject.samples, out)


def _script(subject: Subject, out: Path) -> None:
    """PyTorch's exporter of script modules, which keeps control flow."""
    module = subject.load()
    signature = subject.plan.signature
    simple = signature.plain and all(path in ("", f"[{i}]") for i, path in enumerate(subject.paths))
    if not simple or _gives_list(module):
        module = Flattened(module, signature, subject.inputs, subject.paths)
    _old_exporter(module, subject, out, _OLD_OPSET)


def _fixed_script(subject: Subject, out: Path) -> None:
    """The same at a newer opset, with a module whose sizes are constants."""
    module = _flat(subject)
    if subject.fixable:
        module = with_fixed_sizes(module, subject.plan.sample(0))
    _old_exporter(module, subject, out, _NEW_OPSET)


def _flat(subject: Subject) -> Flattened:
    """The module as a function of single tensors."""
    return Flattened(subject.load(), subject.plan.signature, subject.inputs, subject.paths)


@contextlib.contextmanager
def _gradients(module: Any) -> Iterator[None]:
    """Let the parameters want gradients, for the time of the block."""
    parameters = [p for p in module.parameters() if p.is_floating_point()]
    for parameter in parameters:
        parameter.requires_grad_(True)
    try:
        yield
    finally:
        for parameter in parameters:
            parameter.requires_grad_(False)


def _gives_list(module: Any) -> bool:
    return any(
        value.type.kind() not in ("TensorType", "TupleType")
        for value in module.forward.schema.returns
    )


def _captured_script(subject: Subject, out: Path) -> None:
    _old_exporter(_capture(subject), subject, out, _NEW_OPSET)


def _captured(subject: Subject, out: Path) -> None:
    _new_exporter(_capture(subject), tuple(subject.plan.sample(0)), subject, out)


def _converted(subject: Subject, out: Path) -> None:
    """PyTorch's converter of script modules to exported programs, which reads their code."""
    from torch._export.converter import TS2EPConverter

    arguments = subject.plan.signature.pack(subject.plan.sample(0))
    program = TS2EPConverter(subject.load(), arguments, {}).convert()
    _new_exporter(program, (), subject, out)


def _capture(subject: Subject) -> Any:
    """The operators that the module runs for these sizes, as an FX module of single tensors.

    Control flow over sizes and settings is followed; where it depends on data, torch refuses. With
    gradients wanted, attention takes its plain way instead of a fused operator.
    """
    module = _flat(subject)

    def flat(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(tensor for _, tensor in leaves(module(*tensors)))

    with _gradients(module), torch.enable_grad(), unoptimised():
        captured = make_fx(flat, tracing_mode="real", pre_dispatch=True)(*subject.plan.sample(0))
    return captured.eval()


def _old_exporter(module: Any, subject: Subject, out: Path, opset: int) -> None:
    symbolics = OPERATORS | fake_quantization(module)
    with warnings.catch_warnings(action="ignore"), torch.no_grad(), _registered(symbolics, opset):
        torch.onnx.export(
            module,
            tuple(subject.plan.sample(0)),
            str(out),
            dynamo=False,
            opset_version=opset,
            input_names=list(subject.inputs),
            output_names=list(subject.outputs),
            training=torch.onnx.TrainingMode.EVAL,
            do_constant_folding=True,
        )


def _new_exporter(program: Any, arguments: tuple[Any, ...], subject: Subject, out: Path) -> None:
    with warnings.catch_warnings(action="ignore"):
        torch.onnx.export(
            program,
            arguments,
            str(out),
            dynamo=True,
            input_names=list(subject.inputs),
            output_names=list(subject.outputs),
            opset_version=_NEW_OPSET,
            external_data=subject.large,
            verbose=False,
        )
    _fix_sizes(out, subject)


def _fix_sizes(out: Path, subject: Subject) -> None:
    """Write the sizes of the inputs into the file: the new exporter may leave some open."""
    proto = onnx.load(str(out), load_external_data=False)
    shapes = {feed.name: feed.shape for feed in subject.plan.feeds}
    for value in proto.graph.input:
        dims = value.type.tensor_type.shape.dim
        for dim, size in zip(dims, shapes.get(value.name, ()), strict=False):
            dim.dim_value = size
    onnx.save(proto, str(out))


@contextlib.contextmanager
def _registered(symbolics: Mapping[str, Callable[..., Any]], opset: int) -> Iterator[None]:
    for name, function in symbolics.items():
        register_custom_op_symbolic(name, function, opset)
    try:
        yield
    finally:
        for name in symbolics:
            unregister_custom_op_symbolic(name, opset)


_OLD_OPSET = 17
_NEW_OPSET = 20

ROUTES: Sequence[ExportStrategy] = (
    ExportStrategy("its layers of integers", "script", _by_layers, of_integers=True),
    ExportStrategy("script exporter", "script", _script),
    ExportStrategy("script exporter, sizes fixed", "script", _fixed_script),
    ExportStrategy("captured operators", "export", _captured_script),
    ExportStrategy("captured operators, new exporter", "export", _captured),
    ExportStrategy("exported program", "export", _converted),
)
"""In the order in which they are tried: from the quickest."""


# ------------------------------------------------------------------------- sizes that are computed


# What may stand between a size and the number that is made of it (ATen's names)
_ARITHMETIC = frozenset(
    f"aten::{name}"
    for name in (
        "add", "sub", "mul", "div", "floor_divide", "floordiv", "remainder", "neg", "floor",
        "ceil", "round", "sqrt", "to", "Int", "IntImplicit", "ScalarImplicit", "Float", "max",
        "min", "__getitem__",
    )
) | {"prim::NumToTensor", "prim::ListConstruct"}  # fmt: skip
_ENDS = frozenset({"aten::size", "aten::dim", "aten::numel", "aten::len", "prim::Constant"})
_NUMBERS = ("IntType", "BoolType")


def with_fixed_sizes(module: Any, tensors: Sequence[torch.Tensor]) -> Any:
    """A module that computes the same for inputs of the sizes of ``tensors``.

    A trace writes ``x.size(0) // 4`` as tensors of one number, of which exporters lose the rank.
    What hangs on sizes and constants alone is computed once and put in its place; nothing that
    depends on data is touched.

    Args:
        module: a script module in evaluation mode, whose ``forward`` takes single tensors; it is
            used up.
        tensors: inputs.

    Returns:
        Another script module.

    Raises:
        RuntimeError: torch does not freeze or run it.
    """
    frozen = torch._C._freeze_module(module._c, preserveParameters=True)
    graph = frozen._get_method("forward").graph
    torch._C._jit_pass_inline(graph)
    for _ in range(_ROUNDS):
        if not _fix(graph, frozen, tensors):
            break
        torch._C._jit_pass_constant_propagation(graph)
        torch._C._jit_pass_dce(graph)
    return torch.jit._recursive.wrap_cpp_module(frozen)


_ROUNDS = 4


def _fix(graph: Any, frozen: Any, tensors: Sequence[torch.Tensor]) -> bool:
    """Replace what can be; whether there was anything. Folded branches may bring up more."""
    size_nodes = [node for node in graph.nodes() if _is_size(node)]
    if not size_nodes:
        return False
    values = _computed(graph, frozen, tensors)
    for node, value in zip(size_nodes, values, strict=True):
        constant = graph.insertConstant(value)
        constant.node().moveBefore(node)
        node.output().replaceAllUsesWith(constant)
    return True


def _is_size(node: Any) -> bool:
    """Whether a node gives a number that depends on sizes and constants alone."""
    if node.kind() == "prim::Constant" or node.outputsSize() != 1:
        return False
    if node.output().type().kind() not in _NUMBERS or not node.output().uses():
        return False
    waiting, seen = [node], set()
    while waiting:
        current = waiting.pop()
        if current.kind() in _ENDS:
            continue
        if current.kind() not in _ARITHMETIC:
            return False
        for value in current.inputs():
            if value.debugName() not in seen:
                seen.add(value.debugName())
                waiting.append(value.node())
    return True


def _computed(graph: Any, frozen: Any, tensors: Sequence[torch.Tensor]) -> list[Any]:
    """The numbers that the graph's nodes of sizes give, in order."""
    lowered, weights = torch._C._jit_pass_lower_graph(graph.copy(), frozen)
    nodes = [node for node in lowered.nodes() if _is_size(node)]
    for index in reversed(range(len(list(lowered.outputs())))):
        lowered.eraseOutput(index)
    for node in nodes:
        lowered.registerOutput(node.output())
    if len(nodes) > 1:
        lowered.makeMultiOutputIntoTuple()
    torch._C._jit_pass_dce(lowered)
    function = torch._C._create_function_from_graph("sizes", lowered)
    with torch.no_grad():
        results = function(*tensors, *weights)
    return list(results) if len(nodes) > 1 else [results]
