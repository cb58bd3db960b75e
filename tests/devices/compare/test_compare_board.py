"""A build compared three ways: who is bent is named; other boards: end_to_end/test_cli.py."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from engine.accuracy.rows import Row
from engine.accuracy.three_way import board_rows
from engine.base.errors import RecipeError, UsageError
from engine.pipeline import board as board_module
from engine.pipeline.analysis import compare_build
from engine.pipeline.board import BoardChoice, OnBoard
from engine.pipeline.comparison_model import output_groups
from engine.pipeline.layers import quantized_of
from engine.pipeline.pipeline import Pipeline
from rknntui.demo import demo_recipe
from tests.devices.compare.prepared import install
from tests.devices.conftest import Boards, Equip, Libraries
from tests.devices.faulty_board import FaultyBoard
from tests.devices.verbs import run, told

pytestmark = [pytest.mark.long, pytest.mark.adb, pytest.mark.cc]

STEPS = 16
"""How far a bent layer is off."""


def rows_of(build: Pipeline) -> tuple[Row, ...]:
    return board_rows(quantized_of(build))


def diverging(found: OnBoard) -> list[str]:
    return [layer.row.layer for layer in found.layers if layer.diverges]


@contextmanager
def bent(made: FaultyBoard, layer: str) -> Iterator[None]:
    made.bend(f"{layer}:{STEPS}")
    yield
    made.bend(None)


def test_a_board_as_the_simulator(
    board: Boards, equip: Equip, build: Pipeline, tmp_path: Path
) -> None:
    made = equip(board("rk3588"))
    folder = tmp_path / "tensors"
    found, files = compare_build(build, BoardChoice(made.address), folder=folder)
    assert found.first is None
    assert "agree" in found.verdict
    assert (found.head.label, found.head.chip, found.missing) == ("emulated", "rk3588", ())
    assert [layer.row for layer in found.layers] == list(rows_of(build))
    assert all(layer.between.maximum == 0 for layer in found.layers)
    names = {path.name for path in files}
    assert names == {"golden", "simulator", "runtime", "map_name_to_file.txt"}
    for path in (folder / "runtime" / "npy").iterdir():
        same = folder / "simulator" / "npy" / path.name
        np.testing.assert_array_equal(np.load(path), np.load(same))


def test_the_difference_is_judged_by_what_other_roundings_do(
    board: Boards, equip: Equip, build: Pipeline
) -> None:
    made = equip(board("rk3588"))
    rows = rows_of(build)
    same, _ = compare_build(build, BoardChoice(made.address), rounding=True)
    assert same.judged
    assert all("are equal" in text for text in same.judged)
    with bent(made, rows[3].layer):
        other, _ = compare_build(build, BoardChoice(made.address), rounding=True)
    assert all("more than rounding explains" in text for text in other.judged)
    told = other.told()
    assert told.rounding is not None
    assert {layer.id for layer in told.layers if layer.rounding} == {
        layer.id for layer in told.rounding.layers
    } & {layer.id for layer in told.layers}
    assert any(layer.rounding for layer in told.layers)
    plain, _ = compare_build(build, BoardChoice(made.address))
    assert (plain.judged, plain.told().rounding) == ((), None)


def test_the_bent_layer_is_named(board: Boards, equip: Equip, build: Pipeline) -> None:
    made = equip(board("rk3588"))
    rows = rows_of(build)
    for row in (rows[0], rows[3], rows[5], rows[9], rows[12], rows[13]):
        with bent(made, row.layer):
            found, _ = compare_build(build, BoardChoice(made.address))
        assert diverging(found) == [row.layer]
        assert found.first is not None
        assert found.first.own_steps == pytest.approx(STEPS, abs=0.01)
        assert row.layer in found.verdict


def test_several_runs(
    board: Boards, equip: Equip, build: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = equip(board("rk3588"))
    rows = rows_of(build)
    monkeypatch.setattr(
        board_module, "output_groups", lambda given: output_groups(given, 4 * rows[0].size)
    )
    with bent(made, rows[3].layer):
        found, _ = compare_build(build, BoardChoice(made.address))
    assert diverging(found) == [rows[3].layer]
    assert len(found.layers) == len(rows)


def test_a_compiled_model_with_the_layers(
    board: Boards, libraries: Libraries, build: Pipeline, model: Path
) -> None:
    rows = rows_of(build)
    made = board("rk3588")
    (made.root / "etc/rknntui-emulated").unlink()  # as a real board
    with pytest.raises(UsageError, match="cannot be read") as caught:
        compare_build(build, BoardChoice(made.address))
    assert "--layers" in caught.value.remedy
    # outputs by other names of the layers
    names = {row.golden: row.layer for row in rows[2:5]}
    choice = install(made, libraries(), model, build, bend=rows[6].layer, names=names)
    found, _ = compare_build(build, choice)
    assert found.head.label == "measured"
    assert diverging(found) == [rows[6].layer]
    assert found.missing == ()
    some, _ = compare_build(build, choice, layers=[rows[7].golden, rows[5].layer, rows[6].layer])
    assert [layer.row for layer in some.layers] == list(rows[5:8])
    assert diverging(some) == [rows[6].layer]
    with pytest.raises(RecipeError, match="no layer"):
        compare_build(build, choice, layers=["nothing"])


def test_a_compiled_model_with_the_final_outputs(
    board: Boards, libraries: Libraries, build: Pipeline, model: Path
) -> None:
    rows = rows_of(build)
    made = board("rk3588")
    choice = install(made, libraries(), model, build, rows=rows[-1:])
    found, _ = compare_build(build, choice)
    assert found.first is None
    assert [layer.row for layer in found.layers] == [rows[-1]]
    assert found.missing == tuple(row.layer for row in rows[:-1])
    choice = install(made, libraries(), model, build, rows=rows[-1:], bend=f"{rows[3].layer}:100")
    found, _ = compare_build(build, choice)
    assert found.first is not None
    assert found.first.row == rows[-1]
    assert set(found.first.inside) == {row.layer for row in rows[:-1]}
    assert "one of the 13 layers before it" in found.verdict


def test_a_model_of_another_build(
    board: Boards, libraries: Libraries, build: Pipeline, model: Path
) -> None:
    rows = rows_of(build)
    made = board("rk3588")
    names = {row.golden: f"other{number}" for number, row in enumerate(rows)}
    choice = install(made, libraries(), model, build, names=names)
    with pytest.raises(UsageError, match="No output of"):
        compare_build(build, choice)
    # the name of another layer, whose tensor has another size
    swapped = {rows[0].golden: rows[-1].golden, rows[-1].golden: rows[0].golden}
    choice = install(made, libraries(), model, build, names=swapped)
    with pytest.raises(UsageError, match="has the shape"):
        compare_build(build, choice)


def test_the_command(board: Boards, equip: Equip, build: Pipeline, tmp_path: Path) -> None:
    recipe = demo_recipe()
    model = [str(recipe["model"]), "--dataset", str(recipe["dataset"])]
    model += ["--mean-values", "127.5", "--std-values", "127.5"]
    words = ["compare", *model]
    done = run("export", *model, "-o", str(tmp_path / "layers.onnx"), "--layers")
    assert done.returncode == 0, done.stderr
    assert "--compiled" in done.stdout
    made = equip(board("rk3588"))
    assert len(told(*words, "--device", made.address)["sha256"]) == 64
    row = rows_of(build)[2]
    with bent(made, row.layer):
        done = run(*words, "--device", made.address, "--output-dir", str(tmp_path / "out"))
    assert done.returncode == 1, done.stderr
    assert f"{row.layer} is the first layer" in done.stdout
    assert "(emulated)" in done.stdout
    assert (tmp_path / "out" / "runtime").is_dir()


def test_the_guide_ends_on_the_board(board: Boards, equip: Equip) -> None:
    made = equip(board("rk3588"))
    recipe = demo_recipe()
    words = ["accuracy", str(recipe["model"]), "--dataset", str(recipe["dataset"])]
    words += ["--mean-values", "127.5", "--std-values", "127.5", "--device", made.address]
    assert run(*words).returncode == 2
    done = run(*words, "--guide")
    assert done.returncode == 0, done.stderr
    assert "ok   C1" in done.stdout
    assert "agree up to rounding" in done.stdout
