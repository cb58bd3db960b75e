"""Measured runs are kept whole, privately and bounded; what is damaged is one row."""

from __future__ import annotations

import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from engine.base.errors import OutputError, UsageError
from engine.devices.measure import history
from engine.devices.measure.benchmark import Cell, CellResult, CellTimes, Reading, cell_result
from engine.devices.measure.history import (
    LayerTable,
    MeasuredRun,
    compare_runs,
    list_runs,
    load_run,
    measured_folder,
    save_run,
)
from engine.devices.measure.layer_times import read_layer_times
from engine.devices.measure.measured import memory_use
from engine.devices.measure.perf_text import parse_perf_text
from engine.graph.layers import Layer, LayerMap
from engine.wire.devices import LayerTime
from engine.wire.measured import Conditions, KeptRun
from tests.devices.perf import printed

MODEL = "ab" * 32
CONDITIONS = Conditions(
    MODEL, "rk3588", "adb:1234", {"runtime": "2.3.2", "driver": "0.9.8"}, {"NPU": 1_000_000_000}
)


def _row(name: str, target: str, us: float | None, layer: str, **cycles: int) -> LayerTime:
    op = name.partition(":")[0]
    return LayerTime(0, name=name, op=op, target=target, microseconds=us, id=layer, **cycles)


CYCLES = {"ddr_cycles": 1, "npu_cycles": 2, "total_cycles": 2}
TABLE = LayerTable(
    "generation 2, from 1.6",
    33.0,
    "operators",
    (
        _row("InputOperator:x", "CPU", 4.0, ""),
        _row("Conv:conv1_tile0", "NPU", 10.0, "conv1", traffic=1024, **CYCLES),
        _row("Conv:conv1_tile1", "NPU", 12.5, "conv1"),
        _row("Pool:pool", "CPU", None, "pool"),
    ),
)


def _cell(*times: float, cores: str = "auto", fell: bool = False) -> CellResult:
    after = Reading({"NPU": 500 if fell else 1000})
    return cell_result(Cell(cores, 1, 1), CellTimes(times, Reading({"NPU": 1000}), after))


def _run(at: float = 1_700_000_000.25, **changes: object) -> MeasuredRun:
    run = MeasuredRun(
        at,
        "mobilenet.rknn",
        CONDITIONS,
        cells=(_cell(900.0, 1000.0, 1100.0), _cell(*map(float, range(500, 520)), cores="0")),
        table=TABLE,
        memory=memory_use(weight=10, internal=5, dma=20),
        notes=("clocks were fixed",),
    )
    return replace(run, **changes)  # type: ignore[arg-type]


def _heads() -> list[KeptRun]:
    rows = list_runs()
    assert not any(row.damaged for row in rows), rows
    return rows


def test_a_run_comes_back_as_it_was() -> None:
    assert list_runs() == []
    name = save_run(_run())
    assert load_run(name) == _run()
    assert _heads() == [
        KeptRun(
            **vars(CONDITIONS),
            id=name,
            at=1_700_000_000.25,
            title="mobilenet.rknn",
            points=2,
            layers=4,
            median=509.5,
        )
    ]
    failed = replace(_run(), cells=(CellResult(Cell("0", 1, 1), None, failed="no"),))
    assert load_run(save_run(failed)) == failed


def test_files_are_private_and_nothing_else_stays() -> None:
    before = os.umask(0)
    try:
        save_run(_run())
    finally:
        os.umask(before)
    folder = measured_folder()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    files = [path for path in folder.iterdir() if path.name != ".lock"]
    assert [stat.S_IMODE(path.stat().st_mode) for path in files] == [0o600]


def test_the_newest_come_first_and_the_oldest_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "KEPT", 3)
    names = [save_run(_run(1_700_000_000.0 + 10 * number)) for number in (2, 0, 3, 1, 4)]
    assert [head.id for head in _heads()] == [names[4], names[2], names[0]]


def test_runs_are_chosen_by_model_chip_and_board() -> None:
    save_run(_run())
    other = Conditions("cd" * 32, "rk3566", "ssh:board", {}, {})
    name = save_run(_run(conditions=other))
    for rows in (
        list_runs(model="cd" * 32),
        list_runs(chip="rk3566"),
        list_runs(device="ssh:board"),
    ):
        assert [row.id for row in rows] == [name]
    assert list_runs(model="cd" * 32, chip="rk3588") == []


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"{",
        b"\xff\xfe\n{}\n",
        b"[" * 100_000,
        b"{}\n{}\n",
        b"x" * (1 << 17),
    ],
    ids=["empty", "cut", "no text", "deep", "strange", "long"],
)
def test_a_damaged_file_is_one_row(damage: bytes) -> None:
    good, bad = save_run(_run()), save_run(_run(1_800_000_000.0))
    (measured_folder() / f"{bad}.json").write_bytes(damage)
    first, second = list_runs(chip="rk3588")
    assert first.id == bad
    assert first.damaged
    assert second.id == good
    with pytest.raises(UsageError, match="cannot be read"):
        load_run(bad)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("at", -1.0),
        ("at", "NaN"),
        ("id", "20240101-000000-00000000-000000"),
        ("label", "guessed"),
        ("points", "2"),
        ("model", ""),
        ("conditions", {"chip": 1}),
        ("conditions", 1),
        ("strange", 1),
    ],
)
def test_a_head_that_does_not_fit_is_damaged(field: str, value: object) -> None:
    name = save_run(_run())
    path = measured_folder() / f"{name}.json"
    head, body = path.read_text().splitlines()
    text = json.dumps({**json.loads(head), field: value}).replace('"NaN"', "NaN")
    path.write_text(f"{text}\n{body}\n")
    (row,) = list_runs()
    assert row.damaged


def test_runs_that_were_kept_before_are_read() -> None:
    """Their conditions lay in an object of their own, and their memory had the label again."""
    name = save_run(_run())
    path = measured_folder() / f"{name}.json"
    head, body = (json.loads(line) for line in path.read_text().splitlines())
    head["conditions"] = {key: head.pop(key) for key in vars(CONDITIONS)}
    body["memory"]["label"] = "measured"
    (now,) = list_runs()
    path.write_text("".join(json.dumps(line) + "\n" for line in (head, body)))
    assert list_runs() == [now]
    assert load_run(name) == _run()


def test_a_body_that_was_cut_is_found_when_it_is_loaded() -> None:
    name = save_run(_run())
    path = measured_folder() / f"{name}.json"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(UsageError, match="cannot be read"):
        load_run(name)


@pytest.mark.parametrize("name", ["", "../x", "20240101-000000-00000000-000000", "a/b\n"])
def test_a_run_that_is_not_there(name: str) -> None:
    with pytest.raises(UsageError, match="no measured run"):
        load_run(name)


def test_foreign_files_are_left_alone() -> None:
    save_run(_run())
    other = measured_folder() / "notes.json"
    other.write_text("mine")
    assert len(_heads()) == 1
    assert other.read_text() == "mine"


def test_texts_of_a_board_are_bounded_and_safe() -> None:
    versions = {f"\x1b[31m{number}": "v" * 5000 for number in range(500)}
    conditions = replace(CONDITIONS, versions=versions, device="\u202e" + "d" * 5000)
    name = save_run(_run(title="t\x00" + "t" * 5000, conditions=conditions))
    (head,) = _heads()
    assert head.id == name
    assert head.title.isprintable()
    assert len(head.versions) == 40
    assert all(key.isprintable() for key in head.versions)
    assert head.device.isprintable()


def test_many_times_are_cut_and_their_figures_stay() -> None:
    times = [float(100 + number % 7) for number in range(5000)]
    run = load_run(save_run(_run(cells=(_cell(*times),))))
    (cell,) = run.cells
    assert len(cell.times) == 1000
    assert cell.timings is not None
    assert cell.timings.count == 5000


def test_what_is_no_run_is_refused() -> None:
    with pytest.raises(ValueError, match="SHA-256"):
        save_run(_run(conditions=replace(CONDITIONS, model="../..")))
    with pytest.raises(ValueError, match="time"):
        save_run(_run(at=float("nan")))
    long = TABLE.figures[1]
    table = replace(TABLE, figures=(replace(long, name="x" * 1000),) * 20_000)
    with pytest.raises(OutputError, match="too long"):
        save_run(_run(table=table))
    assert list_runs() == []


def test_a_folder_that_cannot_be_made_is_said() -> None:
    folder = measured_folder()
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.write_text("a file")
    with pytest.raises(OutputError):
        save_run(_run())


def test_writers_side_by_side_lose_nothing() -> None:
    with ThreadPoolExecutor(4) as pool:
        names = list(pool.map(lambda _: save_run(_run()), range(20)))
    assert sorted(head.id for head in _heads()) == sorted(names)
    assert len(set(names)) == 20


def test_old_parts_of_killed_writers_go() -> None:
    save_run(_run())
    old, young = (measured_folder() / f".{name}.json.part" for name in ("old", "young"))
    for part in (old, young):
        part.write_text("half")
    os.utime(old, (1, 1))
    save_run(_run())
    assert not old.exists()
    assert young.exists()
    assert len(_heads()) == 2


def test_a_report_becomes_a_table_with_layers() -> None:
    report = parse_perf_text(printed.TO_1_5)
    layers = LayerMap(
        (Layer("conv1", "Conv", "weighted", ("conv1",), (), ("conv1_out",), ("conv1",)),)
    )
    table = read_layer_times(printed.TO_1_5, lambda: layers).table
    assert table is not None
    assert [figure.id for figure in table.figures] == ["", "conv1", ""]
    assert (table.dialect, table.microseconds) == (report.dialect, report.microseconds)
    figure = table.figures[1]
    assert (figure.target, figure.microseconds, figure.traffic) == ("NPU", 428, 556800)
    run = _run(table=table)
    assert load_run(save_run(run)) == run


def test_runs_that_were_kept_before_rows_had_numbers_are_read() -> None:
    name = save_run(_run())
    path = measured_folder() / f"{name}.json"
    head, body = path.read_text().splitlines()
    data = json.loads(body)
    for row in data["table"]["figures"]:
        assert (row.pop("id"), row.pop("dtype"), row.pop("also")) == (0, "", [])
        row["layer"] = row["layer"] or None
        row |= {key: row.get(key) for key in ("ddr_cycles", "npu_cycles", "total_cycles")}
    path.write_text(f"{head}\n{json.dumps(data)}\n")
    table = load_run(name).table
    assert table is not None
    assert [row.id for row in table.figures] == [None, "conv1", "conv1", "pool"]
    assert replace(table, figures=table.figures[1:]) == replace(TABLE, figures=TABLE.figures[1:])


def test_two_runs_side_by_side() -> None:
    first = _run()
    later = Conditions(
        MODEL,
        "rk3588",
        "adb:1234",
        {"runtime": "2.4.0", "toolkit": "2.3"},
        {"NPU": 900_000_000, "DDR": 2_112_000_000},
    )
    figures = (
        replace(TABLE.figures[1], microseconds=30.0),
        _row("Conv:n", "NPU", 1.0, "new"),
    )
    second = _run(
        conditions=later,
        cells=(_cell(*map(float, range(1000, 1020)), cores="0"), _cell(1.0, cores="2")),
        table=replace(TABLE, figures=figures),
    )
    found = compare_runs(first, second)
    assert found.differs == (
        "runtime: 2.3.2, 2.4.0",
        "driver: 0.9.8, unknown",
        "toolkit: unknown, 2.3",
        "clock of NPU: 1000 MHz, 900 MHz",
        "clock of DDR: unknown, 2112 MHz",
    )
    (cell,) = found.points
    assert (cell.cores, cell.before, cell.after, cell.clear) == ("0", 509.5, 1009.5, True)
    assert cell.change == pytest.approx(1009.5 / 509.5 - 1)
    assert [(each.layer, each.before, each.after) for each in found.layers] == [
        ("conv1", 22.5, 30.0),
        ("new", None, 1.0),
    ]
    near = replace(CONDITIONS, clocks={"NPU": 1_009_000_000})
    assert compare_runs(first, _run(conditions=near)).differs == (), "within one percent"
    same = compare_runs(first, first)
    assert same.differs == ()
    assert [each.clear for each in same.points] == [None, False], "3 runs have no interval"
