"""What the terminal itself tells of long work."""

from __future__ import annotations

import time

import pytest

from engine import Finished
from rknntui.announcer import LONG_SECONDS, Announcer
from rknntui.session.job_view_model import JobView
from rknntui.session.state import Session

GHOSTTY = {"TERM_PROGRAM": "ghostty", "TERM": "xterm-ghostty"}


def _job() -> JobView:
    return JobView("1", "build", "build net", time.time(), {"recipe": {"model": "/m/net.onnx"}})


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
    session.jobs.started(job)
    announcer.show(session)
    announcer.show(session)
    text = "".join(sent)
    assert ("\x1b]2;0 % build · rknntui\x07" in text) is titled
    assert text.count("\x1b]9;4;1;0\x07") == int(progress)
    assert ("\x1b]9;4;0\x07" in announcer.restore) is progress
    assert ("\x1b[23;2t" in announcer.restore) is titled


def test_a_long_job_calls_who_does_not_look() -> None:
    sent: list[str] = []
    job = _job()
    job.apply(Finished("done", 9.0, None))
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
