"""``config`` of both generations: its arguments as options of a recipe, or why not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.base.errors import RecipeError, UsageError
from engine.base.text import did_you_mean, printable
from engine.chips import chip, chips

__all__ = ["Configuration", "configure", "decide_generation"]

_ONLY_1 = frozenset({"channel_mean_value", "reorder_channel", "need_horizontal_merge"})
_ALSO_V110 = frozenset({"batch_size", "epochs"})
_DTYPES_1 = {
    "asymmetric_quantized-u8": "w8a8",
    "asymmetric_affine-u8": "w8a8",
}
_LATER_DTYPES_1 = (
    "dynamic_fixed_point-8",
    "dynamic_fixed_point-16",
    "dynamic_fixed_point-i8",
    "dynamic_fixed_point-i16",
)
_NO_EFFECT = {
    "remove_weight": False,
    "compress_weight": False,
    "single_core_mode": False,
    "sparse_infer": False,
    "enable_flash_attention": False,
    "op_target": None,
    "auto_hybrid_cos_thresh": 0.98,
    "auto_hybrid_euc_thresh": None,
    "need_horizontal_merge": False,
    "batch_size": 100,
    "epochs": -1,
}
"""Arguments that change nothing here, with the default at which nothing needs to be said."""
_LATER = {
    "quantized_hybrid_level": 0,
    "inputs_yuv_fmt": None,
    "dynamic_input": None,
    "model_pruning": False,
    "quantize_weight": False,
    "remove_reshape": False,
    "float_dtype": "float16",
}
"""Arguments that would change results and that this version cannot do yet, with their default."""


class Configuration:
    """What ``config`` said.

    Attributes:
        values: options of a recipe.
        warnings: arguments without effect, in words.
        reorder: per input, whether generation 1 swaps channels of everything that is fed; None
            where nothing is swapped.
    """

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.warnings: list[str] = []
        self.reorder: list[bool] | None = None


def decide_generation(args: Sequence[Any], keywords: Mapping[str, Any]) -> int:
    """The generation that a first ``config`` call means (where none was given to ``RKNN``).

    By ``target_platform``; else by an argument that only one generation has; else 2.

    Raises:
        UsageError: positional arguments, whose order depends on the generation; contradictions.
    """
    if args:
        raise UsageError(
            "config was called with positional arguments, and their order differs between the "
            "generations.",
            remedy="Say which one: RKNN(generation=1) or RKNN(generation=2), "
            "or name the arguments.",
        )
    platform = keywords.get("target_platform")
    if platform is not None:
        return _generation_of(_platforms(platform))
    dtype = str(keywords.get("quantized_dtype", "")).lower()
    first = sorted(_ONLY_1 & set(keywords))
    if dtype in _DTYPES_1 or dtype in _LATER_DTYPES_1:
        first.append("quantized_dtype")
    second = sorted(set(keywords) - _ONLY_1 - _ALSO_V110 - {"optimization_level"} - set(first))
    if first and [n for n in second if n not in ("mean_values", "std_values", "quantized_dtype")]:
        raise UsageError(
            f"config got arguments of both generations: {first[0]} (1) and {second[0]} (2).",
            remedy="Name target_platform, or use the arguments of one generation.",
        )
    if first:
        return 1
    return 1 if _ALSO_V110 & set(keywords) and not second else 2


def _platforms(platform: Any) -> list[str]:
    names = [platform] if isinstance(platform, str) else list(platform)
    known = [c.name for c in chips()]
    for name in names:
        if not isinstance(name, str) or chip(name) is None:
            raise RecipeError(
                f"target_platform {printable(repr(name), 60)} is not known.",
                remedy=did_you_mean(str(name), known) or f"Known: {', '.join(known)}.",
            )
    if not names:
        raise RecipeError("target_platform is empty.", remedy=f"Known: {', '.join(known)}.")
    return names


def _generation_of(names: Sequence[str]) -> int:
    generations = {found.generation for name in names if (found := chip(name)) is not None}
    if len(generations) > 1:
        raise RecipeError(
            f"target_platform mixes chips of both generations: {', '.join(names)}.",
            remedy="Name chips of one generation.",
        )
    return generations.pop()


def configure(generation: int, given: Mapping[str, Any]) -> Configuration:
    """The recipe's options of a bound ``config`` call.

    Raises:
        EngineError: an argument that does not fit, or that this version cannot do yet.
    """
    made = Configuration()
    for name, default in _LATER.items():
        if name in given and given[name] != default:
            raise UsageError(
                f"config {name}={printable(repr(given[name]), 60)} is not supported yet.",
                cause="It changes results, and this version would not show it.",
                remedy=f"Leave it at {default!r}.",
            )
    for name, neutral in _NO_EFFECT.items():
        if name in given and given[name] != neutral:
            made.warnings.append(f"config {name} has no effect in the simulation.")
    made.values["optimization_level"] = given["optimization_level"]
    if generation == 1:
        _first(made, given)
    else:
        _second(made, given)
    return made


def _first(made: Configuration, given: Mapping[str, Any]) -> None:
    dtype = str(given["quantized_dtype"]).lower()
    if dtype not in _DTYPES_1:
        known = dtype in _LATER_DTYPES_1
        raise RecipeError(
            f"quantized_dtype {printable(dtype, 60)} is not "
            + ("supported yet." if known else "known."),
            remedy="This version has asymmetric_quantized-u8.",
        )
    if given["quantized_algorithm"] != "normal":
        raise RecipeError(
            f"quantized_algorithm {printable(str(given['quantized_algorithm']), 60)} is not "
            "supported yet.",
            remedy="This version has normal.",
        )
    made.values["quantized_dtype"] = _DTYPES_1[dtype]
    made.values["quantized_method"] = "layer"
    mean = given["channel_mean_value"]
    if mean is not None:
        if given["mean_values"] is not None or given["std_values"] is not None:
            raise UsageError("config got channel_mean_value and mean_values or std_values.")
        means, scales = mean_and_scale(mean)
        made.values["mean_values"], made.values["std_values"] = means, scales
    else:
        made.values["mean_values"] = given["mean_values"]
        made.values["std_values"] = given["std_values"]
    swaps = [_swap(part) for part in _per_input(given["reorder_channel"], "reorder_channel")]
    if any(swaps):
        made.values["quant_img_RGB2BGR"] = swaps if len(swaps) > 1 else swaps[0]
        made.reorder = swaps
    names = _platforms(given["target_platform"] or ["rk1808"])
    families = {"rk1808": 0, "rk3399pro": 0, "rv1109": 1, "rv1126": 1}
    if len({families.get(name.strip().lower(), 2) for name in names}) > 1:
        raise RecipeError(
            f"target_platform {', '.join(names)}: these chips do not run the same model.",
            remedy="Name rk1808 and rk3399pro, or rv1109 and rv1126.",
        )
    if _generation_of(names) != 1:
        raise RecipeError(
            f"target_platform {', '.join(names)} is of generation 2.",
            remedy="Use RKNN(generation=2), or a chip of generation 1.",
        )
    made.values["target_platform"] = names[0]


def mean_and_scale(value: Any) -> tuple[list[list[float]], list[list[float]]]:
    """``channel_mean_value`` as (means, scales) per input: 'M0 M1 M2 S0', inputs split by '#'.

    One channel has two numbers, four channels five (004:73, 004:83); the last is the scale.

    Raises:
        RecipeError: it is not that.
    """
    means, scales = [], []
    for part in _per_input(value, "channel_mean_value"):
        if len(part) < 2:
            raise RecipeError(
                f"channel_mean_value {printable(repr(value), 80)} has an input with "
                f"{len(part)} numbers.",
                remedy="Give the mean of every channel and then the scale, as '128 128 128 128'.",
            )
        if part[-1] == 0:
            raise RecipeError(
                "channel_mean_value has the scale 0.", remedy="The scale divides: give another."
            )
        means.append(part[:-1])
        scales.append([part[-1]])
    return means, scales


def _per_input(value: Any, name: str) -> list[list[float]]:
    """Numbers per input of a text with '#' between inputs, a list of such, or lists of numbers."""
    if value is None:
        return []
    parts: list[Any] = value.split("#") if isinstance(value, str) else list(value)
    if parts and all(isinstance(p, int | float) for p in parts):
        parts = [parts]
    try:
        return [
            [float(n) for n in (p.replace(",", " ").split() if isinstance(p, str) else p)]
            for p in parts
        ]
    except (TypeError, ValueError):
        raise RecipeError(
            f"{name} {printable(repr(value), 80)} is not numbers.",
            remedy="Give numbers split by blanks, inputs split by '#', as '0 0 0 255'.",
        ) from None


def _swap(order: Sequence[float]) -> bool:
    if list(order) == [2, 1, 0]:
        return True
    if list(order) == sorted(order) and len(set(order)) == len(order):
        return False
    text = " ".join(f"{n:g}" for n in order)
    raise RecipeError(
        f"reorder_channel {text!r} is not supported.",
        cause="Pictures are read as they are (0 1 2) or turned from RGB to BGR (2 1 0).",
        remedy="Use '0 1 2' or '2 1 0', and reorder other channels in the model.",
    )


def _second(made: Configuration, given: Mapping[str, Any]) -> None:
    for name in (
        "mean_values",
        "std_values",
        "quantized_dtype",
        "quantized_algorithm",
        "quantized_method",
        "quant_img_RGB2BGR",
        "custom_string",
    ):
        made.values[name] = given[name]
    platform = given["target_platform"]
    if platform is None:
        return
    names = _platforms(platform)
    if len(names) > 1 or _generation_of(names) != 2:
        raise RecipeError(
            f"target_platform {', '.join(names)} does not fit generation 2.",
            cause="Generation 2 takes one chip of its own.",
            remedy="Name one chip of generation 2, or use RKNN(generation=1).",
        )
    made.values["target_platform"] = names[0]
