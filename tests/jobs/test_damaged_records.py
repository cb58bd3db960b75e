"""Records of jobs that were edited, cut, or never were: one bad row each, and no end of it."""

from __future__ import annotations

import json
import os
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from engine import list_jobs, read_events
from engine.base.events import LogLine, Progress, event_from_dict
from engine.jobs.record import JobRecorder, new_record, read_json
from engine.wire.project_tables import JOBS
from rknntui.session.job_view_model import JobView

pytestmark = pytest.mark.usefixtures("own_home")


def done(title: str) -> JobRecorder:
    recorder = new_record()
    recorder.start("build", title, {"recipe": {}})
    recorder.emit(Progress("load", 1, 2))
    recorder.end("done", result={"a": 1})
    return recorder


def change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


DAMAGE: dict[str, tuple[str, dict[str, Any]]] = {
    "a time beyond time": ("job.json", {"started": 1e308}),
    "a time before time": ("job.json", {"started": -1e18}),
    "no time": ("job.json", {"started": None}),
    "a text for a time": ("job.json", {"started": "now"}),
    "a large number": ("job.json", {"started": 10**400}),
    "a list for a title": ("job.json", {"title": []}),
    "params that are none": ("job.json", {"params": 3}),
    "an end beyond time": ("end.json", {"finished": 1e308}),
    "a state of nowhere": ("end.json", {"state": "\x1b[2J"}),
    "an error that is a text": ("end.json", {"error": "x"}),
    "a summary that is a list": ("end.json", {"summary": [1]}),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_a_damaged_record_is_one_bad_row(what: str) -> None:
    first, second = done("good"), done("bad")
    file, values = DAMAGE[what]
    change(second.folder / file, **values)
    bad, good = list_jobs()
    assert (good.id, good.state, good.title) == (first.id, "done", "good")
    assert (bad.id, bad.state) == (second.id, "lost")
    assert bad.error is not None
    assert "damaged" in bad.error["what"]
    assert bad.error["remedy"]
    assert JOBS.column("started").show(bad)


def test_a_record_that_is_no_json_or_waits_for_ever_is_a_bad_row_too() -> None:
    one, other = done("one"), done("other")
    (one.folder / "job.json").write_text("[" * 100_000)
    for name in ("job.json", "end.json", "events.jsonl", "log.txt"):
        (other.folder / name).unlink(missing_ok=True)
        os.mkfifo(other.folder / name)
    assert [record.state for record in list_jobs()] == ["lost", "lost"]
    assert read_events(other.id) == []
    (other.folder / "job.json").unlink()
    (other.folder / "job.json").symlink_to("/dev/zero")
    assert read_json(other.folder / "job.json") is None


def test_reading_a_record_takes_no_more_memory_than_it_has_bytes() -> None:
    recorder = done("small")
    tracemalloc.start()
    try:
        assert read_json(recorder.folder / "job.json") is not None
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "event",
    [
        {"type": "Progress", "stage": [], "done": 1, "total": 1},
        {"type": "Progress", "stage": "a", "done": "x", "total": 1},
        {"type": "Progress", "stage": "a", "done": 10**400, "total": 3},
        {"type": "StageFinished", "stage": "a", "seconds": "soon"},
        {"type": "Finished", "state": "odd", "seconds": 1.0},
        {"type": "Finished", "state": "failed", "seconds": 1.0, "error": {"what": []}},
        {"type": "Partial", "kind": "a", "data": 3},
    ],
)
def test_an_event_with_other_types_is_a_log_line(event: dict[str, Any]) -> None:
    found = event_from_dict(event)
    assert isinstance(found, LogLine)
    view = JobView("1", "build", "t", time.time())
    view.apply(found)
    assert view.fraction == 0
