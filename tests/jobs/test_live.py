"""Events that are told and not kept: hours of samples fill neither disk nor memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.base.events import Event, Finished, LogLine, Partial
from engine.jobs import live
from engine.jobs.history import read_events
from engine.jobs.record import JobRecorder, jobs_folder, new_record, prune
from engine.jobs.tail import EventTail


def sample(number: int) -> Partial:
    return Partial("toy.sample", {"number": number, "text": "x" * 200}, kept=False)


def told(tail: EventTail) -> list[Event]:
    return [event for _, event in tail.read()]


def numbers(events: list[Event]) -> list[object]:
    return [event.data["number"] for event in events if isinstance(event, Partial)]


def live_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("live.*.jsonl"))


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> JobRecorder:
    """Of a job whose live files are full after about a hundred samples."""
    monkeypatch.setattr(live, "LIVE_BYTES", 32 << 10)
    made = new_record()
    made.start("toy", "toy", {})
    return made


def test_who_listens_hears_all_and_the_record_stays_small(recorder: JobRecorder) -> None:
    tail = EventTail(recorder.folder)
    heard: list[Event] = []
    for number in range(2000):
        recorder.emit(sample(number))
        if number % 50 == 0:
            heard += told(tail)
            assert sum(path.stat().st_size for path in live_files(recorder.folder)) <= 64 << 10
    recorder.end("done", result={})
    heard += told(tail)
    assert numbers(heard) == list(range(2000))
    assert isinstance(heard[-1], Finished)
    assert len(heard) == 2001
    assert (recorder.folder / "events.jsonl").stat().st_size < 1000
    assert len(live_files(recorder.folder)) == 2


def test_they_are_told_in_their_order_among_the_others(recorder: JobRecorder) -> None:
    tail = EventTail(recorder.folder)
    heard: list[Event] = []
    events: list[Event] = []
    for number in range(60):
        events += [Partial("toy.board", {"number": -number}), sample(number), sample(number)]
    for at, event in enumerate(events):
        recorder.emit(event)
        if at % 7 == 0:
            heard += told(tail)
    recorder.end("done", result={})
    heard += told(tail)
    assert heard[:-1] == events


def test_who_reads_too_slowly_is_told(recorder: JobRecorder) -> None:
    tail = EventTail(recorder.folder)
    recorder.emit(sample(0))
    assert numbers(told(tail)) == [0]
    for number in range(1, 2000):
        recorder.emit(sample(number))
    assert told(tail) == [], "it may be late"
    heard = told(tail)
    assert [event.level for event in heard if isinstance(event, LogLine)] == ["warning"]
    assert numbers(heard)[-1] == 1999
    assert len(heard) < 400
    late = EventTail(recorder.folder)  # who comes later misses nothing that it was promised
    found = [*told(late), *told(late)]
    assert not [event for event in found if isinstance(event, LogLine)]
    assert numbers(found)[-1] == 1999


def test_what_comes_between_two_looks_at_files_is_told_in_its_order(
    recorder: JobRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[Event] = []

    def emit() -> None:
        events.extend([Partial("toy.board", {"number": -len(events)}), sample(len(events) + 1)])
        recorder.emit(events[-2])
        recorder.emit(events[-1])

    read = live.LiveTail.read

    def late(tail: live.LiveTail) -> list[bytes]:
        emit()  # after events.jsonl was read
        return read(tail)

    monkeypatch.setattr(live.LiveTail, "read", late)
    tail = EventTail(recorder.folder)
    heard = [event for _ in range(20) for event in told(tail)]
    assert len(heard) > 20
    assert heard == events[: len(heard)]
    recorder.end("done")
    monkeypatch.setattr(live.LiveTail, "read", read)
    assert [*heard, *told(tail)][:-1] == events


def test_an_ended_job_keeps_none_in_the_long_run(recorder: JobRecorder) -> None:
    recorder.emit(sample(1))
    recorder.emit(Partial("toy.board", {"number": 7}))
    recorder.end("done", result={})
    assert numbers([event for _, event in read_events(recorder.id)]) == [1, 7]
    others = [new_record() for _ in range(5)]
    prune(jobs_folder())
    assert live_files(recorder.folder) == []
    assert numbers([event for _, event in read_events(recorder.id)]) == [7]
    for other in others:
        other.end("done")


def test_one_that_runs_keeps_them(recorder: JobRecorder) -> None:
    recorder.emit(sample(1))
    others = [new_record() for _ in range(6)]
    prune(jobs_folder())
    assert len(live_files(recorder.folder)) == 1
    for other in (*others, recorder):
        other.end("done")


def test_what_is_no_file_of_ours_is_left_alone(recorder: JobRecorder) -> None:
    (recorder.folder / "live.x.jsonl").write_text("{}\n")
    (recorder.folder / "live.7.jsonl").mkdir()
    recorder.emit(sample(1))
    assert numbers(told(EventTail(recorder.folder))) == [1]
    (recorder.folder / "live.0.jsonl").write_bytes(b'{"t": NaN}\nhello\n\xff\xfe\n{"t": 1}')
    tail = EventTail(recorder.folder)
    assert {type(event) for event in told(tail)} <= {LogLine}
    recorder.end("done")
