"""The process for foreign converters: it may crash, hang, print and eat; that costs one call."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import (
    InternalError,
    JobCancelledError,
    SourceModelError,
    UnsupportedOperatorError,
    WorkerError,
)
from engine.base.events import CallbackReporter, NullReporter
from engine.base.peers.limits import resident_bytes
from engine.frontends import converter_process
from tests.base.confine import attack
from tests.base.confine.scene import DENIED, Scene, require_walls, scene
from tests.safety import ends

TOY = converter_process.Converter(
    "Toy", "tests.frontends.toy_converter", ("json",), ("toy~=1.0",), {"TOY_VARIABLE": "set"}
)


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(converter_process.FRAMEWORKS, "toy", TOY)
    yield
    converter_process.close("toy")


def ask(do: str, *, path: object = "", size: int = 0, **options: Any) -> dict[str, Any]:
    request = {"do": do, "path": str(path), "bytes": size}
    with converter_process.convert("toy", request, NullReporter(), **options) as (path, answer):
        assert path.read_bytes() == b"model"
        answer["path"] = path
    return answer


def ended(pid: int) -> bool:
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        if resident_bytes(pid) == 0:  # of a zombie, too
            return True
        time.sleep(0.02)
    return False


def test_one_child_serves_call_after_call_and_leaves_no_file() -> None:
    first, second = ask("write"), ask("write")
    assert first["pid"] == second["pid"]
    assert first["echo"]["do"] == "write"
    assert first["seen"]["TOY_VARIABLE"] == "set"
    assert not first["path"].parent.exists()
    converter_process.close("toy")
    assert ended(first["pid"])


def test_what_native_code_prints_goes_to_the_log_and_not_into_the_protocol() -> None:
    assert ask("noise")["findings"] == []
    log = converter_process.log_path(TOY).read_text()
    assert "noise of Python" in log
    assert "noise of native code" in log
    assert "forged" in log


def test_a_crash_costs_one_call() -> None:
    before = ask("write")["pid"]
    with pytest.raises(WorkerError, match="killed by SIGSEGV") as caught:
        ask("crash")
    assert str(converter_process.log_path(TOY)) in caught.value.remedy
    assert "Segmentation fault" in converter_process.log_path(TOY).read_text()
    assert ask("write")["pid"] != before


def test_errors_of_the_child_come_out_as_they_were_raised() -> None:
    with pytest.raises(UnsupportedOperatorError) as caught:
        ask("refuse")
    assert (caught.value.cause, caught.value.remedy) == ("nobody knows it", "cut")
    with pytest.raises(InternalError, match="ZeroDivisionError: a mistake"):
        ask("mistake")
    assert "Traceback" in converter_process.log_path(TOY).read_text()


def test_a_hang_is_ended_after_its_time() -> None:
    pid = ask("write")["pid"]
    with pytest.raises(WorkerError, match="more than 0 s"):
        ask("hang", seconds=0.3)
    assert ended(pid)


def test_memory_that_grows_is_stopped() -> None:
    with pytest.raises(WorkerError, match="more than 64 MiB"):
        ask("eat", growth=64 << 20, seconds=20)


def attacked(place: Scene, given: Path, secret: Path) -> dict[str, Any]:
    """What came of an attack by a converter that was given a file."""
    require_walls()
    keywords = place.given | {"given": str(given), "secret": str(secret)}
    del keywords["folder"]
    request = {"do": "reach", "given": keywords}
    with converter_process.convert("toy", request, NullReporter(), reads=[given]) as (_, answer):
        return answer


def test_the_child_reaches_nothing_but_its_request_and_its_folder() -> None:
    own = attack.of_its_own("", "")
    with scene(os.geteuid()) as place:
        said = attacked(place, Path(place.given["given"]), place.secret)["said"]
        place.check_untouched()
    assert {name for name, how in said.items() if how == "done"} == set(own)
    assert {how for name, how in said.items() if name not in own} <= DENIED


def test_the_next_request_does_not_read_what_the_first_one_named() -> None:
    with scene(os.geteuid()) as place:
        first, second = Path(place.given["given"]), place.secret
        answers = [attacked(place, first, second), attacked(place, second, first)]
    for answer in answers:
        assert answer["said"]["read what is given"] == "done"
        assert answer["said"]["read a secret"] == "Permission denied"
    assert answers[0]["pid"] == answers[1]["pid"]


def test_what_the_sandbox_refuses_is_an_error_of_ours(tmp_path: Path) -> None:
    require_walls()
    (tmp_path / "elsewhere").write_bytes(b"x")
    with pytest.raises(WorkerError, match=r"was refused .*elsewhere: Permission denied") as caught:
        ask("open", path=tmp_path / "elsewhere")
    assert "sandbox" in caught.value.cause
    assert caught.value.remedy


def test_a_burst_of_memory_fails_in_the_child() -> None:
    with pytest.raises(WorkerError, match="Memory ran out"):
        ask("allocate", size=2 << 30, growth=64 << 20)
    assert ask("write")["findings"] == []


def test_a_file_that_grows_without_end_is_stopped() -> None:
    with pytest.raises(WorkerError, match="File too large"):
        ask("fill", size=4 << 30, growth=64 << 20)


def test_a_temporary_folder_that_is_not_there_is_an_error_of_ours(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    converter_process.close("toy")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(WorkerError, match="No folder for the conversion") as caught:
        ask("write")
    assert "TMPDIR" in caught.value.remedy


def test_cancelling_kills_the_child_at_once() -> None:
    pid = ask("write")["pid"]
    asked = itertools.count()  # the third look finds that it was cancelled
    reporter = CallbackReporter(lambda _: None, lambda: next(asked) > 2)
    with (
        ends(),
        pytest.raises(JobCancelledError),
        converter_process.convert("toy", {"do": "hang"}, reporter),
    ):
        pass
    assert ended(pid)


def test_a_child_that_ended_by_itself_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    pid = ask("write")["pid"]
    child = converter_process._children["toy"].child
    # as after two idle minutes, but seen only when the request was already written
    monkeypatch.setattr(type(child), "alive", True)
    child.peer.hang_up()
    assert ended(pid)
    read, write = os.pipe()
    os.close(read)
    child.peer._writes = os.fdopen(write, "wb", buffering=0)
    assert ask("write")["pid"] != pid


def test_a_child_ends_with_its_parent_also_while_it_works() -> None:
    code = (
        "import os, threading; from engine.frontends import converter_process;"
        "from engine.base.events import NullReporter;"
        "from tests.frontends import test_converter_process;"
        "converter_process.FRAMEWORKS['toy'] = test_converter_process.TOY;"
        "c = converter_process.convert('toy', {'do': 'write'}, NullReporter());"
        "print(c.__enter__()[1]['pid'], flush=True);"
        "threading.Timer(0.3, os._exit, (1,)).start();"
        "converter_process.convert('toy', {'do': 'eat'}, NullReporter()).__enter__()"
    )
    parent = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(converter_process.__file__).parents[2],
    )
    assert ended(int(parent.stdout)), parent.stderr


def test_threads_take_turns() -> None:
    answers: list[dict[str, Any]] = []
    threads = [threading.Thread(target=lambda: answers.append(ask("write"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({answer["pid"] for answer in answers}) == 1
    assert len(answers) == 4


def test_a_framework_that_is_not_installed_is_named_with_the_line_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    absent = converter_process.Converter("Toy", "nowhere", ("json", "no_such_module"), "toy")
    lines = ["toy[all]~=1.0; extra == 'toy'", "other>=2"]
    monkeypatch.setattr("engine.base.version.metadata.requires", lambda _name: lines)
    monkeypatch.setitem(converter_process.FRAMEWORKS, "toy", absent)
    with pytest.raises(SourceModelError, match="no_such_module is not installed") as caught:
        ask("write")
    assert caught.value.remedy == f"{sys.executable} -m pip install 'toy[all]~=1.0'"
    assert "toy" not in converter_process._children
