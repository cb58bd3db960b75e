"""Whatever a board says: a result, or the error of its transport; never an exception of Python."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.base.text import sanitize
from engine.devices.doctor.diagnose import STEPS, diagnose
from engine.devices.doctor.resource_checks import parse_listing, parse_user
from engine.devices.probe.clocks import clock_paths, clock_plan
from engine.devices.probe.compatibility import ModelFacts, match
from engine.devices.probe.identify import chip_of, identify, system_name
from engine.devices.probe.reading import OUTPUT_LIMIT
from engine.devices.probe.state import once_paths, parse, read_state, watch_paths
from engine.devices.probe.versions import Version, read_versions, running
from engine.devices.transport import Completed
from engine.facts import chips
from tests.devices.probe.boards import Board, rk3588

CHIPS = [None, *(facts.name for facts in chips())]
PATHS = sorted(rk3588().files)
HOSTILE = "\x1b[2J\x1b]0;owned\x07[red]x[/red]\u202e\x00'; rm -rf / #$(reboot)`id`"
texts = st.one_of(
    st.binary(max_size=200),
    st.text(max_size=40).map(lambda text: b"NPU load:" + text.encode("utf-8", "replace")),
    st.sampled_from([HOSTILE.encode(), b"", b"\0", b"9" * 400, b"-1", b"nan", b"\xff\xfe"]),
)


def shown(value: Any) -> list[str]:
    """All texts of a result."""
    if isinstance(value, str):
        return [value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return shown(tuple(getattr(value, field.name) for field in dataclasses.fields(value)))
    if isinstance(value, tuple | list | frozenset):
        return [text for item in value for text in shown(item)]
    return []


def fit_to_be_shown(value: Any) -> None:
    for text in shown(value):
        assert text == sanitize(text, 3000), repr(text)
        assert len(text) <= 2500


class Everything(dict[str, bytes]):
    """Every file is there and holds the same."""

    def __init__(self, content: bytes) -> None:
        super().__init__(dict.fromkeys(PATHS, content))
        self.content = content

    def __contains__(self, _path: object) -> bool:
        return True

    def __getitem__(self, _path: str) -> bytes:
        return self.content

    def get(self, _path: str, _default: Any = None) -> bytes:
        return self.content


@given(content=texts, said=texts, code=st.integers(0, 255))
@example(content=HOSTILE.encode(), said=HOSTILE.encode(), code=0)
@example(content=b"\x7fELF" + b"\xff" * 30, said=b"\x7fELF", code=0)
@settings(max_examples=30)
def test_a_board_that_says_anything(content: bytes, said: bytes, code: int) -> None:
    names = ("uname", "ps", "dmesg", "getprop", "grep", "head", "ls", "id", "df")
    board = Board(Everything(content), {name: Completed(code, said, said) for name in names})
    identity = identify(board)
    versions = read_versions(board, identity.chip, identity.generation)
    state = read_state(board, identity.chip)
    fit_to_be_shown((identity, versions, state))
    model = ModelFacts(HOSTILE, 2, ("rk3588",), HOSTILE)
    found = tuple(diagnose(board, model=model, proc=Path("/nowhere")))
    assert {check.name for check in found} == set(STEPS)
    fit_to_be_shown(found)


@given(data=st.data(), chip=st.sampled_from(CHIPS))
@settings(max_examples=100)
def test_any_values_give_a_state_and_a_plan(data: st.DataObject, chip: str | None) -> None:
    paths = [*PATHS, *once_paths(chip), *watch_paths(chip), *(clock_paths(chip) if chip else ())]
    anything = st.none() | st.text(max_size=60) | texts.map(lambda raw: raw.decode("latin-1"))
    keys = st.sampled_from(paths) | st.text(max_size=20)
    values = data.draw(st.dictionaries(keys, anything, max_size=12))
    state = parse(values, chip)
    assert all(0 <= core <= 100 for core in state.npu_load or ())
    fit_to_be_shown(state)
    plan = clock_plan(chip, values)
    assert all(path.startswith("/sys/") and text.isalnum() for path, text in plan.values)


@given(st.text(max_size=300))
@example(HOSTILE)
@example("9" * 300)
@example("1." * 100)
def test_any_text_is_parsed_or_refused(text: str) -> None:
    chip_of([text, text])
    fit_to_be_shown(system_name(text))
    version = Version.parse(text)
    assert version is None or version <= version
    assert all(pid >= 0 for pid in running(text, "rknn_server"))
    parse_listing(text)
    fit_to_be_shown(parse_user(text))
    for chip in ("rk3588", "rk1808", None):
        fit_to_be_shown(match(read_versions(Board()), ModelFacts(text, 2, (text,), text), chip))


def test_ten_megabytes_are_cut_and_do_not_take_long() -> None:
    lines = b"root 1 2 rknn_server_not\n" * 400_000
    names = ("uname", "ps", "dmesg", "getprop", "grep", "head", "ls", "id", "df")
    for said in (lines, b"1." * (5 << 20)):
        board = Board(Everything(said), dict.fromkeys(names, said))
        found = tuple(diagnose(board, proc=Path("/nowhere")))
        fit_to_be_shown(found)
        assert max(board.limits) <= 48 << 20
        whole = sum(limit > OUTPUT_LIMIT for limit in board.limits)
        assert whole <= 40, "only libraries are read whole"
