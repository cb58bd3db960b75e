"""Gates: a command ends with an exit code of its own where a figure is beyond a limit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any, TypeVar

import click

from engine import human_bytes, quantity, sqnr_rank, sqnr_text
from engine.wire.build import BuildSummary
from engine.wire.compile import Compiled
from engine.wire.cost import ChipCheck, ChipEstimate

__all__ = [
    "GATE_FAILED",
    "CompiledLimits",
    "CostLimits",
    "Gate",
    "cost_gate_flags",
    "exit_code",
    "fail_cpu_flag",
    "fail_memory_flag",
    "fail_over_flag",
    "fail_under_flag",
    "gate_lines",
    "layer_gates",
    "measured_gates",
    "sqnr_gates",
]

GATE_FAILED = 14
"""Exit code of a command whose figures are beyond a limit."""

Command = TypeVar("Command", bound=Callable[..., Any])

_TIMES = {"us": 0.001, "µs": 0.001, "ms": 1.0, "": 1.0, "s": 1000.0}
_BYTES = {
    "b": 1,
    "kb": 1000,
    "kib": 1024,
    "mb": 1000**2,
    "mib": 1024**2,
    "gb": 1000**3,
    "gib": 1024**3,
    "": 1,
}
_DECIBELS = {"db": 1.0, "": 1.0}
_ENDS = ("InputOperator", "OutputOperator")
"""Of the compiler's tables: no layers that compute."""


class Limit(click.ParamType):
    """A number with its unit."""

    def __init__(self, name: str, units: Mapping[str, float], example: str) -> None:
        self.name, self._units, self._example = name, units, example

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number in milliseconds, bytes or decibels, or click's usage error."""
        if isinstance(value, float):
            return value
        found = quantity(str(value), self._units)
        if found is None:
            self.fail(f"{value!r} is no limit such as {self._example}.", param, ctx)
        return found


fail_over_flag = click.option(
    "--fail-over",
    type=Limit("time", _TIMES, "20ms"),
    metavar="TIME",
    help=f"Exit code {GATE_FAILED} where an inference takes longer, such as 20ms.",
)
fail_under_flag = click.option(
    "--fail-under",
    type=Limit("decibels", _DECIBELS, "30dB"),
    metavar="DECIBELS",
    help=f"Exit code {GATE_FAILED} where the SQNR of an output is lower, such as 30dB.",
)
fail_cpu_flag = click.option(
    "--fail-cpu",
    type=click.IntRange(0),
    metavar="N",
    help=f"Exit code {GATE_FAILED} where more than N layers run on the CPU or are refused.",
)
fail_memory_flag = click.option(
    "--fail-memory",
    type=Limit("bytes", _BYTES, "16MiB"),
    metavar="BYTES",
    help=f"Exit code {GATE_FAILED} where a model takes more memory, such as 16MiB.",
)


def cost_gate_flags(command: Command) -> Command:
    """``--fail-over``, ``--fail-cpu`` and ``--fail-memory``."""
    return fail_over_flag(fail_cpu_flag(fail_memory_flag(command)))


@dataclass(frozen=True)
class Gate:
    """A limit and what was found.

    Attributes:
        of: the chip, or the output.
        figure: ``time``, ``memory``, ``layers on the CPU``, ``SQNR``.
        limit, found: as text with unit.
        ok: whether the limit is kept; a figure that cannot be told does not keep it.
        label: what kind of number it is.
    """

    of: str
    figure: str
    limit: str
    found: str
    ok: bool
    label: str = "estimated"


@dataclass(frozen=True)
class CostLimits:
    """What :func:`cost_gate_flags` were given.

    Attributes:
        over: milliseconds of an inference at most; the estimate itself counts, not its interval.
        cpu: layers on the CPU, or refused, at most.
        memory: bytes at most.
    """

    over: float | None = None
    cpu: int | None = None
    memory: float | None = None

    @staticmethod
    def taken(flags: dict[str, Any]) -> CostLimits:
        """Out of a command's arguments, which lose them."""
        return CostLimits(*(flags.pop(f"fail_{name}") for name in ("over", "cpu", "memory")))

    def __bool__(self) -> bool:
        return (self.over, self.cpu, self.memory) != (None, None, None)

    def gates(self, chips: Iterable[ChipEstimate]) -> list[Gate]:
        """What estimates say about them."""
        gates = []
        for one in chips:
            if self.over is not None:
                ms = None if one.time_ms is None else one.time_ms.value
                gates.append(_gate(one.chip, "time", self.over, ms, _ms))
            if self.memory is not None:
                total = None if one.memory is None else float(one.memory.total)
                gates.append(_gate(one.chip, "memory", self.memory, total, human_bytes))
            if self.cpu is not None:
                off = None if one.problem else off_npu(one)
                gates.append(_gate(one.chip, "layers on the CPU", self.cpu, off, _count))
        return gates

    def gates_of_checks(self, chips: Iterable[ChipCheck]) -> list[Gate]:
        """What checks say about the layers on the CPU."""
        if self.cpu is None:
            return []
        return [
            _gate(
                one.chip,
                "layers on the CPU",
                self.cpu,
                None if one.problem else off_npu(one),
                _count,
            )
            for one in chips
        ]


@dataclass(frozen=True)
class CompiledLimits:
    """Limits of compiled models; figures are those of the vendor's compiler and simulator.

    Attributes:
        cpu: layers that are not on the NPU, at most.
        memory: bytes of internal memory and weights, at most.
        under: SQNR of every output in dB in the vendor's simulator, at least.
    """

    cpu: int | None = None
    memory: float | None = None
    under: float | None = None

    def gates(self, chips: Iterable[Compiled]) -> list[Gate]:
        """What the compiler's tables say about them; where none was made, nothing is kept."""
        gates = []
        for one in chips:
            off = sum(row.target == "CPU" for row in one.layers if row.op not in _ENDS)
            known = None not in (one.internal_bytes, one.weight_bytes)
            total = float((one.internal_bytes or 0) + (one.weight_bytes or 0))
            if self.cpu is not None:
                found = float(off) if one.layers else None
                gates.append(_gate(one.chip, "layers on the CPU", self.cpu, found, _count))
            if self.memory is not None:
                found = total if known else None
                gates.append(_gate(one.chip, "memory", self.memory, found, human_bytes))
        gates = [replace(each, label="by the compiler") for each in gates]
        return gates + [each for one in chips for each in self._simulated(one)]

    def _simulated(self, one: Compiled) -> list[Gate]:
        limit = self.under
        if limit is None:
            return []
        if not one.outputs:
            return [Gate(one.chip, "SQNR", f"{limit:g} dB", "not known", False, "simulated")]
        return [
            Gate(
                f"{one.chip} {each.name}",
                "SQNR",
                f"{limit:g} dB",
                sqnr_text(each.sqnr_db),
                sqnr_rank(each.sqnr_db) >= limit,
                "simulated by the vendor",
            )
            for each in one.outputs
        ]


def measured_gates(
    points: Iterable[tuple[str, float | None]], over: float | None, label: str
) -> list[Gate]:
    """Whether measured medians, in milliseconds by the name of their point, keep a limit."""
    if over is None:
        return []
    return [replace(_gate(name, "time", over, ms, _ms), label=label) for name, ms in points]


def off_npu(one: ChipEstimate | ChipCheck) -> float:
    """Layers that are not, or may not be, on the NPU: a gate lets nothing pass that is unknown."""
    return float((one.cpu_layers or 0) + one.refused_layers + one.unknown_layers)


def _gate(
    of: str, figure: str, limit: float, found: float | None, text: Callable[[float], str]
) -> Gate:
    told = "not known" if found is None else text(found)
    return Gate(of, figure, text(limit), told, found is not None and found <= limit)


def _ms(value: float) -> str:
    return f"{value:.3f} ms"


def _count(value: float) -> str:
    return f"{value:.0f}"


def sqnr_gates(built: BuildSummary, under: float | None) -> list[Gate]:
    """Whether the SQNR of every output reaches a limit in dB (simulated)."""
    if under is None:
        return []
    return [
        Gate(
            each.name,
            "SQNR",
            f"{under:g} dB",
            sqnr_text(each.sqnr_db),
            sqnr_rank(each.sqnr_db) >= under,
            "simulated",
        )
        for each in built.outputs
    ]


def layer_gates(layers: Iterable[tuple[str, float | None]], under: float | None) -> list[Gate]:
    """The layer that is worst against a limit in dB (simulated); none without a limit.

    Args:
        layers: name and SQNR; None without an error, NaN where there is no number.
        under: the limit.
    """
    rows = [(name, -inf if value != value else sqnr_rank(value)) for name, value in layers]
    if under is None or not rows:
        return []
    name, worst = min(rows, key=lambda row: row[1])
    told = "not a number" if worst == -inf else sqnr_text(None if worst == inf else worst)
    return [Gate(name, "SQNR", f"{under:g} dB", told, worst >= under, "simulated")]


def gate_lines(gates: Iterable[Gate]) -> list[str]:
    """A line for each."""
    return [
        f"{'kept' if one.ok else 'FAILED'}: {one.figure} of {one.of} is {one.found} "
        f"({one.label}), the limit is {one.limit}"
        for one in gates
    ]


def exit_code(gates: Iterable[Gate]) -> int:
    """0, or :data:`GATE_FAILED`."""
    return 0 if all(one.ok for one in gates) else GATE_FAILED
