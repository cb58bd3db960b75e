"""Recipes as YAML text: read within bounds, written short, compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from engine.base.errors import RecipeError, SourceModelError
from engine.base.files import read_bounded
from engine.base.text import did_you_mean, sanitize
from engine.options import OPTIONS, SECTIONS, Option, Value, option
from engine.options.values import frozen, to_mutable
from engine.recipe.model import (
    PATH_KINDS,
    VERSION,
    Recipe,
    recipe_problems,
    unknown_option,
)

SIZE_LIMIT = 1 << 20
DEPTH_LIMIT = 8
EVENT_LIMIT = 20_000
_SHOWN_PROBLEMS = 8
_KEPT_PROBLEMS = 100

# libyaml reads 1 MB in 0.2 s, the Python parser in 10 s; both are "safe": plain data only
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class Problem:
    """Something wrong in a recipe file.

    Attributes:
        option: the option or section; empty for the file as a whole.
        line: from 1; 0 where there is none.
        message: what is wrong.
    """

    option: str
    line: int
    message: str

    def __str__(self) -> str:
        """The message with its line."""
        return f"line {self.line}: {self.message}" if self.line else self.message


@dataclass(frozen=True)
class Change:
    """One option that differs between two recipes, as text that can be typed."""

    option: str
    before: str
    after: str

    def __str__(self) -> str:
        """``option: before -> after``."""
        return f"{self.option}: {self.before or '(not set)'} -> {self.after or '(not set)'}"


def load_recipe(path: Path) -> Recipe:
    """The recipe of a YAML file; relative paths in it start at its folder.

    Raises:
        RecipeError: missing or unreadable file, not YAML, an unknown or unfitting option; names
            the line.
    """
    values, problems = read_recipe(path)
    if problems:
        shown = "; ".join(str(p) for p in problems[:_SHOWN_PROBLEMS])
        more = len(problems) - _SHOWN_PROBLEMS
        raise RecipeError(
            f"{sanitize(str(path), 300)} cannot be used: {shown}"
            + (f"; and {more} more." if more > 0 else ""),
            remedy="Correct these lines; docs/recipe.md lists every option.",
        )
    return Recipe.from_values(values, path.parent)


def read_recipe(path: Path) -> tuple[dict[str, Value], tuple[Problem, ...]]:
    """What a YAML file says, as far as it can be understood: values by option, and all problems.

    Paths are as written. A screen shows both, so that a slip does not hide the rest of the file.

    Raises:
        RecipeError: the file is missing, unreadable or larger than 1 MB.
    """
    try:
        content = read_bounded(path, SIZE_LIMIT, "a recipe")
    except SourceModelError as error:
        raise RecipeError(error.what, cause=error.cause, remedy=error.remedy) from error
    return parse_recipe(content)


def parse_recipe(content: bytes | str) -> tuple[dict[str, Value], tuple[Problem, ...]]:
    """As :func:`read_recipe`, of text. At most 1 MB, 8 levels, no anchors and aliases."""
    try:
        text = content if isinstance(content, str) else content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        return {}, (Problem("", line, "It is not text in UTF-8."),)
    if len(text) > SIZE_LIMIT:
        return {}, (Problem("", 0, f"It is longer than {SIZE_LIMIT} characters."),)
    try:
        _bounded(text)
        loader = _Loader(text)
        node = loader.get_single_node()
        data = loader.construct_document(node) if node is not None else None
    except _RefusedError as refused:
        return {}, (refused.problem,)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = sanitize(" ".join(p for p in (error.context, error.problem) if p), 200)
        row = "".join(text.split("\n")[mark.line : mark.line + 1]) if mark else ""
        if "\t" in row[: len(row) - len(row.lstrip())]:
            what = "a tab cannot indent a line; use spaces"
        return {}, (Problem("", mark.line + 1 if mark else 0, f"It is not valid YAML: {what}."),)
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        return {}, (Problem("", 0, f"It is not valid YAML: {sanitize(str(error), 200)}."),)
    return _values(data, node)


class _RefusedError(Exception):
    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


def _bounded(content: str) -> None:
    """Refuse what a recipe never needs and what makes parsing explode, before objects are made."""
    depth = 0
    documents = 0
    for count, event in enumerate(yaml.parse(content, Loader=_Loader)):
        line = event.start_mark.line + 1 if event.start_mark else 0
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise _RefusedError(Problem("", line, "Anchors and aliases (& and *) are not allowed."))
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.DocumentStartEvent):
            documents += 1
        if depth > DEPTH_LIMIT:
            raise _RefusedError(
                Problem("", line, f"It is nested deeper than {DEPTH_LIMIT} levels.")
            )
        if documents > 1:
            raise _RefusedError(Problem("", line, "It contains more than one YAML document."))
        if count > EVENT_LIMIT:
            raise _RefusedError(Problem("", line, f"It has more than {EVENT_LIMIT} entries."))


def _values(data: Any, node: Any) -> tuple[dict[str, Value], tuple[Problem, ...]]:
    if not isinstance(data, dict):
        return {}, (
            Problem("", 1, "A recipe starts with 'version: 1' and sections of options below it."),
        )
    problems = [*_version_problems(data, node)]
    values: dict[str, Value] = {}
    lines: dict[str, int] = {}
    for key, line, child in _entries(node, problems):
        if key == "version":
            continue
        if key not in SECTIONS:
            problems.append(Problem(key, line, _unknown_section(key)))
            continue
        part = data[key]
        if part is None:  # a section with nothing under it
            continue
        if not isinstance(part, dict):
            problems.append(Problem(key, line, f"{key} must hold options, one per line, indented."))
            continue
        known = {o.name: o for o in OPTIONS if o.section == key}
        for name, at, entry in _entries(child, problems):
            if name in known and name in part:  # of a section given twice only the last counts
                values[name], lines[name] = part[name], at
                if known[name].repeated and isinstance(part[name], dict):
                    problems += _twice(name, entry)
            elif name not in known and len(problems) < _KEPT_PROBLEMS:
                # not for all of thousands: looking for near names takes time
                problems.append(_unknown(name, at, known))
    for name, message in recipe_problems(values).items():
        problems.append(Problem(name, lines.get(name, 0), message))
    problems.sort(key=lambda p: p.line)
    return values, tuple(problems)


def _entries(node: Any, problems: list[Problem]) -> Iterator[tuple[str, int, Any]]:
    """(key, line, value node) of a mapping; keys that are no text or come twice are problems."""
    seen: set[str] = set()
    # as a mapping is made of them: of those given twice the last counts
    last = {key.value: value for key, value in node.value if key.tag == "tag:yaml.org,2002:str"}
    for key, _ in node.value:
        line = key.start_mark.line + 1
        if key.tag != "tag:yaml.org,2002:str":
            shown = sanitize(str(key.value), 40)
            problems.append(Problem("", line, f"{shown} is not the name of an option."))
        elif key.value in seen:
            problems.append(Problem(key.value, line, f"{sanitize(key.value, 80)} is given twice."))
        else:
            seen.add(key.value)
            yield key.value, line, last[key.value]


def _twice(option_name: str, node: Any) -> Iterator[Problem]:
    """Tensors that a mapping names more than once; of two entries YAML would keep the last."""
    seen: set[str] = set()
    for key, _ in node.value:
        if key.value in seen:
            shown = sanitize(str(key.value), 80)
            line = key.start_mark.line + 1
            yield Problem(option_name, line, f"{option_name} names {shown} twice.")
        seen.add(str(key.value))


def _version_problems(data: Mapping[Any, Any], node: Any) -> Iterator[Problem]:
    version = data.get("version")
    line = next((k.start_mark.line + 1 for k, _ in node.value if k.value == "version"), 1)
    if version is None:
        yield Problem("version", line, "The line 'version: 1' is missing.")
    elif isinstance(version, int) and not isinstance(version, bool) and version > VERSION:
        yield Problem(
            "version", line, f"It has version {version}; this program reads {VERSION}. Update it."
        )
    elif version is True or version != VERSION:
        yield Problem("version", line, f"version is {sanitize(repr(version), 40)}; it must be 1.")


def _unknown_section(key: str) -> str:
    shown = sanitize(key, 80)
    if any(o.name == key for o in OPTIONS):
        return f"{shown} belongs under {option(key).section}:, indented."
    return f"There is no section {shown}. {did_you_mean(key, SECTIONS)}".strip()


def _unknown(name: str, line: int, known: Mapping[str, Option]) -> Problem:
    error = unknown_option(name, known)
    message = error.what if name not in _OPTION_NAMES else f"{error.what} {error.remedy}"
    return Problem(name, line, message)


_OPTION_NAMES = frozenset(o.name for o in OPTIONS)


class _Dumper(yaml.SafeDumper):
    """Writes lists, and text with line breaks, on one line; a mapping as one line an entry."""

    def represent_list_inline(self, data: list[Any]) -> yaml.Node:
        return self.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=True)

    def represent_text(self, data: str) -> yaml.Node:
        # YAML has five line breaks, and folds them in every style but this one
        style = '"' if _BREAKS.intersection(data) else None
        return self.represent_scalar("tag:yaml.org,2002:str", data, style=style)


_BREAKS = frozenset("\n\r\x85\u2028\u2029")
_Dumper.add_representer(list, _Dumper.represent_list_inline)
_Dumper.add_representer(str, _Dumper.represent_text)


def dump_recipe(
    recipe: Recipe, *, base: Path | None = None, everything: bool = False, comments: bool = False
) -> str:
    """A recipe as YAML text that :func:`load_recipe` reads back equal.

    Args:
        recipe: what to write.
        base: the folder of the file; paths below it are written relative to it.
        everything: also options that have their default; otherwise only what differs.
        comments: the help of every option before it.

    Raises:
        RecipeError: a path has bytes that are not UTF-8.
    """
    lines = [f"version: {VERSION}"]
    for section, title in SECTIONS.items():
        body: list[str] = []
        for declared in (o for o in OPTIONS if o.section == section):
            value = recipe.value(declared.name)
            if value == frozen(declared.default) and not everything:
                continue
            if comments:
                body.append(f"  # {declared.help}")
            body.extend(f"  {line}" if line else "" for line in _entry(declared, value, base))
        if body:
            lines += [f"{section}:" + (f"  # {title}" if comments else ""), *body]
    return "\n".join(lines) + "\n"


def _entry(declared: Option, value: Value, base: Path | None) -> list[str]:
    plain = _whole_numbers(to_mutable(value))
    _refuse_bytes(declared.name, plain)
    if base is not None and declared.kind in PATH_KINDS:
        plain = _relative(plain, base.absolute())
    text: str = yaml.dump(
        {declared.name: plain},
        Dumper=_Dumper,
        allow_unicode=True,
        width=float("inf"),
        sort_keys=False,
        default_flow_style=False,
    )
    return text.rstrip("\n").split("\n")


def _refuse_bytes(name: str, value: Value) -> None:
    """YAML is UTF-8: a path with other bytes could not be read back."""
    for text in value if isinstance(value, list | dict) else [value]:
        if isinstance(text, str) and any("\ud800" <= c <= "\udfff" for c in text):
            raise RecipeError(
                f"{name} {sanitize(text, 300)} cannot be written in a recipe: it is not UTF-8.",
                cause="The file was named on a system with another character set.",
                remedy="Rename the file.",
            )


def _whole_numbers(value: Value) -> Value:
    """127.0 as 127, which is how people write means."""
    if isinstance(value, list):
        return [_whole_numbers(v) for v in value]
    if isinstance(value, dict):
        return {name: _whole_numbers(v) for name, v in value.items()}
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return int(value)
    return value


def _relative(value: Value, base: Path) -> Value:
    if isinstance(value, list):
        return [_relative(v, base) for v in value]
    if isinstance(value, str):
        path = Path(value)
        if path.is_relative_to(base) and ".." not in path.parts:
            relative = path.relative_to(base).as_posix()
            return f"./{relative}" if relative.startswith("~") else relative
    return value


def diff_recipes(before: Recipe, after: Recipe) -> tuple[Change, ...]:
    """The options that differ, in their order; an empty text is an unset option."""
    return tuple(
        Change(o.name, o.render(to_mutable(old)), o.render(to_mutable(new)))
        for o in OPTIONS
        if (old := before.value(o.name)) != (new := after.value(o.name))
    )
