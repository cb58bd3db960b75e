"""Golden, simulator and board: what is rounding, what is not, and which layer is named."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest

from engine.accuracy.rows import Row
from engine.accuracy.runners import IsolatedLayerRunner, QuantizedTensor, SimulatedRunner
from engine.accuracy.three_way import board_rows, compare_sides, deviation, first_divergence
from engine.base.errors import SimulationError
from engine.graph.execute import Session
from engine.graph.metrics import ErrorSums
from engine.quantize import Quantized, QuantizeSettings
from tests.accuracy.build import built, feeds, made

INT8 = QuantizedTensor(
    "q", "x", "q", np.array(0.5, np.float32), np.array(3, np.float32), (0.0, 255.0)
)
INT16 = QuantizedTensor(
    "q", "x", "q", np.array(0.001, np.float32), np.array(0, np.float32), (-32768.0, 32767.0)
)
FLOATS = QuantizedTensor("x", "x", "x")

Tensors = Mapping[str, np.ndarray]


class Board:
    """A board that computes as the simulator does, and spoils some tensors."""

    def __init__(
        self, build: Quantized, spoil: Mapping[str, Callable[[np.ndarray], np.ndarray]]
    ) -> None:
        self._session = Session(build.graph)
        self._spoil = spoil
        self.runs: list[list[str]] = []

    def run(self, given: Tensors, outputs: Sequence[str] | None = None, /) -> dict[str, np.ndarray]:
        self.runs.append(list(outputs or ()))
        found = self._session.run(given, outputs)
        return {name: self._spoil.get(name, np.copy)(array) for name, array in found.items()}


def values(count: int = 1000) -> np.ndarray:
    return (np.random.default_rng(1).integers(-100, 100, count) * 0.5).astype(np.float32)


def test_rounding_is_one_step_for_half_of_the_values() -> None:
    board = values()
    same = deviation(board, board, INT8)
    assert (same.steps, same.moved, same.far) == (0, 0, 0)
    assert not same.is_more_than_rounding()
    other = board.copy()
    other[:500] += 0.5
    half = deviation(other, board, INT8)
    assert (half.steps, half.moved, half.far) == (1, 0.5, 0)
    assert not half.is_more_than_rounding()
    assert deviation(board + np.float32(0.5), board, INT8).is_more_than_rounding()
    other = board.copy()
    other[0] += 1
    assert not deviation(other, board, INT8).is_more_than_rounding()  # one of a thousand
    other[1] += 1
    assert deviation(other, board, INT8).is_more_than_rounding()


def test_of_a_few_values_chance_moves_more_than_half() -> None:
    board = values(9)
    assert not deviation(board + np.float32(0.5), board, INT8).is_more_than_rounding()
    board = values(100)
    other = board.copy()
    other[:65] += 0.5
    assert not deviation(other, board, INT8).is_more_than_rounding()
    other[65:67] += 0.5
    assert deviation(other, board, INT8).is_more_than_rounding()


@pytest.mark.parametrize("quantized", [FLOATS, INT16])
def test_fine_tensors_are_judged_by_their_sqnr(quantized: QuantizedTensor) -> None:
    board = np.random.default_rng(2).normal(0, 1, 10_000).astype(np.float32)
    half = deviation(board.astype(np.float16).astype(np.float32), board, quantized)
    assert half.difference.sqnr == pytest.approx(73, abs=1.5)
    assert not half.is_more_than_rounding()
    assert deviation(board * np.float32(1.02), board, quantized).is_more_than_rounding()


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_what_is_no_number_is_not_rounding(wrong: float) -> None:
    board = values()
    board[7] = wrong
    found = deviation(board, values(), INT8)
    assert found.is_more_than_rounding()
    assert found.difference.cosine is None
    assert found.difference.maximum is None


def test_of_several_layers_rounding_may_cost_what_quantization_does() -> None:
    board = values()
    other = board.copy()
    other[::2] += 20
    found = deviation(other, board, INT8)
    assert found.sums.noise > 0.02 * found.sums.signal
    assert found.is_more_than_rounding(1, ErrorSums(noise=found.sums.noise))
    assert not found.is_more_than_rounding(3, ErrorSums(noise=found.sums.noise / 3))
    assert found.is_more_than_rounding(3, ErrorSums(noise=found.sums.noise / 5))
    # quantization may cost little by chance: the manual's limit holds, too
    other[::2] -= 18.5
    found = deviation(other, board, INT8)
    assert found.is_more_than_rounding(1)
    assert not found.is_more_than_rounding(3, ErrorSums(noise=0.0))


@pytest.mark.parametrize("dtype", ["w8a8", "w8a16", "float16"])
def test_a_board_that_computes_as_the_simulator(dtype: str) -> None:
    _, build = made(4, QuantizeSettings(dtype=dtype))
    rows = board_rows(build)
    assert [row.layer for row in rows][-2:] == ["gemm", "softmax"]
    sample = feeds(1, 5)[0]
    for groups in ([rows], [[row] for row in rows]):
        board = Board(build, {})
        found = compare_sides(build, sample, groups, board)
        assert [layer.row for layer in found] == list(rows)
        assert first_divergence(found) is None
        assert all(layer.between.maximum == 0 for layer in found)
        assert board.runs == [[row.golden for row in group] for group in groups]


@pytest.mark.parametrize("name", ["conv1", "conv2", "add", "gemm", "softmax"])
def test_the_layer_that_computes_otherwise_is_named(name: str) -> None:
    _, build = built()
    rows = board_rows(build)
    row = next(row for row in rows if row.layer == name)
    # what is behind it is computed from the spoilt tensor: only one layer is to blame
    spoilt = spoilt_tensors(build, row)
    for groups in ([rows], [[each] for each in rows]):
        found = compare_sides(build, feeds(1, 5)[0], groups, Given(spoilt))
        assert [layer.row.layer for layer in found if layer.diverges] == [name]
        first = first_divergence(found)
        assert first is not None
        assert first.own is not None
        assert first.inside == ()
        if name not in ("gemm", "softmax"):
            assert sum(layer.between.maximum > 0 for layer in found) > 1


class Given:
    """A board whose tensors are known."""

    def __init__(self, tensors: Tensors) -> None:
        self._tensors = tensors

    def run(self, _: Tensors, outputs: Sequence[str] | None = None, /) -> dict[str, np.ndarray]:
        return {name: self._tensors[name] for name in outputs or ()}


def spoilt_tensors(build: Quantized, row: Row) -> dict[str, np.ndarray]:
    """All layers' tensors where one layer is wrong and the others go on from there."""
    rows = board_rows(build)
    names = [each.golden for each in rows]
    sample = feeds(1, 5)[0]
    right = Session(build.graph).run(sample, names)
    wrong = right[row.golden] * np.float32(0.5)
    params = build.table.get(row.golden)
    if params is not None:
        scale = np.float32(params.scale[0])
        wrong = np.rint(wrong / scale) * scale
    parts = [[each] for each in rows]
    side = SimulatedRunner(build.graph, build.layers, parts)
    alone = IsolatedLayerRunner(side, parts)
    found: dict[str, np.ndarray] = {}
    for index, each in enumerate(rows):
        own = alone.run(index, {**sample, **found})
        found[each.golden] = wrong if each == row else own[each.simulated or ""]
    return found


def test_layers_that_the_board_does_not_give_are_told() -> None:
    _, build = built()
    rows = board_rows(build)
    wrong = spoilt_tensors(build, rows[0])
    (found,) = compare_sides(build, feeds(1, 5)[0], [rows[-2:-1]], Given(wrong))
    assert found.row.layer == "gemm"
    assert found.diverges
    assert set(found.inside) == {"conv1", "conv2", "add", "pool", "reshape"}
    (found,) = compare_sides(build, feeds(1, 5)[0], [rows[-2:-1]], Board(build, {}))
    assert not found.diverges


def test_a_tensor_of_another_shape_is_refused() -> None:
    _, build = built()
    rows = board_rows(build)
    board = Board(build, {rows[1].golden: lambda array: array[:, :1]})
    with pytest.raises(SimulationError, match="cannot be compared"):
        compare_sides(build, feeds(1, 5)[0], [rows[:2]], board)
