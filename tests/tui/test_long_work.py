"""Long work: how long it still takes, and what the terminal itself tells of it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from engine import Finished, Progress, StageFinished, StageStarted
from rknntui.announcer import LONG_SECONDS, Announcer
from rknntui.session.job_view_model import JobView
from rknntui.session.state import Session
from rknntui.session.timing import StageTimes, left_text

GHOSTTY = {"TERM_PROGRAM": "ghostty", "TERM": "xterm-ghostty"}


def _job(name: str = "build", model: str = "/m/net.onnx") -> JobView:
    return JobView("1", name, f"{name} net", time.time(), {"recipe": {"model": model}})


def _ran(job: JobView, *, cached: bool = False) -> JobView:
    for stage, seconds in (("load", 1.0), ("calibrate", 8.0)):
        job.apply(StageStarted(stage, stage, 1, 2))
        job.apply(StageFinished(stage, seconds, cached))
    job.apply(Finished("done", 9.0, None))
    return job


def test_the_time_left_is_that_of_the_stages_of_the_last_run(tmp_path: Path) -> None:
    StageTimes(tmp_path / "times.json").learn(_ran(_job()))
    times = StageTimes(tmp_path / "times.json")
    job = _job()
    assert times.left(job) == pytest.approx(9.0)
    job.apply(StageStarted("load", "load", 1, 2))
    assert times.left(job) == pytest.approx(9.0, abs=0.2)
    job.apply(StageFinished("load", 1.0, False))
    job.apply(StageStarted("calibrate", "calibrate", 1, 2))
    job.apply(Progress("calibrate", 5, 10, ""))
    job.stages["calibrate"].begun -= 2.0
    assert times.left(job) == pytest.approx(2.0, abs=0.2), "its own pace counts"
    assert times.left(_job(model="/m/other.onnx")) is None


def test_stages_of_the_cache_teach_nothing_and_a_broken_file_is_empty(tmp_path: Path) -> None:
    file = tmp_path / "times.json"
    file.write_text('{"build /m/net.onnx": {"load": "soon", "pack": -1}, "x": 3}')
    assert StageTimes(file).left(_job()) is None
    StageTimes(file).learn(_ran(_job(), cached=True))
    assert "calibrate" not in file.read_text()
    file.write_text("[" * 5000)
    assert StageTimes(file).left(_job()) is None


def test_the_percent_of_a_job_never_falls() -> None:
    job, seen = _job(), []
    for event in (
        StageStarted("load", "load", 1, 2),
        StageFinished("load", 1.0, False),
        StageStarted("a", "a", 1, 8),
        StageFinished("a", 1.0, False),
        Finished("done", 2.0, None),
    ):
        job.apply(event)
        seen.append(job.fraction)
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, ""), (0.2, "0:01"), (64, "1:04"), (3730, "1:02:10")]
)
def test_how_the_time_left_is_written(seconds: float | None, text: str) -> None:
    assert left_text(seconds) == text


@pytest.mark.parametrize(
    ("environment", "titled", "progress"),
    [
        (GHOSTTY, True, True),
        ({"WT_SESSION": "1", "TERM": "xterm-256color"}, True, True),
        ({**GHOSTTY, "TMUX": "/tmp/x"}, True, False),
        ({"TERM": "xterm-256color"}, True, False),
        ({"TERM": "linux"}, False, False),
    ],
)
def test_a_terminal_is_sent_what_it_has(
    environment: dict[str, str], titled: bool, progress: bool
) -> None:
    sent: list[str] = []
    announcer = Announcer(sent.append, environment)
    assert announcer.restore == ""
    session = Session(lambda _: None)
    job = _job()
    session.job_started(job)
    announcer.show(session)
    announcer.show(session)
    text = "".join(sent)
    assert ("\x1b]2;0 % build · rknntui\x07" in text) is titled
    assert text.count("\x1b]9;4;1;0\x07") == int(progress)
    assert ("\x1b]9;4;0\x07" in announcer.restore) is progress
    assert ("\x1b[23;2t" in announcer.restore) is titled


def test_a_long_job_calls_who_does_not_look() -> None:
    sent: list[str] = []
    job = _ran(_job())
    job.title = "build \x1b[2J net"
    announcer = Announcer(sent.append, GHOSTTY)
    announcer.ended(job, watched=False)
    assert sent == [], "a short one is told on the screen alone"
    job.seconds = LONG_SECONDS + 1
    announcer.ended(job, watched=True)
    assert sent == []
    announcer.ended(job, watched=False)
    Announcer(sent.append, {"TERM": "xterm"}).ended(job, watched=False)
    assert len(sent) == 2
    assert sent[0].startswith("\x1b]9;build")
    assert sent[0].count("\x1b") == 1
    assert sent[1] == "\x07"
