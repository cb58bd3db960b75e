"""The command line that does the same as a workspace or a job: a verb, a target and flags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from engine import OPTIONS, option

if TYPE_CHECKING:
    from rknntui.session.state import Session

__all__ = ["command_for", "job_command", "job_flags", "recipe_flags"]

_VERBS = {
    "guide": "accuracy --guide",
    "board.memory": "memory",
    "board.run": "run",
    "compare.board": "compare",
}
"""Where a job has another name than its command; a dot in the name stands between two verbs."""

_FLAGS: dict[str, dict[str, str]] = {
    "accuracy": {"inputs": "--input", "damage": "--damage", "output_dir": "--output-dir"},
    "board.memory": {"device": "--device"},
    "board.run": {
        "device": "--device",
        "inputs": "--input",
        "layers": "--layers",
        "save": "--save",
    },
    "compare.board": {
        "device": "--device",
        "inputs": "--input",
        "compiled": "--compiled",
        "layers": "--layer",
        "output_dir": "--output-dir",
    },
    "codegen": {
        "language": "--language",
        "task": "--task",
        "chip": "--chip",
        "model": "--model",
        "inputs": "--inputs",
        "path": "-o",
    },
    "compile": {
        "chips": "--chip",
        "quantizer": "--quantizer",
        "samples": "--samples",
        "samples_path": "--samples",
        "accept_difference": "--accept-difference",
        "toolkit": "--toolkit",
        "path": "-o",
    },
    "evaluate": {"labels": "--labels"},
    "hybrid.effect": {"layers": "--promote", "ranges": "--range"},
    "hybrid.propose": {"budget": "--budget", "budget_ms": "--budget-ms", "dtype": "--dtype"},
    "hybrid.search": {
        "floor_db": "--floor",
        "budget": "--budget",
        "budget_ms": "--budget-ms",
        "dtype": "--dtype",
        "seconds": "--seconds",
        "lower": "--demote",
    },
    "sweep": {"axes": "--axis"},
}
"""Method of a job -> parameter -> its flag."""


def recipe_flags(recipe: Mapping[str, object]) -> list[str]:
    """The flags of a recipe's options that are set."""
    words: list[str] = []
    for declared in OPTIONS:
        if declared.name not in recipe or declared.name == "model":
            continue
        value = recipe[declared.name]
        if declared.name == "do_quantization":
            words.append("--quantize" if value else "--no-quantize")
        else:
            words += [declared.flag, declared.render(value)]
    return words


def command_for(verb: str, session: Session) -> list[str]:
    """``rknntui VERB`` on what is open: a container, a saved recipe, or the model with flags."""
    words = ["rknntui", *verb.split()]
    if session.container is not None:
        return [*words, session.container]
    if session.recipe_path is not None and not session.dirty:
        return [*words, session.recipe_path]
    model = session.recipe.get("model")
    if not isinstance(model, str):
        return []
    return [*words, model, *recipe_flags(session.recipe)]


def job_flags(method: str, params: Mapping[str, object]) -> list[str]:
    """The flags of a job's own parameters, beside those of its recipe."""
    words: list[str] = []
    for name, flag in _FLAGS.get(method, {}).items():
        value = params.get(name)
        if value is True:
            words.append(flag)
        elif isinstance(value, Mapping):
            for key, item in value.items():
                words += [flag, f"{key}={_item(key, item)}"]
        elif isinstance(value, list | tuple):
            words += [word for item in value for word in (flag, str(item))]
        elif value is not None and value is not False and value != "":
            words += [flag, str(value)]
    return words


def _item(name: str, value: object) -> str:
    """The values of an axis, the ends of a range, or one value."""
    if not isinstance(value, list | tuple):
        return str(value)
    known = {declared.name for declared in OPTIONS}
    return ",".join(option(name).render(v) if name in known else str(v) for v in value)


def job_command(method: str, params: Mapping[str, object]) -> list[str]:
    """The command line of a job as it was asked for; empty where it is of no model."""
    recipe, path = params.get("recipe"), params.get("path")
    if method.startswith("board.") and method in _VERBS:  # they take a file and no options
        words = ["rknntui", _VERBS[method], str(path), *job_flags(method, params)]
        return words if path else []
    model = recipe.get("model") if isinstance(recipe, Mapping) else None
    if not isinstance(recipe, Mapping) or not isinstance(model, str):
        return []
    verb = _VERBS.get(method, method.replace(".", " "))
    flags = [*recipe_flags(recipe), *job_flags(method, params)]
    return ["rknntui", *verb.split(), model, *flags]
