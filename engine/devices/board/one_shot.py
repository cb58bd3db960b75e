"""The agent as a program that is run once for each request, on boards of old adbd."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from engine.base.errors import DeviceError, DeviceLostError, DeviceTimeoutError
from engine.base.files import output_errors
from engine.base.peers.far import Message, ProtocolError, decode
from engine.base.plain import JsonObject
from engine.base.text import sanitize
from engine.devices.board.answers import hang_error, mapping, misfit_error
from engine.devices.transport import LINE_LIMIT, Completed, Moved, Transport
from engine.devices.transports.shared import ending

Step = tuple[str, JsonObject]
"""A method of the agent and its parameters."""

_REPLY_LIMIT = 2 * LINE_LIMIT
_START_SECONDS = 30.0


class OneShotAgent:
    """Requests go to the board as a file, and their answers come back as one.

    Args:
        transport: the board.
        words: what starts the agent.
        folder: path on the board of a folder for the two files.
        place: folder of this machine.
        check: called ten times a second; what it raises ends the program.
        moved: told how far a transfer is.

    Attributes:
        lost: whether the board has gone.
    """

    def __init__(
        self,
        transport: Transport,
        words: Sequence[str],
        folder: str,
        place: Path,
        check: Callable[[], object],
        moved: Moved,
    ) -> None:
        self._transport, self._words, self._check, self._moved = transport, words, check, moved
        self._request, self._reply = f"{folder}/request.json", f"{folder}/reply.json"
        self._place = place
        self.lost = False

    def ask(self, steps: Sequence[Step], seconds: float) -> Message:
        """Run the agent for these requests.

        Args:
            steps: methods and parameters; what one opens is there for the next.
            seconds: that all may take together.

        Returns:
            The answer to the last, or the first error.
        """
        method = steps[-1][0]
        source = self._place / "request.json"
        asked = {"requests": [list(step) for step in steps], "seconds": seconds}
        with output_errors(source):
            source.write_text(json.dumps(asked), "ascii")
        begun = time.monotonic()
        try:
            self._transport.remove([self._reply])
            self._transport.push(source, self._request, moved=self._moved)
            ended = self._run(seconds, method)
            there = self._transport.read(self._reply, limit=_REPLY_LIMIT)
        except DeviceLostError:
            self.lost = True
            raise
        finally:
            source.unlink(missing_ok=True)
            if not self.lost:
                with contextlib.suppress(DeviceError):
                    self._transport.remove([self._request, self._reply])
        if there is None:
            last = _last_line(ended.out + ended.err)
            how, why = ending(ended.code)
            raise DeviceError(
                f"The program on {self._transport.name} {how}, without an answer.",
                cause=f"{why} It said last: {last}" if last else why,
                remedy="Try again. Where it stays so, the runtime library of the board crashes "
                "with this model.",
            )
        answer = _last_answer(there, len(steps))
        if "error" in answer and time.monotonic() - begun >= seconds:  # it ended itself
            raise hang_error(self._transport.name, method, seconds)
        return answer

    def _run(self, seconds: float, method: str) -> Completed:
        """Run the program of the board, looking after the caller meanwhile."""
        words = [*self._words, "--request", self._request, "--reply", self._reply]
        try:
            return self._transport.run(words, seconds=seconds + _START_SECONDS, check=self._check)
        except DeviceTimeoutError as error:
            raise hang_error(self._transport.name, method, seconds) from error


def _last_line(output: bytes) -> str:
    lines = output.decode("utf-8", "replace").strip().splitlines()
    return sanitize(lines[-1], 300) if lines else ""


def _last_answer(content: bytes, count: int) -> Message:
    try:
        answers: Any = decode(content).get("answers")
    except ProtocolError as error:
        raise misfit_error(str(error)) from None
    if not isinstance(answers, list) or not 0 < len(answers) <= count:
        raise misfit_error(f"there are no {count} answers")
    parsed = [mapping(answer, "an answer") for answer in answers]
    failed = next((dict(answer) for answer in parsed if "error" in answer), None)
    if failed is None and len(parsed) != count:
        raise misfit_error(f"there are {len(parsed)} answers to {count} requests")
    return failed or dict(parsed[-1])
