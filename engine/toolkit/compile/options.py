"""What a recipe says to the vendor's compiler: arguments of its ``config`` and ``build``.

Names and defaults are those of [RKNN-T2 2.3.0, 2.2] and [RKNN-T1 1.3.2, 3.6.3]; which chip takes
which option was tried with toolkit 2.3.2. What a toolkit has no argument for is told, not dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from engine.base.errors import QuantizationError, UsageError
from engine.base.findings import Finding
from engine.base.plain import JsonValue
from engine.facts import Chip
from engine.options.names import LATER_DTYPES
from engine.quantize import check_dtype, check_layer_dtype
from engine.wire.compile import QuantizedBy

if TYPE_CHECKING:
    from engine.dataset.preprocess import InputPlan
    from engine.recipe import Recipe

QDQ_DTYPES = frozenset({"w8a8", "asymmetric_quantized-8"})
"""Dtypes whose numbers the toolkit takes over from Q/DQ pairs."""

_VENDOR_ALGORITHMS = frozenset({"normal", "kl_divergence", "mmse"})
_SPARSE = frozenset({"rk3576", "rv1103b", "rv1126b"})
"""Chips that toolkit 2.3.2 takes ``sparse_infer`` for; for others its ``config`` fails."""
_FLAGS = (
    "remove_weight",
    "compress_weight",
    "single_core_mode",
    "enable_flash_attention",
    "model_pruning",
    "remove_reshape",
)
"""Switches of generation 2 that are passed on as they stand."""


@dataclass(frozen=True)
class ToolkitOptions:
    """Arguments for one chip, and what the user should know of them.

    Attributes:
        config: of ``RKNN.config``.
        build: of ``RKNN.build``, without the dataset's path.
    """

    config: Mapping[str, JsonValue]
    build: Mapping[str, JsonValue]
    findings: tuple[Finding, ...] = field(default=())


def choose_quantizer(
    recipe: Recipe, chip: Chip, asked: str | None = None
) -> tuple[QuantizedBy, tuple[Finding, ...]]:
    """Whose quantization a compiled model has.

    Args:
        recipe: of the build.
        chip: that it is for.
        asked: ``ours``, ``vendor`` or None: ours where there is a way for it.

    Raises:
        UsageError: ours is asked for, and the toolkit of this chip cannot take it over.
    """
    part = recipe.quantization
    if not part.do_quantization:
        return "nobody", ()
    why = ""
    if chip.generation == 1:
        why = "Toolkits of generation 1 load no Q/DQ pairs"
    elif part.quantized_dtype not in QDQ_DTYPES:
        why = f"The toolkit takes over 8-bit Q/DQ pairs alone, and the dtype is {_dtype(recipe)}"
    if asked == "vendor":
        return "vendor", _vendor_notes(recipe)
    if not why:
        return "ours", ()
    if asked == "ours":
        raise UsageError(
            f"Our quantization cannot be compiled for {chip.name}.",
            cause=f"{why}.",
            remedy="Leave the quantizer out or name vendor: the toolkit then quantizes by its own "
            "options" + (", or set quantized_dtype to w8a8." if chip.generation == 2 else "."),
        )
    finding = Finding(
        "quantized-by-vendor",
        "warning",
        chip.name,
        "The vendor's toolkit quantizes this model itself, with the recipe's options and samples.",
        cause=f"{why}.",
        remedy="Its integers are not those that are simulated here: compare outputs (--samples).",
    )
    return "vendor", (finding, *_vendor_notes(recipe))


def require_dtypes(recipe: Recipe, chip: Chip, by: QuantizedBy) -> None:
    """Refuse what the chip does not have, before anything is built for it.

    Raises:
        QuantizationError: names the chips that have it.
    """
    part = recipe.quantization
    if by == "nobody":
        dtype_needed = "w8a16" if part.quantize_weight else "float16"
        if dtype_needed not in chip.dtypes:
            raise QuantizationError(
                f"{chip.name} does not compute in {dtype_needed}, and this build is not quantized.",
                cause=f"It has {', '.join(chip.dtypes)}.",
                remedy="Set do_quantization to yes, with a dataset.",
            )
        return
    if part.do_quantization:
        check_dtype(part.quantized_dtype, chip.name)
    if by == "ours":
        for dtype in dict.fromkeys((part.quantized_layers or {}).values()):
            check_layer_dtype(dtype, chip.name)


def _dtype(recipe: Recipe) -> str:
    return str(recipe.quantization.quantized_dtype)


def _vendor_notes(recipe: Recipe) -> tuple[Finding, ...]:
    """Options of the recipe that the vendor's own quantization does not have."""
    part = recipe.quantization
    findings = []
    if part.quantized_algorithm not in _VENDOR_ALGORITHMS:
        findings.append(
            _left_out(
                "quantized_algorithm",
                f"The vendor's toolkit has no algorithm {part.quantized_algorithm}: it takes "
                "normal.",
                "Choose normal, kl_divergence or mmse, or our quantizer.",
            )
        )
    findings += [
        _left_out(
            name,
            f"{name} is not passed on: the vendor's own quantization takes it in its two hybrid "
            "steps alone.",
            "Use our quantizer, or rknntui hybrid for the files of those steps.",
        )
        for name in ("quantized_layers", "quantized_ranges")
        if getattr(part, name)
    ]
    return tuple(findings)


def toolkit_options(
    recipe: Recipe,
    chip: Chip,
    by: QuantizedBy,
    inputs: Sequence[InputPlan],
    op_target: Mapping[str, str] | None = None,
    version: str = "",
) -> ToolkitOptions:
    """The arguments for a chip.

    Args:
        recipe: of the build.
        chip: its chip.
        by: whose quantization the model has.
        inputs: of the model that is handed over, in its order.
        op_target: tensor of that model -> where its operator runs.
        version: of the toolkit; empty where it is not known.
    """
    if chip.generation == 1:
        return _generation_1(recipe, chip, by, inputs, version)
    config: dict[str, JsonValue] = {"target_platform": chip.name, **_normalisation(recipe, inputs)}
    findings: list[Finding] = []
    part, compiler = recipe.quantization, recipe.compiler
    config["optimization_level"] = part.optimization_level
    for name in _FLAGS:
        if recipe.value(name):
            config[name] = True
    if recipe.target.custom_string:
        config["custom_string"] = recipe.target.custom_string
    if compiler.sparse_infer:
        if chip.name in _SPARSE:
            config["sparse_infer"] = True
        else:
            findings.append(
                _left_out(
                    "sparse_infer",
                    f"sparse_infer is not passed on: the toolkit refuses it for {chip.name}.",
                    f"It is for {', '.join(sorted(_SPARSE))}.",
                )
            )
    if op_target:
        config["op_target"] = dict(op_target)
    if recipe.source.dynamic_input:
        config["dynamic_input"] = [
            [list(s) for s in shapes] for shapes in recipe.source.dynamic_input
        ]
    build: dict[str, JsonValue] = {"do_quantization": by == "vendor"}
    if part.rknn_batch_size:
        build["rknn_batch_size"] = part.rknn_batch_size
    if by == "vendor":
        config |= _quantization(recipe)
        if part.auto_hybrid:
            build["auto_hybrid"] = True
            config["auto_hybrid_cos_thresh"] = part.auto_hybrid_cos_thresh
            config["auto_hybrid_euc_thresh"] = part.auto_hybrid_euc_thresh
    elif by == "nobody":
        findings += _float_options(recipe, config)
    findings += _unknown_to_2(recipe)
    return ToolkitOptions(config, build, tuple(findings))


def _quantization(recipe: Recipe) -> dict[str, JsonValue]:
    part = recipe.quantization
    known = part.quantized_algorithm in _VENDOR_ALGORITHMS
    return {
        "quantized_dtype": part.quantized_dtype,
        "quantized_algorithm": part.quantized_algorithm if known else "normal",
        "quantized_method": part.quantized_method,
    }


def _float_options(recipe: Recipe, config: dict[str, JsonValue]) -> Iterator[Finding]:
    part = recipe.quantization
    if part.quantize_weight:
        config["quantize_weight"] = True
    config["float_dtype"] = "float16"
    if part.float_dtype == "float32":
        yield _left_out("float_dtype", "The NPU computes in float16: float32 is not passed on.", "")


def _unknown_to_2(recipe: Recipe) -> Iterator[Finding]:
    if recipe.preprocess.reorder_channel is not None:
        yield _left_out(
            "reorder_channel",
            "reorder_channel is not passed on: generation 2 has no such option, so the compiled "
            "model takes channels in the order of the network.",
            "Give it that order in the program that runs it.",
        )
    if recipe.compiler.need_horizontal_merge:
        yield _left_out(
            "need_horizontal_merge",
            "need_horizontal_merge is not passed on: it is an option of generation 1.",
            "",
        )


def _generation_1(
    recipe: Recipe, chip: Chip, by: QuantizedBy, inputs: Sequence[InputPlan], version: str
) -> ToolkitOptions:
    part, data, first = recipe.quantization, recipe.dataset, recipe.preprocess
    later = _at_least(version, (1, 6))
    config: dict[str, JsonValue] = {
        "target_platform": [chip.name],
        "batch_size": data.batch_size,
        "epochs": data.epochs,
        "optimization_level": part.optimization_level,
    }
    if later:
        config |= _normalisation(recipe, inputs)
    elif (rows := _normalisation(recipe, inputs)) != {}:
        config["channel_mean_value"] = _channel_mean_value(rows)
    if first.reorder_channel is not None:
        config["reorder_channel"] = "#".join(
            " ".join(str(int(channel)) for channel in row) for row in first.reorder_channel
        )
    config.pop("quant_img_RGB2BGR", None)
    if by == "vendor":
        dtype = _dtype(recipe)
        config["quantized_dtype"] = LATER_DTYPES.get(dtype, dtype) if later else dtype
    if recipe.compiler.need_horizontal_merge:
        config["need_horizontal_merge"] = True
    build: dict[str, JsonValue] = {"do_quantization": by == "vendor"}
    if part.rknn_batch_size:
        build["rknn_batch_size"] = part.rknn_batch_size
    known = ("model_pruning",) if later else ()
    findings = [
        _left_out(name, f"{name} is not passed on: it is an option of generation 2.", "")
        for name in (*_FLAGS, "sparse_infer", "op_target", "dynamic_input", "custom_string")
        if recipe.value(name) and name not in known
    ]
    for name in known:
        if recipe.value(name):
            config[name] = True
    return ToolkitOptions(config, build, tuple(findings))


def _at_least(version: str, least: tuple[int, int]) -> bool:
    parts = version.split(".")[:2]
    return all(part.isdecimal() for part in parts) and tuple(map(int, parts)) >= least


def _normalisation(recipe: Recipe, inputs: Sequence[InputPlan]) -> dict[str, Any]:
    """Mean and std of every channel of every input, as the toolkit wants them.

    It takes one number for each entry of axis 1, whatever the input is, for all inputs or none; and
    the file then has them, so that a runtime given pixels computes the same.
    """
    values: dict[str, Any] = {}
    if any(port.mean is not None or port.std is not None for port in inputs):
        values["mean_values"] = [_row(port.mean, port.channels, 0.0) for port in inputs]
        values["std_values"] = [_row(port.std, port.channels, 1.0) for port in inputs]
    if any(port.swap for port in inputs):
        swaps = [port.swap for port in inputs]
        values["quant_img_RGB2BGR"] = swaps[0] if len(set(swaps)) == 1 else swaps
    return values


def _row(numbers: Sequence[float] | None, channels: int, default: float) -> list[float]:
    return [float(number) for number in numbers] if numbers is not None else [default] * channels


def _channel_mean_value(rows: Mapping[str, Any]) -> str:
    """Mean of every channel and one scale, per input, as toolkits before 1.6 take them."""
    texts = []
    for mean, std in zip(rows["mean_values"], rows["std_values"], strict=True):
        if len(set(std)) > 1:
            raise UsageError(
                "This toolkit of generation 1 takes one std for all channels of an input.",
                cause=f"The recipe has {std}.",
                remedy="Give all channels one std, or adopt a toolkit from 1.6 on.",
            )
        texts.append(" ".join(f"{number:g}" for number in (*mean, std[0])))
    return "#".join(texts)


def _left_out(option: str, what: str, remedy: str) -> Finding:
    return Finding("option-not-compiled", "warning", option, what, remedy=remedy)
