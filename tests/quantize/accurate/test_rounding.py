"""Error feedback and bias correction against definitions written out in numpy."""

from __future__ import annotations

import numpy as np

from engine.quantize.techniques.rounding import corrected_bias, round_with_feedback


def loss(weight: np.ndarray, rounded: np.ndarray, second: np.ndarray) -> float:
    """trace(E H E^T) over all groups."""
    error = weight - rounded
    return float(np.einsum("gmk,gkl,gml->", error, second, error))


def case(groups: int, rows: int, length: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    mix = rng.normal(size=(groups, length, length))
    inputs = rng.normal(size=(groups, 500, length)) @ mix + 1.0
    second = np.einsum("gnk,gnl->gkl", inputs, inputs) / 500
    weight = rng.normal(size=(groups, rows, length))
    return weight, np.abs(weight).max(axis=2) / 7.0, second


def feedback_by_the_inverse(
    weight: np.ndarray, scale: np.ndarray, second: np.ndarray, damping: float
) -> np.ndarray:
    """Frantar et al. 2022, algorithm 1, one group: with the Cholesky factor of the inverse."""
    length = weight.shape[1]
    diagonal = np.diag(second)
    order = np.argsort(diagonal, kind="stable")[::-1]
    damped = second + (damping * diagonal.mean() + 1e-30) * np.eye(length)
    inverse = np.linalg.inv(damped[order][:, order])
    upper = np.linalg.cholesky(inverse).T
    work = (weight / scale[:, None])[:, order]
    for k in range(length):
        exact = work[:, k].copy()
        work[:, k] = np.clip(np.rint(exact), -7, 7)
        error = (exact - work[:, k]) / upper[k, k]
        work[:, k + 1 :] -= np.outer(error, upper[k, k + 1 :])
    found = np.empty_like(work)
    found[:, order] = work
    return found


def test_feedback_gives_the_integers_of_gptq() -> None:
    weight, scale, second = case(1, 6, 20)
    found = round_with_feedback(weight, scale, second, limit=7)
    expected = feedback_by_the_inverse(weight[0], scale[0], second[0], 0.05)
    assert np.array_equal(found[0], expected)


def test_feedback_loses_less_than_rounding_to_the_nearest() -> None:
    weight, scale, second = case(5, 4, 9)
    found = round_with_feedback(weight, scale, second, limit=7) * scale[..., None]
    nearest = np.clip(np.rint(weight / scale[..., None]), -7, 7) * scale[..., None]
    assert loss(weight, found, second) < 0.5 * loss(weight, nearest, second)


def test_independent_inputs_give_the_nearest_integers() -> None:
    weight, scale, _ = case(2, 3, 8)
    second = np.broadcast_to(np.eye(8), (2, 8, 8))
    found = round_with_feedback(weight, scale, second, limit=7)
    assert np.array_equal(found, np.clip(np.rint(weight / scale[..., None]), -7, 7))


def test_a_dead_input_is_no_obstacle() -> None:
    weight, scale, second = case(1, 3, 8)
    second[:, 2] = second[:, :, 2] = 0.0
    assert np.isfinite(round_with_feedback(weight, scale, second)).all()
    assert np.isfinite(round_with_feedback(weight, scale, 0 * second)).all()


def test_the_corrected_bias_leaves_no_mean_error() -> None:
    rng = np.random.default_rng(0)
    weight, inputs = rng.normal(size=(2, 3, 5)), rng.normal(size=(2, 400, 5)) + 2.0
    rounded, bias = np.rint(weight), rng.normal(size=6)
    found = corrected_bias(weight, rounded, bias, inputs.mean(axis=1))
    exact = np.einsum("gmk,gnk->gmn", weight, inputs).reshape(6, -1) + bias[:, None]
    quantized = np.einsum("gmk,gnk->gmn", rounded, inputs).reshape(6, -1) + found[:, None]
    assert np.abs((exact - quantized).mean(axis=1)).max() < 1e-5
