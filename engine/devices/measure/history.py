"""Runs that boards measured: compared, and kept in the user's state folder. Standard library only.

A file for each run, ``STATE/measured/STAMP-MODEL-RANDOM.json`` (0600 in a folder of 0700), written
whole under another name and renamed: what a list shows in the first line, the rest in the second.
The oldest go where there are too many. A file that cannot be read is one damaged row of the list.
"""

from __future__ import annotations

import contextlib
import json
import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.base.errors import OutputError, UsageError
from engine.base.files import atomic_write, open_regular, output_errors, read_regular
from engine.base.paths import private_folder, state_folder
from engine.base.peers.far import encode as json_line
from engine.base.process import try_lock
from engine.base.text import sanitize
from engine.devices.measure.benchmark import CellResult
from engine.devices.measure.perf_report import Dialect, TotalKind
from engine.wire.codec import encode, typed
from engine.wire.devices import BoardMemory, FigureLabel, LayerTime
from engine.wire.measured import Conditions, KeptRun, LayerChange, PointChange, RunsCompared


@dataclass(frozen=True)
class LayerTable:
    """The layers of one report.

    Attributes:
        dialect: of the runtime that wrote it.
        microseconds: its total, and what that is.
        figures: of each step, in the order of the report.
    """

    dialect: Dialect
    microseconds: float | None
    total_kind: TotalKind | None
    figures: tuple[LayerTime, ...]


@dataclass(frozen=True)
class MeasuredRun:
    """Everything that was measured of one model at one time.

    Attributes:
        at: seconds since the epoch.
        title: name of the model, for a list.
        conditions: what was measured where.
        label: ``measured``, or ``emulated`` where the board is.
        cells: points of a benchmark; of their times only the first ones are kept.
        table: of the layers, with ``perf_debug``; None without.
        memory: None where it was not asked for.
        notes: what is to be known of the figures.
    """

    at: float
    title: str
    conditions: Conditions
    label: FigureLabel = "measured"
    cells: tuple[CellResult, ...] = ()
    table: LayerTable | None = None
    memory: BoardMemory | None = None
    notes: tuple[str, ...] = ()


# Two measured runs side by side.

_CLOCK_CHANGE = 0.01


def compare_runs(first: MeasuredRun, second: MeasuredRun) -> RunsCompared:
    """What changed from the first run to the second."""
    later = {cell.cell: cell for cell in second.cells}
    cells = [_cell(cell, later[cell.cell]) for cell in first.cells if cell.cell in later]
    before, after = _by_layer(first), _by_layer(second)
    return RunsCompared(
        (first.label, second.label),
        tuple(_differences(first, second)),
        tuple(change for change in cells if change is not None),
        tuple(
            LayerChange(layer, before.get(layer), after.get(layer))
            for layer in dict.fromkeys((*before, *after))
        ),
    )


def _cell(first: CellResult, second: CellResult) -> PointChange | None:
    before, after = first.timings, second.timings
    if before is None or after is None:
        return None
    clear = None
    if None not in (before.low, before.high, after.low, after.high):
        low, high = max(before.low or 0, after.low or 0), min(before.high or 0, after.high or 0)
        clear = high < low
    change = after.median / before.median - 1 if before.median else None
    cell = first.cell
    return PointChange(
        cell.cores, cell.batch, cell.threads, before.median, after.median, change, clear
    )


def _by_layer(run: MeasuredRun) -> dict[str, float]:
    microseconds: dict[str, float] = {}
    for figure in () if run.table is None else run.table.figures:
        if figure.id and figure.microseconds is not None:
            microseconds[figure.id] = microseconds.get(figure.id, 0.0) + figure.microseconds
    return microseconds


def _differences(first: MeasuredRun, second: MeasuredRun) -> list[str]:
    one, other = first.conditions, second.conditions
    pairs: list[tuple[str, str, str]] = [
        ("model", one.model[:12], other.model[:12]),
        ("chip", one.chip, other.chip),
        ("device", one.device, other.device),
        ("figures", first.label, second.label),
        *_pairs(one.versions, other.versions),
    ]
    for part in dict.fromkeys((*one.clocks, *other.clocks)):
        was, now = one.clocks.get(part), other.clocks.get(part)
        if was is None or now is None or abs(now - was) > _CLOCK_CHANGE * was:
            pairs.append((f"clock of {part}", _megahertz(was), _megahertz(now)))
    return [f"{name}: {was}, {now}" for name, was, now in pairs if was != now]


def _pairs(one: Mapping[str, str], other: Mapping[str, str]) -> list[tuple[str, str, str]]:
    names = dict.fromkeys((*one, *other))
    return [(name, one.get(name, "unknown"), other.get(name, "unknown")) for name in names]


def _megahertz(hertz: int | None) -> str:
    return "unknown" if hertz is None else f"{hertz / 1e6:.0f} MHz"


KEPT = 500
"""Runs that are kept."""
_NAME = re.compile(r"\d{8}-\d{6}-[0-9a-f]{8}-[0-9a-f]{6}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_HEAD_LIMIT = 64 << 10
_RUN_LIMIT = 16 << 20
_TIMES = 1000
_ALL_TIMES = 200_000
_LAYERS = 20_000
_FACTS = 40
_LATEST = 253_402_300_800.0  # the end of the year 9999, the last one that Python knows


@dataclass(frozen=True)
class _Body:
    """The second line of a file."""

    cells: tuple[CellResult, ...]
    table: LayerTable | None
    memory: BoardMemory | None
    notes: tuple[str, ...]


def measured_folder() -> Path:
    """Where the runs are."""
    return state_folder() / "measured"


def save_run(run: MeasuredRun) -> str:
    """Keep a run; returns its id. The oldest runs above :data:`KEPT` go.

    Raises:
        ValueError: its model is no SHA-256, or its time is none.
        OutputError: it could not be written.
    """
    if not _DIGEST.fullmatch(run.conditions.model) or not 0 <= run.at < _LATEST:
        raise ValueError("a run has the SHA-256 of its model, and a time")
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(run.at))
    name = f"{stamp}-{run.conditions.model[:8]}-{secrets.token_hex(3)}"
    medians = [cell.timings.median for cell in run.cells if cell.timings is not None]
    layers = 0 if run.table is None else len(run.table.figures)
    head = KeptRun(
        id=name,
        at=run.at,
        title=sanitize(run.title, 300),
        **_bounded(run.conditions),
        label=run.label,
        points=len(medians),
        layers=min(layers, _LAYERS),
        median=min(medians, default=None),
    )
    most = min(_TIMES, _ALL_TIMES // max(1, len(run.cells)))
    table = run.table
    if table is not None:
        table = replace(table, figures=table.figures[:_LAYERS])
    body = _Body(
        tuple(replace(cell, times=cell.times[:most]) for cell in run.cells),
        table,
        run.memory,
        tuple(sanitize(note, 500) for note in run.notes[:_FACTS]),
    )
    content = json_line(dict(encode(head))) + json_line(dict(encode(body)))
    folder = measured_folder()
    path = folder / f"{name}.json"
    if len(content) > _RUN_LIMIT:
        raise OutputError(
            f"The run of {len(content)} bytes is too long to be kept.",
            remedy="Measure fewer points at once.",
        )
    with output_errors(path):
        private_folder(folder)
    atomic_write(path, content, overwrite=True, private=True)
    with contextlib.suppress(OSError):  # the run is kept all the same
        _prune(folder)
    return name


def _bounded(conditions: Conditions) -> dict[str, Any]:
    """The fields of conditions, with texts of a length that a list can have."""
    versions = list(conditions.versions.items())[:_FACTS]
    clocks = list(conditions.clocks.items())[:_FACTS]
    return {
        "model": conditions.model,
        "chip": sanitize(conditions.chip, 40),
        "device": sanitize(conditions.device, 200),
        "versions": {sanitize(name, 40): sanitize(text, 200) for name, text in versions},
        "clocks": {sanitize(part, 40): hertz for part, hertz in clocks},
    }


def _prune(folder: Path) -> None:
    """Remove the oldest runs above :data:`KEPT`, and what killed writers left a day ago."""
    with try_lock(folder / ".lock") as mine:
        if not mine:
            return  # another process does it
        for name in _names(folder)[KEPT:]:
            (folder / f"{name}.json").unlink(missing_ok=True)
        for part in folder.glob(".*.part"):
            with contextlib.suppress(FileNotFoundError):  # its writer is done
                if part.stat().st_mtime < time.time() - 24 * 3600:
                    part.unlink()


def _names(folder: Path) -> list[str]:
    """Ids of all runs, the newest first."""
    try:
        names = [path.stem for path in folder.iterdir() if path.suffix == ".json"]
    except FileNotFoundError:
        return []
    return sorted((name for name in names if _NAME.fullmatch(name)), reverse=True)


def list_runs(
    *, model: str | None = None, chip: str | None = None, device: str | None = None
) -> list[KeptRun]:
    """The runs of the history, the newest first; damaged ones are always among them.

    Args:
        model: only of the file with this SHA-256.
        chip, device: only of these.

    Raises:
        OSError: the folder cannot be read.
    """
    rows: list[KeptRun] = []
    for name in _names(measured_folder()):
        row = _head(name)
        if row is None:
            continue  # another process removed it
        asked = ((model, row.model), (chip, row.chip), (device, row.device))
        if row.damaged or all(value is None or value == has for value, has in asked):
            rows.append(row)
    return rows


def _head(name: str) -> KeptRun | None:
    try:
        with open_regular(measured_folder() / f"{name}.json") as stream:
            return _read_head(name, stream.readline(_HEAD_LIMIT))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, RecursionError) as error:
        return KeptRun(id=name, damaged=sanitize(str(error), 200) or "it cannot be read")


def _read_head(name: str, line: bytes) -> KeptRun:
    data = _decoded(line)
    if isinstance(data, dict):  # runs that were kept before have them in an object of their own
        data |= data.pop("conditions", {})
    head = typed(KeptRun, data)
    if head.id != name or not _DIGEST.fullmatch(head.model) or not 0 <= head.at < _LATEST:
        raise ValueError("it is not the run that its name says")
    return replace(head, title=sanitize(head.title, 300), damaged="", **_bounded(head))


def _read_body(line: bytes) -> Any:
    data = _decoded(line)
    if isinstance(data, dict) and isinstance(data.get("memory"), dict):
        data["memory"].pop("label", None)  # of runs that were kept before; that of the run holds
    return data


def _decoded(line: bytes) -> Any:
    if not line.endswith(b"\n"):
        raise ValueError("it is cut off")

    def refuse(word: str) -> float:
        raise ValueError(f"it has the number {word}")

    return json.loads(line, parse_constant=refuse)


def load_run(name: str) -> MeasuredRun:
    """The run with this id.

    Raises:
        UsageError: there is none, or it is damaged.
    """
    path = _path(name)
    try:
        lines = read_regular(path, _RUN_LIMIT).splitlines(keepends=True)
        if len(lines) != 2:
            raise ValueError("it has not two lines")
        head, body = _read_head(name, lines[0]), typed(_Body, _read_body(lines[1]))
    except FileNotFoundError:
        raise _missing_error(name) from None
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise UsageError(
            f"The measured run {name} cannot be read.",
            cause=f"Its file is damaged: {error}.",
            remedy="Remove it and measure again.",
        ) from error
    return MeasuredRun(
        head.at,
        head.title,
        Conditions(**_bounded(head)),
        head.label,
        body.cells,
        body.table,
        body.memory,
        body.notes,
    )


def _path(name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise _missing_error(name)
    return measured_folder() / f"{name}.json"


def _missing_error(name: str) -> UsageError:
    return UsageError(
        f"There is no measured run {sanitize(name, 60)!r}.",
        remedy="Look its id up in the list of measured runs.",
    )
