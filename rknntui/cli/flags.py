"""Flags that several verbs share, and the recipe's flags generated from the options."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, get_args

import click

from engine import OPTIONS, EngineError, Option
from engine.wire.flags import Force
from rknntui.arguments import absolute

Command = TypeVar("Command", bound=Callable[..., Any])

json_flag = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
quiet_flag = click.option("-q", "--quiet", is_flag=True, help="No progress on standard error.")
force_flag = click.option("--force", is_flag=True, help=get_args(Force)[1].help)
target = click.argument("target", type=click.Path(path_type=Path))
EPILOG = "TARGET is a model file or a recipe; flags override the recipe."
"""Of verbs with that argument."""


def output_flag(told: str, **more: Any) -> Callable[[Command], Command]:
    """``-o FILE``: the file that a command writes."""
    kind = click.Path(path_type=Path, dir_okay=False)
    return click.option("-o", "--output", type=kind, help=told, **more)


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
        prefix = incomplete.lower()
        return [
            click.shell_completion.CompletionItem(choice)
            for choice in self.option.choices
            if choice.startswith(prefix)
        ]


def recipe_flags(command: Command) -> Command:
    """Add a flag for every option of a recipe but the model, which is the verb's argument.

    What is refused whatever one says needs no flag; a recipe that names it is told why.
    """
    taken = [o for o in OPTIONS if o.name != "model" and o.role != "refused"]
    return _flags(command, taken, "the recipe")


def source_flags(command: Command) -> Command:
    """Add the flags of the source model's own options."""
    own = [o for o in OPTIONS if o.section == "source" and o.name != "model"]
    return _flags(command, own, "the source model")


def _flags(command: Command, options: list[Option], whose: str) -> Command:
    command = _allow_code(command)
    command = click.option(
        "--help-options",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_show_options,
        help=f"Show all {len(options)} options of {whose} and exit; the usual ones are here.",
    )(command)
    for option in reversed(options):
        command = _flag(option)(command)
    return command


USUAL = frozenset(
    {"dataset", "do_quantization", "input_size_list", "mean_values", "outputs", "std_values"}
    | {"quantized_algorithm", "quantized_dtype", "quantized_method", "target_platform", "weights"}
)
"""The options of a recipe that ``--help`` of a verb lists; ``--help-options`` lists all."""

_SECTIONS = {
    "source": "Source model",
    "dataset": "Calibration dataset",
    "preprocess": "Preprocessing",
    "quantization": "Quantization",
    "target": "Chip",
    "compiler": "Vendor's compiler",
}


class RecipeFlag(click.Option):
    """The flag of an option of the recipe."""

    def __init__(self, *declared: Any, section: str, **given: Any) -> None:
        super().__init__(*declared, **given)
        self.section = section

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Its line in ``--help``; None for one that is seldom needed."""
        return self.record(ctx) if self.name in USUAL else None

    def record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Its line in ``--help-options``."""
        return super().get_help_record(ctx)


class Verb(click.Command):
    """A verb whose ``--help`` has the recipe's options and its limits under own headings."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The verb's own options first."""
        rows: dict[str, list[tuple[str, str]]] = {}
        flags = [flag for flag in self.get_params(ctx) if isinstance(flag, RecipeFlag)]
        whole = any(flag.section != "source" for flag in flags)
        ours = "Options of the recipe" if whole else "Options of the source model"
        for title in ("Options", ours, "Limits"):
            rows[title] = []
        for param in self.get_params(ctx):
            if isinstance(param, click.Argument):
                continue  # the line of usage has it
            record = param.get_help_record(ctx)
            of_recipe = isinstance(param, RecipeFlag) or param.name in _BESIDE
            limit = (param.name or "").startswith("fail_")
            if record is not None:
                rows[ours if of_recipe else "Limits" if limit else "Options"].append(record)
        for title, records in rows.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class VerbGroup(click.Group):
    """A verb of several, each as :class:`Verb`."""

    command_class = Verb


_BESIDE = ("help_options", "allow_code")
"""What stands among the options of the recipe."""


def _show_options(ctx: click.Context, _param: click.Parameter, asked: bool) -> None:
    """Print the recipe's options of a verb, under the recipe's own headings."""
    if not asked:
        return
    text = ctx.make_formatter()
    ctx.command.format_usage(ctx, text)
    flags = [param for param in ctx.command.params if isinstance(param, RecipeFlag)]
    for section, title in _SECTIONS.items():
        rows = [flag.record(ctx) for flag in flags if flag.section == section]
        if rows:
            with text.section(title):
                text.write_dl([row for row in rows if row is not None])
    click.echo(text.getvalue().rstrip())
    ctx.exit()


_ALLOWED = "rknntui.allow_code"


def _allow(ctx: click.Context, _param: click.Parameter, files: tuple[Path, ...]) -> None:
    ctx.meta[_ALLOWED] = [str(file.absolute()) for file in files]


_allow_code = click.option(
    "--allow-code",
    multiple=True,
    expose_value=False,
    callback=_allow,
    metavar="FILE.py",
    type=click.Path(path_type=Path),
    help="Allow this Python file of the recipe to run; a file named by --custom-ops is allowed "
    "already.",
)


def allowed_code(context: click.Context) -> list[str]:
    """The Python files that this command line names: their code may run."""
    names = [param.name or "" for param in context.command.params if param.type.name == "code"]
    choices = [context.params.get(name) for name in names]
    codes = [code for one in choices for code in ([one] if isinstance(one, str) else one or ())]
    named = [str(code).rpartition(":")[0] for code in codes if code]
    return [*context.meta.get(_ALLOWED, ()), *(str(Path(file).absolute()) for file in named)]


def _flag(option: Option) -> Callable[[Command], Command]:
    help_text = option.help
    if option.frameworks:
        help_text = f"{', '.join(option.frameworks)}: {help_text}"
    if option.extension:
        help_text += " (rknntui extension)"
    if option.role == "compiler":
        help_text += " (vendor compiler only; no effect in the simulator)"
    name = option.flag
    more: dict[str, Any] = {"type": OptionText(option), "default": None}
    few = "|".join(option.choices) if 0 < len(option.choices) < 6 else ""
    if option.name == "do_quantization":
        name, more = "--quantize/--no-quantize", {"default": None}
    elif option.default is not None:
        help_text += f" Default: {option.render(option.default)}."
    if option.repeated:  # once an entry, NAME=VALUE; later ones win
        value = "MIN,MAX" if option.kind == "ranges" else few or "VALUE"
        more |= {"multiple": True, "callback": _joined, "metavar": f"NAME={value}"}
        help_text += " Repeat for more."
    elif name == option.flag:
        more["metavar"] = (few or "NAME") if option.kind == "choice" else option.kind.upper()
    return click.option(
        name, option.name, cls=RecipeFlag, section=option.section, help=help_text, **more
    )


def _joined(
    _ctx: click.Context, _param: click.Parameter, mappings: tuple[dict[str, object] | None, ...]
) -> dict[str, object] | None:
    """The entries of a repeated flag as one mapping, of an empty text none; None where it was not
    given.
    """
    entries = {name: value for one in mappings for name, value in (one or {}).items()}
    return entries if mappings else None


def values_of(arguments: dict[str, object]) -> dict[str, object]:
    """The options that were given on the command line; their paths start at the current folder."""
    pairs = ((option, arguments.get(option.name)) for option in OPTIONS)
    return {o.name: absolute(o, value) for o, value in pairs if value is not None}
