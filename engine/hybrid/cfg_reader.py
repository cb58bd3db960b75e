"""Reading a ``.quantization.cfg`` of either generation, edited by hand.

Tolerant where the manuals' own examples are uneven: blanks for underscores in keys, single numbers
for lists of one, both spellings of ``qtype``, no ``---``. Numbers that cannot be, keys that come
twice and shapes that are not the file's are problems with their line.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from engine.base.errors import RecipeError, SourceModelError
from engine.base.files import read_bounded
from engine.base.text import did_you_mean, sanitize
from engine.hybrid.cfg_writer import FIELDS, LAYERS_KEY, PARAMETERS_KEY, Entry, HybridConfig

SIZE_LIMIT = 32 << 20
_DEPTH_LIMIT = 6
_EVENT_LIMIT = 2_000_000
_SHOWN = 8

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_SCHEMES = MappingProxyType(
    {
        "asym": "asym",
        "asymmetric_quantized": "asym",
        "asymmetric_affine": "asym",
        "sym": "sym",
        "symmetric_affine": "sym",
        "dfp": "dfp",
        "dynamic_fixed_point": "dfp",
    }
)
_TEXTS = ("qtype", "qmethod", "method", "dtype")
_NUMBERS = {key: own for keys in FIELDS.values() for key, own in keys.items() if key not in _TEXTS}


@dataclass(frozen=True)
class Problem:
    """Something wrong in the file: the line (0: the whole file) and what."""

    line: int
    message: str

    def __str__(self) -> str:
        """The message with its line."""
        return f"line {self.line}: {self.message}" if self.line else self.message


def problems_error(path: str, problems: list[Problem]) -> RecipeError:
    """All problems of a file as one error."""
    shown = "; ".join(str(p) for p in problems[:_SHOWN])
    more = len(problems) - _SHOWN
    return RecipeError(
        f"{sanitize(path, 300)} cannot be used: {shown}"
        + (f"; and {more} more." if more > 0 else ""),
        cause="It was edited by hand, or belongs to another model.",
        remedy="Correct these lines; nothing was built and no file was changed.",
    )


def read_config(path: Path) -> HybridConfig:
    """The configuration of a file.

    Raises:
        RecipeError: it is missing, larger than 32 MiB, no YAML, or has problems: all are named
            with their lines.
    """
    try:
        content = read_bounded(path, SIZE_LIMIT, "a quantization.cfg")
    except SourceModelError as error:
        raise RecipeError(error.what, cause=error.cause, remedy=error.remedy) from error
    config, problems = parse_config(content)
    if problems:
        raise problems_error(str(path), problems)
    return config


def parse_config(content: bytes) -> tuple[HybridConfig, list[Problem]]:
    """What a file says as far as it can be understood, and all problems."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        return HybridConfig(2), [Problem(line, "It is not text in UTF-8.")]
    try:
        _bounded(text)
        node = _Loader(text).get_single_node()
    except _RefusedError as refused:
        return HybridConfig(2), [refused.problem]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = sanitize(" ".join(p for p in (error.context, error.problem) if p), 200)
        return HybridConfig(2), [Problem(mark.line + 1 if mark else 0, f"It is not YAML: {what}.")]
    except (yaml.YAMLError, ValueError) as error:
        return HybridConfig(2), [Problem(0, f"It is not YAML: {sanitize(str(error), 200)}.")]
    return _Parser().run(node)


class _RefusedError(Exception):
    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


def _bounded(text: str) -> None:
    """Refuse what such a file never has and what makes reading explode."""
    depth = documents = 0
    for count, event in enumerate(yaml.parse(text, Loader=_Loader)):
        line = event.start_mark.line + 1 if event.start_mark else 0
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise _RefusedError(Problem(line, "Anchors and aliases (& and *) are not allowed."))
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        documents += isinstance(event, yaml.DocumentStartEvent)
        if depth > _DEPTH_LIMIT:
            raise _RefusedError(Problem(line, f"It is nested deeper than {_DEPTH_LIMIT} levels."))
        if documents > 1:
            raise _RefusedError(Problem(line, "It contains more than one YAML document."))
        if count > _EVENT_LIMIT:
            raise _RefusedError(Problem(line, f"It has more than {_EVENT_LIMIT} entries."))


class _Parser:
    """One file: from YAML nodes, which know their lines, to a configuration."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def run(self, root: yaml.Node | None) -> tuple[HybridConfig, list[Problem]]:
        if not isinstance(root, yaml.MappingNode):
            known = f"{LAYERS_KEY[2]} and {PARAMETERS_KEY}"
            return HybridConfig(2), [Problem(1, f"A quantization.cfg has the keys {known}.")]
        parts: dict[str, yaml.Node] = {}
        for key, line, node in self._items(root, fold=True):
            if key not in (*LAYERS_KEY.values(), PARAMETERS_KEY):
                near = did_you_mean(key, (*LAYERS_KEY.values(), PARAMETERS_KEY))
                self._problem(line, f"There is no key {sanitize(key, 80)!r}. {near}".strip())
            parts[key] = node
        generation = 1 if LAYERS_KEY[1] in parts else 2
        layers, lines = self._layers(parts.get(LAYERS_KEY[generation]))
        if LAYERS_KEY[generation] not in parts:
            self._problem(1, f"The key {LAYERS_KEY[2]} is missing.")
        entries: dict[str, Entry] = {}
        for key, line, node in self._mapping(parts.get(PARAMETERS_KEY), PARAMETERS_KEY):
            entries[key] = self._entry(key, line, node, generation)
        self.problems.sort(key=lambda p: p.line)
        return HybridConfig(generation, layers, entries, lines), self.problems

    def _problem(self, line: int, message: str) -> None:
        self.problems.append(Problem(line, message))

    def _items(
        self, node: yaml.MappingNode, *, fold: bool = False
    ) -> Iterator[tuple[str, int, yaml.Node]]:
        """(key, line, value); keys with blanks for underscores where the file's own are meant."""
        seen: dict[str, int] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                self._problem(line, "A key is one name.")
                continue
            name = "_".join(key.value.split()) if fold else key.value
            if name in seen:
                self._problem(
                    line, f"{sanitize(name, 120)!r} is there twice, first in line {seen[name]}."
                )
                continue
            seen[name] = line
            yield name, line, value

    def _mapping(self, node: yaml.Node | None, what: str) -> Iterator[tuple[str, int, yaml.Node]]:
        if node is None or _is_null(node):
            return
        if not isinstance(node, yaml.MappingNode):
            self._problem(node.start_mark.line + 1, f"{what} holds lines 'name: value'.")
            return
        yield from self._items(node)

    def _layers(self, node: yaml.Node | None) -> tuple[dict[str, str], dict[str, int]]:
        layers: dict[str, str] = {}
        lines: dict[str, int] = {}
        for key, line, value in self._mapping(node, "The list of layers"):
            if not isinstance(value, yaml.ScalarNode) or _is_null(value):
                self._problem(line, f"{sanitize(key, 120)!r} needs a dtype, as 'name: float16'.")
                continue
            layers[key], lines[key] = value.value.strip(), line
        return layers, lines

    def _entry(self, key: str, line: int, node: yaml.Node, generation: int) -> Entry:
        texts: dict[str, str] = {}
        numbers: dict[str, tuple[float, ...]] = {}
        if not isinstance(node, yaml.MappingNode):
            self._problem(line, f"{sanitize(key, 120)!r} holds lines 'min:', 'max:' and so on.")
            return Entry(key, "", line=line)
        for name, at, value in self._items(node, fold=True):
            if name in _TEXTS:
                texts[name] = "" if _is_null(value) else str(value.value).strip()
            elif name in _NUMBERS:
                numbers[_NUMBERS[name]] = self._numbers(name, at, value)
            elif name != "fl":  # the fraction length of dynamic fixed point follows from the scale
                near = did_you_mean(name, (*_NUMBERS, *_TEXTS))
                self._problem(at, f"There is no parameter {sanitize(name, 80)!r}. {near}".strip())
        # generation 1 has the scheme in dtype and the integer type in qtype; generation 2 swaps
        names = {own: name for name, own in FIELDS[generation].items()}
        scheme, dtype, method = (texts.get(names[own], "") for own in ("scheme", "dtype", "method"))
        if generation == 1 and scheme in ("", "None", "none"):
            return Entry(key, "", line=line)
        if scheme.lower() not in _SCHEMES:
            near = did_you_mean(scheme, _SCHEMES) or f"Known: {', '.join(_SCHEMES)}."
            what = f"{names['scheme']} {sanitize(scheme, 60)!r}"
            self._problem(line, f"{what} is not known. {near}")
        scheme = _SCHEMES.get(scheme.lower(), "asym")
        return Entry(key, dtype, scheme, method or "layer", line=line, **numbers)

    def _numbers(self, name: str, line: int, node: yaml.Node) -> tuple[float, ...]:
        """The numbers of a list, or one number; none of an empty value."""
        items = node.value if isinstance(node, yaml.SequenceNode) else [node]
        if isinstance(node, yaml.SequenceNode) or not _is_null(node):
            return tuple(n for item in items if (n := self._number(name, item)) is not None)
        return ()

    def _number(self, name: str, node: yaml.Node) -> float | None:
        line = node.start_mark.line + 1
        try:
            value = (
                float(node.value.replace("_", "")) if isinstance(node, yaml.ScalarNode) else None
            )
        except ValueError:
            value = {".nan": math.nan, ".inf": math.inf, "-.inf": -math.inf}.get(
                str(node.value).lower()
            )
        if value is None:
            self._problem(line, f"{name} {sanitize(str(node.value), 60)!r} is not a number.")
        elif not math.isfinite(value):
            self._problem(line, f"{name} is {sanitize(str(node.value), 20)}: it must be finite.")
        else:
            return value
        return None


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and (
        node.tag == "tag:yaml.org,2002:null" or (node.style is None and node.value == "")
    )
