"""Many short files of a board by one program: for boards where no agent can run all the time.

``head`` writes ``==> PATH <==`` before each of several files (POSIX; so do busybox and toybox).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from engine.devices.probe.reading import ran
from engine.devices.transport import Transport

_LINES = "100"
_OUTPUT_LIMIT = 1 << 18
_MOST_LETTERS = 2500
_HEADING = re.compile(r"(?m)^==> (\S{1,300}) <==\n")


def read_together(
    transport: Transport, paths: Sequence[str]
) -> tuple[dict[str, str | None], dict[str, str]] | None:
    """The first 100 lines of files, which end in a line feed of their own or not.

    Whatever a file holds, it is never taken for another one that was asked for before it.

    Args:
        transport: the board.
        paths: absolute; two at least.

    Returns:
        Path -> text, None where there is none; and path -> what the system said where it may not be
        read. None where the board has no such ``head``.

    Raises:
        DeviceLostError: the board has gone.
        DeviceTimeoutError: it does not answer.
    """
    values: dict[str, str | None] = dict.fromkeys(paths)
    reasons: dict[str, str] = {}
    for some in _portions(paths):
        done = ran(transport, ["head", "-n", _LINES, *some], limit=_OUTPUT_LIMIT)
        if done is None:
            return None
        text = done.text
        said = text + done.err.decode("utf-8", "replace")
        for line in said.splitlines()[:1000]:
            if line.startswith("head: ") and "denied" in line.lower():
                reasons |= {path: line[:300] for path in some if path in line}
        headings = list(_HEADING.finditer(text))
        waiting = list(some)
        for at, heading in enumerate(headings):
            # they come in the order in which they were asked for; an emulated board has a folder
            # before the path
            heard = next((p for p in waiting if heading[1].endswith(p)), None)
            if heard is None:
                continue
            del waiting[: waiting.index(heard) + 1]
            end = headings[at + 1].start() if at + 1 < len(headings) else len(text)
            values[heard] = text[heading.end() : end]
    return (values, reasons) if any(text is not None for text in values.values()) else None


def _portions(paths: Sequence[str]) -> Iterator[Sequence[str]]:
    """As many as a command may have; of a single file there would be no heading."""
    some: list[str] = []
    for path in paths:
        if len(some) > 1 and sum(map(len, some)) + len(path) > _MOST_LETTERS:
            yield some
            some = some[-1:]
        some.append(path)
    yield some
