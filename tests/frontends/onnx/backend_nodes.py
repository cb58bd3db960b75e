"""ONNX's backend node tests, through the loader and ONNX Runtime.

``python -m tests.frontends.onnx.backend_nodes`` runs all of them and writes the table of
docs/frontends/onnx.md between its two marks.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ["ORT_DISABLE_TELEMETRY"] = "1"

import numpy as np
import onnx
from onnx import numpy_helper

from engine.base.errors import EngineError, SimulationError
from engine.frontends.onnx import load_onnx
from engine.graph.execute import Session
from engine.graph.ir import verify

PAGE = Path(__file__).parents[3] / "docs" / "frontends" / "onnx.md"
BEGIN, END = "<!-- backend node tests -->", "<!-- end of backend node tests -->"

_LIST = """
Add And ArgMax ArgMin AveragePool BatchNormalization Cast Clip Concat Constant ConstantOfShape
Conv ConvTranspose Cos DepthToSpace DequantizeLinear Div Dropout Elu Equal Erf Exp Expand
EyeLike Flatten Floor GRU Gather GatherElements Gemm GlobalAveragePool GlobalMaxPool Greater
GreaterOrEqual HardSigmoid HardSwish Identity If InstanceNormalization LRN LSTM
LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax LpNormalization MatMul Max MaxPool
MaxRoiPool MaxUnpool MeanVarianceNormalization Min Mish Mod Mul PRelu Pad Pow QuantizeLinear
ReduceMax ReduceMean ReduceMin ReduceSum Relu Reshape Resize ReverseSequence RoiAlign ScatterND
Shape Sigmoid Sin Size Slice Softmax Softplus SpaceToDepth Split Sqrt Squeeze Sub Tanh Tile
Transpose Unsqueeze Where
"""
OPERATORS = frozenset(_LIST.split())
"""Operators that RKNN-Toolkit2 2.3.2 supports for ONNX, some with limits (its operator list)."""

TYPES = frozenset(
    {onnx.TensorProto.FLOAT, onnx.TensorProto.INT32, onnx.TensorProto.INT64, onnx.TensorProto.BOOL}
)


@dataclass(frozen=True)
class Outcome:
    """What became of a case: ``equal``, ``refused`` by the loader, ``not run`` or ``differs``."""

    name: str
    kind: str
    why: str = ""


def every_case() -> list[Any]:
    """Every node test, about 1,900, whatever its operators and types; collecting takes seconds."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings(action="ignore"):
        return list(load_model_tests(kind="node"))


def all_cases() -> list[Any]:
    """The node tests that count, about 500."""
    return _counting(every_case())


def some_cases(operators: Iterable[str]) -> list[Any]:
    """Those of a few operators, whether these are on the list or not; quicker than all."""
    wanted = frozenset(operators)
    node = importlib.import_module("onnx.backend.test.case.node")
    with warnings.catch_warnings(action="ignore"):
        for _, name, _ in pkgutil.iter_modules(node.__path__):
            if name.replace("_", "") in {operator.lower() for operator in wanted}:
                importlib.import_module(f"{node.__name__}.{name}")
    return _counting([case for case in node._NodeTestCases if case.model is not None], wanted)


def _counting(cases: Sequence[Any], operators: frozenset[str] = OPERATORS) -> list[Any]:
    return [
        case
        for case in cases
        if "expanded" not in case.name and _counts(_model(case).graph, operators)
    ]


def _counts(graph: onnx.GraphProto, operators: frozenset[str]) -> bool:
    kinds = [value.type.tensor_type.elem_type for value in graph.input]
    return all(node.op_type in operators for node in graph.node) and TYPES.issuperset(kinds)


def _model(case: Any) -> onnx.ModelProto:
    model: onnx.ModelProto = case.model or onnx.load(Path(case.model_dir) / "model.onnx")
    return model


def _data(case: Any, model: onnx.ModelProto) -> tuple[list[Any], list[Any]]:
    if case.data_sets is not None:
        inputs, outputs = case.data_sets[0]
        return [_array(a) for a in inputs], [_array(a) for a in outputs]
    folder = Path(case.model_dir) / "test_data_set_0"

    def read(kind: str, count: int) -> list[Any]:
        files = [(folder / f"{kind}_{number}.pb").read_bytes() for number in range(count)]
        return [_array(onnx.TensorProto.FromString(data)) for data in files]

    return read("input", len(model.graph.input)), read("output", len(model.graph.output))


def _array(given: Any) -> Any:
    if isinstance(given, onnx.TensorProto):
        return numpy_helper.to_array(given)
    return given if isinstance(given, list) or given is None else np.asarray(given)


def run(case: Any) -> Outcome:
    """Load a case, check and run its graph, compare with what the case says it gives."""
    model = _model(case)
    inputs, wanted = _data(case, model)
    if not all(isinstance(array, np.ndarray) for array in inputs):
        return Outcome(case.name, "refused", "an input is a sequence or an optional, no tensor")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "case.onnx"
        path.write_bytes(model.SerializeToString())
        try:
            sizes = [list(array.shape) or None for array in inputs]
            empty = any(array.size == 0 for array in inputs)
            graph = load_onnx(path, input_size_list=None if empty else sizes).graph
            verify(graph)
            names = [value.name for value in model.graph.input]
            got = Session(graph).run(dict(zip(names, inputs, strict=True)))
        except EngineError as error:
            kind = "not run" if isinstance(error, SimulationError) else "refused"
            return Outcome(case.name, kind, error.what.removeprefix("case.onnx"))
    for given, want in zip(got.values(), wanted, strict=True):
        fault = _difference(given, want, case)
        if fault:
            return Outcome(case.name, "differs", fault)
    return Outcome(case.name, "equal")


def _difference(given: np.ndarray, want: np.ndarray, case: Any) -> str:
    if given.dtype == np.uint8 and want.dtype.name.startswith("float8"):
        given = given.view(want.dtype)  # ONNX Runtime hands float8 out as its bits
    if given.dtype != want.dtype or given.shape != want.shape:
        return f"{given.dtype} {given.shape} instead of {want.dtype} {want.shape}"
    a, b = (x.astype(np.float64) for x in (given, want))
    if np.allclose(a, b, rtol=case.rtol, atol=case.atol, equal_nan=True):
        return ""
    return f"by up to {np.abs(a - b).max():.3g}"


def table(outcomes: Sequence[Outcome]) -> str:
    """The rate and every case that is not equal, for the documentation."""
    counts = Counter(outcome.kind for outcome in outcomes)
    rate = counts["equal"] / len(outcomes)
    rows = [
        f"| `{outcome.name}` | {outcome.kind} | {_REASONS[outcome.name]} |"
        for outcome in sorted(outcomes, key=lambda o: o.name)
        if outcome.kind != "equal"
    ]
    equal = f"{counts['equal']} of {len(outcomes)} cases are loaded and equal ({rate:.1%})"
    head = f"{equal}; onnx {onnx.__version__}.\n\n| case | outcome | reason |\n|---|---|---|"
    return "\n".join([head, *rows])


_NO_ARRAY = "ONNX Runtime's Python interface gives no array of that type as an output"
_NO_TYPE = "opset 21 does not have the type"
_RANDOM = "training mode draws random numbers; the case has NumPy's"
_ALIGN = (
    "a scale that gives no whole size: ONNX Runtime takes the rounded size for `align_corners`, "
    "ONNX's own code the size before rounding"
)
_REASONS = {
    "test_cast_FLOAT_to_BFLOAT16": _NO_ARRAY,
    "test_cast_FLOAT_to_FLOAT4E2M1": _NO_TYPE,
    "test_cast_FLOAT_to_FLOAT8E4M3FNUZ": _NO_ARRAY,
    "test_cast_FLOAT_to_FLOAT8E5M2": _NO_ARRAY,
    "test_cast_FLOAT_to_FLOAT8E5M2FNUZ": _NO_ARRAY,
    "test_cast_FLOAT_to_INT2": _NO_TYPE,
    "test_cast_FLOAT_to_INT4": _NO_ARRAY,
    "test_cast_FLOAT_to_UINT2": _NO_TYPE,
    "test_cast_FLOAT_to_UINT4": _NO_ARRAY,
    "test_cast_e8m0_FLOAT_to_FLOAT8E8M0": _NO_TYPE,
    "test_cast_no_saturate_FLOAT_to_FLOAT8E4M3FNUZ": _NO_ARRAY,
    "test_cast_no_saturate_FLOAT_to_FLOAT8E5M2": _NO_ARRAY,
    "test_cast_no_saturate_FLOAT_to_FLOAT8E5M2FNUZ": _NO_ARRAY,
    "test_if_opt": "its output is an optional, no tensor",
    "test_if_seq": "its output is a sequence, no tensor",
    "test_reduce_max_empty_set_bool": "ONNX Runtime reduces no empty bools",
    "test_resize_downsample_scales_cubic_align_corners": _ALIGN,
    "test_resize_downsample_scales_linear_align_corners": _ALIGN,
    "test_training_dropout": _RANDOM,
    "test_training_dropout_default": _RANDOM,
    "test_training_dropout_default_mask": _RANDOM,
    "test_training_dropout_mask": _RANDOM,
}

EXPECTED = frozenset(_REASONS)
"""The cases that are not equal."""


def main() -> None:
    """Run all cases and write their table into the documentation."""
    made = table([run(case) for case in all_cases()])
    text = PAGE.read_text(encoding="utf-8")
    marks = re.compile(f"{re.escape(BEGIN)}.*{re.escape(END)}", re.DOTALL)
    PAGE.write_text(marks.sub(lambda _: f"{BEGIN}\n{made}\n{END}", text), encoding="utf-8")


if __name__ == "__main__":
    main()
