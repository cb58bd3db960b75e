"""Run the examples of the vendor's public repositories, unchanged, by ``rknntui script``.

    PYTHONPATH=. python scripts/run_vendor_examples.py REPOSITORIES [--work FOLDER] [--only TEXT]
        [--packages FOLDER] [--write docs/measurements/examples.md]

REPOSITORIES is a folder with clones or git directories named ``OWNER+NAME`` (rknn-toolkit2,
rknn_model_zoo, rknn-toolkit); files that a clone lacks (large ones) count as not to be had. Models
that an example downloads are replaced by stand-ins of the same interface
(``scripts/vendor_examples``). ``--packages`` names a folder with packages that the examples import
and that rknntui does not need (SciPy, torchvision), as ``pip install --target`` makes it.

Nothing of those repositories is kept: the working folder is removed unless ``--work`` names one.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from scripts.vendor_examples.catalogue import EXAMPLES, REPOSITORIES, Example
from scripts.vendor_examples.packages import make_packages

SECONDS = 600
BOARD = re.compile(
    "There is no board that can be used|no board with an NPU|needs a board|"
    "cannot run on the current platform"
)
"""What says that a board comes next; the last is the example's own."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    example: Example
    code: int
    seconds: float
    log: str
    standing_in: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """In words: to its end, to a board, or why not."""
        text = self.log
        if self.code == 0 and not _errors(text):
            return "to its end"
        if BOARD.search(text):
            return "to a board"
        missing = re.search(r"ModuleNotFoundError: No module named '([\w.]+)'", text)
        if missing:
            return f"needs the Python package {missing[1]}"
        return "to its end, with a message" if self.code == 0 else "stopped"

    @property
    def said(self) -> str:
        """The last thing that was said of a failure."""
        errors = _errors(self.log)
        lines = [line for line in self.log.splitlines() if line.strip()]
        if self.code == 0 and not errors:
            return ""
        return errors[-1] if errors else (lines[-1] if lines else "")


def _errors(log: str) -> list[str]:
    return [line[2:] for line in log.splitlines() if line.startswith("E ")]


def extract(git: Path, folders: tuple[str, ...], to: Path) -> None:
    """Write the files of a repository's newest commit that its clone has."""
    place = git / ".git" if (git / ".git").exists() else git
    command = ["git", "--git-dir", str(place)]
    listed = subprocess.run(
        [*command, "ls-tree", "-r", "-z", "HEAD", "--", *folders],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    with subprocess.Popen(
        [*command, "cat-file", "--batch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as reader:
        assert reader.stdin is not None
        assert reader.stdout is not None
        for row in filter(None, listed.split("\0")):
            what, name = row.split("\t", 1)
            mode, kind, key = what.split()
            if kind != "blob" or mode == "120000":
                continue
            reader.stdin.write(f"{key}\n".encode())
            reader.stdin.flush()
            head = reader.stdout.readline().split()
            if head[1] == b"missing":
                continue
            content = reader.stdout.read(int(head[2]))
            reader.stdout.read(1)
            file = to / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)


def run(example: Example, place: Path, packages: str | None) -> Outcome:
    """Make what is missing, and run the script in its folder."""
    script = place / example.repository / example.script
    stand_ins = []
    for name, maker in example.stand_ins.items():
        file = script.parent / name
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            maker(file)
        stand_ins.append(file.name)
    (script.parent.parent / "model").mkdir(exist_ok=True)
    zoos = str(make_packages(place / "packages"))
    entries = filter(None, [os.environ.get("PYTHONPATH"), packages, zoos])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(entries)}
    words = [sys.executable, "-m", "rknntui", "script", script.name, *example.arguments]
    start = time.monotonic()
    try:
        done = subprocess.run(
            words,
            cwd=script.parent,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=SECONDS,
            check=False,
        )
        code, log = done.returncode, done.stdout
    except subprocess.TimeoutExpired as late:
        code = -9
        log = (late.stdout or b"").decode(errors="replace") + f"\nE more than {SECONDS} s"
    return Outcome(example, code, time.monotonic() - start, log, tuple(stand_ins))


def rows_of(outcomes: list[Outcome]) -> dict[str, dict[str, str]]:
    """Repository -> first cell -> row of the table."""
    tables: dict[str, dict[str, str]] = {}
    for one in outcomes:
        repository = REPOSITORIES[one.example.repository][0]
        first = f"`{' '.join((one.example.script, *one.example.arguments))}`"
        cells = (
            first,
            ", ".join(f"`{name}`" for name in one.standing_in) or "-",
            one.verdict,
            str(one.code if one.code < 128 else one.code - 256),
            one.said.replace("|", "\\|")[:240] or "-",
        )
        tables.setdefault(repository, {})[first] = f"| {' | '.join(cells)} |"
    return tables


def page_with(page: str, tables: dict[str, dict[str, str]]) -> str:
    """The page with these rows; rows of examples that did not run now stay."""
    head = page.partition("\n## ")[0].rstrip("\n")
    parts = [head]
    for repository, _ in REPOSITORIES.values():
        section = page.partition(f"\n## {repository}\n")[2].partition("\n## ")[0]
        rows = {
            line.split(" | ")[0].removeprefix("| "): line
            for line in section.splitlines()
            if line.startswith("| `")
        }
        rows |= tables.get(repository, {})
        if rows:
            parts += [
                "",
                f"## {repository}",
                "",
                "| example | stand-in for | runs | exit code | what is told |",
                "|---|---|---|---|---|",
                *rows.values(),
            ]
    return "\n".join(parts) + "\n"


def main() -> int:
    """Run what is asked for and write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("repositories", type=Path)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--only", default="", help="run examples whose path has this text")
    parser.add_argument("--packages")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="vendor-examples-") as temporary:
        work = (options.work or Path(temporary)).resolve()
        for short, (repository, folders) in REPOSITORIES.items():
            git = options.repositories / repository.replace("/", "+")
            git = git / "repo" if (git / "repo").is_dir() else git
            if not (work / short).exists():
                extract(git, tuple(folders), work / short)
        outcomes = []
        for example in EXAMPLES:
            if options.only not in f"{example.repository}/{example.script}":
                continue
            done = run(example, work, options.packages)
            outcomes.append(done)
            name = f"{example.repository}/{example.script}"
            log = work / "logs" / f"{name.replace('/', '_')}.txt"
            log.parent.mkdir(exist_ok=True)
            log.write_text(done.log)
            ending = f": {done.said[:160]}" if done.said else ""
            print(f"{done.seconds:6.1f} s  {done.verdict:14}  {name}{ending}", flush=True)
    if options.write:
        page = page_with(options.write.read_text(), rows_of(outcomes))
        options.write.write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
