"""How far we agree with the compiler on graphs that took no part in finding a rule."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import onnx

from engine.cost.cycles import all_cycles
from engine.cost.memory import plan_memory
from tests.cost.against_compiler.score import BuildScore, compare
from tests.cost.asked.answers import read_answers
from tests.cost.support import kilobytes, laid_out, npu_of, read_model

__all__ = ["MemoryMiss", "held_out_scores", "memory_table"]


@dataclass(frozen=True)
class MemoryMiss:
    """Bytes of a build: ours and the compiler's, whose internal figure has six digits of KB."""

    internal: int
    printed_internal: int
    weight: int
    printed_weight: int

    @property
    def exact(self) -> bool:
        """Whether the internal memory is the printed one."""
        return kilobytes(self.internal) == kilobytes(self.printed_internal)

    @property
    def off(self) -> float:
        """Share by which both together differ."""
        printed = self.printed_internal + self.printed_weight
        return abs(self.internal + self.weight - printed) / printed


def held_out_scores(
    graphs: Mapping[str, Callable[[], onnx.ModelProto]],
) -> list[tuple[BuildScore, MemoryMiss]]:
    """Every build of them that the compiler made."""
    found = []
    answers = read_answers()
    for name, make in graphs.items():
        graph = read_model(make())
        for build, answer in answers.items():
            if build.graph != name:
                continue
            npu = npu_of(build.platform)
            lowered = laid_out(graph, build.platform, build.quant)
            score = compare(build, answer.rows, lowered, all_cycles(lowered, npu))
            plan = plan_memory(lowered, npu)
            memory = MemoryMiss(plan.internal, answer.internal, plan.weight, answer.weight)
            found.append((score, memory))
    return found


def memory_table(found: Iterable[tuple[BuildScore, MemoryMiss]]) -> str:
    """Per dtype: builds, internal memory exact, all memory within 5 %."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for score, memory in found:
        row = counts[score.build.quant]
        row["builds"] += 1
        row["exact"] += memory.exact
        row["within 5 %"] += memory.off <= 0.05
    return "\n".join(
        f"{quant} {row['builds']} builds: internal memory exact "
        f"{100 * row['exact'] / row['builds']:.1f} %, all memory within 5 % "
        f"{100 * row['within 5 %'] / row['builds']:.1f} %"
        for quant, row in sorted(counts.items())
    )
