"""The view Doctor: a board examined step by step; what would mend it is listed, never run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from textual import on

from engine import sanitize
from engine.wire.devices import EXAMINED
from engine.wire.doctor import Checks
from rknntui.keys.text import key_text
from rknntui.screens.devices.text import check_lines
from rknntui.widgets.findings import wrapped
from rknntui.widgets.side_pane import SidePane

if TYPE_CHECKING:
    from engine.wire.doctor import Check
    from rknntui.session.job_view_model import JobView
    from rknntui.widgets.strips import Line


@dataclass
class _Examination:
    """What was found so far; ``error`` says why there is no more."""

    job: JobView
    checks: list[Check] = field(default_factory=list)
    error: str = ""


class DoctorPane(SidePane):
    """The last examination of each board; it grows while it runs."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self._known: dict[str, _Examination] = {}
        self._shown = ""
        self._model = ""

    @property
    def running(self) -> list[str]:
        """Ids of the jobs that have not ended."""
        return [found.job.id for found in self._known.values() if found.job.running]

    def show(self, device: str, model: str) -> None:
        """Show the examination of a board; empty for none.

        Args:
            device: id of the board.
            model: name of the compiled model that would be run there; empty for none.
        """
        again = device == self._shown
        self._shown, self._model = device, model
        self._lay_out(keep_cursor=again)

    def follow(self, device: str, job: JobView) -> None:
        """Its job was started."""
        self._known[device] = _Examination(job)
        self.changed(job)

    def changed(self, job: JobView) -> None:
        """Take the steps that a job has told."""
        for device, found in self._known.items():
            if found.job is job:
                told = [EXAMINED.of(event) for event in job.partials]
                found.checks = [check for check in told if check is not None]
                if device == self._shown:
                    self._lay_out(keep_cursor=True)

    def ended(self, job: JobView, result: object) -> None:
        """A job is over."""
        for found in self._known.values():
            if found.job is job and isinstance(result, Checks):
                found.checks = list(result.checks)
            elif found.job is job and job.error is not None:
                told = " ".join(str(job.error.get(part) or "") for part in ("what", "remedy"))
                found.error = told.strip()
        self._lay_out(keep_cursor=True)

    @on(SidePane.Resized)
    def _rewrap(self) -> None:
        self._lay_out(keep_cursor=True)

    def _lay_out(self, *, keep_cursor: bool) -> None:
        width = max(20, (self.scrollable_content_region.width or 40) - 1)
        self.set_lines(self._made(width), keep_cursor=keep_cursor)

    def _made(self, width: int) -> list[Line]:
        run, name = key_text("devices.run"), sanitize(self._shown, 80)
        if not self._shown:
            return [[("No board is in the list.", "dim")]]
        found = self._known.get(self._shown)
        if found is None:
            text = (
                "examines the board from the cable to the driver; settings and system files are "
                "not changed"
            )
            if self._model:
                text += f". Runs {sanitize(self._model, 80)} there once, with zeros"
            first, *rest = wrapped(text, width - len(run) - 2, "")
            return [[(f" {run} ", "key"), *first], *rest]
        bad = sum(check.state == "bad" for check in found.checks)
        verdict = f"{bad} problem{'s' if bad != 1 else ''}" if bad else "no problem found"
        if found.job.running:
            head = ("  examining…", "accent")
        elif found.error:
            head = ("  ✗ not examined to its end", "bad")
        else:
            head = (f"  {verdict}", "bad" if bad else "good")
        lines: list[Line] = [[(name, "head"), head], *check_lines(found.checks, width)]
        if found.error:
            lines += wrapped(f"✗ {sanitize(found.error, 1000)}", width, "bad")
        if any(check.commands for check in found.checks):
            told = f"{key_text('devices.copy')} copies the command under the cursor; none is run."
            lines += [[], *wrapped(told, width, "dim")]
        return lines

    def line_text(self) -> str:
        """What stands under the cursor: of a command without its sign."""
        if not self.lines:
            return ""
        return "".join(text for text, _ in self.lines[self.cursor]).strip().removeprefix("$ ")
