"""How a parameter of a request is given: its flag, help and form, declared beside its type.

A :class:`Flag` in a field's ``Annotated`` is the only place for them. The command line, the command
line of a job (``Y``), the forms of the workbench and the tables of the docs are made from it.
"""

from __future__ import annotations

import dataclasses
import math
import re
import types
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import MISSING
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from engine.options import OPTIONS
from engine.wire.codec import Above, Between, Text, Whole
from engine.wire.method import Method
from engine.wire.record import record

_YES, _NO = {"y", "yes", "true", "1", "on"}, {"n", "no", "false", "0", "off"}
FlagKind = Literal["text", "path", "file", "folder", "code", "chip", "secret"]
"""What a text means: a path is made absolute and completed; ``code`` is ``FILE.py:Name``; of a
``secret`` nobody sees the letters."""
PATHS = ("path", "file", "folder")
"""Kinds of texts that are paths."""
MOST = 100_000
"""Bounds beyond it only keep numbers in reason: no help names them."""
_DEFAULT = re.compile(r"[Dd]efault: (.+?)(?:;|\.?$)")


@record(kw_only=True)
class Flag:
    """How the command line names a parameter.

    Attributes:
        help: one or two sentences for ``--help`` and the form.
        name: as ``--chip`` or ``-o --output``; empty: the name of the field. With a slash
            (``--logits/--probabilities``) the second says no.
        metavar: in place of the value in ``--help``.
        kind: what its text means.
        required: whether the command line asks for it, though the request has a default.
        read, write: of a value that is no plain text: ``N=FILE``, ``LAYER=LOW,HIGH``. ``read``
            raises ValueError with what it should be; of a mapping both are of one (key, value).
        whole: ``read`` makes a list of one text, ``10,13,16``; else the flag is repeated.
        otherwise: what the command line takes where it is not given.
        option: the option of the recipe that it stands for; the command line has that one's flag.
        unit: of its number, for a form; one that its name ends in counts as that.
    """

    help: str
    name: str = ""
    metavar: str = ""
    kind: FlagKind = "text"
    required: bool = False
    read: Callable[[str], Any] | None = None
    write: Callable[[Any], str] | None = None
    whole: bool = False
    otherwise: str = ""
    option: str = ""
    unit: str = ""


def output_flag(
    told: str, kind: FlagKind = "file", metavar: str = "FILE", *, otherwise: str = ""
) -> Flag:
    """The flag of what is written."""
    return Flag(name="-o --output", help=told, kind=kind, metavar=metavar, otherwise=otherwise)


Force = Annotated[bool, Flag(help="Overwrite files that exist.")]
Refresh = Annotated[bool, Flag(help="Recompute every stage; ignore the cache.")]
Board = Annotated[
    str | None,
    Flag(
        name="--device",
        help="The board: adb:SERIAL, ssh:[USER@]HOST[:PORT] or local. Default: this machine if it "
        "is a board, else the only board.",
        metavar="DEVICE",
    ),
]
SampleFiles = Annotated[
    tuple[Text, ...] | None,
    Flag(
        name="-i --input",
        help="An image or npy file; once per input. Default: the first calibration sample.",
        kind="file",
        metavar="PATH",
    ),
]
InputFiles = Annotated[
    tuple[Text, ...],
    Flag(
        name="-i --input",
        help="An image or npy file; once per input, in the model's order.",
        kind="file",
        metavar="PATH",
    ),
]
Saved = Annotated[
    Text | None, Flag(name="--save", help="Folder for every output as npy.", kind="folder")
]
Top = Annotated[int, Whole(0, 1000), Flag(help="Number of largest values to show.")]
Rounding = Annotated[
    bool,
    Flag(
        name="--rounding/--no-rounding",
        help="Measure how far the net moves when roundings at an edge go the other way.",
    ),
]
Layered = Annotated[bool, Flag(help="Also time each layer, in a run of its own.")]
Toolkit = Annotated[
    Text | None,
    Flag(help="Environment of the vendor's toolkit, if several.", metavar="NAME"),
]


@record(kw_only=True)
class Argument:
    """A parameter without a flag: the command line takes it behind the verb.

    Attributes:
        metavar: in ``--help``; empty: the field's name.
        kind: what its text means; a path is made absolute.
        help: of its line in a form.
        read: of a text that is neither; never fails.
    """

    help: str = ""
    metavar: str = ""
    kind: FlagKind = "path"
    read: Callable[[str], str] | None = None


@record
class Nested:
    """The flags of a field's own record stand beside the others.

    Attributes:
        needs: the field of it without which there is no record; empty: it is always made.
    """

    needs: str = ""


@record(kw_only=True)
class Param:
    """A parameter of a request, as its type and its flag say.

    Attributes:
        path: the field, behind the fields of the records that it lies in.
        flag: as declared.
        names: as given on the command line, the short one first.
        off: the name that says no; empty where there is none.
        of: the type of one value: ``bool``, ``int``, ``float``, ``str`` or a type that
            ``flag.read`` makes.
        many: whether it is given several times; ``pairs``: as a mapping.
        width: how many texts one value takes on the command line.
        choices: of a ``Literal``.
        limit: of a number.
        default: of the request.
        required: whether it must be given.
    """

    path: tuple[str, ...]
    flag: Flag
    names: tuple[str, ...]
    off: str
    of: Any
    many: bool
    pairs: bool
    width: int
    choices: tuple[str, ...]
    limit: Whole | Between | Above | None
    default: Any
    required: bool

    @property
    def key(self) -> str:
        """A name of its own among the request's parameters and a recipe's options."""
        return "_".join(("param", *self.path))

    @property
    def label(self) -> str:
        """Its name in a form: the long flag without dashes, and the unit."""
        name, unit = self.names[-1].lstrip("-").replace("-", " "), self.flag.unit
        return f"{name.removesuffix(f' {unit}')} ({unit})" if unit else name

    @property
    def unset(self) -> str:
        """What no value means: what the help says of its default."""
        said = _DEFAULT.search(self.flag.help)
        return said[1] if said else "" if self.required else "not set"

    @property
    def hint(self) -> str:
        """What fits beside its line in a form: choices or bounds, and its form."""
        if self.choices or self.of is bool:
            return " or ".join(self.choices)
        return ", ".join(filter(None, (self.flag.metavar, bounds_text(self.limit, MOST))))

    def text(self, value: Any) -> str:
        """A value as a user writes it in a form."""
        if value is None:
            return ""
        if isinstance(value, bool):
            return "yes" if value else "no"
        write = self.flag.write or _plain
        if self.pairs:
            return " ".join(write(item) for item in value.items())
        return " ".join(map(write, value)) if self.many else write(value)

    def parse(self, text: str) -> Any:
        """The value that a text in a form means; an empty text means the default.

        Raises:
            ValueError: it means none, or is empty where one is needed; the message is for the user.
        """
        words = text.split() if self.many else [text.strip()]
        if not text.strip():
            if self.required:
                as_in = f", as {self.flag.metavar}" if self.flag.metavar else ""
                raise ValueError(f"{self.label}: it is needed{as_in}.")
            return self.default
        values = [self._one(word) for word in words]
        return dict(values) if self.pairs else tuple(values) if self.many else values[0]

    def _one(self, text: str) -> Any:
        if self.flag.read is not None:
            return self.flag.read(text)
        if self.of is bool:
            if text.lower() not in _YES | _NO:
                raise ValueError(f"{self.label}: yes or no.")
            return text.lower() in _YES
        if self.choices and text not in self.choices:
            raise ValueError(f"{self.label}: one of {', '.join(self.choices)}.")
        if self.flag.kind in PATHS:
            return _absolute(text)
        if self.of not in (int, float):
            return text
        what = "a whole number" if self.of is int else "a number"
        low, high = (self.limit.low, self.limit.high) if self.limit else (-math.inf, math.inf)
        above = isinstance(self.limit, Above)
        try:
            value = math.nan if "_" in text else self.of(text)
        except ValueError:
            value = math.nan
        if not (low < value if above else low <= value) or not value <= high:
            bounds = bounds_text(self.limit)
            bounds = f" from {bounds}" if " to " in bounds and not above else f" {bounds}"
            raise ValueError(f"{self.label}: {what}{bounds.rstrip()}.")
        return value

    def words(self, value: Any) -> list[str]:
        """The words of the command line that give a value of plain data; none for the default."""
        name = self.names[-1]
        if value is None or value == self.default:
            return []
        if isinstance(value, bool):
            return [name] if value else [self.off] if self.off else []
        write = self.flag.write or _plain
        if self.pairs:
            return [word for item in value.items() for word in (name, write(item))]
        if self.many and not isinstance(value, str):
            return [word for item in value for word in (name, *self._texts(item, write))]
        texts = self._texts(value, write)
        return [name, *texts] if any(texts) else []  # no text means it

    def _texts(self, value: Any, write: Callable[[Any], str]) -> list[str]:
        return [write(item) for item in value] if self.width > 1 else [write(value)]


def _plain(value: Any) -> str:
    """As short as it is exact: 500, not 500.0."""
    short = f"{value:g}" if type(value) is float else ""
    return short if short and float(short) == value else str(value)


def bounds_text(limit: Whole | Between | Above | None, most: float = math.inf) -> str:
    """``1 to 1000``, ``from 0`` or ``above 0``: the bounds within -/+ ``most``; empty without."""
    if limit is None:
        return ""
    low, high = limit.low, limit.high
    least = _plain(low) if low > -most else ""
    top = f" to {_plain(high)}" if high <= most and high < math.inf else ""
    if isinstance(limit, Above):
        return f"above {least}{top}"
    return f"{least}{top}" if least and top else f"from {least}" if least else top.strip()


def _absolute(text: str) -> str:
    try:
        return str(Path(text).expanduser().absolute())
    except RuntimeError:  # the home of an unknown user
        return str(Path(text).absolute())


def form_params(request: type[Any]) -> tuple[Param, ...]:
    """The parameters that a form of a request asks for: what stands behind the verb, then flags."""
    fields = {field.name: field for field in dataclasses.fields(request)}
    behind = (
        _param(
            (name,),
            Flag(help=one.help, metavar=one.metavar, kind=one.kind, read=one.read),
            hint,
            fields[name],
        )
        for name, hint, one in _marks(request)
        if isinstance(one, Argument)
    )
    return (*behind, *params_of(request))


def params_of(request: type[Any]) -> tuple[Param, ...]:
    """The parameters of a request that have a flag, in their order."""
    params: tuple[Param, ...] = _all_params(cast("Hashable", request))
    return params


@cache
def _all_params(request: Any) -> tuple[Param, ...]:
    return tuple(_params(request, ()))


def _params(request: type[Any], above: tuple[str, ...]) -> list[Param]:
    hints = get_type_hints(request, include_extras=True)
    params: list[Param] = []
    for field in dataclasses.fields(request):
        hint = hints[field.name]
        marks = getattr(hint, "__metadata__", ())
        path = (*above, field.name)
        if any(isinstance(mark, Nested) for mark in marks):
            params += _params(_record_in(hint), path)
        flag = next((mark for mark in marks if isinstance(mark, Flag)), None)
        if flag is not None:
            params.append(_param(path, flag, hint, field))
    return params


def arguments_of(request: type[Any]) -> dict[str, Argument]:
    """Field -> how the command line takes it behind the verb, in their order."""
    return {name: mark for name, _, mark in _marks(request) if isinstance(mark, Argument)}


def nested_of(request: type[Any]) -> dict[str, tuple[type[Any], Nested]]:
    """Field -> the record that it holds, whose flags stand beside those of the request."""
    return {
        name: (_record_in(hint), mark)
        for name, hint, mark in _marks(request)
        if isinstance(mark, Nested)
    }


def _marks(request: type[Any]) -> Iterator[tuple[str, Any, object]]:
    """Field, its type, and each mark of its ``Annotated``."""
    for name, hint in get_type_hints(request, include_extras=True).items():
        for mark in getattr(hint, "__metadata__", ()):
            yield name, hint, mark


def _record_in(hint: Any) -> type[Any]:
    kind = get_args(hint)[0]
    parts = [part for part in get_args(kind) if part is not types.NoneType]
    record_: type[Any] = parts[0] if parts else kind
    return record_


def _param(path: tuple[str, ...], flag: Flag, hint: Any, field: dataclasses.Field[Any]) -> Param:
    base = get_args(hint)[0]
    parts = _alternatives(base)
    items = [get_args(part)[0] for part in parts if get_args(part)[1:] == (...,)]
    limits = [m for part in (hint, *parts, *items) for m in getattr(part, "__metadata__", ())]
    limit = next((m for m in limits if isinstance(m, Whole | Between | Above)), None)
    kinds = [_bare(part) for part in parts]
    of, many, pairs, width = kinds[-1], False, False, 1
    if get_origin(of) is tuple and get_args(of)[1:] == (...,):
        of, many = (of, False) if flag.whole else (_bare(get_args(of)[0]), True)
    elif get_origin(of) in (dict, Mapping):
        pairs = many = True
    if get_origin(of) is tuple and flag.read is None:
        width = len(get_args(of))
    choices = tuple(map(str, get_args(of))) if get_origin(of) is Literal else ()
    default = field.default_factory() if field.default_factory is not MISSING else field.default
    names, _, off = (flag.name or f"--{field.name.replace('_', '-')}").partition("/")
    return Param(
        path=path,
        flag=flag,
        names=tuple(names.split()),
        off=off,
        of=of,
        many=many,
        pairs=pairs,
        width=width,
        choices=choices,
        limit=limit,
        default=None if default is MISSING else default,
        required=flag.required or (default is MISSING and not flag.otherwise),
    )


def _alternatives(kind: Any) -> list[Any]:
    """The types of a union but None."""
    if get_origin(kind) in (Union, types.UnionType):
        return [part for part in get_args(kind) if part is not types.NoneType]
    return [kind]


def _bare(kind: Any) -> Any:
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def words_of(request: type[Any], data: Mapping[str, Any]) -> list[str]:
    """The words of the command line that mean a request.

    Args:
        request: its type.
        data: its plain data (:func:`engine.wire.codec.encode`); what is left out has its default.
    """
    return [word for param in params_of(request) for word in param.words(_at(data, param.path))]


def command_of(method: Method[Any, Any], data: Mapping[str, Any]) -> list[str]:
    """The command line that asks what a request asks: verb, target, options of its recipe, flags.

    Args:
        method: with its verb.
        data: plain data of its request.

    Returns:
        The words; empty where the method has no verb, or the request no target.
    """
    names = list(arguments_of(method.params))
    target = [str(data[name]) for name in names if data.get(name)]
    recipe = data.get("recipe")
    if not target and method.options and isinstance(recipe, Mapping) and recipe.get("model"):
        target = [str(recipe["model"]), *recipe_words(recipe, method.options)]
    needed = names or "recipe" in get_type_hints(method.params)
    if not method.verb or (needed and not target):
        return []
    return ["rknntui", *method.verb.split(), *target, *words_of(method.params, data)]


def recipe_words(recipe: Mapping[str, Any], taken: bool | str = True) -> list[str]:
    """The flags of a recipe's options that are set; ``taken``: of which section, if not of all."""
    words: list[str] = []
    for declared in OPTIONS:
        if declared.name not in recipe or declared.name == "model":
            continue
        if taken is not True and declared.section != taken:
            continue
        value = recipe[declared.name]
        if declared.name == "do_quantization":
            words.append("--quantize" if value else "--no-quantize")
        else:
            words += [declared.flag, declared.render(value)]
    return words


def _at(data: Any, path: Sequence[str]) -> Any:
    for name in path:
        data = data.get(name) if isinstance(data, Mapping) else None
    return data
