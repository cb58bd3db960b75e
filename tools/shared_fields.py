"""List the classes that share 60 % of five or more fields: one of them should hold the other.

    python tools/shared_fields.py [--check]

A field is an annotated name in the body of a class of ``engine`` or ``rknntui``. Fields that a
class inherits are not its own. With ``--check`` the command fails where there are more pairs than
``pyproject.toml`` allows.
"""

from __future__ import annotations

import argparse
import ast
import sys
import tomllib
from itertools import combinations
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FEWEST, SHARE = 5, 0.6


def fields_of(node: ast.ClassDef) -> frozenset[str]:
    """The names that a class annotates itself."""
    return frozenset(
        line.target.id
        for line in node.body
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)
    )


def pairs(root: Path = ROOT) -> list[tuple[int, str, str]]:
    """How many fields two classes share, and where each of them stands; most shared first."""
    classes = [
        (f"{path.relative_to(root)}:{node.lineno} {node.name}", fields)
        for package in ("engine", "rknntui")
        for path in sorted((root / package).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and len(fields := fields_of(node)) >= FEWEST
    ]
    return sorted(
        (
            (len(common), one, other)
            for (one, some), (other, more) in combinations(classes, 2)
            if len(common := some & more) >= max(FEWEST, SHARE * min(len(some), len(more)))
        ),
        reverse=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="fail above the budget")
    check = parser.parse_args().check
    alike = pairs()
    for common, one, other in alike:
        print(f"{common:3}  {one}  =  {other}")
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    most: int = settings["tool"]["budget"]["shared-fields"]
    print(f"{len(alike)} pairs of at most {most}")
    return 1 if check and len(alike) > most else 0


if __name__ == "__main__":
    sys.exit(main())
