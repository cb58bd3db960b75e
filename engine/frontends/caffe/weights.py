"""Weights for layers: those of the caffemodel, matched by name, or random ones where asked for.

The wire format is read in place. Numbers of fields are those of ``caffe.proto`` (BVLC/caffe):
NetParameter name 1, layers 2 (V1), layer 100; LayerParameter name 1, type 2, blobs 7;
V1LayerParameter name 4, type 5, blobs 6; BlobProto num, channels, height, width 1 to 4, data 5,
shape 7, double_data 8; BlobShape dim 1.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from engine.base.errors import SourceModelError
from engine.base.findings import Finding
from engine.base.formats.protobuf import (
    FIXED32,
    FIXED64,
    LENGTH,
    VARINT,
    FieldBudget,
    ProtobufError,
    varints,
)
from engine.base.text import did_you_mean, sanitize, shape_text
from engine.frontends.caffe.prototxt import Fields
from engine.frontends.caffe.spec import LayerSpec

_MAX_FIELDS = 300_000
_MAX_AXES = 32  # kMaxBlobAxes of caffe/blob.hpp
_NET_LAYER, _NET_V1_LAYER = 100, 2


@dataclass(frozen=True)
class StoredLayer:
    """A layer of the file: its name, and its weights as float32 that share the file's bytes."""

    name: str
    blobs: tuple[np.ndarray, ...]


def read_caffemodel(data: memoryview, source: str) -> tuple[StoredLayer, ...]:
    """The layers of a file, V1 and V2; weights stay where they are.

    Args:
        data: the file's bytes.
        source: its name, for errors.

    Raises:
        SourceModelError: truncated or damaged; the shape of a blob and its data do not fit; the
            weights are of a kind that is not read (half floats of a fork).
    """
    try:
        budget = FieldBudget(_MAX_FIELDS)
        return tuple(_layers(budget, data))
    except ProtobufError as error:
        raise SourceModelError(
            f"{sanitize(source)} is a damaged caffemodel: {error}.",
            cause="A download or copy was cut short, or the file was changed.",
            remedy="Copy or download it again.",
        ) from error


def _layers(budget: FieldBudget, data: memoryview) -> Iterator[StoredLayer]:
    for number, wire, _, payload in budget.fields(data):
        if number == 1 and wire == LENGTH:
            _text(payload, "net's name")
        elif number in (_NET_LAYER, _NET_V1_LAYER) and wire == LENGTH:
            yield _layer(budget, payload, v1=number == _NET_V1_LAYER)


def _text(payload: memoryview, what: str) -> str:
    """A text of at most 4096 bytes; bytes that are no UTF-8 become replacement characters."""
    if len(payload) > 4096:
        raise ProtobufError(f"the {what} has {len(payload)} bytes")
    return bytes(payload).decode("utf-8", "replace")


def _layer(budget: FieldBudget, data: memoryview, *, v1: bool) -> StoredLayer:
    name_field, type_field, blobs_field = (4, 5, 6) if v1 else (1, 2, 7)
    name, payloads = "", []
    for number, wire, _, payload in budget.fields(data):
        if number == name_field and wire == LENGTH:
            name = _text(payload, "name of a layer")
        elif number == type_field and wire == LENGTH:
            _text(payload, "type of a layer")
        elif number == blobs_field and wire == LENGTH:
            payloads.append(payload)
    return StoredLayer(name, tuple(_blob(budget, payload, name) for payload in payloads))


def _blob(budget: FieldBudget, data: memoryview, layer: str) -> np.ndarray:
    old = [1, 1, 1, 1]
    legacy = shaped = False
    dims: list[int] = []
    singles: list[memoryview] = []
    doubles: list[memoryview] = []
    others: set[int] = set()
    for number, wire, value, payload in budget.fields(data):
        if 1 <= number <= 4 and wire == VARINT:
            old[number - 1], legacy = value, True
        elif number == 5 and wire in (LENGTH, FIXED32):
            singles.append(payload)
        elif number == 7 and wire == LENGTH:
            dims, shaped = _dims(budget, payload), True
        elif number == 8 and wire in (LENGTH, FIXED64):
            doubles.append(payload)
        elif number not in (6, 9):  # gradients
            others.add(number)
    array = _numbers(singles, doubles, layer)
    shape = tuple(dims) if shaped and not legacy else tuple(old)
    if not legacy and not shaped:
        shape = (array.size,)  # a blob without any shape is read as what it holds
    try:
        return array.reshape(shape)
    except (ValueError, OverflowError) as error:
        kind = f" (fields {sorted(others)} may hold another kind of numbers)" if others else ""
        raise ProtobufError(
            f"a blob of layer {sanitize(layer, 100)!r} has the shape "
            f"{'x'.join(map(str, shape))} and {array.size} numbers{kind}"
        ) from error


def _dims(budget: FieldBudget, data: memoryview) -> list[int]:
    dims: list[int] = []
    for number, wire, value, payload in budget.fields(data):
        if number != 1:
            continue
        if wire == VARINT:
            dims.append(value)
        elif wire == LENGTH:
            dims.extend(islice(varints(payload), _MAX_AXES + 1))
    if len(dims) > _MAX_AXES:
        raise ProtobufError(f"a blob has more than {_MAX_AXES} axes")
    return dims


def _numbers(singles: list[memoryview], doubles: list[memoryview], layer: str) -> np.ndarray:
    """The one array of a blob as float32; packed data (the rule) are not copied."""
    pieces, dtype = (doubles, "<f8") if doubles else (singles, "<f4")
    size = np.dtype(dtype).itemsize
    if any(len(piece) % size for piece in pieces):
        raise ProtobufError(f"a blob of layer {sanitize(layer, 100)!r} holds broken numbers")
    if not pieces:
        return np.empty(0, np.float32)
    whole = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    return np.frombuffer(whole, dtype).astype(np.float32, copy=False)


_SEED = 20_190_520
# the largest of the well-known nets (VGG-19) has 144 million
_MAX_RANDOM = 150_000_000


class Weights:
    """Where layers get their blobs from.

    The base has none: no caffemodel, which is fine for nets without weights.
    """

    def stored(self, spec: LayerSpec) -> int | None:
        """How many blobs the file has for a layer; None where that is not known."""
        return None

    def blob(
        self, spec: LayerSpec, index: int, shape: Sequence[int], kind: str, filler: Fields
    ) -> np.ndarray:
        """A blob of a layer.

        Args:
            spec: the layer.
            index: which of its blobs.
            shape: what it must have.
            kind: ``weight``, ``bias``, ``mean``, ``one`` (scales, variances) or ``slope``.
            filler: how Caffe would fill it where the file has none.

        Returns:
            float32, of ``shape``.

        Raises:
            SourceModelError: missing, or of another shape.
        """
        raise no_weights(spec.path)

    def findings(self, used: Sequence[LayerSpec]) -> list[Finding]:
        """What to say of the weights after all of ``used`` have theirs."""
        return []


def no_weights(what: str) -> SourceModelError:
    """The error for what needs weights where there are none."""
    return SourceModelError(
        f"{what} needs weights, and no caffemodel was given.",
        cause="There is none beside the prototxt, and none was named.",
        remedy="Name the caffemodel, or ask for random weights (blobs=None).",
    )


class NoBlobs(Weights):
    """Zeros without memory of their own: for a look at shapes.

    Attributes:
        asked: whether a layer wanted a blob.
    """

    def __init__(self) -> None:
        self.asked = False

    def blob(
        self, spec: LayerSpec, index: int, shape: Sequence[int], kind: str, filler: Fields
    ) -> np.ndarray:
        """Zeros that take no memory."""
        self.asked = True
        return np.broadcast_to(np.float32(0), tuple(shape))


class StoredBlobs(Weights):
    """The blobs of a caffemodel.

    As ``Net::CopyTrainedLayersFrom`` (caffe/src/caffe/net.cpp) does, layers are matched by their
    names; where the file repeats a name, its last one counts.
    """

    def __init__(self, layers: Sequence[StoredLayer], source: str) -> None:
        self._source = sanitize(source)
        self._layers = {layer.name: layer for layer in layers}
        self._filled: list[str] = []

    def stored(self, spec: LayerSpec) -> int | None:
        """How many blobs the file has for a layer; None where it has no such layer."""
        layer = self._layers.get(spec.name)
        return len(layer.blobs) if layer else None

    def blob(
        self, spec: LayerSpec, index: int, shape: Sequence[int], kind: str, filler: Fields
    ) -> np.ndarray:
        """The stored blob; where there is none, what a filler that knows no chance gives."""
        layer = self._layers.get(spec.name)
        if layer is None or index >= len(layer.blobs):
            filled = _filled(filler, tuple(shape)) if layer is None else None
            if filled is not None:
                self._filled.append(spec.name)
                return filled
            raise self._missing(spec, index)
        blob = layer.blobs[index]
        if not _same_shape(blob, tuple(shape)):
            raise SourceModelError(
                f"{spec.path} takes blob {index} with the shape {shape_text(shape)}; "
                f"{self._source} has {shape_text(blob.shape)}.",
                cause="Prototxt and caffemodel belong to different nets, or the input has another "
                "size than the net was trained for.",
                remedy="Give the files that belong together; check 'input_size_list'.",
            )
        return blob.reshape(tuple(shape))

    def _missing(self, spec: LayerSpec, index: int) -> SourceModelError:
        layer = self._layers.get(spec.name)
        if layer is not None:
            what = f"has {len(layer.blobs)} blobs for it, none with the number {index}"
        else:
            what = "has no layer of this name"
        with_blobs = [name for name, known in self._layers.items() if known.blobs]
        near = "" if layer else did_you_mean(spec.name, with_blobs)
        return SourceModelError(
            f"{spec.path} needs weights, and {self._source} {what}.",
            cause="Prototxt and caffemodel belong to different nets. Caffe itself would run with "
            "weights made by chance.",
            remedy=near or "Give the files that belong together, or ask for random weights.",
        )

    def findings(self, used: Sequence[LayerSpec]) -> list[Finding]:
        """Layers of the file that the net does not have, and blobs that a filler made."""
        names = {spec.name for spec in used}
        left = [name for name, layer in self._layers.items() if layer.blobs and name not in names]
        notes = []
        if left:
            shown = ", ".join(sanitize(name, 60) for name in left[:8])
            notes.append(
                Finding(
                    code="unused-weights",
                    severity="info",
                    where=self._source,
                    what=f"Weights that no layer uses ({len(left)}): {shown}"
                    + (", ..." if len(left) > 8 else "."),
                    cause="The net that is loaded does not have these layers, or no output needs "
                    "them.",
                )
            )
        notes.extend(
            Finding(
                code="filled-weights",
                severity="warning",
                where=sanitize(name),
                what=f"The weights of {sanitize(name)!r} are not in {self._source}; they were "
                "computed as its filler says.",
            )
            for name in dict.fromkeys(self._filled)
        )
        return notes


class RandomBlobs(Weights):
    """Random weights of a fixed seed, which differ by layer and keep activations finite.

    Weights follow He et al. 2015 (standard deviation sqrt(2 / fan in)), so that the size of
    activations stays about the same from layer to layer. Layers that share weights by the name of
    a ``param`` get the same ones.
    """

    def __init__(self) -> None:
        self._count = 0

    def blob(
        self, spec: LayerSpec, index: int, shape: Sequence[int], kind: str, filler: Fields
    ) -> np.ndarray:
        """Random numbers for a blob; the same ones in every run."""
        size = math.prod(shape)
        self._count += size
        if self._count > _MAX_RANDOM:
            raise SourceModelError(
                f"{spec.path}: random weights are made up to {_MAX_RANDOM} numbers, and here the "
                f"net has {self._count}.",
                remedy="Give the caffemodel, or check num_output.",
            )
        shared = spec.shared[index] if index < len(spec.shared) else ""
        seed = zlib.crc32((shared or f"{spec.name}\0{index}").encode())
        noise = np.random.default_rng([_SEED, seed]).standard_normal(size, np.float32)
        noise = noise.reshape(tuple(shape))
        return _RANDOM[kind](noise)

    def findings(self, used: Sequence[LayerSpec]) -> list[Finding]:
        """That the weights are random."""
        return [
            Finding(
                code="random-weights",
                severity="warning",
                where="blobs",
                what=f"The weights are random (fixed seed, {self._count} numbers).",
                cause="No caffemodel was given.",
                remedy="Results mean nothing; time and memory are those of the real net.",
            )
        ]


def _he(noise: np.ndarray) -> np.ndarray:
    fan_in = max(1, noise.size // max(1, noise.shape[0])) if noise.ndim > 1 else 1
    noise *= np.float32(math.sqrt(2 / fan_in))
    return noise


_RANDOM: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "weight": _he,
    "bias": lambda noise: noise * np.float32(0.01),
    "mean": lambda noise: noise * np.float32(0.1),
    "one": lambda noise: 1 + np.float32(0.1) * np.abs(noise),
    "factor": np.ones_like,
    "slope": lambda noise: 0.25 + np.float32(0.01) * noise,
}


def _same_shape(blob: np.ndarray, shape: tuple[int, ...]) -> bool:
    """Whether a stored blob fits: leading axes of 1 do not count, as old files have four axes.

    A vector may be stored along any one axis: BN of forks has 1xCx1x1.
    """
    if _trimmed(blob.shape) == _trimmed(shape):
        return True
    return len(shape) == 1 and [side for side in blob.shape if side != 1] == [
        side for side in shape if side != 1
    ]


def _trimmed(shape: tuple[int, ...]) -> tuple[int, ...]:
    ones = next((index for index, side in enumerate(shape) if side != 1), len(shape))
    return shape[ones:]


def _filled(filler: Fields, shape: tuple[int, ...]) -> np.ndarray | None:
    """What caffe/include/caffe/filler.hpp gives for fillers without chance; else None."""
    kind = filler.text("type", "constant") if filler.line else ""
    if kind == "constant":
        return np.full(shape, filler.number("value", 0.0), np.float32)
    if kind == "bilinear" and len(shape) == 4 and shape[2] == shape[3]:
        factor = math.ceil(shape[3] / 2)
        center = (2 * factor - 1 - factor % 2) / (2.0 * factor)
        ramp = 1 - np.abs(np.arange(shape[3]) / factor - center)
        return np.broadcast_to(np.outer(ramp, ramp), shape).astype(np.float32)
    return None
