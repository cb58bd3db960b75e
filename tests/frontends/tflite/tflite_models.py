"""TFLite files written by the schema's object API, and TFLite's own interpreter to run them."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from engine.frontends.load import find_source, load_source
from engine.frontends.loaded import Loaded
from engine.frontends.source import LoadOptions
from engine.frontends.tflite.schema import OPTIONS
from engine.graph.execute.session import Session
from engine.graph.ir import verify

TYPES = {
    name.lower(): number
    for name, number in vars(schema.TensorType).items()
    if isinstance(number, int)
}


@dataclass
class In:
    """A tensor that is fed, or a constant where ``data`` is given, or a state."""

    shape: tuple[int, ...] = ()
    dtype: str = "float32"
    scale: Any = None
    zero: Any = 0
    axis: int = 0
    data: np.ndarray | None = None
    low: float = -2.0
    high: float = 2.0
    variable: bool = False
    signature: tuple[int, ...] | None = None
    name: str = ""
    raw: bytes | None = None


def const(data: Any, dtype: str = "float32", **more: Any) -> In:
    """A constant."""
    array = np.asarray(data, dtype)
    return In(array.shape, dtype, data=array, **more)


def ints(*values: int) -> In:
    """A constant vector of int32."""
    return const(np.array(values), "int32")


def number(value: float, dtype: str = "float32") -> In:
    """A constant without dimensions."""
    return const(np.array(value), dtype)


@dataclass
class Case:
    """One operator: what it reads, its options, what it gives."""

    op: str
    inputs: list[In | None]
    options: dict[str, Any] = field(default_factory=dict)
    outputs: list[In] = field(default_factory=lambda: [In()])
    tolerance: float = 1e-5
    note: str = ""
    version: int = 1
    given: int | None = None
    """How many of the outputs are the graph's; None for all."""

    @property
    def id(self) -> str:
        return self.op.lower() + (f"-{self.note}" if self.note else "")


def single(
    op: str,
    *inputs: In | None,
    out: list[In] | None = None,
    note: str = "",
    version: int = 1,
    tolerance: float = 1e-5,
    given: int | None = None,
    **options: Any,
) -> Case:
    """A case whose options are the schema's fields; those that are not given have its defaults."""
    return Case(op, list(inputs), options, out or [In()], tolerance, note, version, given)


def spread(cases: Sequence[Case], count: int) -> list[Any]:
    """The first ``count`` cases of every operator; the others run with the long tests."""
    seen: Counter[str] = Counter()
    params = []
    for case in cases:
        seen[case.op] += 1
        marks = pytest.mark.long if seen[case.op] > count else ()
        params.append(pytest.param(case, id=case.id, marks=marks))
    return params


class Writer:
    """Writes one file; tensors and operators in the order in which they are added."""

    def __init__(self) -> None:
        self.model = schema.ModelT()
        self.model.version = 3
        self.model.description = "made by a test"
        self.model.buffers = [schema.BufferT()]
        self.model.operatorCodes = []
        self.model.subgraphs = []
        self.graph: Any = None
        self.subgraph()

    def subgraph(self) -> int:
        """Begin another graph; its number."""
        self.graph = schema.SubGraphT()
        self.graph.tensors, self.graph.operators = [], []
        self.graph.inputs, self.graph.outputs = [], []
        self.model.subgraphs.append(self.graph)
        return len(self.model.subgraphs) - 1

    def tensor(self, given: In, name: str = "") -> int:
        tensor = schema.TensorT()
        tensor.name = (given.name or name or f"t{len(self.graph.tensors)}").encode()
        tensor.shape = list(given.shape)
        tensor.hasRank = True
        tensor.type = TYPES[given.dtype]
        tensor.isVariable = given.variable
        if given.signature is not None:
            tensor.shapeSignature = list(given.signature)
        tensor.buffer = 0
        raw = given.raw if given.data is None else given.data.tobytes()
        if raw is not None:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(raw, np.uint8)
            self.model.buffers.append(buffer)
            tensor.buffer = len(self.model.buffers) - 1
        if given.scale is not None:
            quant = schema.QuantizationParametersT()
            quant.scale = np.atleast_1d(np.asarray(given.scale, np.float32))
            quant.zeroPoint = np.full(quant.scale.shape, given.zero, np.int64)
            quant.quantizedDimension = given.axis
            tensor.quantization = quant
        self.graph.tensors.append(tensor)
        return len(self.graph.tensors) - 1

    def op(
        self,
        kind: str,
        inputs: Sequence[int | In],
        outputs: Sequence[int | In],
        code_version: int = 1,
        **options: Any,
    ) -> int:
        """Add an operator, and the tensors of it that are new; the number of its first output.

        Its options are the schema's fields; those that are not given have its defaults.
        """
        code = schema.OperatorCodeT()
        value = getattr(schema.BuiltinOperator, kind, None)
        if value is None:
            code.customCode, value = kind.encode(), schema.BuiltinOperator.CUSTOM
        code.builtinCode, code.deprecatedBuiltinCode = value, min(value, 127)
        code.version = code_version
        self.model.operatorCodes.append(code)
        operator = schema.OperatorT()
        operator.opcodeIndex = len(self.model.operatorCodes) - 1
        operator.inputs, operator.outputs = (
            [self.tensor(each) if isinstance(each, In) else each for each in tensors]
            for tensors in (inputs, outputs)
        )
        if kind in OPTIONS:
            name = OPTIONS[kind].name
            table = getattr(schema, f"{name}T")()
            for field_name, content in options.items():
                assert hasattr(table, field_name), field_name
                setattr(table, field_name, content)
            if hasattr(schema.BuiltinOptions, name):
                operator.builtinOptionsType = getattr(schema.BuiltinOptions, name)
                operator.builtinOptions = table
            else:
                operator.builtinOptions2Type = getattr(schema.BuiltinOptions2, name)
                operator.builtinOptions2 = table
        self.graph.operators.append(operator)
        return operator.outputs[0] if outputs else -1

    def ends(self, inputs: list[int], outputs: list[int]) -> None:
        self.graph.inputs, self.graph.outputs = inputs, outputs

    def signature(self, key: str, inputs: dict[str, int], outputs: dict[str, int]) -> None:
        def entry(name: str, index: int) -> Any:
            made = schema.TensorMapT()
            made.name, made.tensorIndex = name.encode(), index
            return made

        signature = schema.SignatureDefT()
        signature.signatureKey = key.encode()
        signature.subgraphIndex = len(self.model.subgraphs) - 1
        signature.inputs, signature.outputs = (
            [entry(*pair) for pair in names.items()] for names in (inputs, outputs)
        )
        self.model.signatureDefs = [signature]

    def data(self) -> bytes:
        builder = flatbuffers.Builder(1024)
        builder.Finish(self.model.Pack(builder), file_identifier=b"TFL3")
        return bytes(builder.Output())


_POOLED = ("float32", "int8", "uint8")
_ONE = {"strideH": 1, "strideW": 1, "filterHeight": 1, "filterWidth": 1}


def write_case(
    case: Case,
    shapes: list[tuple[int, ...]] | None = None,
    *,
    windows: bool = False,
    companion: bool = False,
) -> bytes:
    """The file of a case.

    Args:
        shapes: of its outputs, once they are known.
        windows: every input of four dimensions comes out of a pool that changes nothing, so that
            it has its channels first in our graph.
        companion: another operator stands beside it, which reads an input, ``other``.
    """
    writer = Writer()
    inputs, fed = [], []
    for position, given in enumerate(case.inputs):
        if given is None:
            inputs.append(-1)
            continue
        inputs.append(writer.tensor(given, f"x{position}"))
        if given.data is None and given.raw is None and not given.variable:
            fed.append(inputs[-1])
            if windows and len(given.shape) == 4 and given.dtype in _POOLED:
                again = dataclasses.replace(given, name=f"pooled{position}")
                inputs[-1] = writer.op("MAX_POOL_2D", [inputs[-1]], [again], 2, **_ONE)
    outputs = []
    for position, given in enumerate(case.outputs):
        outputs.append(writer.tensor(given, f"y{position}"))
        if shapes is not None and position < len(shapes):
            writer.graph.tensors[outputs[-1]].shape = list(shapes[position])
    writer.op(case.op, inputs, outputs, case.version, **case.options)
    outputs = outputs[: case.given]
    if companion:
        fed.append(writer.tensor(In((1, 2)), "other"))
        outputs.append(writer.op("EXP", fed[-1:], [In((1, 2), name="exp")]))
    writer.ends(fed, outputs)
    return writer.data()


def feeds_for(case: Case, seed: int = 7) -> dict[str, np.ndarray]:
    """Random inputs of a case; quantized ones cover their range."""
    rng = np.random.default_rng(seed)
    feeds = {}
    for position, given in enumerate(case.inputs):
        if given is None or given.data is not None or given.raw is not None or given.variable:
            continue
        name = given.name or f"x{position}"
        kind = np.dtype(given.dtype)
        if kind.kind == "b":
            feeds[name] = rng.random(given.shape) > 0.5
        elif kind.kind == "f":
            feeds[name] = rng.uniform(given.low, given.high, given.shape).astype(kind)
        elif given.scale is not None:
            info = np.iinfo(kind)
            feeds[name] = rng.integers(info.min, info.max + 1, given.shape).astype(kind)
        else:
            numbers = rng.integers(int(given.low), int(given.high) + 1, given.shape)
            feeds[name] = numbers.astype(kind)
    return feeds


def interpret(
    data: bytes, feeds: dict[str, np.ndarray], *, plain: bool = False
) -> list[np.ndarray]:
    """What TFLite's interpreter gives: XNNPACK where it can, or its own kernels."""
    kind = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES if plain else OpResolverType.AUTO
    interpreter = Interpreter(model_content=data, num_threads=1, experimental_op_resolver_type=kind)
    details = interpreter.get_input_details()
    for detail in details:
        shape = feeds[detail["name"]].shape
        if tuple(detail["shape"]) != shape:
            interpreter.resize_tensor_input(detail["index"], shape)
    interpreter.allocate_tensors()
    for detail in details:
        interpreter.set_tensor(detail["index"], feeds[detail["name"]])
    interpreter.invoke()
    return [
        interpreter.get_tensor(detail["index"]).copy()
        for detail in interpreter.get_output_details()
    ]


def load_bytes(data: bytes, folder: Path, **options: Any) -> Loaded:
    """Load a file made in memory."""
    path = folder / "model.tflite"
    path.write_bytes(data)
    return load_source(find_source(path, options=LoadOptions(**options)))


def run(loaded: Loaded, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    """What our graph gives, in the order of its outputs."""
    verify(loaded.graph)
    return list(Session(loaded.graph).run(feeds).values())


def largest_difference(case: Case, folder: Path, seed: int = 7, *, windows: bool = False) -> float:
    """The largest difference between our graph of a case and TFLite's interpreter."""
    feeds = feeds_for(case, seed)
    shapes = [
        array.shape for array in interpret(write_case(case, windows=windows), feeds, plain=True)
    ]
    data = write_case(case, shapes, windows=windows)
    return difference(load_bytes(data, folder), data, feeds)


def difference(loaded: Loaded, data: bytes, feeds: dict[str, np.ndarray]) -> float:
    """The largest difference between a graph and TFLite's interpreter, in units of the output.

    Integers of quantized outputs are compared as such.
    """
    expected, got = interpret(data, feeds), run(loaded, feeds)
    assert [array.shape for array in got] == [array.shape for array in expected]
    assert [array.dtype for array in got] == [array.dtype for array in expected]
    worst = 0.0
    for ours, theirs in zip(got, expected, strict=True):
        same = (ours == theirs) | ((ours != ours) & (theirs != theirs))
        gap = np.abs(ours.astype(np.float64) - theirs.astype(np.float64))
        worst = max(worst, float(np.where(same, 0.0, gap).max(initial=0.0)))
    return worst
