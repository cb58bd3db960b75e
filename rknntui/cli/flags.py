"""Flags that several verbs share, and the recipe's flags generated from the options."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from engine import OPTIONS, EngineError, Option

__all__ = ["json_flag", "quiet_flag", "recipe_flags", "target", "values_of"]

Command = TypeVar("Command", bound=Callable[..., Any])

json_flag = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
quiet_flag = click.option("-q", "--quiet", is_flag=True, help="No progress on standard error.")
target = click.argument("target", type=click.Path(path_type=Path))


class OptionText(click.ParamType):
    """A flag whose text an option of the engine reads."""

    def __init__(self, option: Option) -> None:
        self.option = option
        self.name = option.kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The option's value, or click's usage error with the option's own words."""
        if not isinstance(value, str):
            return value
        try:
            return self.option.parse(value)
        except EngineError as error:
            self.fail(f"{error.what} {error.remedy}".strip(), param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[click.shell_completion.CompletionItem]:
        """Choices, or files for paths."""
        if self.option.kind == "path":
            return [click.shell_completion.CompletionItem(incomplete, type="file")]
        wanted = incomplete.lower()
        return [
            click.shell_completion.CompletionItem(choice)
            for choice in self.option.choices
            if choice.startswith(wanted)
        ]


def recipe_flags(command: Command) -> Command:
    """Add a flag for every option of a recipe but the model, which is the verb's argument."""
    for option in reversed(OPTIONS):
        if option.name == "model":
            continue
        help_text = option.help + (" (our addition)" if option.ours else "")
        if option.default is not None and option.name != "do_quantization":
            help_text += f" Default: {option.render(option.default)}."
        if option.name == "do_quantization":
            flag = click.option(
                "--quantize/--no-quantize", option.name, default=None, help=help_text
            )
        elif option.kind == "choice":
            flag = click.option(
                option.flag,
                option.name,
                type=OptionText(option),
                default=None,
                metavar="|".join(option.choices) if len(option.choices) < 6 else "NAME",
                help=help_text,
            )
        else:
            flag = click.option(
                option.flag,
                option.name,
                type=OptionText(option),
                default=None,
                metavar=option.kind.upper(),
                help=help_text,
            )
        command = flag(command)
    return command


def values_of(arguments: dict[str, Any]) -> dict[str, Any]:
    """The options that were given on the command line; their paths start at the current folder."""
    values = {}
    for option in OPTIONS:
        value = arguments.get(option.name)
        if value is None:
            continue
        if option.kind == "path":
            value = str(Path(value).absolute())
        elif option.kind == "paths":
            value = [None if p is None else str(Path(p).absolute()) for p in value]
        values[option.name] = value
    return values
