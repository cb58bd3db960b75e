"""A process that a hostile model took over tries everything: as root, and as an ordinary user."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.base import confine
from tests.base.confine import attack
from tests.base.confine.scene import DENIED, STRANGER, Scene, require_walls, scene
from tests.safety import ran

USERS = {"itself": os.geteuid(), "stranger": STRANGER}
FILES = 1 << 1 | 1 << 2
"""Of root's rights, those to read files."""
OWN = set(attack.of_its_own("", ""))
OF_A_TOOLKIT = {"fork", "run from memory"}
"""What it starts is confined with it."""
SAYS_SO = {"mode", "times"}
"""What a toolkit is told to be done, and is not."""


@pytest.fixture(params=USERS)
def place(request: pytest.FixtureRequest) -> Iterator[Scene]:
    user = USERS[request.param]
    if user != os.geteuid() and os.geteuid():
        pytest.skip("only root can be another user")
    with scene(user) as made:
        yield made


def run(place: Scene, role: str, **more: Any) -> dict[str, Any]:
    """The attack, as a program of the user; of files that this user can read."""
    python = shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin")
    if python is None:
        pytest.skip("this system has no Python that all its users can run")
    code = place.root / "engine" / "base" / "confine"
    shutil.copytree(Path(confine.__file__).parent, code)
    program = shutil.copy(attack.__file__, place.root / "engine")
    done = ran(
        *(python, "-I", "-B", program, role, code, json.dumps(place.given | more)),
        cwd=place.folder,
        start_new_session=True,
        timeout=60,
        **place.as_user(),
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def check(said: dict[str, str], open_: set[str]) -> None:
    for name, how in said.items():
        if name in open_:
            assert how == "done", name
        else:
            assert how in DENIED, f"{name}: {how}"


@pytest.mark.parametrize(
    ("role", "more", "spared"),
    [
        ("converter", set(), []),
        ("toolkit", OF_A_TOOLKIT | SAYS_SO, []),
        # its sockets are what a stranger's model could send with; nothing else is wider
        (
            "board",
            OF_A_TOOLKIT | SAYS_SO | {"connect", "send"},
            ["connect by a file", "send from a pair"],
        ),
    ],
)
def test_it_reaches_nothing(place: Scene, role: str, more: set[str], spared: list[str]) -> None:
    """A converter and a toolkit; one with a board has the network and no more."""
    require_walls()
    found = run(place, role, spared=spared)
    check(found["said"], OWN | more)
    place.check_untouched()
    if role != "board":
        assert set(found["rights"]) <= {0, FILES}
    if role == "toolkit":
        assert len(found["rights"]) == 2
    if role == "converter" and found["walls"][2]:
        assert set(found["interfaces"]) <= {"lo"}


@pytest.mark.parametrize("role", ["converter", "toolkit"])
def test_without_landlock_and_namespaces_the_filter_holds(place: Scene, role: str) -> None:
    """As in a container: what is left to it are files, whose names no filter can read."""
    files = set(attack.of_files("", "", "", ["", 0, ""], ""))
    of_calls = {"connect", "send", "connect by a file", "send from a pair", "hear the kernel"}
    of_calls |= {"attribute", "cut", "make a pipe", "make a link", "lead its reader elsewhere"}
    of_calls |= (
        {"mode", "times", "fork", "run", "run from memory"} if role == "converter" else set()
    )
    spared = files - of_calls | {"read its environment", "read its command", "list processes"}
    require_walls()
    lacks = ["landlock", "namespaces"]
    found = run(place, role, spared=sorted(spared), lacks=lacks)
    assert found["walls"] == [0, True, False]
    check(found["said"], OWN)
    place.check_untouched()


def test_without_seccomp_landlock_holds(place: Scene) -> None:
    of_files = {
        "write what is given", "write", "delete", "rename", "make a file beside", "make a folder",
        "make a link", "make a pipe", "lead its reader elsewhere", "have its reader wait",
        "take it over by a link", "read a secret", "read users", "read its environment",
        "read its command", "list processes", "run",
    }  # fmt: skip
    tries = {*attack.of_other_processes(0), *attack.of_the_machine()}
    tries |= set(attack.of_files("", "", "", ["", 0, ""], ""))
    require_walls()
    found = run(place, "converter", spared=sorted(tries - of_files), lacks=["seccomp"])
    assert found["walls"][1] is False
    check(found["said"], OWN)
    place.check_untouched()


DONE_BEFORE = {
    "signal it", "signal its thread", "signal by a pipe", "limit it", "slow it",
    "bind it to a core", "read its environment", "read its command", "list processes",
    "rename", "make a file beside", "make a folder", "make a link", "make a pipe",
    "mode", "times", "lead its reader elsewhere", "have its reader wait",
    "read a secret", "read users", "connect", "send", "connect by a file", "send from a pair",
    "hear the kernel", "run", "run from memory", "fork", "another machine",
}  # fmt: skip


def test_without_walls_the_same_tries_succeed(place: Scene) -> None:
    """Else the tests above would pass for a try that never works."""
    others = [*attack.of_the_machine(), "signal all", "slow all of the user"]
    spared = [one for one in others if one not in DONE_BEFORE]
    said = run(place, "none", spared=[*spared, "slow all disks of the user", "delete"])["said"]
    assert {name: how for name, how in said.items() if how != "done" and name in DONE_BEFORE} == {}
