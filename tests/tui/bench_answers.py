"""A list of boards, and jobs on them, in the place of the worker's: Bench needs no board."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from engine import JobCancelledError, UsageError
from engine.wire.board import (
    About,
    BoardFacts,
    BoardState,
    SystemMemory,
    Temperature,
    VersionRow,
)
from engine.wire.codec import encode
from engine.wire.devices import Device, DeviceListParams, Listing, PerfLook
from engine.wire.doctor import Check
from engine.wire.monitor import BOARD, SAMPLE, BoardSample
from rknntui.bridge import Bridge
from rknntui.session import background
from rknntui.session.job_view_model import JobView
from rknntui.session.state import Session
from tests.tui.board_answers import ran

__all__ = [
    "ABOUT",
    "HEAD",
    "LOCKED",
    "READY",
    "Answers",
    "Watches",
    "answers",
    "perf_look",
    "sample",
    "watches",
]

READY = Device("adb:ready1", "adb", "ready", "The board ready1 is ready.", model="rk3588_evb")
LOCKED = Device(
    "adb:locked",
    "adb",
    "unauthorized",
    "The board locked does not know this machine.",
    cause="Its screen asks whether it trusts this machine.",
    remedy="Confirm it there.",
)
ABOUT = About(
    BoardFacts("adb:ready1", "emulated", "RK3588", "an EVB", "ready1", "Debian 11", "5.10", 3),
    BoardState(
        npu_load=(10.0, 0.0, 50.0),
        npu_clock=1_000_000_000,
        temperatures=(Temperature("npu-thermal", 45.2),),
        memory=SystemMemory(8 << 30, 6 << 30),
        missing=(("ddr_clock", "this kernel has no node for it"),),
    ),
    (VersionRow("driver", "0.9.8"), VersionRow("runtime", note="there is none")),
    (Check("chip", "bad", "the model is for rk3566", "compile it for rk3588"),),
)


_RAN = ran()
HEAD: dict[str, Any] = {
    name: getattr(_RAN, name) for name in ("label", "device", "chip", "runtime", "driver")
}


class Answers:
    """What the worker would say; a test changes it."""

    def __init__(self) -> None:
        self.listing: Listing | Exception = Listing((READY,))
        self.asked: list[tuple[str, Any]] = []
        self.of: dict[str, Any] = {"board.about": ABOUT}

    def times(self, method: str) -> int:
        return sum(name == method for name, _ in self.asked)

    async def call(self, bridge: Bridge, method: Any, params: Any) -> Any:
        self.asked.append((method.name, params))
        answer = self.of.get(method.name)
        if method.name == "devices.list":
            answer = self.listing
            if isinstance(params, DeviceListParams) and isinstance(answer, Listing):
                if any(" " in address for address in params.ssh):
                    raise UsageError("It is not the address of a board.")
                named = [Device(n, "ssh", "not asked", "Not asked yet.") for n in params.ssh]
                answer = replace(answer, devices=(*answer.devices, *named))
        if isinstance(answer, Exception):
            raise answer
        if answer is None:
            raise JobCancelledError(f"Nobody answers {method.name} in this test.")
        return answer


class Watches:
    """In the place of the worker's jobs: what was started, and what they tell."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.jobs: list[JobView] = []
        self.params: list[Any] = []
        self.discarded: list[str] = []
        self.taken = asyncio.Event()
        """Cleared by a test: the worker has not taken the jobs yet."""
        self.taken.set()
        self.refused: Exception | None = None
        watches = self
        # no job that a test did not ask for
        monkeypatch.setattr(background, "built_unseen", lambda _: None)

        async def submit(
            bridge: Bridge, method: Any, params: Any, title: str, *, quiet: bool = False
        ) -> JobView:
            number = len(watches.jobs)
            view = JobView(f"job{number}", method.name, title, 0.0, encode(params), quiet=quiet)
            view.background = True
            watches.jobs.append(view)
            watches.params.append(params)
            await watches.taken.wait()
            if watches.refused is not None:
                raise watches.refused
            bridge._session.jobs.started(view)
            return view

        def finish(bridge: Bridge, job_id: str) -> None:
            watches.end(bridge._session, bridge._session.jobs[job_id], "done")

        monkeypatch.setattr(Bridge, "submit", submit)
        monkeypatch.setattr(Bridge, "finish", finish)
        monkeypatch.setattr(Bridge, "discard", lambda bridge, job: self.discarded.append(job))

    def end(self, session: Session, view: JobView, state: str, result: object = None) -> None:
        view.state = state
        session.job_ended(view, result)

    def tell(self, session: Session, *pieces: BoardFacts | BoardSample) -> None:
        for piece in pieces:
            self.jobs[-1].apply(
                BOARD.event(piece) if isinstance(piece, BoardFacts) else SAMPLE.event(piece)
            )
        session.jobs.changed(self.jobs[-1])


def sample(at: float, load: float, device: str = READY.id) -> BoardSample:
    return BoardSample(device, at, replace(ABOUT.state, npu_load=(load, 0.0, 50.0)))


def perf_look(at: float, fps: float, **more: Any) -> PerfLook:
    """What a run tells meanwhile."""
    told: dict[str, Any] = {
        "at": at, "cores": "auto", "threads": 1, "count": int(at * fps),
        "frames_per_second": fps, "median": 5180.0, "p90": 5310.0, "p99": 6020.0,
        "celsius": {"npu-thermal": 61.0}, "clocks": {"NPU": 1_000_000_000},
    }  # fmt: skip
    return PerfLook(**(HEAD | told | more))


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    told = Answers()

    async def call(bridge: Bridge, method: Any, params: Any) -> Any:
        answer = await told.call(bridge, method, params)
        bridge._session.answered(answer)
        return answer

    monkeypatch.setattr(Bridge, "call", call)
    return told


@pytest.fixture
def watches(monkeypatch: pytest.MonkeyPatch) -> Watches:
    return Watches(monkeypatch)
