"""A build compared three ways on emulated boards: who is bent is named, and nobody else."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from engine.accuracy.three_way import board_rows
from engine.base.errors import RecipeError, UsageError
from engine.devices.address import Address
from engine.devices.emulator.emulator import BoardEmulator
from engine.pipeline.analysis import compare_build
from engine.pipeline.board import BoardChoice
from engine.pipeline.layers import quantized_of
from engine.pipeline.pipeline import Pipeline
from engine.recipe import Recipe
from engine.services.state import get_pipeline
from rknntui.demo import demo_recipe
from tests.devices.compare.prepared import STEPS, answers_for, prepare
from tests.devices.conftest import Boards
from tests.devices.test_commands import run

pytestmark = [pytest.mark.long, pytest.mark.adb, pytest.mark.cc]

Libraries = Callable[..., Path]


@pytest.fixture
def build() -> Pipeline:
    return get_pipeline(Recipe.from_values(demo_recipe(), Path.cwd()))


@pytest.fixture
def sample(build: Pipeline) -> Mapping[str, np.ndarray]:
    return next(iter(build.feeds(build.dataset.first(1))))


def test_a_board_as_the_simulator(
    board: Boards,
    libraries: Libraries,
    build: Pipeline,
    sample: Mapping[str, np.ndarray],
    tmp_path: Path,
) -> None:
    made = board("rk3588")
    prepare(made, libraries(), build, sample, tmp_path)
    folder = tmp_path / "tensors"
    found, files = compare_build(build, BoardChoice(made.address), folder=folder)
    assert found.first is None
    assert "agree" in found.verdict
    assert (found.label, found.chip) == ("emulated", "rk3588")
    assert len(found.layers) == len(board_rows(quantized_of(build)))
    assert found.missing == ()
    for layer in found.layers:
        assert layer.between.maximum == 0
        assert layer.own.maximum == pytest.approx(0, abs=1e-6)
    assert {path.name for path in files} >= {"golden", "simulator", "runtime"}
    for path in (folder / "runtime" / "npy").iterdir():
        same = folder / "simulator" / "npy" / path.name
        np.testing.assert_array_equal(np.load(path), np.load(same))


@pytest.mark.parametrize("place", [0, 4, 5, 12])
def test_the_bent_layer_is_named(
    place: int,
    board: Boards,
    libraries: Libraries,
    build: Pipeline,
    sample: Mapping[str, np.ndarray],
    tmp_path: Path,
) -> None:
    row = board_rows(quantized_of(build))[place]
    made = board("rk3588")
    prepare(made, libraries(), build, sample, tmp_path, bend=row.simulated or "")
    found, _ = compare_build(build, BoardChoice(made.address))
    assert [layer.row.layer for layer in found.layers if layer.diverges] == [row.layer]
    assert found.first is not None
    assert found.first.own.steps == pytest.approx(STEPS, abs=0.01)
    assert row.layer in found.verdict


def test_generation_1_on_an_old_adbd(
    board: Boards,
    libraries: Libraries,
    build: Pipeline,
    sample: Mapping[str, np.ndarray],
    tmp_path: Path,
) -> None:
    row = board_rows(quantized_of(build))[3]
    made = board("rk1808")
    prepare(made, libraries(1), build, sample, tmp_path, bend=row.simulated or "")
    found, _ = compare_build(build, BoardChoice(made.address, "rk1808"))
    assert [layer.row.layer for layer in found.layers if layer.diverges] == [row.layer]


@pytest.mark.sshd
def test_over_ssh(
    ssh_board: Callable[..., tuple[BoardEmulator, Address]],
    libraries: Libraries,
    build: Pipeline,
    sample: Mapping[str, np.ndarray],
    tmp_path: Path,
) -> None:
    row = board_rows(quantized_of(build))[7]
    made, address = ssh_board("rk3566")
    prepare(made, libraries(), build, sample, tmp_path, bend=row.simulated or "")
    found, _ = compare_build(build, BoardChoice(str(address)))
    assert [layer.row.layer for layer in found.layers if layer.diverges] == [row.layer]
    assert found.chip == "rk3566"


def install(
    made: BoardEmulator, library: Path, model: Path, build: Pipeline, **how: object
) -> BoardChoice:
    """Let a board answer for a compiled model that gives some layers of the build."""
    made.image.install_runtime(library)
    sample = next(iter(build.feeds(build.dataset.first(1))))
    rows = how.pop("rows", None) or board_rows(quantized_of(build))
    place = (made.root / made.image.library.lstrip("/")).parent / "answers"
    answers_for(build, rows, sample, **how).into(place, model)  # type: ignore[arg-type]
    return BoardChoice(made.address, "rk3588", model)


def test_a_compiled_model_with_the_layers(
    board: Boards, libraries: Libraries, build: Pipeline, model: Path
) -> None:
    rows = board_rows(quantized_of(build))
    made = board("rk3588")
    (made.root / "etc/rknntui-emulated").unlink()  # as a real board
    with pytest.raises(UsageError, match="cannot be read") as caught:
        compare_build(build, BoardChoice(made.address))
    assert "--layers" in caught.value.remedy
    # outputs by other names of the layers
    names = {row.golden: row.layer for row in rows[2:5]}
    choice = install(made, libraries(), model, build, bend=rows[6].simulated, names=names)
    found, _ = compare_build(build, choice)
    assert found.label == "measured"
    assert [layer.row.layer for layer in found.layers if layer.diverges] == [rows[6].layer]
    assert found.missing == ()
    some, _ = compare_build(build, choice, layers=[rows[6].golden, rows[1].layer])
    assert [layer.row for layer in some.layers] == [rows[1], rows[6]]
    assert some.first is not None
    assert set(some.first.inside) == {row.layer for row in rows[2:6]}
    assert "one of the 4 layers before it" in some.verdict
    with pytest.raises(RecipeError, match="no layer"):
        compare_build(build, choice, layers=["nothing"])


def test_a_compiled_model_with_the_final_outputs(
    board: Boards, libraries: Libraries, build: Pipeline, model: Path
) -> None:
    rows = board_rows(quantized_of(build))
    made = board("rk3588")
    choice = install(made, libraries(), model, build, rows=rows[-1:])
    found, _ = compare_build(build, choice)
    assert found.first is None
    assert [layer.row for layer in found.layers] == [rows[-1]]
    assert found.missing == tuple(row.layer for row in rows[:-1])
    choice = install(made, libraries(), model, build, rows=rows[-1:], bend=rows[3].simulated)
    found, _ = compare_build(build, choice)
    assert found.first is not None
    assert found.first.row == rows[-1]
    assert rows[3].layer in found.first.inside


def test_a_model_of_another_build(
    board: Boards, libraries: Libraries, build: Pipeline, model: Path
) -> None:
    rows = board_rows(quantized_of(build))
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


def test_the_command(
    board: Boards,
    libraries: Libraries,
    build: Pipeline,
    sample: Mapping[str, np.ndarray],
    tmp_path: Path,
) -> None:
    recipe = demo_recipe()
    words = ["compare", str(recipe["model"]), "--dataset", str(recipe["dataset"])]
    words += ["--mean-values", "127.5", "--std-values", "127.5"]
    made = board("rk3588")
    prepare(made, libraries(), build, sample, tmp_path)
    done = run(*words, "--device", made.address, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["first"], found["label"]) == ("", "emulated")
    assert len(found["sha256"]) == 64
    row = board_rows(quantized_of(build))[2]
    prepare(made, libraries(), build, sample, tmp_path, bend=row.simulated or "")
    done = run(*words, "--device", made.address, "--output-dir", str(tmp_path / "out"))
    assert done.returncode == 1, done.stderr
    assert f"{row.layer} is the first layer" in done.stdout
    assert "(emulated)" in done.stdout
    assert (tmp_path / "out" / "runtime").is_dir()
