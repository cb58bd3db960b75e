"""Waiting until the interface has nothing left to do, in the place of Textual's fixed pauses.

Textual's pilot sleeps 20 ms twice for every key, and on until the process uses little CPU. What is
to be done is known: messages that wait or are handled, callbacks, a screen to be drawn, timers that
run out soon, and the tasks that ask the engine.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic, process_time

import pytest
import textual.app
import textual.pilot
from textual._context import active_app
from textual.app import App
from textual.message import Message
from textual.message_pump import MessagePump

__all__ = ["calm", "wait_by_what_is_left"]

TURNS = 4
"""Turns of the loop without anything to do after which there is nothing: an answer that just came
in takes one to become a message."""

ANSWERS = 0.04
"""Seconds that a key gives to what it asked of the engine."""

RESTS = 0.3
"""Timers of at most so many seconds are waited for where a test lets the cursor rest."""


async def calm(app: App[object], answers: float, *, rests: bool = False) -> None:
    """Wait until ``app`` has handled and drawn everything.

    Args:
        app: the interface.
        answers: seconds that are given to what is asked of the engine or done in threads. It also
            bounds handlers that wait for something while the process does nothing.
        rests: wait for short timers too, such as the one of a cursor that rests.
    """
    asked = monotonic() + answers
    quiet = 0
    while quiet < TURNS:
        await asyncio.sleep(0)
        quiet += 1
        if _handles(app):
            quiet = 0
            used = process_time()
            await asyncio.sleep(0.001)
            if monotonic() > asked and process_time() - used < 0.0002:
                return
        elif _drawn(app):
            quiet = 0
        elif (rests and _rests(app)) or (_asks(app) and monotonic() < asked):
            quiet = 0
            await asyncio.sleep(0.002)


def _pumps(app: App[object]) -> Iterator[MessagePump]:
    yield app
    yield from tuple(app._registry)


def _handles(app: App[object]) -> bool:
    """Whether a message waits or is handled."""
    return any(
        pump._next_callbacks
        or pump._pending_message is not None
        or pump.message_queue_size
        or pump in _handling
        for pump in _pumps(app)
        if not pump._closed
    )


def _drawn(app: App[object]) -> bool:
    """Draw the screen if it needs that; its own timer does so up to 17 ms later."""
    if not app._screen_stack or app._batch_count or app._exit:
        return False
    screen = app.screen
    needs = (
        screen._layout_required
        or screen._scroll_required
        or screen._repaint_required
        or screen._recompose_required
        or screen._dirty_widgets
        or screen._callbacks
    )
    if needs:
        screen._on_timer_update()
    return bool(needs)


def _asks(app: App[object]) -> bool:
    """Whether something is asked of the engine, or done beside the interface."""
    return any(worker.is_running for worker in app.workers)


def _rests(app: App[object]) -> bool:
    """Whether a short timer has yet to run out."""
    return any(
        timer._repeat == 0
        and timer._interval <= RESTS
        and timer._task is not None
        and not timer._task.done()
        for pump in _pumps(app)
        for timer in tuple(pump._timers)
    )


_handling: Counter[MessagePump] = Counter()
"""How many messages a pump handles just now: one may be handled within another."""

_dispatch = MessagePump._dispatch_message
_wait_for_idle = textual.app.wait_for_idle


async def _counted(pump: MessagePump, message: Message) -> None:
    _handling[pump] += 1
    try:
        await _dispatch(pump, message)
    finally:
        _handling[pump] -= 1
        if not _handling[pump]:
            del _handling[pump]


async def _wait(min_sleep: float = 0, max_sleep: float = 1) -> None:
    """In the place of Textual's ``wait_for_idle``."""
    try:
        app = active_app.get()
    except LookupError:
        await _wait_for_idle(min_sleep, max_sleep)
    else:
        await calm(app, ANSWERS)


@contextmanager
def wait_by_what_is_left() -> Iterator[None]:
    """Let Textual's pilot wait with :func:`calm`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MessagePump, "_dispatch_message", _counted)
        patch.setattr(textual.app, "wait_for_idle", _wait)
        patch.setattr(textual.pilot, "wait_for_idle", _wait)
        yield
