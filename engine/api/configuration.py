"""``config`` of both generations: its arguments as options of a recipe, or why not."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from engine.api.later_toolkits import LATER_CONFIG, NO_EFFECT, REFUSED, refused_config
from engine.api.log import path_text
from engine.api.signatures import Parameters
from engine.base.errors import RecipeError, UsageError
from engine.base.plain import Value, Values
from engine.base.text import did_you_mean, sanitize
from engine.facts import chip, chips
from engine.options import GENERATION_1_DTYPES, option

_ONLY_1 = frozenset(
    {"channel_mean_value", "reorder_channel", "need_horizontal_merge", *LATER_CONFIG},
)
_ALSO_V110 = frozenset({"batch_size", "epochs"})
_FAMILIES = {"rk1808": 0, "rk3399pro": 0, "rv1109": 1, "rv1126": 1}
"""Chips of generation 1 -> number of the family that runs one model."""


class Configuration:
    """What ``config`` said.

    Attributes:
        values: options of a recipe, in the form that their declarations check.
        warnings: arguments without effect in the simulator, in words.
    """

    def __init__(self) -> None:
        self.values: dict[str, Value] = {}
        self.warnings: list[str] = []


def detect_generation(args: Sequence[Any], keywords: Parameters) -> int:
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
    first = sorted(_ONLY_1 & set(keywords))
    if _of_generation_1(keywords.get("quantized_dtype")):
        first.append("quantized_dtype")
    second = sorted(set(keywords) - _ONLY_1 - _ALSO_V110 - _NEUTRAL - set(first))
    if first and [n for n in second if n not in ("mean_values", "std_values", "quantized_dtype")]:
        raise UsageError(
            f"config got arguments of both generations: {first[0]} (1) and {second[0]} (2).",
            remedy="Name target_platform, or use the arguments of one generation.",
        )
    if first:
        return 1
    return 1 if _ALSO_V110 & set(keywords) and not second else 2


_NEUTRAL = frozenset(
    {
        "optimization_level",
        "model_pruning",
        "bias_correction",
        "quantized_layers",
        "quantized_ranges",
    }
)
"""Arguments that both generations, or only we, have."""


def _of_generation_1(dtype: Any) -> bool:
    """Whether a dtype is one of generation 1, by any of its spellings."""
    if not isinstance(dtype, str):
        return False
    lowered = dtype.strip().lower()
    return option("quantized_dtype").aliases.get(lowered, lowered) in GENERATION_1_DTYPES


def _platforms(platform: Any) -> list[str]:
    names = [platform] if isinstance(platform, str) else list(platform)
    known = [c.name for c in chips()]
    for name in names:
        if not isinstance(name, str) or chip(name) is None:
            raise RecipeError(
                f"target_platform {sanitize(repr(name), 60)} is not known.",
                remedy=did_you_mean(str(name), known) or f"Known: {', '.join(known)}.",
            )
    if not names:
        raise RecipeError("target_platform is empty.", remedy=f"Known: {', '.join(known)}.")
    return names


def _generation_of(names: Sequence[str]) -> int:
    generations = {facts.generation for name in names if (facts := chip(name)) is not None}
    if len(generations) > 1:
        raise RecipeError(
            f"target_platform mixes chips of both generations: {', '.join(names)}.",
            remedy="Name chips of one generation.",
        )
    return generations.pop()


def configure(generation: int, given: Parameters, named: Collection[str] = ()) -> Configuration:
    """The recipe's options of a bound ``config`` call.

    Args:
        generation: whose call it is.
        given: parameter -> value, defaults filled in.
        named: those that the caller gave. ``float_dtype`` counts only among them: what the source
            model computes is compared in float32, and float16 is simulated where it is asked for.

    Raises:
        EngineError: an argument that does not fit, or that is refused; says why.
    """
    configuration = Configuration()
    for name, value in given.items():
        if name == "target_platform":
            continue
        if name in REFUSED:
            refused_config(name, value)
            continue
        if name in NO_EFFECT:
            default, why = NO_EFFECT[name]
            if value != default:
                configuration.warnings.append(
                    f"config {name}, of later toolkits of generation 1, has no effect in the "
                    f"simulation: {why}."
                )
            continue
        declared = option(name)
        checked = declared.check(value)
        if name == "float_dtype" and name not in named:
            continue
        configuration.values[name] = checked
        if declared.role == "compiler" and checked != declared.default and name != "custom_string":
            configuration.warnings.append(
                f"config {name} has no effect in the simulation; the build keeps it for the "
                "vendor's compiler."
            )
    dtype = configuration.values["quantized_dtype"]
    if (dtype in GENERATION_1_DTYPES) != (generation == 1):
        raise RecipeError(
            f"quantized_dtype {dtype} is not one of generation {generation}.",
            cause="Each generation of chips has number formats of its own.",
            remedy=f"Choose one of {', '.join(_dtypes(generation))}, "
            f"or use RKNN(generation={3 - generation}).",
        )
    target = _first if generation == 1 else _second
    configuration.values["target_platform"] = target(given["target_platform"])
    if generation == 1:
        configuration.values["quantized_method"] = "layer"
    return configuration


def _dtypes(generation: int) -> list[str]:
    of_1 = generation == 1
    return [d for d in option("quantized_dtype").choices if (d in GENERATION_1_DTYPES) == of_1]


def _first(platform: Any) -> str:
    """The first chip of generation 1 named; all run the same model [RKNN-T1 1.3.2, 3.6.3]."""
    names = _platforms(platform or ["rk1808"])
    if len({_FAMILIES.get(name.strip().lower(), 2) for name in names}) > 1:
        raise RecipeError(
            f"target_platform {', '.join(names)}: these chips do not run the same model.",
            remedy="Name rk1808 and rk3399pro, or rv1109 and rv1126.",
        )
    if _generation_of(names) != 1:
        raise RecipeError(
            f"target_platform {', '.join(names)} is of generation 2.",
            remedy="Use RKNN(generation=2), or a chip of generation 1.",
        )
    return names[0]


def _second(platform: Any) -> str | None:
    """The chip of generation 2; None while only simulating."""
    if platform is None:
        return None
    names = _platforms(platform)
    if len(names) > 1 or _generation_of(names) != 2:
        raise RecipeError(
            f"target_platform {', '.join(names)} does not fit generation 2.",
            cause="Generation 2 takes one chip of its own.",
            remedy="Name one chip of generation 2, or use RKNN(generation=1).",
        )
    return names[0]


def build_changes(generation: int, given: Parameters) -> Values:
    """What the arguments of ``build``, by name, change of the recipe."""
    batch, dataset = given["rknn_batch_size"], given["dataset"]
    quantize = bool(given["do_quantization"])
    if quantize and dataset is None and generation == 1:
        dataset = "dataset.txt"
    changes: dict[str, Value] = {
        "do_quantization": quantize,
        "rknn_batch_size": None if batch == -1 else batch,  # -1: of later toolkits, the same
        "auto_hybrid": bool(given.get("auto_hybrid") or given["auto_hybrid_quant"]),
    }
    if dataset is not None:
        changes["dataset"] = path_text(dataset, "dataset")
    return changes
