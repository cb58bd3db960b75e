"""The flags of a verb out of its request's type, and the request out of what was given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from engine import option
from engine.wire.codec import Above, Between, Whole
from engine.wire.flags import MOST, PATHS, Param, nested_of, params_of
from engine.wire.method import Method

Command = TypeVar("Command", bound=Callable[..., Any])


class FlagText(click.ParamType):
    """The text of a parameter: a chip, a path, a pair, a number or a file."""

    def __init__(self, param: Param) -> None:
        self.param, self.name = param, param.flag.kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value, or click's usage error."""
        if not isinstance(value, str):
            return value
        flag = self.param.flag
        if flag.read is not None:
            try:
                return flag.read(value)
            except ValueError as error:
                self.fail(str(error), param, ctx)
        if flag.kind in (*PATHS, "code"):
            return str(Path(value).absolute())
        return value

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[click.shell_completion.CompletionItem]:
        """The known chips, or files and folders."""
        kind = self.param.flag.kind
        if kind == "chip":
            known, prefix = option("target_platform").choices, incomplete.lower()
            names = [name for name in known if name.startswith(prefix)]
            return [click.shell_completion.CompletionItem(name) for name in names]
        if kind == "text":
            return []
        shown = "dir" if kind == "folder" else "file"
        return [click.shell_completion.CompletionItem(incomplete, type=shown)]


def request_flags(
    asked: Method[Any, Any] | type[Any], *, optional: bool = False, without: Sequence[str] = ()
) -> Callable[[Command], Command]:
    """Add a flag for every parameter that the request declares one for.

    Args:
        asked: a method, or the type of a request.
        optional: whether the verb does without this request, so that nothing of it is required.
        without: fields whose flags the verb does not have, or has of another request.
    """

    def add(command: Command) -> Command:
        request = asked.params if isinstance(asked, Method) else asked
        for param in reversed(params_of(request)):
            if param.path[0] not in without and not param.flag.option:
                required = param.required and not optional
                command = flag_option(param, param.key, required=required)(command)
        return command

    return add


def flag_option(param: Param, key: str, *, required: bool = False) -> Callable[[Command], Command]:
    """The option of a declared parameter; ``key``: its name among the command's arguments."""
    flag, default = param.flag, param.default
    *short, long = param.names
    shown = not param.many and default not in (None, "", False, ())
    more: dict[str, Any] = {"help": flag.help, "required": required}
    if flag.metavar:
        more["metavar"] = flag.metavar
    if param.of is bool:
        if not param.off:
            return click.option(*short, long, key, is_flag=True, help=flag.help)
        return click.option(
            *short,
            f"{long}/{param.off}",
            key,
            default=default,
            show_default=default is not None,
            help=flag.help,
        )
    return click.option(
        *short,
        long,
        key,
        type=_type(param),
        multiple=param.many,
        default=flag.otherwise or (None if param.many or required else default),
        show_default=shown and not flag.otherwise,
        **more,
    )


def _type(param: Param) -> Any:
    if param.width > 1:
        return (str,) * param.width
    if param.flag.read is not None:
        return FlagText(param)
    if param.choices:
        return click.Choice(param.choices)
    limit = param.limit
    if param.of is int:
        low, high = _ends(limit)
        return _WholeNumber(low, high)
    if param.of is float:
        return _Number(limit)
    return FlagText(param)


def _ends(limit: Whole | Between | Above | None) -> tuple[Any, Any]:
    """The bounds that say something; the wire holds the others, which keep numbers in reason."""
    if limit is None:
        return None, None
    return (
        limit.low if limit.low > -MOST else None,
        limit.high if limit.high <= MOST else None,
    )


class _WholeNumber(click.IntRange):
    """A whole number within its bounds, in digits alone: Python takes ``0_1`` for 1."""

    def _describe_range(self) -> str:
        return "" if self.min is self.max is None else super()._describe_range()

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number, or click's usage error."""
        if "_" in str(value):
            self.fail(f"{value!r} is not a valid integer.", param, ctx)
        number: int = super().convert(value, param, ctx)
        return number


class _Number(click.FloatRange):
    """A number within its bounds; NaN, which no comparison refuses, is none."""

    def __init__(self, limit: Whole | Between | Above | None) -> None:
        low, high = _ends(limit)
        super().__init__(low, high, min_open=low is not None and isinstance(limit, Above))

    def _describe_range(self) -> str:
        return "" if self.min is self.max is None else super()._describe_range()

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number, or click's usage error."""
        number: float = super().convert(value, param, ctx)
        if number != number:
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


def values_for(request: type[Any], flags: dict[str, Any]) -> dict[str, Any]:
    """The fields of a request that the flags of :func:`request_flags` give, but for defaults.

    Args:
        request: its type.
        flags: of the command; those that are taken are removed from it.

    Raises:
        click.UsageError: a flag belongs to another one that is not given.
    """
    own: dict[str, Any] = {}
    inner: dict[str, dict[str, Any]] = {}
    for param in params_of(request):
        if param.key not in flags:
            continue
        value = flags.pop(param.key)
        value = dict(value) if param.pairs else tuple(value) if param.many else value
        if value not in (None, (), {}, param.default):
            *above, name = param.path
            (inner.setdefault(above[0], {}) if above else own)[name] = value
    for name, (kind, nested) in nested_of(request).items():
        values = inner.get(name, {})
        if nested.needs and values and nested.needs not in values:
            flag = {param.path: param.names[-1] for param in params_of(request)}
            first, needed = (flag[name, member] for member in (next(iter(values)), nested.needs))
            raise click.UsageError(f"{first} belongs to {needed}, which is not given.")
        if values or not nested.needs:
            own[name] = kind(**values)
    return own
