"""One model for one chip, through one object of the vendor's class."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.base.errors import CompilerError
from engine.base.files import output_errors, read_regular
from engine.base.plain import JsonValue
from engine.recipe import canonical_json
from engine.toolkit.compile.causes import explained
from engine.toolkit.compile.neutral_names import NeutralNames
from engine.wire.compile import QuantizedBy

if TYPE_CHECKING:
    from engine.toolkit.toolkit import RemoteRKNN, Toolkit

MODEL_LIMIT = 4 << 30
"""Bytes of a compiled model that are read back."""

Samples = Sequence[Sequence[np.ndarray]]
"""For each sample an array for each input, as the program that runs the model has them."""


@dataclass(frozen=True, kw_only=True)
class CompilerRequest:
    """What the toolkit is given.

    Attributes:
        chip: for messages; it is in ``config`` too.
        model: ONNX.
        by: whose quantization it will have.
        config, build: arguments of those methods, without the dataset's path.
        samples: of the vendor's own quantization; empty without.
        names: of the model's nodes and tensors; they are in nothing that the toolkit makes but its
            words, so that two models that differ by them alone are compiled once.
    """

    chip: str
    model: bytes
    by: QuantizedBy
    config: Mapping[str, JsonValue]
    build: Mapping[str, JsonValue]
    samples: Samples = field(default=())
    names: NeutralNames = field(default=NeutralNames())

    @property
    def user_config(self) -> dict[str, JsonValue]:
        """The arguments of ``config`` with the user's names of tensors."""
        config = dict(self.config)
        targets = config.get("op_target")
        if isinstance(targets, dict):
            config["op_target"] = {
                self.names.told(name): op_target for name, op_target in targets.items()
            }
        return config

    @property
    def digest(self) -> str:
        """SHA-256 over all of it: the same for the same compilation everywhere."""
        hasher = hashlib.sha256(hashlib.sha256(self.model).digest())
        hasher.update(canonical_json({"config": dict(self.config), "build": dict(self.build)}))
        for sample in self.samples:
            for array in sample:
                hasher.update(f"{array.dtype.str} {array.shape} ".encode("ascii"))
                hasher.update(np.ascontiguousarray(array).tobytes())
        return hasher.hexdigest()


class CompilerRun:
    """A compilation in a toolkit's process.

    Args:
        toolkit: that is asked.
        request: what for.
        seconds: until a method is ended; None: no limit.
    """

    def __init__(
        self, toolkit: Toolkit, request: CompilerRequest, seconds: float | None = None
    ) -> None:
        self._toolkit = toolkit
        self._request = request
        self._seconds = seconds
        self._rknn: RemoteRKNN | None = None
        self._simulates = False
        self._mark = toolkit.mark

    @property
    def alive(self) -> bool:
        """Whether the toolkit's process can be asked."""
        return self._toolkit.alive

    @property
    def stopped(self) -> bool:
        """Whether the toolkit was ended while it worked."""
        return self._toolkit.stopped

    def with_model(self, model: bytes, names: NeutralNames) -> CompilerRun:
        """A run of the same toolkit and request, of another ONNX file with names of its own."""
        config = self._request.user_config
        targets = config.get("op_target")
        if isinstance(targets, dict):
            config["op_target"] = {
                **names.in_file({name: str(op_target) for name, op_target in targets.items()})
            }
        request = replace(self._request, model=model, names=names, config=config)
        return CompilerRun(self._toolkit, request, self._seconds)

    @property
    def log(self) -> str:
        """What was printed since the compilation began."""
        return self._toolkit.since(self._mark)

    def compile(self) -> bytes:
        """Configure, load, build and write; the compiled model.

        Raises:
            CompilerError: a method refused, or the process ended; names the method.
            OutputError: there is no room for its files.
            JobCancelledError: the user cancelled.
        """
        request, folder = self._request, self._toolkit.work
        path, out = folder / "model.onnx", folder / "model.rknn"
        with output_errors(path):
            out.unlink(missing_ok=True)
            path.write_bytes(request.model)
        config: dict[str, Any] = dict(request.config)
        build: dict[str, Any] = dict(request.build)
        if request.by == "vendor":
            build["dataset"] = str(_dataset(folder, request.samples))
        self._rknn = self._toolkit.rknn(verbose=True)
        do = partial(self._rknn.do, seconds=self._seconds)
        try:
            do("config", **config)
            do("load_onnx", model=str(path))
            do("build", **build)
            do("export_rknn", str(out))
        except CompilerError as error:
            # of one that took too long, the time is the cause
            if self.stopped:
                raise
            raise explained(error, self.log) from error
        try:
            return read_regular(out, MODEL_LIMIT)
        except (OSError, ValueError) as error:
            raise CompilerError(
                f"The toolkit wrote no model for {request.chip} that can be read: {error}.",
                remedy="Look at what it printed; free space where the disk is full.",
            ) from error

    def simulate(self, sample: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Outputs of the vendor's simulator for one sample.

        Raises:
            CompilerError: it does not run.
        """
        mark = self._toolkit.mark
        if not self._simulates:
            self._compiled().do("init_runtime", seconds=self._seconds)
            self._simulates = True
        outputs = self._compiled().call(
            "inference",
            inputs=[np.ascontiguousarray(array) for array in sample],
            data_format=["nchw"] * len(sample),
            seconds=self._seconds,
        )
        if not isinstance(outputs, list | tuple):
            raise self._toolkit.refused("inference", mark, outputs)
        return [np.asarray(array) for array in outputs]

    def release(self) -> None:
        """Free the model in the toolkit's process."""
        if self._rknn is not None and self._toolkit.alive:
            self._rknn.release(seconds=60)
        self._rknn = None

    def _compiled(self) -> RemoteRKNN:
        if self._rknn is None:
            raise CompilerError(
                "There is no compiled model in the toolkit.", remedy="Call compile first."
            )
        return self._rknn


def _dataset(folder: Path, samples: Samples) -> Path:
    """The samples as files, and the list of them; pixels in 8 bits where they are whole."""
    place = folder / "samples"
    lines = []
    with output_errors(place):
        place.mkdir(exist_ok=True)
        for at, sample in enumerate(samples):
            names = [place / f"{at}_{index}.npy" for index in range(len(sample))]
            for path, array in zip(names, sample, strict=True):
                np.save(path, _small(array))
            lines.append(" ".join(map(str, names)) + "\n")
        path = folder / "dataset.txt"
        path.write_text("".join(lines), encoding="utf-8")
    return path


def _small(array: np.ndarray) -> np.ndarray:
    if array.dtype == np.float32 and array.size and array.min() >= 0 and array.max() <= 255:
        pixels = array.astype(np.uint8)
        if np.array_equal(pixels, array):
            return pixels
    return np.ascontiguousarray(array)
