"""Sizes and types of the inputs of a TorchScript module: as given, else found by trying it.

A TorchScript file says neither. Imported in the child process only: it needs torch.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch

from engine.base.errors import EngineError, SourceModelError, UnsupportedOperatorError, WorkerError
from engine.base.text import sanitize
from engine.frontends.pytorch.quantized import exact_kernels


@dataclass(frozen=True)
class _Argument:
    """One argument of ``forward``: how many tensors it holds, and how it is written from them."""

    name: str
    kind: str
    parts: tuple[_Argument, ...] = ()
    optional: bool = False

    @property
    def tensors(self) -> int:
        """How many tensors it takes; a list takes the rest."""
        return 1 if self.kind == "tensor" else sum(part.tensors for part in self.parts)


@dataclass(frozen=True)
class Signature:
    """The arguments of ``forward``, in order."""

    arguments: tuple[_Argument, ...]

    @classmethod
    def of(cls, module: Any) -> Signature:
        """Read it from a loaded module.

        Raises:
            SourceModelError: there is no ``forward``.
            UnsupportedOperatorError: an argument that is neither a tensor nor made of tensors has
                no default.
        """
        try:
            schema = module.forward.schema
        except (AttributeError, RuntimeError) as error:
            raise SourceModelError(
                "The model has no method 'forward'.",
                cause="It was saved as a holder of parameters or of other methods.",
                remedy="Script or trace the network itself, and save that.",
            ) from error
        arguments = []
        for argument in schema.arguments[1:]:
            taken = _argument(argument.name, argument.type, optional=argument.has_default_value())
            if taken is None and not argument.has_default_value():
                raise UnsupportedOperatorError(
                    f"forward takes {sanitize(argument.name)!r} of type "
                    f"{sanitize(str(argument.type), 100)}, which is not a tensor.",
                    cause="A graph has only tensors as inputs.",
                    remedy="Wrap the network in a module whose forward takes tensors only, and "
                    "trace that.",
                )
            if taken is None:
                break  # what follows a number with a default keeps its default too
            arguments.append(taken)
        return cls(tuple(arguments))

    @property
    def fewest(self) -> int:
        """How many tensors ``forward`` needs at least."""
        return sum(a.tensors for a in self.arguments if not a.optional and a.kind != "list")

    @property
    def most(self) -> int | None:
        """How many it takes at most; None where a list takes any number."""
        if any(a.kind == "list" for a in self.arguments):
            return None
        return sum(a.tensors for a in self.arguments)

    @property
    def plain(self) -> bool:
        """Whether every argument is one tensor."""
        return all(argument.kind == "tensor" for argument in self.arguments)

    def names(self, count: int) -> list[str]:
        """Names of the first ``count`` tensors; inside tuples and lists they are numbered."""
        names_of_tensors: list[str] = []
        for argument in self.arguments:
            names_of_tensors += _names(argument, count - len(names_of_tensors))
        return names_of_tensors[:count]

    def pack(self, tensors: Sequence[Any]) -> tuple[Any, ...]:
        """The arguments of ``forward`` made of single tensors."""
        rest = list(tensors)
        packed = []
        for argument in self.arguments:
            if not rest:
                break
            packed.append(_pack(argument, rest))
        return tuple(packed)


def _argument(name: str, kind: Any, *, optional: bool = False) -> _Argument | None:
    what = kind.kind()
    if what == "TensorType":
        return _Argument(name, "tensor", optional=optional)
    if what == "OptionalType":
        return _argument(name, kind.getElementType(), optional=True)
    if what == "TupleType":
        parts = [_argument(f"{name}_{i}", part) for i, part in enumerate(kind.elements())]
        known = tuple(part for part in parts if part is not None)
        return _Argument(name, "tuple", known, optional) if len(known) == len(parts) else None
    if what == "ListType" and kind.getElementType().kind() == "TensorType":
        return _Argument(name, "list", optional=optional)
    return None


def _names(argument: _Argument, room: int) -> list[str]:
    if argument.kind == "tensor":
        return [argument.name]
    if argument.kind == "list":
        return [f"{argument.name}_{i}" for i in range(room)]
    return [name for part in argument.parts for name in _names(part, room)]


def _pack(argument: _Argument, rest: list[Any]) -> Any:
    if argument.kind == "tensor":
        return rest.pop(0)
    if argument.kind == "list":
        taken = list(rest)
        rest.clear()
        return taken
    return tuple(_pack(part, rest) for part in argument.parts)


def leaves(value: Any, path: str = "") -> list[tuple[str, Any]]:
    """The tensors of a result in order, each with where it is (``["out"][0]``); others are left."""
    if isinstance(value, torch.Tensor):
        return [(path, value)]
    if isinstance(value, dict):
        pairs = [(f"[{json.dumps(key)}]", part) for key, part in value.items()]
    elif isinstance(value, list | tuple):
        pairs = [(f"[{index}]", part) for index, part in enumerate(value)]
    else:
        pairs = []
    return [leaf for key, part in pairs for leaf in leaves(part, path + key)]


class Flattened(torch.jit.ScriptModule):
    """A script module around another one, whose ``forward`` takes and gives single tensors.

    Exporters take neither dictionaries nor lists; control flow of the module inside stays.

    Args:
        module: the script module.
        signature: of its ``forward``.
        names: of the tensors that it is given.
        paths: where the tensors of its result are, as :func:`leaves` tells.
    """

    def __init__(
        self, module: Any, signature: Signature, names: Sequence[str], paths: Sequence[str]
    ) -> None:
        super().__init__()
        self.model = module
        taken = [f"a{index}" for index in range(len(names))]
        called = ", ".join(_text(part) for part in signature.pack(taken))
        results = ", ".join(f"result{path}" for path in paths)
        self.define(
            f"def forward(self, {', '.join(f'{name}: Tensor' for name in taken)}):\n"
            f"    result = self.model({called})\n"
            f"    return {results}\n"
        )
        self.eval()


def _text(part: Any) -> str:
    if isinstance(part, tuple):
        return "(" + "".join(f"{_text(p)}, " for p in part) + ")"
    if isinstance(part, list):
        return "[" + ", ".join(_text(p) for p in part) + "]"
    return str(part)


_MAX_ELEMENTS = 1 << 28
_MAX_TRIES = 64
_HIGHS = (100, 10, 2, 1)


@dataclass(frozen=True)
class Feed:
    """One input tensor.

    Attributes:
        name: of the argument of ``forward``.
        shape: with the batch.
        dtype: of torch.
        batch_added: whether the size that was given lacked the batch.
    """

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    batch_added: bool = False


@dataclass(frozen=True)
class Plan:
    """How a module is fed.

    Attributes:
        signature: of its ``forward``.
        feeds: its inputs, in order.
        high: whole numbers that are fed stay below it: rows of an embedding, say.
    """

    signature: Signature
    feeds: tuple[Feed, ...]
    high: int

    def sample(self, seed: int) -> list[torch.Tensor]:
        """Random inputs, the same for the same seed.

        Floats are normal for seed 0, 0 to 1 for 1, then of both signs, positive and negative at
        other scales: control flow that depends on data should go more than one way.
        """
        generator = torch.Generator().manual_seed(seed)
        return [self._tensor(feed, seed, generator) for feed in self.feeds]

    def _tensor(self, feed: Feed, seed: int, generator: torch.Generator) -> torch.Tensor:
        if feed.dtype == torch.bool:
            return torch.rand(feed.shape, generator=generator) < 0.7
        if not feed.dtype.is_floating_point:
            high = self.high if seed % 2 == 0 else min(self.high, 2)
            return torch.randint(0, high, feed.shape, generator=generator, dtype=feed.dtype)
        if seed == 1:
            return torch.rand(feed.shape, generator=generator, dtype=feed.dtype)
        normal = torch.randn(feed.shape, generator=generator, dtype=feed.dtype)
        return _SCALES[seed % len(_SCALES)](normal)


_SCALES: tuple[Callable[[torch.Tensor], torch.Tensor], ...] = (
    lambda x: x,
    lambda x: x,
    lambda x: 2 * x - 0.5,
    torch.abs,
    lambda x: -3 * torch.abs(x),
    lambda x: 0.01 * x,
)


def unoptimised() -> AbstractContextManager[None]:
    """Let the interpreter of TorchScript run the code as it is: no profiling, no fusion."""
    context: AbstractContextManager[None] = torch.jit.optimized_execution(False)
    return context


def call(module: Any, signature: Signature, tensors: Sequence[torch.Tensor]) -> Any:
    """What ``forward`` gives, in its own form.

    Raises:
        RuntimeError: and others, as torch raises them.
    """
    with torch.no_grad(), unoptimised(), exact_kernels():
        return module(*signature.pack([tensor.clone() for tensor in tensors]))


def run(module: Any, signature: Signature, tensors: Sequence[torch.Tensor]) -> list[Any]:
    """The tensors that ``forward`` gives, in order; raises as :func:`call`."""
    return [tensor.detach() for _, tensor in leaves(call(module, signature, tensors))]


def plan_inputs(module: Any, sizes: Sequence[Sequence[int]] | None, traced: Any) -> Plan:
    """Fit the given sizes to ``forward``.

    Args:
        module: a loaded script module.
        sizes: one per tensor, with the batch, or (generation 1) without.
        traced: (shape, dtype name) of each input that the module was traced with; empty if unknown.

    Raises:
        SourceModelError: no sizes, a wrong number of them, or none that the module runs with.
        UnsupportedOperatorError: an argument that is no tensor.
    """
    signature = Signature.of(module)
    _check_count(signature, sizes, traced)
    names = signature.names(len(sizes or ()))
    asked_sizes = [tuple(int(n) for n in size) for size in sizes or ()]
    for name, size in zip(names, asked_sizes, strict=True):
        _check_size(name, size)
    problems: list[tuple[tuple[tuple[int, ...], ...], Exception]] = []
    for shapes, dtypes in _combinations(module, asked_sizes, traced):
        feeds = tuple(
            Feed(name, shape, dtype, len(shape) > len(size))
            for name, shape, dtype, size in zip(names, shapes, dtypes, asked_sizes, strict=True)
        )
        try:
            return _trial(module, signature, feeds)
        except Exception as error:  # noqa: BLE001 - torch raises whatever the model's code meets
            problems.append((shapes, error))
    raise _unfit(names, asked_sizes, traced, problems)


def _trial(module: Any, signature: Signature, feeds: tuple[Feed, ...]) -> Plan:
    """A plan that the module runs with; raises what torch raised where it does not."""
    whole = any(not f.dtype.is_floating_point and f.dtype != torch.bool for f in feeds)
    highs = _HIGHS if whole else _HIGHS[:1]
    for high in highs:
        plan = Plan(signature, feeds, high)
        try:
            if not run(module, signature, plan.sample(0)):
                raise SourceModelError(
                    "forward gives no tensor.", remedy="Return tensors from forward."
                )
        except (IndexError, RuntimeError):
            if high == highs[-1]:
                raise
        else:
            return plan
    raise AssertionError("unreachable")


def _combinations(
    module: Any, sizes: list[tuple[int, ...]], traced: Any
) -> Iterator[tuple[tuple[tuple[int, ...], ...], tuple[torch.dtype, ...]]]:
    """(shapes, dtypes) to try, the likeliest first."""
    own = next((p.dtype for p in module.parameters() if p.is_floating_point()), torch.float32)
    known = len(traced) == len(sizes)
    types = [_DTYPES.get(dtype, own) for _, dtype in traced] if known else [own] * len(sizes)
    others = (own, torch.int64, torch.bool, torch.int32)
    tries = 0
    for shapes in _shapes(module, sizes, traced if known else ()):
        mixes = itertools.product(*[dict.fromkeys((dtype, *others)) for dtype in types])
        ordered = sorted(
            itertools.islice(mixes, _MAX_TRIES * 4),
            key=lambda mix: sum(a != b for a, b in zip(mix, types, strict=True)),
        )
        for mix in ordered[:_MAX_TRIES]:
            tries += 1
            if tries > _MAX_TRIES:
                return
            yield shapes, mix


_DTYPES = {name: getattr(torch, name) for name in ("float32", "int64", "int32", "uint8", "bool")}


def _shapes(
    module: Any, sizes: list[tuple[int, ...]], traced: Any
) -> Iterator[tuple[tuple[int, ...], ...]]:
    """The sizes as given and with a batch of 1 in front, the likelier first.

    Convolutions of torch also take pictures without a batch: where the net has kernels of one
    dimension more than a size, the size is more likely one without the batch.
    """
    batched = [(1, *size) for size in sizes]
    if traced:
        ranks = [len(shape) for shape, _ in traced]
        yield tuple(
            long if len(size) == rank - 1 else size
            for size, long, rank in zip(sizes, batched, ranks, strict=True)
        )
    kernels = {parameter.dim() for parameter in module.parameters() if parameter.dim() > 2}
    pictures = [len(size) + 1 in kernels for size in sizes]
    mixed = [b if p else g for g, b, p in zip(sizes, batched, pictures, strict=True)]
    yield from dict.fromkeys(map(tuple, (mixed, sizes, batched)))


def _check_count(signature: Signature, sizes: Sequence[Sequence[int]] | None, traced: Any) -> None:
    most = signature.most
    names = signature.names(most if most is not None else signature.fewest + 1)
    takes = f"forward takes {', '.join(sanitize(name, 60) for name in names[:8])}"
    remedy = f"Give one size per input, for example {_example(len(names), traced)}."
    if not sizes:
        raise SourceModelError(
            f"A TorchScript model needs 'input_size_list': {takes}.",
            cause="The file does not say what sizes its inputs have.",
            remedy=remedy,
        )
    if len(sizes) < signature.fewest or (most is not None and len(sizes) > most):
        raise SourceModelError(f"'input_size_list' has {len(sizes)} sizes; {takes}.", remedy=remedy)


def _example(count: int, traced: Any) -> str:
    if traced:
        return f"{[list(shape) for shape, _ in traced]}, which it was traced with"
    return str([[1, 3, 224, 224]] * max(1, min(count, 4)))


def _check_size(name: str, size: tuple[int, ...]) -> None:
    if any(n < 1 for n in size) or math.prod(size) > _MAX_ELEMENTS:
        raise SourceModelError(
            f"The size {list(size)} of input {sanitize(name)!r} cannot be used.",
            cause=f"Every entry is at least 1, and an input has at most {_MAX_ELEMENTS} elements.",
            remedy="Write it as [[1, 3, 224, 224]].",
        )


def _unfit(
    names: Sequence[str],
    sizes: list[tuple[int, ...]],
    traced: Any,
    problems: list[tuple[tuple[tuple[int, ...], ...], Exception]],
) -> EngineError:
    for _, error in problems:
        if isinstance(error, SourceModelError):
            return error
    shapes, error = problems[0]
    if (short := out_of_memory(error)) is not None:
        return short
    shown = ", ".join(
        f"{sanitize(name, 60)} {list(shape)}" for name, shape in zip(names, shapes, strict=True)
    )
    hint = f" It was traced with {[list(shape) for shape, _ in traced]}." if traced else ""
    return SourceModelError(
        f"The model does not run with these sizes ({shown}): {last_line(error)}",
        cause="A size has the wrong number of dimensions, or does not fit the layers." + hint,
        remedy="Give the sizes that the network was made for in 'input_size_list', with the batch.",
    )


def out_of_memory(error: BaseException) -> WorkerError | None:
    """An error that says so, where that is what torch says."""
    if not any(mark in str(error) for mark in _NO_MEMORY):
        return None
    return WorkerError(
        f"The model asks for more memory than a model of its size may take: {last_line(error)}",
        cause="It is damaged or made to fill the memory, or its inputs are very large.",
        remedy="Check who made the file, or give smaller sizes.",
    )


_NO_MEMORY = ("can't allocate memory", "not enough memory", "std::bad_alloc", "MemoryError")


def last_line(error: BaseException) -> str:
    """What torch says of an error: the last line of its text, which has no code in it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    marks = ("~", "^", "<---")
    said = [line for line in lines if not line.startswith(marks) and "<--- HERE" not in line]
    return sanitize(said[-1] if said else type(error).__name__, 300)
