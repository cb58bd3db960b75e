"""How far our lowering and our cycles agree with the tables that the vendor's compiler printed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path

from engine.base.errors import EngineError
from engine.cost.cycles import Cycles, all_cycles
from engine.cost.lowered import Lowered, LoweredLayer
from engine.cost.lowering.graph import LoweringGraph
from engine.cost.printed import PrintedLayer
from tests.cost.against_compiler.facts import Build, Row, graph_file
from tests.cost.support import laid_out, npu_of, read_file

__all__ = ["BuildScore", "Miss", "Score", "compare", "score", "table", "totals", "worst"]

TOLERANCE = 0.01
"""Share by which a total may differ."""
NET = "net_"


@dataclass(frozen=True, slots=True)
class Miss:
    """A row that is not as printed; ``cause`` groups those of one rule."""

    build: Build
    cause: str
    name: str
    theirs: str
    ours: str


@dataclass
class Score:
    """Counts of the rows of a build, or of a platform and dtype."""

    key: str
    rows: int = 0
    matched: int = 0
    npu: int = 0
    ddr: int = 0
    total: int = 0
    layers: int = 0
    placed: int = 0
    extra: int = 0
    nets: int = 0
    nets_within: int = 0

    def __add__(self, other: Score) -> Score:
        counts = (field.name for field in fields(Score) if field.name != "key")
        return Score(self.key, *(getattr(self, name) + getattr(other, name) for name in counts))


@dataclass
class BuildScore(Score):
    """One build, its sums of cycles, and the misses."""

    build: Build = field(kw_only=True)
    theirs_sum: int = 0
    ours_sum: int = 0
    misses: list[Miss] = field(default_factory=list)

    @property
    def off(self) -> float:
        """Share by which the sum of the totals differs."""
        return abs(self.ours_sum - self.theirs_sum) / self.theirs_sum if self.theirs_sum else 0.0


def score(
    builds: dict[Build, list[Row]],
    zoo: Path,
    *,
    graphs: Iterable[str] = (),
    platforms: Iterable[str] = (),
) -> Iterator[BuildScore]:
    """Every build whose graph has a file, taken through our loader and lowering.

    Args:
        builds: of :func:`tests.cost.against_compiler.facts.read_builds`.
        zoo: the model zoo.
        graphs: names; all where empty.
        platforms: names; all where empty.
    """
    wanted, chips = set(graphs), set(platforms)
    by_graph: dict[str, list[Build]] = defaultdict(list)
    for build in builds:
        if (not wanted or build.graph in wanted) and (not chips or build.platform in chips):
            by_graph[build.graph].append(build)
    for graph, its in by_graph.items():
        file = graph_file(zoo, graph)
        if file is None:
            continue
        read = read_file(file)
        for build in its:
            made = _score(build, builds[build], read)
            # a whole network, not a small graph of operators
            made.nets = int(file.parent.name == "published" or build.graph.startswith(NET))
            made.nets_within = made.nets * (made.off <= TOLERANCE)
            yield made


def _score(build: Build, rows: Sequence[PrintedLayer], read: LoweringGraph) -> BuildScore:
    try:
        lowered = laid_out(read, build.platform, build.quant)
        cycles = all_cycles(lowered, npu_of(build.platform))
    except (EngineError, LookupError, ValueError, TypeError, AssertionError) as error:
        made = compare(build, rows, None, ())
        made.misses = [
            Miss(build, f"{type(error).__name__}: {error}"[:100], m.name, m.theirs, "")
            for m in made.misses
        ]
        return made
    return compare(build, rows, lowered, cycles)


def compare(
    build: Build, rows: Sequence[PrintedLayer], lowered: Lowered | None, cycles: tuple[Cycles, ...]
) -> BuildScore:
    """One printed table beside ours; rows of one name are taken in their order."""
    made = BuildScore(f"{build.platform} {build.quant}", build=build)
    nameless = any(not row.name for row in rows)
    ours: dict[str, list[tuple[LoweredLayer, Cycles]]] = defaultdict(list)
    for layer, cost in zip(lowered.layers if lowered else (), cycles, strict=True):
        if layer.name.startswith("Pre_weight") and not nameless:
            continue  # it has no name: tables that were read before 2026-11-26 lack it
        ours[layer.full_name].append((layer, cost))
        made.ours_sum += cost.total
    for found in ours.values():
        found.reverse()
    # sums of halves on rk2118 have no name
    for row in sorted(rows, key=lambda row: not row.name):
        made.layers += 1
        made.theirs_sum += row.total_cycles
        counted = row.total_cycles > 0
        made.rows += counted
        at = ours.get(row.name) if row.name else _of_type(ours, row.op)
        if not at:
            made.misses.append(
                Miss(build, f"no row {row.op}", row.name, f"{row.shapes} {row.out}", "")
            )
            continue
        layer, cost = at.pop()
        if layer.target == row.target:
            made.placed += 1
        else:
            cause = f"placement {row.op} is {row.target}"
            made.misses.append(Miss(build, cause, row.name, f"{row.shapes}", layer.reason))
        if counted:
            made.matched += 1
            _count(made, row, layer, cost)
    for name, rest in ours.items():
        for layer, cost in rest:
            made.extra += 1
            kind = "counted " if cost.total else ""
            made.misses.append(Miss(build, f"{kind}row too many {layer.op}", name, "", ""))
    return made


def _of_type(
    ours: dict[str, list[tuple[LoweredLayer, Cycles]]], op: str
) -> list[tuple[LoweredLayer, Cycles]] | None:
    """What is left of one name, of a type."""
    return next((found for found in ours.values() if found and found[0][0].op == op), None)


def _count(made: BuildScore, row: PrintedLayer, layer: LoweredLayer, cost: Cycles) -> None:
    made.npu += cost.npu == row.npu_cycles
    made.ddr += cost.ddr == row.ddr_cycles
    made.total += abs(cost.total - row.total_cycles) <= TOLERANCE * row.total_cycles
    shapes = f"{row.shapes} {row.out}"
    if cost.npu != row.npu_cycles:
        cause = f"npu {row.op}" + (f" (ours {layer.op})" if layer.op != row.op else "")
        theirs, ours = f"{row.npu_cycles} {shapes}", str(cost.npu)
    elif abs(cost.total - row.total_cycles) > TOLERANCE * row.total_cycles:
        cause = f"total {row.op}"
        theirs, ours = f"{row.ddr_cycles} {row.total_cycles} {shapes}", f"{cost.ddr} {cost.total}"
    else:
        return
    made.misses.append(Miss(made.build, cause, row.name, theirs, ours))


def totals(scores: Iterable[BuildScore]) -> list[Score]:
    """Per platform and dtype, and of all."""
    groups: dict[str, Score] = {}
    for each in scores:
        groups[each.key] = groups.get(each.key, Score(each.key)) + each
    return [*(groups[key] for key in sorted(groups)), sum(groups.values(), Score("all"))]


def table(scores: Iterable[BuildScore]) -> str:
    """The figures as text, one line a platform and dtype."""
    head = f"{'':11}{'rows':>7}{'matched':>9}{'npu =':>9}{'ddr =':>9}{'total 1%':>9}"
    lines = [head + f"{'layers':>8}{'placed':>9}{'extra':>7}{'nets 1%':>9}"]
    lines += [
        f"{each.key:11}{each.rows:7}{_share(each.matched, each.rows)}"
        f"{_share(each.npu, each.rows)}{_share(each.ddr, each.rows)}"
        f"{_share(each.total, each.rows)}{each.layers:8}{_share(each.placed, each.layers)}"
        f"{each.extra:7}{f'{each.nets_within}/{each.nets}':>9}"
        for each in totals(scores)
    ]
    return "\n".join(lines)


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:8.2f}%" if whole else f"{'-':>9}"


def worst(scores: Iterable[BuildScore], count: int, examples: int = 3) -> str:
    """The misses grouped by cause, the most frequent first, with some of each."""
    groups: dict[str, list[Miss]] = defaultdict(list)
    for each in scores:
        for miss in each.misses:
            groups[miss.cause].append(miss)
    lines = []
    for cause, found in sorted(groups.items(), key=lambda item: -len(item[1]))[:count]:
        where = Counter(miss.build.graph for miss in found).most_common(4)
        lines.append(f"{len(found)} x {cause}: {', '.join(f'{g} {n}' for g, n in where)}")
        lines += [
            f"    {' '.join((m.build.platform, m.build.quant, m.build.graph))} {m.name}: "
            f"{m.theirs} | {m.ours}"
            for m in found[:examples]
        ]
    return "\n".join(lines)
