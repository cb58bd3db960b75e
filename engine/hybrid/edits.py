"""What a user changed in a ``.quantization.cfg``: checked, as settings of a build, and verified."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from engine.base.errors import EngineError
from engine.base.findings import Finding
from engine.base.text import did_you_mean, sanitize
from engine.graph.ir import QUANT_DTYPES, QuantParams
from engine.hybrid.cfg_reader import Problem, problems_error
from engine.hybrid.cfg_writer import Entry, HybridConfig, tensors_by_key
from engine.hybrid.layers import Layers
from engine.quantize import Quantized
from engine.quantize import applied_dtypes as dtypes_of
from engine.quantize.checks import check_range
from engine.quantize.dtypes.formats import layer_dtype
from engine.quantize.planning.node_properties import is_constant
from engine.wire.hybrid import RequestCheck

_FLOATS = frozenset({"float16", "float32"})
_INTEGERS = {"u8": "uint8", "i8": "int8", "i16": "int16", "i32": "int32"}
# Two parameters that are written with all their digits agree to the last bit; a hand rounds.
_AGREE = 1e-3
# Problems that are looked for: the nearest names take 0.1 ms each, and a file may have 10**6 lines.
_ENOUGH = 1000


@dataclass(frozen=True)
class Edits:
    """What is asked for beside the settings of step 1.

    Attributes:
        layers: layer -> dtype.
        ranges: tensor -> (minimum, maximum).
        lines: (layer, ``dtype``) or (tensor, ``range``) -> line of the file.
        findings: what was understood in another way than it is written.
    """

    layers: Mapping[str, str] = field(default_factory=dict)
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    lines: Mapping[tuple[str, str], int] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()


def edits_of(config: HybridConfig, written: HybridConfig, layers: Layers, path: str) -> Edits:
    """The edits of a file.

    Args:
        config: as the file is now.
        written: as step 1 wrote it.
        layers: of the float graph.
        path: of the file, for messages.

    Raises:
        RecipeError: names that the model does not have, unknown dtypes, ranges that cannot be; all
            of them, with their lines and the nearest names.
    """
    edits, problems = check_edits(config, written, layers)
    if problems:
        raise problems_error(path, problems)
    return edits


def check_edits(
    config: HybridConfig, written: HybridConfig, layers: Layers
) -> tuple[Edits, list[Problem]]:
    """As :func:`edits_of`, with the problems beside what could be understood."""
    reading = _Reading(config, written, layers)
    reading.lifted()
    reading.parameters()
    edits = Edits(reading.layers, reading.ranges, reading.lines, tuple(reading.findings))
    return edits, sorted(reading.problems, key=lambda p: p.line)


class _Reading:
    def __init__(self, config: HybridConfig, written: HybridConfig, layers: Layers) -> None:
        self.layers: dict[str, str] = {}
        self.ranges: dict[str, tuple[float, float]] = {}
        self.lines: dict[tuple[str, str], int] = {}
        self.findings: list[Finding] = []
        self.problems: list[Problem] = []
        self._config = config
        self._written = written
        self._layers = layers
        self._tensors = tensors_by_key(layers, config.generation)

    def lifted(self) -> None:
        """The entries of custom(ized)_quantize_layers."""
        for name, dtype in self._config.layers.items():
            if len(self.problems) >= _ENOUGH:
                return
            self._lift(name, dtype, self._config.lines.get(name, 0))

    def _lift(self, name: str, dtype: str, line: int) -> None:
        try:
            layer = self._layers.named(name).id
            kind = layer_dtype(dtype)
        except EngineError as error:
            self._problem(line, " ".join(part for part in (error.what, error.remedy) if part))
            return
        other = self.layers.get(layer, dtype)
        if other != dtype:
            self._problem(line, f"{sanitize(name, 120)!r} is asked for as {other} and {dtype}.")
            return
        self.layers[layer] = dtype
        self.lines[layer, "dtype"] = line
        if kind.scheme.name == "float16" and dtype == "float32":
            self._note(
                "hybrid-float32-is-float16",
                line,
                f"{sanitize(name, 120)!r} computes in float16 where the file says float32.",
                "The NPU has no float32; the vendor's files of generation 1 spell float16 so.",
            )

    def parameters(self) -> None:
        """The entries of quantize_parameters that differ from what step 1 wrote."""
        for key, entry in self._config.entries.items():
            if len(self.problems) >= _ENOUGH:
                return
            before = self._written.entries.get(key)
            if before is None or key not in self._tensors:
                near = did_you_mean(key, self._tensors)
                what = f"The model has no tensor {sanitize(key, 120)!r} with parameters."
                self._problem(entry.line, f"{what} {near}".strip())
                continue
            self._dtype(key, entry, before)
            self._range(key, entry, before)

    def _dtype(self, key: str, entry: Entry, before: Entry) -> None:
        if entry.dtype == before.dtype:
            return
        layer = self._layers.by_tensor.get(self._tensors[key])
        if layer is None:
            name = sanitize(key, 120)
            self._problem(entry.line, f"The dtype of {name!r} follows from its layer's.")
            return
        first = self._config.generation == 1
        chosen = "float32" if first and not entry.dtype else entry.dtype
        if first and chosen in _INTEGERS:
            scheme = "dynamic_fixed_point" if entry.scheme == "dfp" else "asymmetric_affine"
            chosen = f"{scheme}-{chosen}"
        if layer.id not in self.layers:  # the list of layers wins
            self._lift(layer.id, chosen, entry.line)

    def _range(self, key: str, entry: Entry, before: Entry) -> None:
        ends = (entry.minimum, entry.maximum)
        moved = ends != (before.minimum, before.maximum)
        rescaled = (entry.scale, entry.zero_point) != (before.scale, before.zero_point)
        if not moved and not rescaled:
            return
        tensor, name = self._tensors[key], sanitize(key, 120)
        value = self._layers.graph.values.get(tensor)
        if value is None or is_constant(value):
            self._problem(
                entry.line,
                f"The parameters of {name!r} cannot be changed: they follow from its weights.",
            )
            return
        if entry.dtype in _FLOATS or not before.scale:
            self._problem(entry.line, f"{name!r} is not quantized: it has no range to change.")
            return
        counts = {len(v) for v in (*ends, entry.scale, entry.zero_point)}
        if counts != {1}:
            self._problem(
                entry.line, f"{name!r} needs one number each as min, max, scale and zero point."
            )
            return
        implied = self._implied(entry)
        low, high = (entry.minimum[0], entry.maximum[0]) if moved else implied
        fault = check_range(low, high)
        if fault:
            self._problem(entry.line, f"The range of {name!r} cannot be used: {fault}")
            return
        self.ranges[tensor] = (low, high)
        self.lines[tensor, "range"] = entry.line
        self._tell_disagreement(name, entry, (low, high), implied, moved, rescaled)

    def _implied(self, entry: Entry) -> tuple[float, float]:
        """The range that scale and zero point mean."""
        lowest, highest = QUANT_DTYPES[_INTEGERS.get(entry.dtype, entry.dtype)]
        scale, zero = entry.scale[0], entry.zero_point[0]
        return (lowest - zero) * scale, (highest - zero) * scale

    def _tell_disagreement(
        self,
        name: str,
        entry: Entry,
        used: tuple[float, float],
        implied: tuple[float, float],
        moved: bool,
        rescaled: bool,
    ) -> None:
        width = used[1] - used[0]
        apart = max(abs(used[0] - implied[0]), abs(used[1] - implied[1]))
        # a range that is used may be shifted by half a step so that 0 is exact
        if apart <= max(_AGREE * width, entry.scale[0]):
            return
        if moved and rescaled:
            what = (
                f"min and max of {name!r} do not fit its scale and zero point; min and max count."
            )
        elif moved:
            what = f"Scale and zero point of {name!r} are recomputed from its min and max."
        else:
            what = f"min and max of {name!r} follow from its changed scale and zero point."
        self._note(
            "hybrid-parameters-disagree",
            entry.line,
            what,
            f"The range is {used[0]:.6g} to {used[1]:.6g}; the scale in the file means "
            f"{implied[0]:.6g} to {implied[1]:.6g}.",
        )

    def _problem(self, line: int, message: str) -> None:
        self.problems.append(Problem(line, message))

    def _note(self, code: str, line: int, what: str, cause: str) -> None:
        self.findings.append(
            Finding(code, "info", f"line {line} of the quantization.cfg", what, cause)
        )


# Verifies that a build has the dtypes and ranges that were requested, read from the build itself.

# The ends of a range move by up to half a step each, so that 0 is one of the integers.
_ROUNDING = 1.01 / 127


def verify_requests(
    quantized: Quantized,
    layers: Mapping[str, str],
    ranges: Mapping[str, tuple[float, float]] | None = None,
    lines: Mapping[tuple[str, str], int] | None = None,
) -> tuple[RequestCheck, ...]:
    """Compare every request with the build.

    Args:
        quantized: the build.
        layers: layer -> dtype that was asked for.
        ranges: tensor -> (minimum, maximum) that was asked for.
        lines: (layer, ``dtype``) or (tensor, ``range``) -> line of the file.
    """
    at = lines or {}
    rows = []
    for name, got in dtypes_of(layers, quantized).items():
        asked = layers[name]
        why = "" if got == asked else f"The build stores {sanitize(name, 120)!r} as {got}."
        line = at.get((name, "dtype"), 0)
        rows.append(RequestCheck(name, "dtype", asked, got, got == asked, why, line))
    for tensor, span in (ranges or {}).items():
        name, line = quantized.layers.id_of(tensor), at.get((tensor, "range"), 0)
        rows.append(_range(name, quantized.table.get(tensor), span, line))
    return tuple(rows)


def _range(
    name: str, params: QuantParams | None, asked: tuple[float, float], line: int
) -> RequestCheck:
    text = f"{asked[0]:.6g} to {asked[1]:.6g}"
    if params is None or params.is_float or not params.minimum or not params.maximum:
        got = "float32" if params is None else params.dtype
        why = "The tensor is not stored in integers, so it has no range."
        return RequestCheck(name, "range", text, got, False, why, line)
    low, high = params.minimum[0], params.maximum[0]
    room = (asked[1] - asked[0]) * _ROUNDING
    if params.narrow:  # its scale is a power of two: the next one that holds what was asked
        ok = low <= asked[0] + room and high >= asked[1] - room
    else:
        ok = abs(low - asked[0]) <= room and abs(high - asked[1]) <= room
    why = "" if ok else "It shares its scale with a tensor that it is joined with or copied from."
    return RequestCheck(name, "range", text, f"{low:.6g} to {high:.6g}", ok, why, line)


def not_applied(rows: Iterable[RequestCheck]) -> tuple[Finding, ...]:
    """A warning for every request that the build does not have."""
    return tuple(
        Finding(
            "hybrid-not-honoured",
            "warning",
            f"line {row.line}" if row.line else sanitize(row.layer, 120),
            f"{sanitize(row.layer, 120)!r} was requested as {row.kind} {row.asked}, but is "
            f"{row.got}.",
            cause=row.why,
            remedy="Promote the neighbouring layers too, or remove the entry.",
        )
        for row in rows
        if not row.ok
    )
