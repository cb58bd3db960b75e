"""Links between the pages, and citations, lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.safety import ran

LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
CITATION = re.compile(r"\[(RKNN-[A-Z0-9]+ [0-9.]+), [0-9]")
CODE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def tracked(repository: Path, *patterns: str) -> list[Path]:
    words = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns]
    listed = ran(*words, cwd=repository)
    if listed.returncode:
        pytest.skip("not a checkout")
    return [path for name in listed.stdout.split() if (path := repository / name).is_file()]


def anchor(heading: str) -> str:
    """The fragment that GitHub gives a heading."""
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
    return re.sub(r"[^\w\- ]", "", words).strip().replace(" ", "-")


def anchors(page: Path) -> set[str]:
    text = CODE.sub("", page.read_text(encoding="utf-8"))
    return {anchor(found) for found in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}


def test_every_link_leads_to_a_file_and_a_heading(repository: Path) -> None:
    broken = []
    for page in tracked(repository, "*.md"):
        for target in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
            if "://" in target or target.startswith("mailto:"):
                continue
            name, _, fragment = target.partition("#")
            file = (page.parent / name).resolve() if name else page
            if not file.exists() or (
                fragment and file.suffix == ".md" and fragment not in anchors(file)
            ):
                broken.append(f"{page.relative_to(repository)}: {target}")
    assert broken == []


def test_every_page_is_reached_from_the_readme(repository: Path) -> None:
    seen, waiting = set(), [repository / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in seen or not page.is_file():
            continue
        seen.add(page)
        targets = (target.partition("#")[0] for target in LINK.findall(page.read_text("utf-8")))
        waiting += [(page.parent / target).resolve() for target in targets if target[-3:] == ".md"]
    lost = {path for path in tracked(repository, "docs/*.md") if path.resolve() not in seen}
    assert sorted(path.name for path in lost) == []


def test_every_citation_names_a_manual_of_the_references(repository: Path) -> None:
    listed = (repository / "docs" / "references.md").read_text(encoding="utf-8")
    cited = {
        (found, path.relative_to(repository).as_posix())
        for path in tracked(repository, "*.md", "*.py")
        for found in CITATION.findall(path.read_text(encoding="utf-8"))
    }
    assert len(cited) > 20
    assert {pair for pair in cited if f"| {pair[0]} |" not in listed} == set()


def test_nothing_cites_what_only_insiders_have(repository: Path) -> None:
    """Lines of extracted manuals and folders beside the checkout mean nothing to a reader."""
    private = re.compile(r"\b00\d:\d+|\b00\d: [a-z]|(?<!engine/)\bfacts/|\bDESIGN \d|\bREVIEW \d")
    found = [
        f"{path.relative_to(repository)}: {hit}"
        for path in tracked(repository, "engine/*.py", "rknntui/*.py", "docs/*.md", "README.md")
        for hit in private.findall(path.read_text(encoding="utf-8"))
    ]
    assert found == []


DOTTED = re.compile(r"\b((?:engine|rknntui|benchmarks)(?:\.[A-Za-z_]\w*)+)")
FILE = re.compile(r"`((?:engine|rknntui|tests|scripts|benchmarks|docs|\.ci)/[\w./-]+)`")
NO_MODULES = {"rknntui.fish", "rknntui/vendor"}
"""A completion script, and a folder of the user's cache."""


def exists(repository: Path, dotted: str) -> bool:
    """Whether it is a package, a module, or a name that one of these has."""
    here, (first, *rest) = repository, dotted.split(".")
    while (here / first).is_dir():
        here /= first
        if not rest:
            return True
        first, *rest = rest
    module = here / f"{first}.py"
    wanted, file = (rest, module) if module.is_file() else ([first], here / "__init__.py")
    texts = [each for each in (file, file.with_suffix(".pyi")) if each.is_file()]
    text = "\n".join(each.read_text(encoding="utf-8") for each in texts)
    if not wanted:
        return bool(text)
    name = wanted[0]
    made = rf"(?:def|class) {name}\b|^{name}\b.*=|\"{name}\"|^ +{name},$|import .*\b{name}\b"
    return re.search(made, text, re.MULTILINE) is not None


def test_modules_and_files_that_pages_name_exist(repository: Path) -> None:
    gone = []
    for page in tracked(repository, "*.md"):
        if page.name == "CHANGELOG.md":
            continue  # tells of what was
        text = page.read_text(encoding="utf-8")
        named = {name for name in FILE.findall(text) if not (repository / name).exists()}
        named |= {name for name in DOTTED.findall(text) if not exists(repository, name)}
        gone += [f"{page.name}: {name}" for name in named - NO_MODULES if "NAME" not in name]
    assert sorted(gone) == []
