"""Sparse constants (few numbers and where they stand) made dense."""

from __future__ import annotations

from math import prod

import numpy as np
import onnx
from onnx import numpy_helper

from engine.base.errors import SourceModelError
from engine.base.text import human_bytes, sanitize
from engine.frontends.onnx.subgraphs import walk

__all__ = ["make_dense"]

_MAX_BYTES = 1 << 28


def make_dense(graph: onnx.GraphProto, source: str) -> None:
    """Turn sparse initializers, and those in ``Constant`` nodes, into dense ones; in place.

    Raises:
        SourceModelError: one is damaged, or all together would pass 256 MiB.
    """
    total = 0
    for part in walk(graph):
        for sparse in part.sparse_initializer:
            dense = _dense(sparse, source, total)
            total += dense.nbytes
            part.initializer.append(numpy_helper.from_array(dense, sparse.values.name))
        del part.sparse_initializer[:]
        for node in part.node:
            if node.op_type != "Constant":
                continue
            for attribute in node.attribute:
                if attribute.HasField("sparse_tensor"):
                    dense = _dense(attribute.sparse_tensor, source, total)
                    total += dense.nbytes
                    tensor = numpy_helper.from_array(dense)
                    attribute.CopyFrom(onnx.helper.make_attribute("value", tensor))


def _dense(sparse: onnx.SparseTensorProto, source: str, total: int) -> np.ndarray:
    name = sanitize(sparse.values.name, 100)
    dims = tuple(sparse.dims)
    try:
        values = numpy_helper.to_array(sparse.values)
        indices = numpy_helper.to_array(sparse.indices)
        size = prod(dims) * values.itemsize
        if not dims or min(dims) < 0 or values.ndim != 1 or indices.dtype != np.int64:
            raise ValueError("its dimensions or types are not those of a sparse tensor")
        if total + size > _MAX_BYTES:
            raise SourceModelError(
                f"{source} has sparse constants of more than {human_bytes(_MAX_BYTES)} when dense "
                f"({name!r}).",
                remedy="Export it with dense weights in a file beside the model.",
            )
        flat = _places(indices, dims, len(values))
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise SourceModelError(
            f"{source} is a damaged ONNX model: its sparse constant {name!r} cannot be read: "
            f"{sanitize(str(error), 200)}.",
            cause="The file was changed after it was written, or written by a faulty exporter.",
            remedy="Export the model again with dense weights.",
        ) from error
    dense = np.zeros(prod(dims), values.dtype)
    dense[flat] = values
    return dense.reshape(dims)


def _places(indices: np.ndarray, dims: tuple[int, ...], count: int) -> np.ndarray:
    """Where the numbers stand in the flattened tensor (onnx.proto, SparseTensorProto)."""
    if indices.shape == (count, len(dims)):
        bounded = ((indices >= 0) & (indices < np.array(dims))).all()
        flat = np.ravel_multi_index(tuple(indices.T), dims) if bounded else None
    elif indices.shape == (count,):
        flat = indices if ((indices >= 0) & (indices < prod(dims))).all() else None
    else:
        raise ValueError(f"{count} numbers have indices of shape {indices.shape}")
    if flat is None:
        raise ValueError("an index lies outside")
    return np.asarray(flat)
