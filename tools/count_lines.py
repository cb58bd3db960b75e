"""Count the code of each room, and hold it to the budget in ``pyproject.toml``.

    python tools/count_lines.py [--check]

A code line is one that is neither blank, comment, docstring nor import. A room is a folder of
``engine`` or ``rknntui``, or one of the other folders with code. Files are those under git. With
``--check`` the command fails where a room is above its budget, or has none. Raising a budget is a
line of the change that needs it, and its message says what it buys.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("engine", "rknntui")
BLANK = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENDMARKER,
}  # fmt: skip
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def python_lines(source: str) -> int:
    """The code lines of one Python module."""
    uncounted: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            uncounted.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        elif isinstance(node, DOCUMENTED):
            for line in node.body:
                # Docstrings, those of attributes too.
                if isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant):
                    uncounted.update(range(line.lineno, (line.end_lineno or line.lineno) + 1))
    counted: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in BLANK:
            counted.update(range(token.start[0], token.end[0] + 1))
    return len(counted - uncounted)


def c_lines(source: str) -> int:
    """The lines of one C file that are neither blank nor comment."""
    without = re.sub(
        r"/\*.*?\*/", lambda comment: "\n" * comment[0].count("\n"), source, flags=re.DOTALL
    )
    return sum(bool(re.sub(r"//.*", "", line).strip()) for line in without.splitlines())


def room_of(path: str) -> str:
    """The room that a file belongs to; files beside the rooms of a package are the package's."""
    parts = path.split("/")
    return "/".join(parts[:2]) if parts[0] in PACKAGES and len(parts) > 2 else parts[0]


def counted(root: Path = ROOT) -> tuple[Counter[str], Counter[str]]:
    """Code lines and files of each room, and of ``shipped`` (the packages) and ``C``."""
    lines: Counter[str] = Counter()
    files: Counter[str] = Counter()
    command = ["git", "ls-files", "-z", "--", "*.py", "*.c", "*.h"]
    for path in subprocess.check_output(command, cwd=root, text=True).split("\0"):
        if not (root / path).is_file():
            continue
        source = (root / path).read_text(encoding="utf-8")
        shipped = path.startswith(tuple(f"{package}/" for package in PACKAGES))
        if not path.endswith(".py"):
            rooms = ["C"] if shipped else []
            code = c_lines(source)
        else:
            rooms = [room_of(path), "shipped"] if shipped else [room_of(path)]
            code = python_lines(source)
        for room in rooms:
            lines[room] += code
            files[room] += 1
    return lines, files


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="fail above the budget")
    check = parser.parse_args().check
    lines, files = counted()
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    budget: dict[str, int] = settings["tool"]["budget"]["lines"]
    wrong = 0
    for room, count in lines.most_common():
        most = budget.get(room)
        above = most is None or count > most
        wrong += above
        note = "no budget" if most is None else f"of {most:7,}" + (", above it" if above else "")
        print(f"{room:24}{files[room]:6,} files{count:9,} lines {note}")
    if most_files := settings["tool"]["budget"]["files"]:
        wrong += files["shipped"] > most_files
        print(f"shipped files: {files['shipped']:,} of {most_files:,}")
    return 1 if check and wrong else 0


if __name__ == "__main__":
    sys.exit(main())
