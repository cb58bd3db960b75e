"""Selects an export strategy: the first whose ONNX file gives torch's own numbers.

Imported in the child process only: it needs torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from engine.base.errors import EngineError, SourceModelError, UnsupportedOperatorError
from engine.base.text import sanitize
from engine.frontends.numeric_check import (
    FLOAT_TOLERANCE,
    SMALLEST_PEAK,
    NumericCheck,
    compare_outputs,
)
from engine.frontends.pytorch.by_layers import Layers
from engine.frontends.pytorch.export_strategies import ROUTES, ExportStrategy, Subject
from engine.frontends.pytorch.inputs import run
from engine.graph.execute.runtime import RUNTIME_ERRORS, WRONG_FUSIONS, ort
from engine.graph.execute.session_setup import keep_sums_exact

_LOOSE_TOLERANCE = 1e-4  # of approximations of functions: taken where nothing is nearer, and told
_NOISE = 4.0
_NOISE_LIMIT = 1e-2
QUANTIZED_TOLERANCE = 0.02
"""Of a quantized module, of the largest output."""

_QUANTIZED_LIMIT = 0.25
_STEPS = 2.01
_ON_GRID = 0.02


def to_array(tensor: torch.Tensor) -> np.ndarray:
    """The numbers of a tensor; those of a quantized one as the floats that they stand for."""
    plain = tensor.dequantize() if tensor.is_quantized else tensor
    array: np.ndarray = plain.contiguous().numpy()
    return array


@dataclass(frozen=True)
class Expected:
    """What torch gives.

    Attributes:
        samples: inputs of each run.
        outputs: of each run.
        quantized: whether the module quantizes: then steps decide, not rounding of floats.
        engines: PyTorch's other engines for integers that compute what this one does.
    """

    samples: list[list[torch.Tensor]]
    outputs: list[list[np.ndarray]]
    quantized: bool
    engines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Agreed:
    """A file that computes what torch does.

    Attributes:
        check: how far its outputs are from torch's, end to end.
        route: the name of the strategy.
        layers: of a module of integers, how its layers agree one by one; None where only its
            outputs were compared.
    """

    check: NumericCheck
    route: str
    layers: Layers | None = None


def first_that_agrees(subject: Subject, wanted: str, out: Path, expected: Expected) -> Agreed:
    """Write ``out`` along one route after the other until its numbers are torch's.

    Args:
        subject: what is exported.
        wanted: ``auto``, or the kind of routes to try.
        out: the file; another one is written over it while routes fail.
        expected: torch's numbers.

    Raises:
        SourceModelError: what was written computes something else.
        UnsupportedOperatorError: nothing could be written.
    """
    noise = _Noise(subject, expected)
    problems: list[str] = []
    nearest: tuple[NumericCheck, ExportStrategy] | None = None
    for route in ROUTES:
        if wanted not in ("auto", route.kind) or (route.of_integers and not subject.integers):
            continue
        try:
            layers = route.export(subject, out)
            check = _run_file(out, subject, expected)
        except EngineError as error:
            problems.append(f"{route.name}: {error.what}")
            continue
        except Exception as error:  # noqa: BLE001 - exporters fail in every way there is
            problems.append(f"{route.name}: {_reason(error)}")
            continue
        if layers is not None and not check.misfit:
            return Agreed(check, route.name, layers)
        if _accepted(check, noise, expected) or _as_written(check, out, subject, expected, noise):
            return Agreed(check, route.name)
        problems.append(f"{route.name}: {difference(check)}")
        if nearest is None or check.error < nearest[0].error:
            nearest = check, route
    if nearest is not None and not expected.quantized and nearest[0].within(_LOOSE_TOLERANCE):
        nearest[1].export(subject, out)
        return Agreed(nearest[0], nearest[1].name)
    raise _no_route(problems, differs=nearest is not None)


def _accepted(check: NumericCheck, noise: _Noise, expected: Expected) -> bool:
    """Floats to 1e-5, or as far as float32 itself is from float64; steps of a quantized model may
    fall to the other side here and there, as they do between PyTorch's engines, which is then said.
    """
    if not expected.quantized:
        if check.within(FLOAT_TOLERANCE):
            return True
        return check.error < _NOISE_LIMIT and check.within(_NOISE * noise.size)
    if check.within(QUANTIZED_TOLERANCE):
        return True
    if not check.error < _QUANTIZED_LIMIT:
        return False
    return check.within(_STEPS * largest_step(expected.outputs)) or check.within(
        _NOISE * noise.size
    )


def _as_written(
    check: NumericCheck, out: Path, subject: Subject, expected: Expected, noise: _Noise
) -> bool:
    """Whether a small difference comes of ONNX Runtime's rewrites, not of the conversion.

    Its fused kernels round otherwise. In a network of high gain (EfficientNet: squeeze and
    excitation, SiLU) that grows above what is accepted, while the file as it is written agrees.
    """
    if expected.quantized or not check.error < _NOISE_LIMIT or not check.within(_NOISE_LIMIT):
        return False
    plain = _run_file(out, subject, expected, ort.GraphOptimizationLevel.ORT_DISABLE_ALL)
    return _accepted(plain, noise, expected)


def largest_step(runs: Sequence[Sequence[np.ndarray]]) -> float:
    """The largest step of an output of integers, divided by its largest magnitude.

    Taken from the numbers: 0 for an output whose values are not multiples of one.
    """
    worst = 0.0
    for one in zip(*runs, strict=True):
        values = np.unique(np.concatenate([array.ravel() for array in one]).astype(np.float64))
        if one[0].dtype.kind != "f" or values.size < 2 or not np.isfinite(values).all():
            continue
        step = float(np.diff(values).min())
        places = values / step
        peak = min(max(float(np.abs(array).max()), SMALLEST_PEAK) for array in one)
        if np.abs(places - np.round(places)).max() < _ON_GRID:
            worst = max(worst, step / peak)
    return worst


class _Noise:
    """How much of a difference is the number format's own: the module compared with itself, in
    float64, or with the integers of PyTorch's other engines.

    Values that lie between two steps are rounded either way; each changes those of the layers
    behind it, so that in deep networks a good part of the outputs is a step or two away.
    """

    def __init__(self, subject: Subject, expected: Expected) -> None:
        self._subject, self._expected = subject, expected

    @cached_property
    def size(self) -> float:
        """Error of torch's own results; 0 where nothing is known of it."""
        between = [self._between(engine) for engine in self._expected.engines]
        return max(between or [self._in_float64()])

    def _in_float64(self) -> float:
        module = self._subject.load()
        try:
            module.double()
        except Exception:  # noqa: BLE001 - its code may insist on float32: then nothing is known
            return 0.0
        wide = [
            [t.double() if t.is_floating_point() else t for t in sample]
            for sample in self._expected.samples
        ]
        return self._apart(module, wide)

    def _between(self, engine: str) -> float:
        """Weights are packed for an engine when they are loaded."""
        before = torch.backends.quantized.engine
        torch.backends.quantized.engine = engine
        try:
            return self._apart(self._subject.load(), self._expected.samples)
        except EngineError:  # it has fewer operators
            return 0.0
        finally:
            torch.backends.quantized.engine = before

    def _apart(self, module: Any, samples: Sequence[list[torch.Tensor]]) -> float:
        worst = NumericCheck()
        signature = self._subject.plan.signature
        try:
            for sample, want in zip(samples, self._expected.outputs, strict=True):
                arrays = [to_array(t) for t in run(module, signature, sample)]
                same = [g.astype(w.dtype) for g, w in zip(arrays, want, strict=True)]
                worst = worst.worse(compare_outputs(same, want))
        except Exception:  # noqa: BLE001 - as above
            return 0.0
        return 0.0 if worst.misfit else worst.error


def _run_file(
    out: Path,
    subject: Subject,
    expected: Expected,
    level: Any = ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
) -> NumericCheck:
    options = ort.SessionOptions()
    options.graph_optimization_level = level
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    keep_sums_exact(options)
    session = ort.InferenceSession(
        str(out),
        options,
        providers=["CPUExecutionProvider"],
        disabled_optimizers=WRONG_FUSIONS,
    )
    known = {value.name for value in session.get_inputs()}
    worst = NumericCheck()
    for sample, want in zip(expected.samples, expected.outputs, strict=True):
        named = zip(subject.inputs, sample, strict=True)
        feeds = {name: to_array(tensor) for name, tensor in named if name in known}
        worst = worst.worse(compare_outputs(want, session.run(list(subject.outputs), feeds)))
    return worst


def _reason(error: Exception) -> str:
    if isinstance(error, RUNTIME_ERRORS) and "ONNXRuntimeError" in str(error):
        return sanitize(str(error), 200)
    chain: BaseException = error
    while chain.__cause__ is not None:
        chain = chain.__cause__
    first = next((line for line in str(chain).splitlines() if line.strip()), type(chain).__name__)
    return sanitize(first, 200)


def difference(found: NumericCheck) -> str:
    """A difference in words, to follow the name of what differs."""
    if found.misfit:
        return found.misfit
    if found.flipped:
        return f"{100 * found.flipped:.2f} % of the elements of an output of integers differ"
    return f"differs from PyTorch by {found.error:.1e} of the largest output"


def _no_route(problems: list[str], *, differs: bool) -> SourceModelError:
    listed = "\n".join(f"  {problem}" for problem in problems[:8])
    if differs:
        return SourceModelError(
            f"No conversion of this model gives PyTorch's own numbers:\n{listed}",
            cause="An operator in it is converted to something else than it computes.",
            remedy="Leave that operator out of the module that is traced, or convert the model to "
            "ONNX and load that.",
        )
    return UnsupportedOperatorError(
        f"PyTorch's exporters do not convert this model:\n{listed}",
        cause="They have no ONNX form of an operator in it.",
        remedy="Leave that operator out of the module that is traced: end it before.",
    )
