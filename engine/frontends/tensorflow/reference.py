"""In the child: what TensorFlow itself computes, which the converted graph has to match."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tensorflow as tf

from engine.frontends.tensorflow.prepare import TF_ERRORS, Input, Prepared, imported, said

__all__ = ["DRAWS", "write_reference"]

DRAWS = 2
"""How many sets of inputs are compared: normal numbers, and numbers from 0 to 1."""
_SEED = 20211
_MAX_BYTES = 1 << 30


def write_reference(ready: Prepared, path: Path) -> str:
    """Run the graph in TensorFlow and write an npz: ``in{draw}_{number}``, ``out{draw}_{number}``.

    Returns:
        Why there is nothing to compare; empty where there is.

    Raises:
        SourceModelError: TensorFlow does not take the graph.
    """
    arrays: dict[str, np.ndarray] = {}
    graph = imported(ready.graph)
    try:
        with tf.compat.v1.Session(graph=graph) as session:
            for draw in range(DRAWS):
                feeds = _feeds(ready.inputs, draw)
                results = session.run(list(ready.outputs), feeds)
                if sum(np.asarray(r).nbytes for r in results) > _MAX_BYTES:
                    return "Its outputs are larger than 1 GiB."
                values = feeds.values()
                arrays |= {f"in{draw}_{i}": value for i, value in enumerate(values)}
                arrays |= {f"out{draw}_{i}": np.asarray(r) for i, r in enumerate(results)}
    except TF_ERRORS as error:
        return f"TensorFlow does not run the graph here: {said(error)}."
    np.savez(path, allow_pickle=False, **arrays)
    return ""


def _feeds(inputs: tuple[Input, ...], draw: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(_SEED + draw)
    return {f"{one.node}:0": _random(rng, one, draw) for one in inputs}


def _random(rng: np.random.Generator, one: Input, draw: int) -> np.ndarray:
    dtype = np.dtype(one.dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, one.shape).astype(bool)
    if dtype == np.uint8:
        return rng.integers(0, 256, one.shape).astype(np.uint8)
    if dtype.kind in "iu":
        # places and identifiers more often than quantities: small ones fit any table
        return rng.integers(0, 2, one.shape).astype(dtype)
    values = rng.normal(size=one.shape) if draw == 0 else rng.uniform(size=one.shape)
    return values.astype(dtype)
