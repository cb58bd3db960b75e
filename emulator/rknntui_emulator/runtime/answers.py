"""What a stand-in library answers for a model, written before as one file.

A file of answers is text, then bytes. Its first line is ``rknntui answers 1``; each line after it
is a key and its fields, with tabs between:

=============== ====================================================================================
``generation``  of the runtime library: 1 or 2
``run_us``      how long a run takes on one core, on two, on three; at least the first
``platform``    the chip that the model is built for; another one is refused (-13)
``simulated``   ``1``: results are in files of their own, see below
``custom``      the model's custom string
``memory``      bytes: weights, internal, all DMA, SRAM, free SRAM
``input``       name, dimensions (commas between), layout, type, quantization, fl, zero point, scale
``output``      the same
``layer``       id, operator, type, target, input shapes, output shape, DDR, NPU and whole cycles,
                time in us, MAC usage, workload, KB read and written, name
``answer``      digest of the inputs (``*``: of any), place and size of all outputs in the bytes
=============== ====================================================================================

The line ``data`` ends the text; the bytes follow. Outputs lie one behind the other, each in the
type that it has on the NPU, little endian. The digest is SHA-256 over each input's length, as eight
bytes little endian, and its bytes as they are handed to the library: the same picture as float and
as integers are two inputs.

Where the answers are simulated, each result is a file ``MODEL-INPUTS.result`` in the folder of
answers: the outputs alone. MODEL is half of the model's digest, INPUTS half of a digest as above
that also has, behind each input, the line ``TYPE LAYOUT PASS_THROUGH`` and at the end the setting
BEND. A library that does not find one asks for it, see
:mod:`rknntui_emulator.simulated.requests`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from engine.base.errors import UsageError
from engine.devices.measure.perf_report import PerfRow

ANY_INPUT = "*"
"""In place of a digest: the answer to every input that has none of its own."""

_TYPE_BYTES = {
    "FLOAT32": 4, "FLOAT16": 2, "INT8": 1, "UINT8": 1, "INT16": 2,
    "UINT16": 2, "INT32": 4, "UINT32": 4, "INT64": 8, "BOOL": 1,
}  # fmt: skip
_LAYOUTS = ("NCHW", "NHWC", "NC1HWC2", "UNDEFINED")
_QUANTIZATIONS = ("NONE", "DFP", "AFFINE")
_CELL = 255
_LINE_SIGNS = str.maketrans("\t\n\r\0", "    ")


def input_digest(inputs: Sequence[bytes]) -> str:
    """The digest of the inputs of a run, in the order of the model."""
    total = hashlib.sha256()
    for content in inputs:
        total.update(len(content).to_bytes(8, "little"))
        total.update(content)
    return total.hexdigest()


@dataclass(frozen=True)
class TensorFacts:
    """An input or output as the library describes it.

    Attributes:
        name: its name; at most 255 bytes are kept.
        dims: its dimensions, in the order of the layout.
        dtype: as of ``type_name`` in the agent names it (``runtime.c``).
        layout: NCHW, NHWC, NC1HWC2 or UNDEFINED.
        quantization: NONE, DFP or AFFINE.
        fl: fractional length, for DFP.
        zero_point, scale: for AFFINE.
    """

    name: str
    dims: tuple[int, ...]
    dtype: str = "INT8"
    layout: str = "NHWC"
    quantization: str = "AFFINE"
    fl: int = 0
    zero_point: int = 0
    scale: float = 1.0

    @property
    def size(self) -> int:
        """Its bytes."""
        return math.prod(self.dims) * _TYPE_BYTES[self.dtype]


@dataclass(frozen=True)
class Memory:
    """What the model takes, in bytes."""

    weight: int = 0
    internal: int = 0
    dma: int = 0
    sram: int = 0
    sram_free: int = 0


@dataclass(frozen=True)
class Answers:
    """All that a stand-in answers for one model.

    Attributes:
        inputs, outputs: in the order of the model.
        results: by digest of the inputs, or :data:`ANY_INPUT`: the bytes of each output.
        layers: rows of the performance text, as it is read back; ``ops`` where they are several.
        run_us: time of a run on one core; then on two and three, where the chip has them.
        simulated: whether results that are not here are made when they are asked for.
        generation, memory, platform, custom: see the module.
    """

    inputs: tuple[TensorFacts, ...]
    outputs: tuple[TensorFacts, ...]
    results: Mapping[str, Sequence[bytes]]
    layers: tuple[PerfRow, ...] = ()
    run_us: tuple[int, ...] = (1000,)
    generation: int = 2
    memory: Memory = field(default_factory=Memory)
    platform: str = ""
    custom: str = ""
    simulated: bool = False

    def write(self, path: Path) -> Path:
        """Write the file and return its path.

        Raises:
            UsageError: the outputs do not have the sizes that the tensors say, or a word is none
                of the format.
        """
        text, data = self._lines()
        whole = path.with_name(f".{path.name}.part")
        whole.write_bytes(b"".join([text.encode("utf-8", "replace"), b"data\n", *data]))
        return whole.replace(path)

    def beside(self, model: Path) -> Path:
        """Write the file beside a model, where ``librknnrt.so`` looks first."""
        return self.write(model.with_name(model.name + ".answers"))

    def into(self, folder: Path, model: Path) -> Path:
        """Write it into a folder of answers, where either library looks by the model's digest."""
        folder.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256(model.read_bytes()).hexdigest()
        return self.write(folder / f"{digest}.answers")

    def _lines(self) -> tuple[str, list[bytes]]:
        rows: list[list[object]] = [["generation", self.generation], ["run_us", *self.run_us]]
        rows += [["simulated", 1]] if self.simulated else []
        named = {"platform": self.platform, "custom": self.custom}
        rows += [[key, text] for key, text in named.items() if text]
        memory = self.memory
        rows.append(
            ["memory", memory.weight, memory.internal, memory.dma, memory.sram, memory.sram_free]
        )
        rows += [_tensor_row("input", tensor) for tensor in self.inputs]
        rows += [_tensor_row("output", tensor) for tensor in self.outputs]
        rows += [_layer_row(layer) for layer in self.layers]
        sizes = [tensor.size for tensor in self.outputs]
        data: list[bytes] = []
        place = 0
        for digest, outputs in self.results.items():
            if [len(output) for output in outputs] != sizes:
                raise UsageError(
                    f"The outputs for {digest[:12]} do not have the sizes {sizes}.",
                    remedy="Give every output in the type that it has on the NPU.",
                )
            rows.append(["answer", digest, place, sum(sizes)])
            place += sum(sizes)
            data += outputs
        lines = ["\t".join(_cell(value) for value in row) for row in rows]
        return "\n".join(["rknntui answers 1", *lines, ""]), data


def _cell(value: object) -> str:
    text = str(value).translate(_LINE_SIGNS)
    return text.encode("utf-8", "replace")[:_CELL].decode("utf-8", "ignore")


def _tensor_row(key: str, tensor: TensorFacts) -> list[object]:
    known = (
        (tensor.dtype, tuple(_TYPE_BYTES)),
        (tensor.layout, _LAYOUTS),
        (tensor.quantization, _QUANTIZATIONS),
    )
    for word, words in known:
        if word not in words:
            raise UsageError(f"{word!r} is none of {', '.join(words)}.")
    dims = ",".join(str(size) for size in tensor.dims)
    words = (tensor.layout, tensor.dtype, tensor.quantization)
    numbers = (tensor.fl, tensor.zero_point, repr(tensor.scale))
    return [key, tensor.name, dims, *words, *numbers]


def _shape(dims: Sequence[int]) -> str:
    return "(" + ",".join(str(size) for size in dims) + ")" if dims else "\\"


def _layer_row(row: PerfRow) -> list[object]:
    (output,) = row.outputs
    inputs = ",".join(_shape(dims) for dims in row.inputs) or "\\"
    op = "+".join(row.ops) or row.op
    cycles = (row.ddr_cycles or 0, row.npu_cycles or 0, row.total_cycles or 0)
    mac = "/".join(f"{share:.2f}" for share in row.mac_usage) or "\\"
    workload = "/".join(f"{share:.1f}%" for share in row.workload) or "0.0%"
    tail = (round(row.microseconds or 0), mac, workload, (row.traffic or 0) >> 10, row.name)
    head = ("layer", row.id, op, row.dtype, row.target, inputs, _shape(output))
    return [*head, *cycles, *tail]
