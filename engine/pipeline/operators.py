"""The custom operators of a recipe: classes from Python files, and packages of generation 1."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from inspect import isclass
from pathlib import Path

from engine.base.errors import UsageError
from engine.base.findings import Finding
from engine.base.text import sanitize
from engine.graph.ir.custom import (
    CustomOperator,
    CustomOperators,
    custom_names,
    from_class,
    is_custom,
)
from engine.graph.ir.graph import Graph
from engine.pipeline.trusted_code import code_error, named_object
from engine.recipe import Recipe


def load_custom_ops(recipe: Recipe, *, allowed: Collection[Path] = ()) -> CustomOperators:
    """The operators that a recipe names; runs its Python files only where they may run.

    Args:
        recipe: its paths absolute.
        allowed: files that the user named on the command line, absolute.

    Raises:
        RecipeError: a file is missing, was neither named nor confirmed, does not run, or does not
            hold the class.
        ContainerError: a package cannot be read.
    """
    source = recipe.source
    classes = [_from_file(code, allowed) for code in source.custom_ops or ()]
    try:
        operators = CustomOperators(classes)
    except UsageError as error:
        raise code_error("custom_ops", error.what, error.cause, error.remedy) from error
    for path in source.op_packages or ():
        package = None if path is None else operator_of_package(Path(path))
        # a class for the same operator knows more
        if package is not None and package.op_type not in operators:
            operators = operators.replaced(package)
    return operators


def operator_of_package(path: Path) -> CustomOperator | None:
    """The opaque operator of an ``.rknnop``; None where its name is one of ONNX's own.

    Such a package replaces what an operator of the source framework runs on the NPU: its meaning,
    and so what is simulated here, stays.

    Raises:
        ContainerError: missing, damaged, or no package.
    """
    from engine.container.vendor import inspect_op_package

    name = inspect_op_package(path).name
    if not custom_names(name):
        return None
    return CustomOperator(name, None, None, f"package {sanitize(path.name, 120)}")


def note_of(graph: Graph) -> Finding | None:
    """What a build with custom operators is told: who computes them here, and who on a board."""
    counts = Counter(node.op_type for node in graph.nodes if is_custom(node))
    if not counts:
        return None
    known = graph.operators
    parts = [
        f"{sanitize(op, 80)} ({count}) by {known[op].origin if op in known else 'nothing'}"
        for op, count in sorted(counts.items())
    ]
    return Finding(
        "custom-operators",
        "info",
        "model",
        f"The model has custom operators, computed here: {', '.join(parts)}.",
        cause="They are not operators of ONNX.",
        remedy="A board needs the same in C, registered with the runtime there "
        "(rknn_register_custom_ops of the RKNN SDK).",
    )


def _from_file(code: str, allowed: Collection[Path]) -> CustomOperator:
    """The operator of one ``FILE.py:Name``."""
    operator_class = named_object(code, allowed, "custom_ops", isclass, "class")
    path = Path(code.rpartition(":")[0])
    try:
        return from_class(operator_class, f"{sanitize(path.name, 120)}:{code.rpartition(':')[2]}")
    except UsageError as error:
        raise code_error("custom_ops", error.what, error.cause, error.remedy) from error
