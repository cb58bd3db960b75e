"""What `rknntui doctor` says of the sandbox: what holds a process here, not what the kernel has."""

from __future__ import annotations

import pytest

from engine.base.confine import Walls
from engine.services import doctor
from tests.base.confine.scene import active

ALL = Walls(7, seccomp=True, namespaces=True)


def test_it_says_what_is_active_here() -> None:
    found = doctor._walls()
    assert found == doctor._check_of(active())
    assert ("seccomp" in found.found) is active().seccomp
    assert ("Landlock" in found.found) is (active().landlock > 0)


@pytest.mark.parametrize(
    ("walls", "has", "lacks"),
    [
        (ALL, "Landlock 7, seccomp, namespaces", ""),
        (ALL._replace(landlock=0), "seccomp, namespaces", "Landlock (needs Linux 5.13)"),
        (ALL._replace(seccomp=False), "Landlock 7, namespaces", "seccomp (needs"),
        (ALL._replace(namespaces=False), "Landlock 7, seccomp", "namespaces (needs"),
        (Walls(), "none", "Landlock (needs Linux 5.13), seccomp (needs"),
    ],
)
def test_what_is_not_there_is_named(walls: Walls, has: str, lacks: str) -> None:
    found = doctor._check_of(walls)
    assert f"toolkits: {has};" in found.found
    assert lacks in found.remedy
    assert found.state == ("note" if lacks else "ok")


def test_a_process_that_says_nothing_has_no_walls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "engine_command", lambda _: ["/bin/true"])
    assert doctor._walls() == doctor._check_of(Walls())
