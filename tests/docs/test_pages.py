"""Every block of shell and Python in the README and the pages runs, in the order of its page.

A reader who copies the blocks of a page one after the other into a terminal meets no error. What a
page's blocks need and cannot make is said in its source (:mod:`tests.docs.pages`); the few blocks
that are not run have a reason there, of one of the kinds below.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.devices.adb_server import AdbServer
from tests.devices.conftest import adb_server
from tests.docs.pages import Block, Page, Reader, bring, read

__all__ = ["adb_server"]

PATHS = [
    *(REPOSITORY / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    REPOSITORY / "compat" / "README.md",
    *sorted((REPOSITORY / "docs").rglob("*.md")),
]
PAGES = {page.name: page for page in (read(path, REPOSITORY) for path in PATHS)}
# test_tutorial.py follows the tutorial.
RUN = [page for page in PAGES.values() if page.run and page.name != "docs/tutorial.md"]

KINDS = {
    "network": "it downloads what the tests have already, or asks a host on the network",
    "hardware": "it needs a board, its compiler or a USB channel that no test machine has",
    "generation 1": "it needs the vendor's wheel of generation 1, which is on no index",
    "elsewhere": "another test runs it, it is another shell's, or a part of a module",
}
"""Why a block is not run."""
MOST = {"network": 11, "hardware": 3, "generation 1": 2, "elsewhere": 7}
"""How many blocks may have each reason; no more than there are."""

PROGRAMS = Path(sys.executable).parent
BOARD = Block("the emulated board", 0, "sh", "rknntui devices emulate rk3588", "until Ctrl-C")

CONNECT = Block("the emulated board", 0, "sh", "adb connect 127.0.0.1:PORT", "")


def marks(page: Page) -> list[pytest.MarkDecorator]:
    """What must be there for the blocks of a page."""
    needs = {
        "vendor": page.mentions("rknntui compile", "rknntui vendor", "rockchip"),
        "adb": needs_board(page),
        "cc": needs_board(page),
        "zoo": any(source.startswith("zoo:") for source in page.files.values()),
        "torch": page.mentions("load_pytorch", ".pt "),
        "tensorflow": page.mentions("load_tensorflow", ".pb "),
    }
    return [getattr(pytest.mark, name) for name, wanted in needs.items() if wanted]


def needs_board(page: Page) -> bool:
    return page.mentions("adb:SERIAL", "ssh:pi@board.lan", "devices emulate", "127.0.0.1:PORT")


def test_what_is_not_run_has_a_reason_and_is_bounded() -> None:
    found = Counter(
        block.reason.partition(": ")[0] for page in PAGES.values() for block in page.blocks
    )
    ran = found.pop("")
    assert set(found) <= set(KINDS)
    assert dict(found) == MOST
    assert ran > 3 * found.total()


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_commands_are_in_blocks_of_a_language(page: Page) -> None:
    """A block without one is an output or a listing, and is not run."""
    commands = re.compile(r"(\$ )?(rknntui|pip|python|adb|git|uv|from|import) ")
    fence = ""
    for line in page.path.read_text(encoding="utf-8").splitlines():
        if line.strip().startswith("```"):
            fence = "" if fence else line.strip()
        assert not (fence == "```" and commands.match(line)), line


@pytest.fixture(scope="session")
def left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Page, Path | None], Path]]:
    """The folder that a page leaves; a page that others continue is followed once."""
    found: dict[str, Path] = {}

    def follow(page: Page, zoo: Path | None) -> Path:
        if page.name not in found:
            folder = tmp_path_factory.mktemp("left")
            bring(page, folder, REPOSITORY, zoo)
            with Reader(folder, PROGRAMS) as reader:
                for block in page.run:
                    reader.run(block)
                found[page.name] = reader.here
        return found[page.name]

    yield follow
    for folder in found.values():
        shutil.rmtree(folder)


@pytest.mark.long
@pytest.mark.parametrize(
    "page", [pytest.param(page, id=page.name, marks=marks(page)) for page in RUN]
)
def test_every_block_of_the_page_runs(
    page: Page, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    variables, words = {}, {}
    given = {mark.name for mark in request.node.iter_markers()}
    zoo = request.getfixturevalue("zoo") if "zoo" in given else None
    for name in sorted(given & {"torch", "tensorflow"}):
        if find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    if "vendor" in given:
        variables["RKNNTUI_VENDOR"] = str(request.getfixturevalue("vendor_folder"))
    if "adb" in given:
        server: AdbServer = request.getfixturevalue("adb_server")
        assert server
        words = {"adb:SERIAL": "127.0.0.1:PORT", "ssh:pi@board.lan": "127.0.0.1:PORT"}
    if page.after:
        before = request.getfixturevalue("left")(PAGES[page.after], zoo)
        shutil.copytree(before, tmp_path, dirs_exist_ok=True)
    bring(page, tmp_path, REPOSITORY, zoo)
    with Reader(tmp_path, PROGRAMS, variables, words) as reader:
        if words and page.mentions(*words):
            reader.run(BOARD)
            reader.run(CONNECT)
        for block in page.run:
            reader.run(block)
    for seconds, used, place in reader.seconds:
        print(f"{seconds:6.1f} s, {used:5.1f} s of the processor  {place}")
