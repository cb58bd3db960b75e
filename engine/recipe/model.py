"""``Recipe``: the options as one frozen, hashable object of pydantic, a section a class."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from engine.base.errors import RecipeError
from engine.base.text import did_you_mean, printable
from engine.options import OPTIONS, SECTIONS, Section, Value, check_values, option
from engine.recipe.consistent import contradictions
from engine.recipe.frozen import FrozenMap, frozen, thawed

__all__ = [
    "VERSION",
    "Calibration",
    "Compiler",
    "Preprocessing",
    "Quantization",
    "Recipe",
    "Source",
    "Target",
    "recipe_problems",
    "recipe_schema",
]

VERSION = 1
"""Version of the recipe format; written into every file, a newer one is refused."""

PATH_KINDS = frozenset({"path", "paths", "code"})
"""Kinds of options that name files; one of ``code`` names something in the file, too."""


def _option(name: str) -> Any:
    declared = option(name)
    extra: dict[str, Any] = {}
    if declared.choices and declared.kind == "choice":
        extra["enum"] = [*declared.choices, *([None] if declared.default is None else [])]
    if declared.choices and declared.kind == "mapping":
        extra["additionalProperties"] = {"enum": list(declared.choices)}
    return Field(
        default=frozen(declared.default),
        description=declared.help,
        json_schema_extra=extra or None,
    )


class _Section(BaseModel):
    """Base of the sections: every value goes through the check of its option."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _check(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        for name in data:
            if name not in cls.model_fields:
                raise unknown_option(str(name), cls.model_fields)
        return {name: frozen(option(name).check(value)) for name, value in data.items()}


class Source(_Section):
    """The model's file, and what is taken of it."""

    model: str | None = _option("model")
    weights: str | None = _option("weights")
    inputs: tuple[str, ...] | None = _option("inputs")
    input_size_list: tuple[tuple[int, ...], ...] | None = _option("input_size_list")
    dynamic_input: tuple[tuple[tuple[int, ...], ...], ...] | None = _option("dynamic_input")
    input_initial_val: tuple[str | None, ...] | None = _option("input_initial_val")
    outputs: tuple[str, ...] | None = _option("outputs")
    proto: str = _option("proto")
    input_name: tuple[str, ...] | None = _option("input_name")
    random_weights: bool = _option("random_weights")
    input_is_nchw: bool = _option("input_is_nchw")
    predef_file: str | None = _option("predef_file")
    darknet_epsilon: float = _option("darknet_epsilon")
    darknet_decode: bool = _option("darknet_decode")
    pytorch_route: str = _option("pytorch_route")
    custom_ops: tuple[str, ...] | None = _option("custom_ops")
    op_packages: tuple[str | None, ...] | None = _option("op_packages")


class Preprocessing(_Section):
    """From a file of the dataset to an input of the network."""

    mean_values: tuple[tuple[float, ...], ...] | None = _option("mean_values")
    std_values: tuple[tuple[float, ...], ...] | None = _option("std_values")
    quant_img_RGB2BGR: bool | tuple[bool, ...] = _option("quant_img_RGB2BGR")  # noqa: N815
    channel_mean_value: tuple[tuple[float, ...], ...] | None = _option("channel_mean_value")
    reorder_channel: tuple[tuple[float, ...], ...] | None = _option("reorder_channel")
    resize_filter: str = _option("resize_filter")
    resize_fit: str = _option("resize_fit")


class Quantization(_Section):
    """Number formats, ranges and rewrites."""

    do_quantization: bool = _option("do_quantization")
    quantized_dtype: str = _option("quantized_dtype")
    quantized_algorithm: str = _option("quantized_algorithm")
    quantized_method: str = _option("quantized_method")
    bias_correction: bool = _option("bias_correction")
    quantized_layers: FrozenMap | None = _option("quantized_layers")
    quantized_ranges: FrozenMap | None = _option("quantized_ranges")
    auto_hybrid: bool = _option("auto_hybrid")
    auto_hybrid_cos_thresh: float = _option("auto_hybrid_cos_thresh")
    auto_hybrid_euc_thresh: float | None = _option("auto_hybrid_euc_thresh")
    quantized_hybrid_level: int = _option("quantized_hybrid_level")
    op_target: FrozenMap | None = _option("op_target")
    float_dtype: str | None = _option("float_dtype")
    quantize_weight: bool = _option("quantize_weight")
    optimization_level: int = _option("optimization_level")
    model_pruning: bool = _option("model_pruning")
    remove_reshape: bool = _option("remove_reshape")
    rknn_batch_size: int | None = _option("rknn_batch_size")


class Target(_Section):
    """The chip, and what is stored beside the model."""

    target_platform: str | None = _option("target_platform")
    custom_string: str | None = _option("custom_string")
    inputs_yuv_fmt: str | None = _option("inputs_yuv_fmt")
    pre_compile: bool = _option("pre_compile")


class Compiler(_Section):
    """What concerns the vendor's binary alone: carried to its compiler, no effect here."""

    remove_weight: bool = _option("remove_weight")
    compress_weight: bool = _option("compress_weight")
    single_core_mode: bool = _option("single_core_mode")
    sparse_infer: bool = _option("sparse_infer")
    enable_flash_attention: bool = _option("enable_flash_attention")
    need_horizontal_merge: bool = _option("need_horizontal_merge")


class Calibration(_Section):
    """The calibration dataset."""

    dataset: str | None = _option("dataset")
    dataset_count: int = _option("dataset_count")
    dataset_seed: int = _option("dataset_seed")
    batch_size: int = _option("batch_size")
    epochs: int = _option("epochs")


class Recipe(BaseModel):
    """Everything needed to build again. Frozen and hashable; equal recipes have equal hashes.

    Make one with :meth:`from_values` or ``load_recipe``; paths are kept as text, absolute
    when it came from a file or when ``from_values`` was given a base.

    Raises:
        RecipeError: an option is unknown or does not fit; options that contradict each other.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    version: Literal[1] = 1
    source: Source = Field(default_factory=Source, title=SECTIONS["source"])
    preprocess: Preprocessing = Field(default_factory=Preprocessing, title=SECTIONS["preprocess"])
    quantization: Quantization = Field(default_factory=Quantization, title=SECTIONS["quantization"])
    target: Target = Field(default_factory=Target, title=SECTIONS["target"])
    compiler: Compiler = Field(default_factory=Compiler, title=SECTIONS["compiler"])
    dataset: Calibration = Field(default_factory=Calibration, title=SECTIONS["dataset"])

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        problems = contradictions(self)
        if problems:
            raise RecipeError(
                " ".join(problems.values()), remedy="Change one of the options named above."
            )
        return self

    @classmethod
    def from_values(cls, values: Mapping[str, Value], base: Path | None = None) -> Recipe:
        """A recipe from a flat dict of option name -> value; absent or None means the default.

        Args:
            values: as the worker protocol carries them.
            base: where relative paths start; None leaves them as they are.

        Raises:
            RecipeError: names every option that does not fit.
        """
        problems = check_values(dict(values))
        if problems:
            raise RecipeError(
                " ".join(problems.values()),
                remedy=" ".join(
                    f"{name}: {option(name).help}" for name in problems if name in _NAMES
                )
                or "Leave out what is unknown.",
            )
        sections: dict[str, dict[str, Value]] = {name: {} for name in SECTIONS}
        for name, value in values.items():
            declared = option(name)
            checked = declared.check(value)
            if base is not None and declared.kind in PATH_KINDS:
                checked = _resolved(checked, base)
            sections[declared.section][name] = checked
        return cls(**sections)  # type: ignore[arg-type]  # plain dicts become sections

    def value(self, name: str) -> Value:
        """The value of one option by its name, lists as tuples; KeyError if unknown."""
        return getattr(self.section(option(name).section), name)

    def section(self, name: Section) -> BaseModel:
        """One of the sections by its name."""
        part: BaseModel = getattr(self, name)
        return part

    def to_values(self, *, everything: bool = False) -> dict[str, Value]:
        """The flat dict of option name -> value, as JSON has it; defaults with ``everything``."""
        return {
            o.name: thawed(value)
            for o in OPTIONS
            if (value := self.value(o.name)) != frozen(o.default) or everything
        }

    def with_values(self, **changes: Value) -> Recipe:
        """A recipe with some options changed; None resets one to its default."""
        return Recipe.from_values(self.to_values() | changes)


_NAMES = frozenset(o.name for o in OPTIONS)


def unknown_option(name: str, near: Mapping[str, Any]) -> RecipeError:
    """The error for a name that is no option, or that belongs to another section."""
    shown = printable(name, 80)
    if name in _NAMES:
        home = option(name).section
        return RecipeError(
            f"{shown} does not belong here.", remedy=f"Put it under {home}: in the recipe."
        )
    hint = did_you_mean(name, near) or did_you_mean(name, _NAMES)
    return RecipeError(
        f"There is no option {shown}. {hint}".strip(), remedy="Correct or remove it."
    )


def _resolved(value: Value, base: Path) -> Value:
    """Paths of one option made absolute; ``~/`` is the home folder, as in a shell."""
    if isinstance(value, list):
        return [_resolved(v, base) for v in value]
    if not isinstance(value, str):
        return value
    path = Path(value)
    if value.startswith("~/"):  # only this form: "~name" may be a file
        path = path.expanduser()
    return str(base.absolute() / path)


def recipe_problems(values: Mapping[str, Value]) -> dict[str, str]:
    """Option name -> message of everything in a flat dict that does not fit."""
    problems = check_values(dict(values))
    good = {name: value for name, value in values.items() if name not in problems}
    sections: dict[str, dict[str, Value]] = {name: {} for name in SECTIONS}
    for name, value in good.items():
        sections[option(name).section][name] = value
    parts: dict[str, BaseModel] = {
        "source": Source(**sections["source"]),
        "preprocess": Preprocessing(**sections["preprocess"]),
        "quantization": Quantization(**sections["quantization"]),
        "target": Target(**sections["target"]),
        "compiler": Compiler(**sections["compiler"]),
        "dataset": Calibration(**sections["dataset"]),
    }
    return problems | contradictions(Recipe.model_construct(**parts))  # type: ignore[arg-type]


def recipe_schema() -> dict[str, Any]:
    """JSON Schema of a recipe file, for editors."""
    schema = Recipe.model_json_schema()
    schema["title"] = "RKNN TUI recipe"
    schema["required"] = ["version"]
    return schema
