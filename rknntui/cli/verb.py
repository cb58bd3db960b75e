"""A verb of the command line out of the method that it asks: its arguments, flags and exit code.

A module of ``commands`` has its longer help, and what more it does than to ask. The rest comes from
the method and its request (:mod:`engine.wire.flags`), and what it prints from the words and tables
of the answer (:func:`engine.answer_lines`).
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from engine import GATE_FAILED, Event, Gate, Limits, answer_lines, gate_lines, gates_of, row_text
from engine.wire.codec import Values, encode
from engine.wire.flags import Argument, arguments_of, params_of
from engine.wire.method import Method, Part, Query, Task
from engine.wire.requests import ModelTarget
from engine.wire.table import Table
from rknntui.cli.flags import EPILOG, Verb, json_flag, quiet_flag, recipe_flags, values_of
from rknntui.cli.keys import key_file_flag
from rknntui.cli.output import emit
from rknntui.cli.progress import Narrator
from rknntui.cli.request import flag_option, request_flags, values_for
from rknntui.cli.session import WorkerSession, kind_of, means_recipe, resolve, with_worker

P = TypeVar("P")
R = TypeVar("R")
Command = TypeVar("Command", bound=Callable[..., Any])
Lines = str | Sequence[str]


@dataclass(frozen=True)
class Given:
    """What a command line says, beside the worker that is asked.

    Attributes:
        session: to ask it.
        target: the first argument.
        options: of the recipe.
        fields: of the request.
        flags: that stand below the verb.
        limits: that figures are to keep.
        say: a line of narration.
    """

    session: WorkerSession
    target: Path
    options: Values
    fields: Values
    flags: Mapping[str, Any]
    limits: Limits
    say: Callable[[str], None]

    async def recipe(self) -> Values:
        """The recipe that target and options mean."""
        return await resolve(self.session, self.target, self.options)


Fill = Callable[[Given], Awaitable[Values]]
"""Gives further fields of the request."""
Then = Callable[[Given, Any, Any], Awaitable[Values]]
"""What follows the answer to a request; what it gives is known to the words, too."""


@dataclass(frozen=True)
class Printed:
    """What a verb prints of its result.

    Attributes:
        lines: for people; None: the text of the answer.
        code: of the end, where no gate failed.
        more: what JSON has beside the fields of the result.
        judged: the answers that limits are of; none: the result.
    """

    lines: Lines | None = None
    code: int = 0
    more: Mapping[str, object] = field(default_factory=dict)
    judged: Sequence[Any] = ()


def show(
    result: Any,
    printed: Printed | Lines | None,
    *,
    as_json: bool,
    limits: Limits | None = None,
    method: Method[Any, Any] | None = None,
) -> int:
    """Print a result with its gates; the exit code."""
    if not isinstance(printed, Printed):
        printed = Printed(printed)
    gates: list[Gate] = gates_of(limits, *(printed.judged or [result])) if limits else []
    data: Values = {}
    text: Lines = ""
    if as_json:
        data = {**encode(result), **printed.more}
        data |= {"gates": [encode(one) for one in gates]} if gates else {}
    else:
        lines = answer_lines(result, method) if printed.lines is None else printed.lines
        text = [*([lines] if isinstance(lines, str) else lines), *gate_lines(gates)]
    emit(data, text, as_json=as_json)
    return printed.code or (0 if all(one.ok for one in gates) else GATE_FAILED)


async def of_recipe(given: Given) -> Values:
    """The recipe that TARGET and its flags mean."""
    return {"recipe": await given.recipe()}


async def board_target(
    session: WorkerSession, model: Path, options: Values | None = None
) -> ModelTarget:
    """What a TARGET means: a recipe is read, as is a model with options of one; any other file goes
    to the board as it is.

    Raises:
        RecipeError: the recipe has mistakes.
        UsageError: options are given with what is built already.
        SourceModelError: the file is missing or unreadable.
    """
    if means_recipe((await kind_of(session, model)).kind, model) or options:
        return ModelTarget(recipe=await resolve(session, model, options or {}))
    return ModelTarget(str(model.absolute()))


async def on_board(given: Given) -> Values:
    """The model of a request for a board, and the recipe that ``--build`` may name."""
    target = await board_target(given.session, given.target, given.options)
    build = given.fields.get("build")
    if build is not None:
        build = await board_target(given.session, Path(build.path))
    return {"path": target.path, "recipe": target.recipe, "build": build}


async def ask(session: WorkerSession, method: Method[P, R], request: P) -> R:
    """Run a job, or ask a query."""
    if isinstance(method, Task):
        return await session.run(method, request)
    return await session.call(cast("Query[P, R]", method), request)


def verb(
    method: Method[Any, Any],
    *,
    of: click.Group | None = None,
    fill: Fill | None = None,
    then: Then | None = None,
    limits: Sequence[str] = (),
    tell: tuple[Part[Any], Table] | None = None,
    keys: bool = False,
    optional: bool = False,
    silent: bool = False,
) -> Callable[[Callable[..., Printed | Lines | None]], click.Command]:
    """Make the command of a method from the function that says more than the text of its answer.

    The docstring of that function is the help, else the line about the method. It takes what it
    names of: ``found`` (the result), ``asked`` (the request), ``limits``, the flags that are
    declared below it, and what ``then`` gives.

    Args:
        method: with its verb.
        of: the group that the verb is of.
        fill: further fields of the request; without it a recipe where the verb takes the options
            of one.
        then: what follows the answer.
        limits: names of the limits that it takes (:class:`Limits`).
        tell: the pieces of its result that are told while it runs, as rows of a table.
        keys: whether it opens encrypted containers.
        optional: whether it does without its argument.
        silent: whether it never narrates.
    """
    narrates = not silent and (fill is not None or isinstance(method, Task))
    fill = fill or (of_recipe if method.options else None)
    arguments = {"target": Argument()} if method.options else arguments_of(method.params)

    def made(words: Callable[..., Printed | Lines | None]) -> click.Command:
        parameters = inspect.signature(words).parameters

        def run(*, as_json: bool, quiet: bool = False, **flags: Any) -> int:
            options, bounds = values_of(flags), limits_taken(flags)
            fields = values_for(method.params, flags)
            texts = {name: flags.pop(name) for name in arguments}
            if not method.options:
                fields |= {
                    n: _value(arguments[n], text) for n, text in texts.items() if text is not None
                }
            narrate = Narrator(quiet=quiet or silent)

            def hear(event: Event) -> None:
                piece = None if tell is None else tell[0].of(event)
                if tell is not None and piece is not None:
                    narrate.say(row_text(tell[1], piece))
                narrate(event)

            async def action(session: WorkerSession) -> tuple[Any, Values]:
                target = Path(next(iter(texts.values()), None) or "")
                given = Given(session, target, options, fields, flags, bounds, narrate.say)
                more = {} if fill is None else await fill(given)
                asked = method.params(**{**fields, **more})
                result = await ask(session, method, asked)
                after = {} if then is None else await then(given, asked, result)
                return result, {"found": result, "asked": asked, "limits": bounds, **flags, **after}

            result, known = with_worker(action, hear)
            printed = words(**{name: known[name] for name in parameters if name in known})
            return show(result, printed, as_json=as_json, limits=bounds, method=method)

        add: list[Callable[[Any], Any]] = [
            *(_argument(name, one, required=not optional) for name, one in arguments.items()),
            request_flags(method),
            *(_flag_of(param) for param in reversed(getattr(words, "__click_params__", ()))),
            limit_flags(*limits),
        ]
        add += [recipe_flags] * bool(method.options) + [key_file_flag] * keys + [json_flag]
        add += [quiet_flag] * narrates
        command: Any = run
        for flag in reversed(add):
            command = flag(command)
        name = method.verb.rpartition(" ")[2]
        maker = click.command if of is None else of.command
        about = inspect.getdoc(words) or method.about
        return maker(name, cls=Verb, help=about, **described(method))(command)

    return made


def described(method: Method[Any, Any]) -> dict[str, Any]:
    """What click prints in the list of a group and below the help."""
    epilog = method.example or (EPILOG if method.options else "")
    return {"short_help": method.about, "epilog": epilog}


_LIMITS = {param.path[0]: param for param in params_of(Limits)}


def limit_flags(*names: str) -> Callable[[Command], Command]:
    """The flags of these limits."""

    def add(command: Command) -> Command:
        for name in reversed(names):
            command = flag_option(_LIMITS[name], key=f"fail_{name}")(command)
        return command

    return add


def limits_taken(flags: dict[str, Any]) -> Limits:
    """The limits among a command's arguments, which lose them."""
    names = [name for name in _LIMITS if f"fail_{name}" in flags]
    return Limits(**{name: flags.pop(f"fail_{name}") for name in names})


def _argument(name: str, argument: Argument, *, required: bool) -> Callable[[Any], Any]:
    kind = click.Path() if argument.kind == "path" else None
    return click.argument(name, metavar=argument.metavar or None, required=required, type=kind)


def _value(argument: Argument, text: str) -> str:
    if argument.read is not None:
        return argument.read(text)
    return str(Path(text).absolute()) if argument.kind == "path" else text


def _flag_of(param: click.Parameter) -> Callable[[Any], Any]:
    """The decorator of a flag that stands below the verb."""

    def add(command: Any) -> Any:
        command.__click_params__ = [*getattr(command, "__click_params__", ()), param]
        return command

    return add
