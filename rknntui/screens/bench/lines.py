"""The lines on top of Bench: a board in several, or a line for each of several boards."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from engine import sanitize
from engine.wire.formats import CELSIUS, MILLISECONDS, RATE, SIZE, clock_text
from engine.wire.monitor import ReplayParams
from rknntui.keys.actions import key_text, with_keys
from rknntui.screens.bench.tracks import BoardTrack, Track
from rknntui.widgets.charts import bars
from rknntui.widgets.one_line import Fact, fit_facts
from rknntui.widgets.strips import cells
from rknntui.widgets.wrap import wrapped

if TYPE_CHECKING:
    from rknntui.screens.bench.live import Measuring, Watch
    from rknntui.session.state import Session
    from rknntui.widgets.strips import Line

_TRACE = 1e-9
_NEAR = 10.0
"""Degrees below the limit from which a temperature is marked."""
_ROOMY = 100

Part = tuple[int, "Line"]
"""A part of a line; those of the highest rank are left out where there is no room."""


def spark(track: Track, room: int) -> str:
    """The last values of a figure, in so many cells."""
    values = track.values[-room:]
    drawn = (" " if v is None else bars([max(v, _TRACE)], 1, track.full)[0] for v in values)
    return f"{''.join(drawn):<{room}}"


def _row(parts: list[Part], width: int) -> Line:
    shown = [part for part in parts if part[1]]
    while len(shown) > 1 and sum(cells(line) + 3 for _, line in shown) - 3 > width:
        shown.remove(max(reversed(shown), key=lambda part: part[0]))
    return [piece for _, line in shown for piece in (*line, ("   ", ""))][:-1]


def _figure(
    name: str, track: Track, long: int, style: str = "", sign: str = "", least: int = 0
) -> Line:
    """What a figure is now, and its last values; – where the board does not tell it."""
    now = f"{'–' if track.now is None else sign + track.show(track.now):>{least}}"
    drawn = spark(track, min(long, max(1, len(track.values))))
    return [(name, "dim"), (now, style), (f" {drawn}", "accent")]


def heat(celsius: float | None, hot: float) -> tuple[str, str]:
    """The sign of a temperature and its style."""
    if celsius is None:
        return "–", "dim"
    near = celsius >= hot - _NEAR
    return ("✗", "bad") if celsius >= hot else ("!", "warn") if near else ("✓", "good")


def rate_parts(run: Measuring, long: int, estimate: str) -> list[Part]:
    """Frames a second, percentiles, and what was estimated."""
    point = run.point
    guess: Line = [("estimated ", "dim"), (estimate, ""), (" FPS", "dim")] if estimate else []
    if point is None or point.frames_per_second is None:
        said: Line = [("FPS –  ", "dim"), (with_keys("{bench.run}"), "key"), (" measures", "dim")]
        if run.going:
            said = [("FPS ", "dim"), (f"…  {run.stage}", "accent")]
        return [(0, said), (1, guess)]
    fps: Line = [("FPS ", "dim"), (RATE.text(point.frames_per_second), "head")]
    if (curve := run.curve.get("FPS")) is not None:
        fps.append((f" {spark(curve, min(long, len(curve.values)))}", "accent"))
    times: Line = []
    for name, micros in (("p50", point.median), ("p90", point.p90), ("p99", point.p99)):
        if micros is not None:
            times += [(f"{name} ", "dim"), (f"{MILLISECONDS.text(micros / 1000)}  ", "")]
    count: Line = [(f"{point.count:,} inferences", "dim")]
    return [(0, fps), (0, [*times, ("ms", "dim")]), (1, guess), (3, count)]


def load_parts(board: BoardTrack, long: int, *, named: bool = True) -> list[Part]:
    """Load of each core and clocks."""
    loads: list[Part] = [
        (0 if named else 1, _figure(f"{name} " if named else "", track, long, least=5))
        for name, track in board.loads.items()
    ]
    known = {part: board.tracks.get(f"{part} clock") for part in ("NPU", "DDR", "CPU")}
    clocks = [
        f"{part} {track.show(track.now).removesuffix(' MHz')}"
        for part, track in known.items()
        if track is not None and track.now is not None
    ]
    return [*loads, (2, [(" ".join(clocks), ""), (" MHz", "dim")] if clocks else [])]


def state_parts(
    board: BoardTrack, run: Measuring | None, long: int, *, named: bool = True
) -> list[Part]:
    """Temperature and whose limit is near, whether a clock fell, power."""
    parts: list[Part] = []
    hot, zone = (0.0, "") if board.state is None else board.state.hot
    if (warm := board.tracks.get("temperature")) is not None:
        sign, style = heat(warm.now, hot)
        name = "temperature " if named else ""
        parts.append((0, _figure(name, warm, long, style, f"{sign} ")))
        limit = f"hot from {CELSIUS.text(hot)} ({zone or 'documented'})"
        parts.append((2, [(limit, "dim")] if named else []))
    if run is not None and run.point is not None:
        fell = run.point.throttled
        said = ("! throttled", "warn") if fell else ("✓ no clock fell", "good")
        parts.append((0 if fell else 3, [said]))
    if run is not None and run.going and run.params.fix_clocks:
        parts.append((3, [("clocks are fixed", "dim")]))
    watts = [(name, track) for name, track in board.tracks.items() if name.startswith("power")]
    parts += [(1, _figure(f"{name} ", track, long)) for name, track in watts]
    absent = board.state is not None and not watts and named
    return [*parts, (4, [("power – (no sensor)", "dim")] if absent else [])]


def memory_parts(
    board: BoardTrack, run: Measuring | None, long: int, *, named: bool = True
) -> list[Part]:
    """Memory of the board in use, and what of it the model takes."""
    parts: list[Part] = []
    if (used := board.tracks.get("memory")) is not None:
        *now, drawn = _figure("memory " if named else "", used, long)
        of = f" of {SIZE.text(used.top)}", "dim"
        parts.append((1 if named else 2, [*now, of, drawn] if named else [*now, of]))
    taken = None if run is None or run.answer is None else run.answer.memory
    if taken is not None:
        sizes = {"weights": taken.weight, "internal": taken.internal}
        kinds = ", ".join(f"{name} {SIZE.text(size)}" for name, size in sizes.items())
        parts.append((4, [("model ", "dim"), (SIZE.text(taken.total), ""), (f": {kinds}", "dim")]))
    return parts


def head_facts(
    board: BoardTrack, chip: str, run: Measuring | None, file: str, watch: str
) -> list[Fact]:
    """Which board, of which kind its figures are, what runs there, and how far the run is."""
    answer = None if run is None else run.answer
    label = board.facts.label if board.facts is not None else answer.label if answer else ""
    facts = [Fact(sanitize(board.device, 60)), Fact(sanitize(chip, 20) or "chip not known")]
    facts += [Fact(label)] if label else []
    if answer is not None:
        versions = {"runtime": (answer.runtime, 2), "driver": (answer.driver, 4)}
        for name, (version, rank) in versions.items():
            number = sanitize(version, 60).partition(" (")[0]
            facts += [Fact(f"{name} {number}", (), rank)] if number else []
    facts.append(Fact(sanitize(file, 60), (), 3))
    if run is not None and run.going:
        time = f"▶ {clock_text(run.at)} of {clock_text(run.whole)}"
        facts.append(
            Fact(with_keys(f"{time}, {{bench.run}} or {{bench.compare}} ends it"), (time,))
        )
    elif run is not None and run.result is None:
        facts.append(Fact(run.settings.words, (), 3))
    return facts + ([Fact(watch, (), 2)] if watch else [])


def model_name(path: str | None, recipe_model: object) -> str:
    """What runs, in few words."""
    if path:
        return Path(path).name
    return f"build of {Path(str(recipe_model)).name}" if recipe_model else "no model is open"


def page_lines(
    session: Session,
    run: Measuring,
    watch: Watch,
    board: str,
    file: str,
    width: int,
    *,
    tall: bool,
) -> list[Line]:
    """What is seen now: of the board that is shown, or a line for each that is watched.

    Args:
        session: has the estimate, and the chips of boards.
        run: of the model.
        watch: of boards.
        board: id of the one that is used.
        file: what runs.
        width: cells.
        tall: whether memory has a line of its own.
    """
    ours = None if run.params is None else str(run.params.device)
    lines: list[Line] = []
    for track in watch.boards.values() if len(watch.boards) > 1 else ():
        known, mine = track.facts, run if track.device == ours else None
        about = "" if known is None else f"{sanitize(known.chip, 12)} {known.label}"
        name: Part = 0, [(f"{sanitize(track.device, 26):<26}", "head"), (f" {about:<16}", "dim")]
        parts = rate_parts(mine, 5, "")[:1] if mine is not None else []
        parts += load_parts(track, 5, named=False)
        parts += state_parts(track, mine, 5, named=False)
        parts += memory_parts(track, mine, 5, named=False)
        if track.problem:
            parts = [(0, [(f"✗ {sanitize(track.problem, 60)}", "bad")])]
        lines.append(_row([name, *parts], width))
    if not lines:
        track = next(iter(watch.boards.values()), None) or BoardTrack(board)
        mine = run if ours in (None, track.device) else None
        chip = track.facts.chip if track.facts else session.boards.chip_of(track.device)
        roomy = width >= _ROOMY
        facts = head_facts(track, chip, mine, file, _watch_text(watch))
        long = 12 if roomy else 5
        rows = [rate_parts(mine, 2 * long, _estimate(session, chip))] if mine is not None else []
        state, memory = state_parts(track, mine, long), memory_parts(track, mine, long)
        rows += [load_parts(track, long), *([state, memory] if tall else [state + memory])]
        lines = [[(fit_facts(tuple(facts), width), "head")]]
        lines += filter(None, (_row(parts, width) for parts in rows))
        lines += wrapped(f"✗ {sanitize(track.problem, 400)}", width, "bad") if track.problem else []
        lines += wrapped(f"! {sanitize(track.note, 400)}", width, "warn") if track.note else []
    lines += wrapped(f"✗ {run.error}", width, "bad")[:3] if run.error else []
    return [*lines, *([[(watch.end, "")]] if watch.end else [])]


def _watch_text(watch: Watch) -> str:
    """What goes on beside the run."""
    stops = f"{key_text('bench.watch')} stops"
    if watch.paused:
        return f"paused ({key_text('bench.pause')} goes on)"
    if watch.recording:
        return f"recording to {sanitize(Path(watch.recording).name, 40)} ({stops})"
    if watch.now is None:
        return f"{key_text('bench.watch')} watches"
    kind = "replay" if isinstance(watch.now, ReplayParams) else f"{watch.hertz:g} Hz"
    return f"▶ {kind}, {clock_text(watch.at)}"


def _estimate(session: Session, chip: str) -> str:
    """Frames a second that were estimated for a chip; empty where they were not."""
    chips = () if session.estimates is None else session.estimates.chips
    rates = (row.fps for row in chips if row.chip.lower() == chip.lower())
    return next((RATE.text(fps.value) for fps in rates if fps), "")
