"""Every error survives the worker protocol, and tells what, cause and remedy."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from engine.base import errors
from engine.base.events import (
    ArtifactWritten,
    Event,
    Finished,
    LogLine,
    Progress,
    StageFinished,
    StageStarted,
    event_from_dict,
    event_to_dict,
)
from engine.base.findings import Finding

KINDS = [kind for name, kind in vars(errors).items() if name.endswith("Error")]


@pytest.mark.parametrize("cls", KINDS)
def test_round_trip(cls: type[errors.EngineError]) -> None:
    error = cls("It broke.", cause="Age.", remedy="Buy a new one.")
    back = errors.error_from_dict(error.to_dict())
    assert type(back) is cls
    assert (back.what, back.cause, back.remedy) == ("It broke.", "Age.", "Buy a new one.")
    assert "Likely cause: Age." in str(error)


def test_kinds_are_distinct() -> None:
    assert len({cls.kind for cls in KINDS}) == len(KINDS)


def test_unknown_kind_becomes_the_base() -> None:
    assert type(errors.error_from_dict({"kind": "?", "what": "x"})) is errors.EngineError


EVENTS: list[Event] = [
    StageStarted("load", "Load", 0, 5),
    StageFinished("load", 0.5),
    Progress("calibrate", 1, 20, "a.jpg"),
    LogLine("hello", "warning"),
    ArtifactWritten("/tmp/a.rknn", "container", 12),
    Finished("failed", 1.0, {"kind": "error", "what": "x"}),
]


@pytest.mark.parametrize("event", EVENTS)
def test_events_round_trip(event: Event) -> None:
    assert event_from_dict(event_to_dict(event)) == event


def test_an_event_of_a_newer_version_is_a_log_line() -> None:
    assert isinstance(event_from_dict({"type": "Future", "x": 1}), LogLine)
    assert isinstance(event_from_dict({"type": "Progress", "new_field": 1}), LogLine)


def test_finding_round_trip() -> None:
    changes = {"mean_values": [[1.0]]}
    finding = Finding("code", "warning", "node a", "what", "cause", "remedy", changes)
    assert Finding.from_dict(finding.to_dict()) == finding


def test_every_error_that_a_file_or_a_machine_can_cause_has_a_remedy() -> None:
    """A call of a class of the tree names its remedy; only wrong requests tell all in one line."""
    tree = {name for name, cls in vars(errors).items() if _is_error(cls)}
    exempt = {"UsageError", "EngineError"}
    bare = []
    for path in sorted(Path(errors.__file__).parents[1].rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if not any(f"{name}(" in text for name in tree - exempt):
            continue
        for node in ast.walk(ast.parse(text)):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
                continue
            named = {keyword.arg for keyword in node.keywords}  # None: **arguments
            if node.func.id in tree - exempt and not named & {"remedy", None}:
                bare.append(f"{path}:{node.lineno}")
    assert bare == []


def _is_error(cls: object) -> bool:
    return isinstance(cls, type) and issubclass(cls, errors.EngineError)
