"""One job: its stages with progress stand on top, its log runs below; alone or under a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.binding import Binding
from textual.containers import Vertical
from textual.geometry import Region

from engine.wire.formats import DURATION, PROGRESS
from rknntui.session.job_view_model import job_title
from rknntui.widgets.divider import Divider
from rknntui.widgets.line_list import Rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult

    from engine import LogLine, StageProgress
    from rknntui.session.job_view_model import JobView
    from rknntui.widgets.record_view import RecordView
    from rknntui.widgets.strips import Line

LEVELS = {"warning": ("! ", "warn"), "error": ("✗ ", "bad"), "debug": ("  ", "dim")}
STAGES_SHOWN = 8


def bar(fraction: float, width: int) -> str:
    """A bar of blocks; readable without colour."""
    full = round(max(0.0, min(1.0, fraction)) * width)
    return "█" * full + "░" * (width - full)


class JobPane(Rows):
    """Stages and log of a job. ``f`` follows the end of the log; moving up stops that."""

    BINDINGS = [Binding("f", "follow", "Follow", show=False, tooltip="Follow the end of the log.")]

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.job: JobView | None = None
        self.head = 0
        self.following = True
        self._logged = -1
        self.found: Sequence[LogLine] | None = None
        self.words = ""
        self._total = 0

    @property
    def _lines(self) -> Sequence[LogLine]:
        """What is shown: the lines that were found, else the log."""
        if self.found is not None:
            return self.found
        return self.job.log if self.job is not None else ()

    @property
    def row_count(self) -> int:
        return len(self._lines)

    def show_found(self, lines: Sequence[LogLine] | None, total: int = 0, words: str = "") -> None:
        """Show only these lines of the log (None: all).

        Args:
            lines: that were found, the newest of them.
            total: how many there are.
            words: what they have.
        """
        self.found, self._total, self.words = lines, total, words
        self.rows_changed(keep_cursor=False)
        self._to_end()

    def set_job(self, job: JobView | None) -> None:
        """Show a job, or its latest state."""
        other = job is not self.job
        if other and (job is None or self.job is None or job.id != self.job.id):
            self.found, self.words = None, ""
        self.job = job
        head = 2 + len(stages_shown(job)) if job is not None else 0
        logged = job.logged if job is not None else 0
        if other:
            self.following = True
        if other or head != self.head or logged != self._logged:
            self.head, self._logged = head, logged
            self.rows_changed(keep_cursor=not other)
            if self.following:
                self._to_end()
        else:
            self.refresh(Region(0, 0, self.size.width, self.head))

    def _to_end(self) -> None:
        self.set_reactive(Rows.cursor, max(0, self.row_count - 1))
        self.scroll_to(y=self.virtual_size.height, animate=False, force=True)
        self.refresh()

    def head_line(self, y: int, width: int) -> Line:
        job = self.job
        if job is None:
            return []
        if y == 0:
            return self._title(job)
        shown = stages_shown(job)
        if y - 1 < len(shown):
            stage, indent = shown[y - 1]
            return stage_line(stage, job.state, indent, width)
        if self.found is not None:
            few = (
                "" if len(self.found) == self._total else f", the last {len(self.found):,} of them"
            )
            text = f"── {self._total:,} line{'s' * (self._total != 1)} with “{self.words}”{few} "
            return [(text + "─" * max(0, width - len(text)), "accent")]
        return [("─" * width, "dim")]

    def _title(self, job: JobView) -> Line:
        style = {"done": "good", "failed": "bad", "lost": "bad", "cancelled": "warn"}.get(
            job.state, "accent"
        )
        state = "stopping" if job.cancelling and job.running else job.state
        line: Line = [(f"{job_title(job.method, job.title)}  ", "head"), (state, style)]
        if job.running:
            line.append((f" {PROGRESS.text(job.fraction)}", ""))
        else:
            line.append((job.took, "dim"))
        if not job.ours and job.running:
            line.append(("  found again", "dim"))
        return line

    def row_line(self, index: int, width: int) -> Line:
        from engine import sanitize

        entry = self._lines[index]
        sign, style = LEVELS.get(entry.level, ("  ", ""))
        return [(sign, style), (sanitize(entry.text, 1000), style)]

    def watch_cursor(self, old: int, new: int) -> None:
        self.following = new >= self.row_count - 1
        super().watch_cursor(old, new)

    def action_follow(self) -> None:
        """Go to the end of the log and stay there."""
        self.following = True
        self._to_end()

    def text(self) -> str:
        """The log as plain text."""
        return "\n".join(entry.text for entry in self._lines)


class WithJob(Vertical):
    """A table; while a job runs, its stages and log are below."""

    DEFAULT_CSS = """
    WithJob {
        & > RecordView { height: 3fr; }
        & > JobPane { height: 2fr; display: none; }
    }
    """

    def __init__(self, view: RecordView, *, id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self.view = view

    def compose(self) -> ComposeResult:
        yield self.view
        yield Divider("job-divider")
        yield JobPane()

    def show_job(self, job: JobView | None) -> None:
        """Show a job while it runs."""
        pane = self.query_one(JobPane)
        pane.set_job(job)
        shown = job is not None and job.running
        if shown != bool(pane.display):
            pane.display = shown
            self.call_after_refresh(self._reveal)

    def _reveal(self) -> None:
        """The table has other lines now: the row under the cursor stays in view."""
        self.view.table.reveal(self.view.table.cursor)


def stages_shown(job: JobView) -> list[tuple[StageProgress, str]]:
    """(stage, what stands before its title) of the stages; below one that is not over its steps."""
    lines: list[tuple[StageProgress, str]] = []
    for stage in job.stages.values():
        lines.append((stage, ""))
        if stage.seconds is None:
            lines += [(step, "  ") for step in stage.steps.values()]
    lines += [(step, "") for step in job.steps.values()]
    return lines[-STAGES_SHOWN:]


def stage_line(stage: StageProgress, state: str, indent: str, width: int) -> Line:
    """A stage or step: done, running, or where a job that is over came to its end."""
    title = f"{indent + stage.title:<24} "
    if stage.seconds is not None:
        how = "from the cache" if stage.cached else DURATION.text(stage.seconds)
        return [("✓ ", "good"), (title, ""), (how, "dim")]
    if state == "done":
        signs = ("✓ ", "good")
    else:
        signs = ("▶ ", "accent") if state == "running" else ("✗ ", "bad")
    if not stage.total:
        return [signs, (title, ""), (stage.note, "dim")]
    room = max(8, min(24, width - 52))
    count = f" {stage.done:,}/{stage.total:,} "
    return [
        signs,
        (title, ""),
        (bar(stage.fraction, room), "accent"),
        (count, ""),
        (stage.note, "dim"),
    ]
