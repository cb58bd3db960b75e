"""What is found in the log of a toolkit: levels, layers, steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.base.events import CallbackReporter, Event, LogLine
from engine.base.paths import private_folder, state_folder
from engine.toolkit.bridge.log import ToolkitLog, new_log

ABORTED = b"""\
\x1b[1;34mE rknn-toolkit2 version: 2.3.2\x1b[0m
D RKNN: [03:04:01.888] >>>>>> start: rknn::RKNNSubgraphManager
D RKNN: [03:04:01.888] <<<<<<<< end: rknn::RKNNSubgraphManager
D RKNN: [03:04:01.892] >>>>>> start: OpEmit
\x1b[1;31mE RKNN: [03:04:01.892] Meet unsupported conv, input tensor name: x input type: 3\x1b[0m
"""


@pytest.fixture
def told() -> list[Event]:
    return []


@pytest.fixture
def log(tmp_path: Path, told: list[Event]) -> ToolkitLog:
    return ToolkitLog(tmp_path / "toolkit.log", CallbackReporter(told.append))


def test_an_abort_names_its_layer_and_step(log: ToolkitLog) -> None:
    log.add(ABORTED)
    assert log.layer() == "x"
    assert log.step() == "OpEmit"
    assert log.errors() == (
        "E RKNN: [03:04:01.892] Meet unsupported conv, input tensor name: x input type: 3"
    )
    assert "\x1b" not in log.since(0)


@pytest.mark.parametrize(
    ("line", "layer"),
    [
        ("E build: Op name: 'Conv_12', op type: Conv", "Conv_12"),
        (
            "E RKNN: [01:02:03.004] failed to config layer: 'Resize:/up/Resize' using 3Core",
            "Resize:/up/Resize",
        ),
        ("E unsupported node '/head/TopK'", "/head/TopK"),
        ("W the layer before is large", ""),
        ("", ""),
    ],
)
def test_layers_are_named_in_several_ways(log: ToolkitLog, line: str, layer: str) -> None:
    log.add(f"{line}\n".encode())
    assert log.layer() == layer


def test_lines_come_whole_with_their_level(log: ToolkitLog, told: list[Event]) -> None:
    log.add(b"W load_onnx: it is ")
    log.add(b"old\nOpFusing: 10%\rOpFusing: 100%\n\nE [op_optimize:123] no\n")
    log.add(b"end without a line")
    log.close()
    assert told == [
        LogLine("W load_onnx: it is old", "warning"),
        LogLine("OpFusing: 100%", "info"),
        LogLine("E [op_optimize:123] no", "error"),
        LogLine("end without a line", "info"),
    ]
    assert log.path.stat().st_mode & 0o777 == 0o600


def test_a_bar_is_told_now_and_then(
    log: ToolkitLog, told: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.toolkit.bridge.log._BAR_SECONDS", -1.0)
    log.add("\rI Quantizating :  33%|███▍      | 1/3 [00:01<00:02]\r".encode())
    log.add("I Quantizating :  66%|██████▋   | 2/3 [00:02<00:01]".encode())
    log.add("\rI Quantizating : 100%|██████████| 3/3 [00:03<00:00]\n".encode())
    assert [one.text for one in told if isinstance(one, LogLine)] == [
        "I Quantizating :  33% 1/3 [00:01<00:02]",
        "I Quantizating :  66% 2/3 [00:02<00:01]",
        "I Quantizating : 100% 3/3 [00:03<00:00]",
    ]


def test_two_in_one_folder_have_two_logs(tmp_path: Path) -> None:
    first, second = (ToolkitLog.in_folder(tmp_path, None) for _ in range(2))
    first.add(b"one\n")
    second.add(b"two\n")
    for log in (first, second):
        log.close()
    assert (tmp_path / "toolkit.log").read_text() == "one\n"
    assert (tmp_path / "toolkit-2.log").read_text() == "two\n"
    again = ToolkitLog.in_folder(tmp_path, None)
    again.close()
    assert (tmp_path / "toolkit.log").read_text() == ""


def test_bytes_that_are_no_text_are_shown_as_such(log: ToolkitLog, told: list[Event]) -> None:
    log.add(b"\xff\xfe\x00\x1b]0;title\x07 \xe2\x80\xae\n" + b"x" * 200_000 + b"\n")
    assert all(isinstance(one, LogLine) and one.text.isprintable() for one in told)
    assert all(isinstance(one, LogLine) and len(one.text) <= 500 for one in told)


def test_marks_reach_over_the_part_that_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.toolkit.bridge.log._HEAD", 100)
    monkeypatch.setattr("engine.toolkit.bridge.log._TAIL", 50)
    log = ToolkitLog(tmp_path / "log", None)
    for number in range(100):
        log.add(b"%09d\n" % number)
    assert log.mark == 1000
    text = log.since(80)
    assert text.startswith("000000008\n000000009\n\n... 850 bytes are left out ...\n")
    assert text.endswith("000000098\n000000099\n")
    assert log.since(990) == "000000099\n"
    assert log.since(1000) == ""
    log.close()
    assert "850 bytes are left out" in log.path.read_text()
    assert log.since(0).startswith("000000000\n")


def test_of_logs_without_a_place_the_last_eight_stay() -> None:
    folder = private_folder(state_folder() / "logs")
    for day in range(10, 20):
        (folder / f"toolkit-202601{day}-000000-0-x.log").touch()
    (folder / "other.log").touch()
    path = new_log("mine")
    path.touch()
    names = sorted(one.name for one in folder.glob("toolkit-*"))
    assert len(names) == 8
    assert names[0].startswith("toolkit-20260113")
    assert names[-1] == path.name
    assert (folder / "other.log").exists()
