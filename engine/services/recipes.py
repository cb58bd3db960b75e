"""Answers of the worker about recipes, and about the user's Python that they name: which files, and
whether they may run. Nothing here runs any of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from engine.base.errors import EngineError, QuantizationError, UsageError
from engine.base.files import atomic_write, sha256_of
from engine.base.findings import Finding
from engine.base.trust import trust_file, trusted_code, trusted_digest
from engine.options import Values
from engine.services.registry import answers
from engine.services.state import recipe_at, recipe_of
from engine.wire.requests import (
    CODE_CONFIRM,
    CODE_FILES,
    RECIPE_LOAD,
    RECIPE_SAVE,
    VALIDATE,
    AtPath,
    Checked,
    CodeDigest,
    CodeFile,
    CodeFiles,
    CodeState,
    LoadedRecipe,
    ModelTarget,
    OfRecipe,
    Problem,
    Saved,
    SaveParams,
)

if TYPE_CHECKING:
    from engine.frontends.source import SourceModel
    from engine.pipeline.pipeline import Pipeline
    from engine.recipe import Recipe


@answers(VALIDATE)
def validate(params: OfRecipe) -> Checked:
    """What is wrong with a recipe: of itself, against the model and against the dataset."""
    from engine.recipe import dump_recipe, recipe_problems

    problems = recipe_problems(dict(params.recipe))
    if problems:
        return Checked(_listed(problems), (), "")
    recipe = recipe_of(params.recipe)
    problems, findings = _against_files(recipe)
    return Checked(_listed(problems), tuple(findings), dump_recipe(recipe))


def _listed(problems: dict[str, str]) -> tuple[Problem, ...]:
    return tuple(Problem(name, message) for name, message in problems.items())


def _against_files(recipe: Recipe) -> tuple[dict[str, str], list[Finding]]:
    from engine.dataset import read_dataset
    from engine.services.source_info import NO_SIZES
    from engine.services.state import get_pipeline

    problems: dict[str, str] = {}
    findings: list[Finding] = []
    if recipe.source.model is None:
        problems["model"] = "No model is set."
    else:
        try:
            findings += _of_model(get_pipeline(recipe))
            problems |= {f.where: f"{f.what} {f.remedy}" for f in findings if f.code == NO_SIZES}
        except EngineError as error:
            problems[_blamed(error)] = _sentence(error)
    problems |= _of_dtype(recipe)
    part = recipe.dataset
    if recipe.quantization.do_quantization and not part.dataset:
        problems["dataset"] = "No calibration dataset is set, which quantization needs."
    elif part.dataset:
        try:
            read_dataset(Path(part.dataset), count=part.dataset_count, seed=part.dataset_seed)
        except EngineError as error:
            problems["dataset"] = _sentence(error)
    return problems, findings


def _of_dtype(recipe: Recipe) -> dict[str, str]:
    """Whether the target has the quantized dtype; names the chips that do."""
    from engine.quantize import check_dtype

    options = recipe.quantization
    if not options.do_quantization:
        return {}
    try:
        check_dtype(options.quantized_dtype, recipe.target.target_platform)
    except QuantizationError as error:
        return {"quantized_dtype": f"{error.what} {error.cause}"}
    return {}


def _of_model(pipeline: Pipeline) -> tuple[Finding, ...]:
    """What loading noticed; of a model that is still to be converted what its files tell."""
    from engine.dataset import Preprocess
    from engine.frontends.views import source_findings
    from engine.pipeline.stages.graph import loads_at_once
    from engine.services.source_info import missing_sizes, summary_of

    if not loads_at_once(pipeline):
        source = pipeline.source.model
        summary = summary_of(source)
        return (*missing_sizes(source, summary), *source_findings(summary))
    loaded = pipeline.loaded
    plans = Preprocess.from_recipe(pipeline.recipe).plans(loaded.graph.graph.inputs)
    said = pipeline.recipe.preprocess
    if (
        said.mean_values
        or said.std_values
        or said.channel_mean_value
        or any(p.quant for p in plans)
    ):
        return loaded.findings
    return (*loaded.findings, *_usual(pipeline.source.model, [plan.shape for plan in plans]))


def _usual(source: SourceModel, shapes: Sequence[tuple[int, ...]]) -> Iterator[Finding]:
    """What a model of that name is usually trained with, as a proposal: mean and std are unset."""
    from engine.options.normalisation import usual_of

    usual = usual_of(source.model.name, source.framework)
    changes = usual.changes(shapes) if usual is not None else {}
    if usual is not None and changes:
        yield Finding(
            "mean-std-proposed",
            "info",
            "mean_values",
            f"Unset; a guess from the file's name is {usual.name}: {usual.text}.",
            cause=f"Models of that name are usually trained so. {usual.about}",
            remedy="Take it if your training code does the same.",
            changes=changes,
        )


def _blamed(error: EngineError) -> str:
    """The option that an error is about: the first one that its text names, else the model."""
    from engine.options import named_option

    return named_option(f"{error.what} {error.remedy}") or "model"


def _sentence(error: EngineError) -> str:
    return f"{error.what} {error.remedy}".strip()


@answers(RECIPE_LOAD)
def load(params: AtPath) -> LoadedRecipe:
    """The values of a recipe file, paths absolute, and what is wrong with it."""
    from engine.recipe import Recipe, read_recipe

    path = Path(params.path)
    values, problems = read_recipe(path)
    if problems:
        named = {problem.option for problem in problems}
        kept: Values = {name: value for name, value in values.items() if name not in named}
        return LoadedRecipe(kept, tuple(Problem(p.option, str(p)) for p in problems))
    return LoadedRecipe(Recipe.from_values(values, path.parent).to_values(), ())


@answers(RECIPE_SAVE)
def save(params: SaveParams) -> Saved:
    """Write a recipe file; paths below its folder are written relative to it."""
    from engine.recipe import dump_recipe

    path = Path(params.path)
    text = dump_recipe(recipe_of(params.recipe), base=path.absolute().parent, comments=True)
    atomic_write(path, text.encode("utf-8"), overwrite=params.force)
    return Saved(str(path))


@answers(CODE_FILES)
def files(params: ModelTarget) -> CodeFiles:
    """The Python files that a recipe names, for the dialog that asks about them."""
    names: dict[Path, list[str]] = {}
    for code in recipe_at(params).source.custom_ops or ():
        file, _, name = code.rpartition(":")
        names.setdefault(Path(file).resolve(), []).append(name)
    return CodeFiles(tuple(_state(path, tuple(classes)) for path, classes in names.items()))


def _state(path: Path, names: tuple[str, ...]) -> CodeFile:
    try:
        digest = sha256_of(path) if path.is_file() else ""
    except OSError:
        digest = ""
    state: CodeState
    known = trusted_digest(path)
    if not digest:
        state = "missing"
    elif path in trusted_code():
        state = "allowed"
    elif known is None:
        state = "new"
    else:
        state = "confirmed" if known == digest else "changed"
    return CodeFile(names, str(path), digest, state)


@answers(CODE_CONFIRM)
def confirm(params: CodeDigest) -> CodeDigest:
    """Let a file run from now on, by its path and the SHA-256 that the user was shown."""
    path, digest = Path(params.path), params.sha256
    if len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
        raise UsageError("sha256 is the hexadecimal SHA-256 that code.files reported.")
    return CodeDigest(str(path.resolve()), trust_file(path, digest))
