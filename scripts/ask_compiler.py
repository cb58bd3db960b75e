"""Ask the vendor's compiler about small graphs, and keep what it prints as data of the tests.

Usage: ``python scripts/ask_compiler.py VENDOR_PYTHON [NAME ...]``, with the Python of an
environment of rknn-toolkit2 2.3.2. Graphs are those of ``tests/cost/asked`` and the
files of ``ZOO/compile``; with names, only those are asked anew. A build takes about half a second.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import onnx

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from engine.cost.printed import parse_printed
from scripts.pages import REPOSITORY
from tests.cost.against_compiler.facts import Build
from tests.cost.asked.answers import Answer, read_answers, write_answers
from tests.cost.asked.graphs import GRAPHS, ZOO_GRAPHS
from tests.cost.asked.held_out import HELD_OUT
from tests.cost.asked.second_draw import SECOND_DRAW, THIRD_DRAW
from tests.cost.asked.today import TODAY
from tests.cost.asked.unseen import UNSEEN

PAIRS = (
    "rk3566:i8,rk3562:i8,rk3588:i8,rk3576:i8,rv1106:i8,rv1103b:i8,"
    "rk3566:fp,rk3562:fp,rk3588:fp,rk3576:fp,rk2118:fp"
)
INT4 = "rk3576:w4"
"""The only chip that the toolkit compiles ``w4a16`` for: asked for graphs whose name says so."""
PROGRAM = REPOSITORY / "tests" / "vendor" / "print_tables.py"


def main() -> None:
    """Ask, read, write."""
    python, *chosen_names = sys.argv[1:]
    zoo = Path(os.environ.get("RKNNTUI_ZOO") or REPOSITORY.parent / "shared" / "zoo")
    graphs = {**GRAPHS, **HELD_OUT, **SECOND_DRAW, **THIRD_DRAW, **TODAY, **UNSEEN}
    names = chosen_names or [*graphs, *ZOO_GRAPHS]
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        models = []
        for name in names:
            path = folder / f"{name}.onnx"
            if name in graphs:
                onnx.save(graphs[name](), path)
            else:
                path = zoo / "compile" / f"{name}.onnx"
            models.append(str(path))
        small = [model for model in models if Path(model).stem.startswith("int4_")]
        _ask(python, folder, PAIRS, models)
        _ask(python, folder, INT4, small)
        answers = _read(folder)
        wanted_builds = [(name, pair) for name in names for pair in PAIRS.split(",")]
        wanted_builds += [(Path(model).stem, INT4) for model in small]
        for build in (Build(*pair.split(":"), name) for name, pair in wanted_builds):
            if build not in answers:
                print(f"no table: {build}")
    kept = read_answers() if chosen_names else {}
    asked = {
        build: answer
        for build, answer in {**kept, **answers}.items()
        if build.graph in graphs or build.graph in ZOO_GRAPHS
    }
    write_answers(asked)
    print(f"{len(asked)} builds of {len({build.graph for build in asked})} graphs")


def _ask(python: str, folder: Path, pairs: str, models: list[str]) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    environment |= {"HOME": str(folder), "TMPDIR": str(folder)}
    command = [python, "-B", str(PROGRAM), str(folder), pairs, *models]
    subprocess.run(command, env=environment, check=True)


def _read(folder: Path) -> dict[Build, Answer]:
    answers = {}
    for log in sorted(folder.glob("*.log")):
        graph, chip, quant = log.stem.rsplit("__", 2)
        printed = parse_printed(log.read_text(encoding="utf-8", errors="replace"))
        if not printed.layers or printed.internal_bytes is None or printed.weight_bytes is None:
            continue
        answer = Answer(printed.layers, printed.internal_bytes, printed.weight_bytes)
        answers[Build(chip, quant, graph)] = answer
    return answers


if __name__ == "__main__":
    main()
