"""Score the lowering and the cycles against the tables that the vendor's compiler printed.

Usage: ``python scripts/score_cost.py [--graphs A,B] [--platforms C] [--quant i8|fp] [--nets]
[--worst N] [--held-out first|second|third|today|unseen]``, the last for the graphs of
``tests/cost/asked``: its ``held_out.py``, ``second_draw.py`` or ``today.py``. The zoo is found
by ``RKNNTUI_ZOO``, else ``../shared/zoo``; the facts lie beside it.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts.pages import REPOSITORY
from tests.cost.against_compiler.facts import read_builds
from tests.cost.against_compiler.score import score, table, worst
from tests.cost.asked.held_out import HELD_OUT
from tests.cost.asked.measure import held_out_scores, memory_table
from tests.cost.asked.second_draw import SECOND_DRAW, THIRD_DRAW
from tests.cost.asked.today import TODAY
from tests.cost.asked.unseen import UNSEEN

DRAWS = {
    "first": HELD_OUT,
    "second": SECOND_DRAW,
    "third": THIRD_DRAW,
    "today": TODAY,
    "unseen": UNSEEN,
}


def main() -> None:
    """Print the figures and the most frequent misses."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    asked.add_argument("--graphs", default="", help="names, with commas; a part of a name will do")
    asked.add_argument("--platforms", default="", help="names, with commas")
    asked.add_argument("--quant", default="", choices=["", "i8", "fp"])
    asked.add_argument("--nets", action="store_true", help="print each whole network")
    asked.add_argument("--worst", type=int, default=0, help="groups of misses to print")
    asked.add_argument("--examples", type=int, default=3, help="misses of a group to print")
    asked.add_argument("--only", default="", help="misses whose cause has this text")
    asked.add_argument("--held-out", choices=DRAWS, help="graphs that took no part in rules")
    arguments = asked.parse_args()
    if arguments.held_out:
        pairs = held_out_scores(DRAWS[arguments.held_out])
        scores = [each for each, _ in pairs]
        print(table(scores))
        print(memory_table(pairs))
        print(worst(scores, arguments.worst, arguments.examples))
        return
    zoo = Path(os.environ.get("RKNNTUI_ZOO") or REPOSITORY.parent / "shared" / "zoo")
    builds = read_builds(zoo.parent / "facts")
    if arguments.quant:
        builds = {build: rows for build, rows in builds.items() if build.quant == arguments.quant}
    parts = [part for part in arguments.graphs.split(",") if part]
    graphs = {build.graph for build in builds if any(part in build.graph for part in parts)}
    if parts and not graphs:
        raise SystemExit(f"The facts have no graph with {arguments.graphs!r} in its name.")
    platforms = [each for each in arguments.platforms.split(",") if each]
    scores = list(score(builds, zoo, graphs=graphs, platforms=platforms))
    print(table(scores))
    if arguments.nets:
        for each in sorted((each for each in scores if each.nets), key=lambda each: -each.off):
            build = each.build
            print(f"{build.graph} {build.platform} {build.quant}: {100 * each.off:.2f} % off")
    if arguments.worst:
        for each in scores:
            each.misses = [miss for miss in each.misses if arguments.only in miss.cause]
        print(worst(scores, arguments.worst, arguments.examples))


if __name__ == "__main__":
    main()
