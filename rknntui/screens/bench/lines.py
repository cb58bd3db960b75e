"""The lines on top of Bench: a board in several, or a line for each of several boards."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from engine import human_bytes, sanitize
from engine.wire.board import HOT
from engine.wire.formats import MILLISECONDS, RATE, clock_text
from engine.wire.monitor import ReplayParams
from rknntui.keys.actions import key_text
from rknntui.screens.bench.tracks import BoardTrack, Track
from rknntui.widgets.charts import bars
from rknntui.widgets.findings import wrapped
from rknntui.widgets.one_line import Fact, fit_facts
from rknntui.widgets.strips import cells

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rknntui.screens.bench.boards import Watch
    from rknntui.screens.bench.live import Measuring
    from rknntui.session.state import Session
    from rknntui.widgets.strips import Line

_TRACE = 1e-9
_NEAR = 10.0
"""Degrees below the limit from which a temperature is marked."""
_ROOMY = 100


def spark(track: Track, room: int) -> str:
    """The last values of a figure, in so many cells."""
    values = track.values[-room:]
    drawn = (" " if v is None else bars([max(v, _TRACE)], 1, track.full)[0] for v in values)
    return f"{''.join(drawn):<{room}}"


def _row(parts: Sequence[tuple[int, Line]], width: int) -> Line:
    """Parts of a line; those of the highest rank are left out where there is no room."""
    shown = [part for part in parts if part[1]]
    while len(shown) > 1 and sum(cells(line) + 3 for _, line in shown) - 3 > width:
        shown.remove(max(reversed(shown), key=lambda part: part[0]))
    return [piece for _, line in shown for piece in (*line, ("   ", ""))][:-1]


def heat(celsius: float | None) -> tuple[str, str]:
    """The sign of a temperature and its style."""
    if celsius is None:
        return "–", "dim"
    if celsius >= HOT:
        return "✗", "bad"
    return ("!", "warn") if celsius >= HOT - _NEAR else ("✓", "good")


def rate_line(run: Measuring, width: int, estimate: str) -> Line:
    """Frames a second, percentiles, and what was estimated."""
    point, answer = run.point, run.answer
    long = 24 if width >= _ROOMY else 10
    guess: Line = [("estimated ", "dim"), (estimate, ""), (" FPS", "dim")] if estimate else []
    if point is None or answer is None or point.frames_per_second is None:
        if run.going:
            said: Line = [("FPS ", "dim"), (f"…  {run.stage}", "accent")]
        else:
            said = [("FPS –  ", "dim"), (f"{key_text('bench.run')} ", "key"), ("measures", "dim")]
        return _row([(0, said), (1, guess)], width)
    figures: list[tuple[int, Line]] = [
        (0, [("FPS ", "dim"), (RATE.text(point.frames_per_second), "head")])
    ]
    if (curve := run.curve.get("FPS")) is not None:
        figures[0][1].append((f" {spark(curve, min(long, len(curve.values)))}", "accent"))
    percentiles: Line = []
    for name, micros in (("p50", point.median), ("p90", point.p90), ("p99", point.p99)):
        if micros is not None:
            percentiles += [(f"{name} ", "dim"), (f"{MILLISECONDS.text(micros / 1000)}  ", "")]
    figures += [(0, [*percentiles, ("ms", "dim")]), (1, [(answer.label, "dim")]), (1, guess)]
    count = [(f"{point.count:,} inferences", "dim")]
    return _row([*figures, (3, count)], width)


def board_lines(board: BoardTrack, run: Measuring | None, width: int) -> list[Line]:
    """Load of each core and clocks; temperature, memory, throttling; what is wrong."""
    tracks, long = board.tracks, 12 if width >= _ROOMY else 5
    loads: list[tuple[int, Line]] = [
        (0, [(f"{name} ", "dim"), (f"{_now(track):>5} ", ""), (spark(track, long), "accent")])
        for name, track in board.loads.items()
    ]
    clocks: Line = []
    for part in ("NPU", "DDR", "CPU"):
        if (track := tracks.get(f"{part} clock")) is not None and track.now is not None:
            clocks += [(f"{part} ", "dim"), (f"{_now(track).removesuffix(' MHz')} ", "")]
    if clocks:
        fixed = run is not None and run.going and run.params is not None and run.params.fix_clocks
        loads.append((1, [*clocks, ("MHz fixed" if fixed else "MHz", "dim")]))
    rest: list[tuple[int, Line]] = []
    if (warm := tracks.get("temperature")) is not None:
        sign, style = heat(warm.now)
        line: Line = [("temperature ", "dim"), (f"{sign} {_now(warm)} ", style)]
        rest.append((0, [*line, (spark(warm, long), "accent")]))
        rest.append((2, [(f"hot from {HOT:g} °C (documented)", "dim")]))
    if (used := tracks.get("memory")) is not None:
        of = human_bytes(int(used.top))
        line = [("memory ", "dim"), (_now(used), ""), (f" of {of} ", "dim")]
        rest.append((0, [*line, (spark(used, long), "accent")]))
    if run is not None:
        rest += _of_run(run)
    lines = [_row(parts, width) for parts in (loads, rest) if parts]
    if board.problem:
        lines += wrapped(f"✗ {sanitize(board.problem, 400)}", width, "bad")
    if board.note:
        lines += wrapped(f"! {sanitize(board.note, 400)}", width, "warn")
    return lines


def _now(track: Track) -> str:
    return "–" if track.now is None else track.show(track.now)


def _of_run(run: Measuring) -> list[tuple[int, Line]]:
    """Memory of the model, and whether a clock fell."""
    point, answer = run.point, run.answer
    parts: list[tuple[int, Line]] = []
    if answer is not None and answer.memory is not None:
        parts.append((2, [("model ", "dim"), (human_bytes(answer.memory.total), "")]))
    if point is not None:
        fell = point.throttled
        said = ("! throttled", "warn") if fell else ("✓ no clock fell", "good")
        parts.append((0 if fell else 1, [said]))
    return parts


def head_text(
    board: str, chip: str, run: Measuring | None, file: str, watch: str, width: int
) -> list[Line]:
    """Which board, what runs there, and how far the run is."""
    answer = None if run is None else run.answer
    facts = [Fact(sanitize(board, 60)), Fact(sanitize(chip, 20) or "chip not known")]
    if answer is not None:
        runtime = sanitize(answer.runtime, 60).partition(" (")[0]
        facts += [Fact(f"runtime {runtime}", (), 2)]
        driver = sanitize(answer.driver, 60).partition(" (")[0]
        facts += [Fact(f"driver {driver}", (), 4)] if driver else []
    facts.append(Fact(sanitize(file, 60), (), 3))
    if run is not None and run.going:
        facts.append(Fact(f"▶ {clock_text(run.at)} of {clock_text(run.whole)}"))
    elif run is not None and run.result is None:
        facts.append(Fact(run.settings.words, (), 3))
    facts += [Fact(watch, (), 2)] if watch else []
    return [[(fit_facts(tuple(facts), width), "head")]]


def several_lines(boards: Sequence[tuple[BoardTrack, Measuring | None]], width: int) -> list[Line]:
    """A line for each board."""
    lines = []
    for board, run in boards:
        chip = "" if board.facts is None else sanitize(board.facts.chip, 12)
        parts: list[tuple[int, Line]] = [
            (0, [(f"{sanitize(board.device, 26):<26}", "head"), (f" {chip:<8}", "dim")])
        ]
        if run is not None and run.point is not None and run.point.frames_per_second is not None:
            parts.append((0, [("FPS ", "dim"), (RATE.text(run.point.frames_per_second), "")]))
        parts += [
            (1, [(f"{_now(track):>5} ", ""), (spark(track, 5), "accent")])
            for track in board.loads.values()
        ]
        if (warm := board.tracks.get("temperature")) is not None:
            sign, style = heat(warm.now)
            parts.append((0, [(f"{sign} {_now(warm)}", style)]))
        if (used := board.tracks.get("memory")) is not None:
            parts.append((2, [(_now(used), ""), (f" of {human_bytes(int(used.top))}", "dim")]))
        if board.problem:
            parts = [parts[0], (0, [(f"✗ {sanitize(board.problem, 60)}", "bad")])]
        lines.append(_row(parts, width))
    return lines


def model_name(path: str | None, recipe_model: object) -> str:
    """What runs, in few words."""
    if path:
        return Path(path).name
    return f"build of {Path(str(recipe_model)).name}" if recipe_model else "no model is open"


def page_lines(
    session: Session, run: Measuring, watch: Watch, board: str, file: str, width: int
) -> list[Line]:
    """What is seen now: of the board that is shown, or a line for each that is watched.

    Args:
        session: has the estimate, and the chips of boards.
        run: of the model.
        watch: of boards.
        board: id of the one that is used.
        file: what runs.
        width: cells.
    """
    ours = None if run.params is None else str(run.params.device)
    rows = [(track, run if name == ours else None) for name, track in watch.boards.items()]
    if len(rows) > 1:
        lines = several_lines(rows, width)
    else:
        track = rows[0][0] if rows else BoardTrack(board)
        own = run if ours in (None, track.device) else None
        chip = session.boards.chip_of(track.device)
        lines = head_text(track.device, chip, own, file, _watch_text(watch), width)
        lines += [] if own is None else [rate_line(own, width, _estimate(session))]
        lines += board_lines(track, own, width)
    if run.error:
        lines += wrapped(f"✗ {run.error}", width, "bad")[:3]
    return [*lines, *([[(watch.end, "")]] if watch.end else [])]


def _watch_text(watch: Watch) -> str:
    """What goes on beside the run."""
    if watch.paused:
        return f"paused ({key_text('bench.pause')} goes on)"
    if watch.recording:
        return f"recording to {sanitize(Path(watch.recording).name, 40)}"
    if watch.now is None:
        return f"{key_text('bench.watch')} watches"
    kind = "replay" if isinstance(watch.now, ReplayParams) else f"{watch.hertz:g} Hz"
    return f"▶ {kind}, {round(watch.at)} s"


def _estimate(session: Session) -> str:
    """Frames a second that were estimated for the chip; empty where they were not."""
    parts = [row.estimated for row in session.layers.of("estimated")]
    times = [part.time_ms for part in parts if part is not None and part.time_ms]
    return RATE.text(1000 / sum(times)) if times else ""
