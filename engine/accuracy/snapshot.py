"""The snapshot folder and ``error_analysis.txt``, in the layout of the vendor's toolkit 2.

Source: builds of toolkit 2.3.2 seen from outside (docs/accuracy.md), and public error tables.
The manuals of generation 1 show no layout (§9.2), so its calls get the same, with a line that says
so. The three lines of comment are our own words.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType

import numpy as np
import onnx_ir as ir

from engine.accuracy.analyse import AccuracyReport, chunks
from engine.accuracy.rows import INPUT, Row, float_bytes
from engine.accuracy.runners import SimulatedRunner
from engine.accuracy.three_way import LayerOnBoard
from engine.base.errors import OutputExistsError
from engine.base.files import atomic_write, output_errors
from engine.base.leftovers import let_go, make_owned
from engine.base.text import sanitize
from engine.graph.ir import Graph, spec_of
from engine.graph.ir.arrays import npy_bytes
from engine.graph.layers import LayerMap
from engine.wire.build import Distance, LayerAccuracy

# Numbers as the vendor's snapshots print them: one ``%.6f`` a line, fast.

_VALUES_AT_ONCE = 1 << 13  # values; what is computed of them stays in the processor's caches
_LIMIT = 999.0  # whole parts of up to three digits take the fast way
_ONE_DIGIT = 9.999999
_LINE = np.dtype([("whole", "u1"), ("high", "<u4"), ("low", "<u4")])  # nine bytes


def _words(texts: list[bytes]) -> np.ndarray:
    """Four bytes each, as the 32-bit words that numpy moves at once."""
    return np.frombuffer(b"".join(texts), dtype=np.uint32)


# a line is three words: sign and whole part, point and three digits, three digits and line end;
# zero bytes are taken out at the end
_WHOLE = _words(
    [
        b"%s%d" % (sign, n) + bytes(4 - len(sign) - len(str(n)))
        for sign in (b"", b"-")
        for n in range(1000)
    ]
)
_HIGH = _words([b".%03d" % n for n in range(1000)])
_LOW = _words([b"%03d\n" % n for n in range(1000)])


def value_lines(array: np.ndarray) -> bytes:
    """Every value of an array in C order as ``"%.6f\\n"``, to the byte as C's printf does.

    About eight times as fast as formatting values: a float32 times 10**6 is exact in float64
    (24 + 14 bits), so one rounding to the nearest even integer gives all digits.
    """
    flat = np.ascontiguousarray(array, dtype=np.float32).ravel()
    return b"".join(
        _block(flat[start : start + _VALUES_AT_ONCE])
        for start in range(0, len(flat), _VALUES_AT_ONCE)
    )


def _block(values: np.ndarray) -> bytes:
    if bool((values < _ONE_DIGIT).all()) and not np.signbit(values).any():
        return _short(values)
    magnitude = np.abs(values)
    if not bool((magnitude < _LIMIT).all()):  # also NaN and infinity
        return b"".join(b"%.6f\n" % value for value in values.tolist())
    steps = np.rint(magnitude.astype(np.float64) * 1e6).astype(np.uint32)
    thousands = steps // np.uint32(1000)
    whole = thousands // np.uint32(1000)
    words = np.empty((len(values), 3), dtype=np.uint32)
    words[:, 0] = _WHOLE[whole + np.signbit(values) * np.uint32(1000)]
    words[:, 1] = _HIGH[thousands - whole * np.uint32(1000)]
    words[:, 2] = _LOW[steps - thousands * np.uint32(1000)]
    return words.tobytes().translate(None, b"\0")


def _short(values: np.ndarray) -> bytes:
    """Lines of numbers from 0 to below 10, as half of a network's tensors have.

    All have one length: no zero bytes are to be taken out, most of the time of other lines.
    """
    thousands, low = np.divmod(np.rint(values.astype(np.float64) * 1e6).astype(np.int32), 1000)
    whole, high = np.divmod(thousands, 1000)
    lines = np.empty(len(values), dtype=_LINE)
    lines["whole"] = whole + ord("0")
    lines["high"] = _HIGH[high]
    lines["low"] = _LOW[low]
    return lines.tobytes()


def npy_header(shape: tuple[int, ...]) -> bytes:
    """What stands before the float32 values in an npy file of version 1.0.

    The same bytes as numpy.save writes, without the half of a small file's time that it takes:
    magic, length, a Python literal, blanks up to a multiple of 64.
    """
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape!r}, }}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode("ascii")


def euclidean_text(value: float) -> str:
    """A Euclidean distance as ``error_analysis.txt`` has it.

    Six characters, as in files of toolkit 2 (``0.5907``, ``31.866``, ``180.73``); 0 is ``0.0``.
    Beyond 9999 no file was at hand: the nearest whole number.
    """
    if value == 0:
        return "0.0"
    for decimals in (4, 3, 2, 1):
        text = f"{value:.{decimals}f}"
        if len(text) <= 6:
            return text
    return f"{value:.0f}"


_COMMENT = (
    "# simulator_error: distance of each layer's simulated output from the golden (float) one.\n"
    "#              entire: the whole quantized model ran; errors of earlier layers are in it.\n"
    "#              single: the layer ran alone on golden inputs; its own error only.\n"
)
_RUNTIME_COMMENT = (
    "# runtime_error: distance of each layer's output on the board from the simulated one; the\n"
    "#              manuals have it in words only, the columns are ours.\n"
    "#              entire: the whole model ran on both; errors of earlier layers are in it.\n"
    "#              single_sim: the simulator got the board's own tensors; this layer only.\n"
)
_GENERATION_1 = (
    "# The manuals of generation 1 show no layout for this file: it is generation 2's.\n"
)
_PARTS = ("golden", "simulator", "runtime", "error_analysis.txt", "map_name_to_file.txt")
_REPLACED = str.maketrans(dict.fromkeys("/:.\\\0\n\r\t", "_"))
_LONGEST = 200  # of a file name in bytes, before its suffix
_CELL = 20
_BLOCK = 44
_NAME_LIMIT = 10_000


def file_names(labels: Sequence[str]) -> dict[str, str]:
    """Label -> file name without suffix: ``/``, ``:``, ``.`` and what cannot be printed become
    ``_``, blanks stay.

    Two labels that would share a name get ``_1``, ``_2``; very long ones end in a hash.
    """
    names: dict[str, str] = {}
    taken: set[str] = set()
    for label in labels:
        if label in names:
            continue
        base = "".join(c if c.isprintable() else "_" for c in label.translate(_REPLACED)) or "_"
        encoded = base.encode("utf-8", "replace")
        if len(encoded) > _LONGEST:
            digest = hashlib.sha256(label.encode("utf-8", "replace")).hexdigest()[:12]
            base = f"{encoded[:_LONGEST].decode('utf-8', 'ignore')}_{digest}"
        name, number = base, 0
        while name in taken:
            number += 1
            name = f"{base}_{number}"
        taken.add(name)
        names[label] = name
    return names


def error_table(
    report: AccuracyReport, *, generation: int = 2, runtime: Sequence[LayerOnBoard] | None = None
) -> str:
    """The text of ``error_analysis.txt``.

    Args:
        report: of the simulator.
        generation: of the vendor's toolkit, for the note.
        runtime: of a board; adds its columns.
    """
    shown = [sanitize(f"[{row.op}] {row.label}", _NAME_LIMIT) for row in report.rows]
    width = max([len("layer_name"), *(len(text) for text in shown)]) + 5
    lines = [
        f"{'layer_name':<{width + 9}}{'simulator_error':<{_BLOCK - 9}}",
        f"{'':<{width + 5}}{'entire':<20}{'single':<{_BLOCK - 25}}",
        f"{'':<{width + 2}}{'cos':<9}{'euc':<11}{'cos':<9}{'euc':<{_BLOCK - 31}}",
        "-" * (width + _BLOCK - 4),
    ]
    lines += [
        f"{text:<{width}}{_cells(layer)}" for text, layer in zip(shown, report.layers, strict=True)
    ]
    note = _GENERATION_1 if generation == 1 else ""
    if runtime is not None:
        lines = _with_runtime(lines, report, {layer.row: layer for layer in runtime})
        note = _RUNTIME_COMMENT + note
    return _COMMENT + note + "\n" + "".join(f"{line}\n" for line in lines)


def _with_runtime(
    lines: Sequence[str], report: AccuracyReport, runtime: Mapping[Row, LayerOnBoard]
) -> list[str]:
    """The table with two columns more [RKNN-T2 1.1.0, 3.5.13; RKNN-T2 2.3.0, 2.13]."""
    place = max(map(len, lines[:4]), default=0)
    place = max(place, *(len(line) for line in lines)) + 2
    on_board = [runtime.get(row) for row in report.rows]
    cells = [
        "" if one is None else f"{_cell(one.distances[0]):<{_CELL}}{_cell(one.distances[1])}"
        for one in on_board
    ]
    head = ("  runtime_error", "entire              single_sim")
    more = [*head, "cos      euc        cos      euc", "-" * (2 * _CELL), *cells]
    return [f"{line:<{place}}{text}" for line, text in zip(lines, more, strict=True)]


def _cells(layer: LayerAccuracy) -> str:
    if layer.cumulative is None or layer.isolated is None:
        return ""
    return f"{_cell(layer.cumulative):<{_CELL}}{_cell(layer.isolated):<{_BLOCK - _CELL}}"


def _cell(distance: Distance) -> str:
    cosine = math.nan if distance.cosine is None else distance.cosine
    euclidean = math.nan if distance.euclidean is None else distance.euclidean
    return f"{cosine:.5f} | {euclidean_text(euclidean)}"


def _name_map(names: dict[str, str]) -> str:
    width = max([len("layer_name"), *(len(label) for label in names)]) + 5
    files = {label: f"{name}.txt" for label, name in names.items()}
    second = max([len("file_name"), *(len(file) for file in files.values())])
    lines = [f"{'layer_name':<{width}}{'file_name':<{second}}", "-" * (width + second)]
    lines += [f"{label:<{width}}{file:<{second}}" for label, file in files.items()]
    return "".join(f"{sanitize(line, 3 * _NAME_LIMIT)}\n" for line in lines)


class SnapshotWriter:
    """Writes a snapshot beside its final place and moves it there when it is complete.

    Use as a context manager around the analysis, hand it over as ``sink``, then call
    :meth:`finish`; whatever ends the block before that leaves nothing behind.

    Args:
        folder: the output folder; made when it is missing.
        rows: of the analysis.
        force: whether a folder that is not empty may be written to; of what is in it only an
            earlier snapshot's parts are replaced.
        generation: of the vendor's toolkit, for the note in the table.

    Raises:
        OutputExistsError: the folder is not empty and ``force`` is false.
        OutputError: it cannot be written.
    """

    def __init__(
        self, folder: Path, rows: Sequence[Row], *, force: bool = False, generation: int = 2
    ) -> None:
        self._folder = folder
        self._names = file_names([row.label for row in rows])
        self._generation = generation
        self._written: set[tuple[str, str]] = set()
        with output_errors(folder):
            if not force and folder.is_dir() and any(folder.iterdir()):
                raise OutputExistsError(
                    f"{folder} is not empty.",
                    remedy="Allow overwriting (--force) or choose another folder.",
                )
            if folder.exists() and not folder.is_dir():
                raise NotADirectoryError(20, "It is not a folder")
            folder.parent.mkdir(parents=True, exist_ok=True)
            self._work = make_owned("snapshot", folder.parent, folder.name)
            for side in ("golden", "simulator"):
                (self._work / side / "npy").mkdir(parents=True)

    def __enter__(self) -> SnapshotWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        let_go(self._work)

    def add(
        self,
        row: Row,
        golden: np.ndarray,
        simulated: np.ndarray | None,
        board: np.ndarray | None = None,
    ) -> None:
        """Write one row's tensors as text and npy, those of the board in ``runtime``."""
        for side, array in (("golden", golden), ("simulator", simulated), ("runtime", board)):
            if array is not None:
                self._add(side, row, array)

    def _add(self, side: str, row: Row, array: np.ndarray) -> None:
        name = self._names[row.label]
        if (side, name) in self._written:
            return
        self._written.add((side, name))
        values = np.ascontiguousarray(array, dtype=np.float32)
        raw = values.reshape(-1).view(np.uint8).data
        target = f"{self._work}/{side}"
        with output_errors(self._folder):
            (self._work / side / "npy").mkdir(parents=True, exist_ok=True)
            _write(f"{target}/{name}.txt", value_lines(values))
            _write(f"{target}/npy/{name}.npy", npy_header(array.shape), raw)

    def finish(
        self, report: AccuracyReport | None, runtime: Sequence[LayerOnBoard] | None = None
    ) -> tuple[Path, ...]:
        """Write the tables and move everything to its place.

        Args:
            report: None leaves the table of errors out (``calc_qnt_error=False``).
            runtime: what a board gave, for the table.

        Returns:
            The folder's parts: golden, simulator, runtime where a board ran, error_analysis.txt,
            map_name_to_file.txt. What an earlier snapshot had beside them goes: it would be of
            other tensors.
        """
        with output_errors(self._folder):
            if report is not None:
                table = error_table(report, generation=self._generation, runtime=runtime)
                (self._work / "error_analysis.txt").write_bytes(table.encode("utf-8", "replace"))
            names = _name_map(self._names).encode("utf-8", "replace")
            (self._work / "map_name_to_file.txt").write_bytes(names)
            self._folder.mkdir(parents=True, exist_ok=True)
            # what was not made now goes only where it is of an earlier snapshot, and no user's own
            ours = (self._folder / "map_name_to_file.txt").is_file()
            parts = [
                part
                for part in _PARTS
                if ((self._work / part).exists() or (ours and self._is_old(part)))
                and self._replace(part)
            ]
        return tuple(self._folder / part for part in parts)

    def _is_old(self, part: str) -> bool:
        """Whether a part that is there looks like one that a snapshot wrote."""
        target = self._folder / part
        return target.is_file() or (target / "npy").is_dir()

    def _replace(self, part: str) -> bool:
        """Put a part in the place of an earlier one; whether there is a new one."""
        target, written = self._folder / part, self._work / part
        if target.is_dir() and not target.is_symlink():
            target.rename(self._work / f"old-{part}")  # gone with the work folder
        elif not written.exists():
            target.unlink(missing_ok=True)
        if not written.exists():
            return False
        written.replace(target)
        return True


def _write(path: str, *parts: bytes | memoryview) -> None:
    """Make a file of these bytes, without the objects that take a third of a small file's time."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        for part in parts:
            rest = memoryview(part)
            while rest:  # a disk that fills takes a part of it, and refuses the rest
                rest = rest[os.write(handle, rest) :]
    finally:
        os.close(handle)


# Tensors of every layer of one run, a file each: what ``NN_LAYER_DUMP=1`` asks of a simulator.
#
# Source: [RKNN-TS 1.4.0, 2]. It shows neither names nor format of the files:
# ``layer_0003_NAME.npy`` in the order of the graph, float32 in the model's layout, is ours.

_ROUNDING = ("QuantizeLinear", "Constant")


def dump_layers(
    graph: Graph,
    layers: LayerMap,
    feeds: Mapping[str, np.ndarray],
    folder: Path,
) -> tuple[Path, ...]:
    """Run a float or QDQ graph once and write what every layer gives.

    Quantized tensors are written as the next layer sees them, dequantized; layers that are fused
    into the next one have no file.

    Returns:
        The files, in the order of the graph. Earlier dumps of the same names are replaced.

    Raises:
        SimulationError: the graph does not run.
        OutputError: a file cannot be written.
    """
    rows = list(_rows(graph, layers))
    names = file_names([row.label for row in rows])
    parts = chunks(rows)
    side = SimulatedRunner(graph, layers, parts)
    files: list[Path] = []
    known: dict[str, np.ndarray] = {}
    for index, part in enumerate(parts):
        values = side.run(index, feeds, known)
        for row in part:
            path = folder / f"layer_{len(files):04d}_{names[row.label]}.npy"
            atomic_write(path, npy_bytes(np.asarray(values[row.simulated or ""])), overwrite=True)
            files.append(path)
    return tuple(files)


def _rows(graph: Graph, layers: LayerMap) -> Iterator[Row]:
    labels = {one.value: one.tensor for key, one in layers.stored.items() if key == one.tensor}
    hidden = {one.value for one in layers.stored.values()} - labels.keys()
    hidden |= {one.computed for one in layers.stored.values() if one.computed != one.tensor}
    for value in graph.model.graph.inputs:
        if spec_of(value).dtype == "float32":
            yield _row(value, INPUT, labels)
    for node in graph.nodes:
        if node.op_type in _ROUNDING or _of_constant(node):
            continue
        for value in node.outputs:
            name = value.name or ""
            shown = name and name not in hidden and name not in layers.inner
            if shown and spec_of(value).dtype == "float32":
                yield _row(value, node.op_type, labels)


def _of_constant(node: ir.Node) -> bool:
    """Whether a node only reads a weight."""
    first = node.inputs[0] if node.inputs else None
    return node.op_type in ("DequantizeLinear", "Cast") and (
        first is None or first.const_value is not None
    )


def _row(value: ir.Value, op: str, labels: Mapping[str, str]) -> Row:
    name = value.name or ""
    label = labels.get(name, name)
    return Row(label, op, label, name, name, float_bytes(value))
