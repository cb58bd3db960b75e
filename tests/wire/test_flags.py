"""A parameter is declared once: the command line of a request parses back to that request."""

from __future__ import annotations

import ast
import shlex
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.wire.codec import Above, Whole, encode, read_request
from engine.wire.devices import DEVICES_PERF, BatchModel, PerfParams
from engine.wire.flags import Param, command_of, params_of
from engine.wire.method import Method, Task
from engine.wire.requests import ModelTarget
from rknntui.cli.flags import values_of
from rknntui.cli.request import values_for
from rknntui.cli.root import cli
from rknntui.keys.commandline import methods

ROOT = Path(__file__).resolve().parents[2]
METHODS = [method for method in methods().values() if method.verb]
WORD = st.text("abcxyz019_.", min_size=1, max_size=8)


_ARGUMENTS = {"path", "model", "data", "config", "python", "name", "folder", "first", "second"}


def number(param: Param) -> st.SearchStrategy[float]:
    limit = param.limit
    low = -1000.0 if limit is None else float(limit.low)
    high = 1000.0 if limit is None else min(float(limit.high), low + 1000)
    return st.floats(low, high, exclude_min=isinstance(limit, Above), allow_subnormal=False)


def value_of(param: Param) -> st.SearchStrategy[Any]:
    """Values of a parameter, as a user would give them."""
    if param.flag.read is not None:
        special: dict[str, st.SearchStrategy[Any]] = {
            "samples": st.integers(0, 1000) | st.just(str(Path(__file__).absolute())),
            "layers": st.dictionaries(WORD, st.sampled_from(["float16", "int16"]), min_size=1),
            "ranges": st.dictionaries(
                WORD, st.tuples(st.integers(-9, 0), st.integers(1, 9)), min_size=1
            ).map(lambda found: {k: (float(a), float(b)) for k, (a, b) in found.items()}),
            "axes": st.just(
                {"quantized_algorithm": ("normal", "mmse"), "bias_correction": (True,)}
            ),
            "anchors": st.lists(st.integers(1, 500).map(float), min_size=1).map(tuple),
            "max_ms": st.integers(1, 100).map(float),
            "batches": st.just((BatchModel(4, "/b4.rknn"),)),
            "python": st.just("python3.11"),
            "run": WORD,
            "build": st.just(ModelTarget("/d/build.yaml")),
            "ssh": st.lists(WORD.map("ssh:{}".format), min_size=1).map(tuple),
        }
        return special[param.path[-1]]
    if param.of is bool:
        return st.booleans()
    if param.choices:
        one: st.SearchStrategy[Any] = st.sampled_from(param.choices)
    elif param.of is int:
        limit = param.limit
        one = st.integers(limit.low, limit.high) if isinstance(limit, Whole) else st.integers()
    elif param.of is float:
        one = number(param)
    elif param.width > 1:
        one = st.tuples(*[WORD] * param.width)
    elif param.flag.kind in ("path", "file", "folder", "code"):
        one = WORD.map(lambda word: f"/d/a{word}")
    else:
        one = WORD
    return st.lists(one, min_size=1, max_size=3).map(tuple) if param.many else one


def request_of(method: Method[Any, Any], data: st.DataObject) -> Any:
    """A request of some parameters; those that must be given are."""
    own: dict[str, Any] = {}
    inner: dict[str, dict[str, Any]] = {}
    whole = data.draw(st.booleans())
    for param in params_of(method.params):
        needed = param.required or param.flag.otherwise or param.path == ("cluster", "address")
        if needed or whole or data.draw(st.booleans()):
            *above, name = param.path
            place = inner.setdefault(above[0], {}) if above else own
            place[name] = data.draw(value_of(param))
    names = {field.name for field in fields(method.params)}
    if "recipe" in names and method.options:
        own["recipe"] = {"model": "net.onnx", **_set_option(method)}
    else:
        by_place = _ARGUMENTS & names - own.keys()
        own |= {name: f"/d/{name}" for name in by_place}
    return method.params(
        **own, **{name: kind(**values) for name, kind, values in _records(method, inner)}
    )


def _set_option(method: Method[Any, Any]) -> dict[str, Any]:
    """An option of the recipe that the verb takes."""
    return {"outputs": ["y"]} if method.options == "source" else {"do_quantization": False}


def _records(method: Method[Any, Any], inner: dict[str, dict[str, Any]]) -> list[Any]:
    from engine.wire.flags import nested_of

    kinds = nested_of(method.params)
    return [(name, kind, inner[name]) for name, (kind, _) in kinds.items() if name in inner]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_the_command_line_of_a_request_parses_back_to_it(
    method: Method[Any, Any], data: st.DataObject
) -> None:
    asked = request_of(method, data)
    words = command_of(method, encode(asked))
    assert words, method.name
    assert shlex.split(shlex.join(words)) == words
    parsed = parse(words[1:])
    found = values_for(method.params, parsed)
    told = {name: getattr(asked, name) for name in found}
    assert found == told, words
    left = {field.name for field in fields(method.params)} - found.keys()
    plain = method.params(
        **({name: getattr(asked, name) for name in found} | _needed(method, asked))
    )
    assert {name: getattr(plain, name) for name in left} == {
        name: getattr(asked, name) for name in left
    }
    assert read_request(method.params, encode(asked)) == asked
    if "recipe" in left and method.options:
        options = {p.flag.option: getattr(asked, p.path[0]) for p in params_of(method.params)}
        given = {name: value for name, value in options.items() if name and value is not None}
        assert values_of(parsed) == _set_option(method) | given


def _needed(method: Method[Any, Any], asked: Any) -> dict[str, Any]:
    """What no flag gives: the recipe and the arguments."""
    flagged = {param.path[0] for param in params_of(method.params) if not param.flag.option}
    return {f.name: getattr(asked, f.name) for f in fields(asked) if f.name not in flagged}


def parse(words: list[str]) -> dict[str, Any]:
    """What click makes of a command line, which is not run."""
    command: click.Command = cli
    while isinstance(command, click.Group):
        context = click.Context(command)
        found = command.get_command(context, words[0])
        assert found is not None, words[0]
        command, words = found, words[1:]
    return dict(command.make_context("verb", words).params)


def test_a_flag_without_the_one_that_it_belongs_to_is_refused() -> None:
    from engine.wire.sweep import SweepParams

    words = ["sweep", "net.onnx", "--axis", "quantized_algorithm=normal", "--tls-ca", "ca.pem"]
    with pytest.raises(click.UsageError, match="--tls-ca belongs to --cluster"):
        values_for(SweepParams, parse(words))


def test_a_build_without_a_file_has_no_words() -> None:
    """A recipe that is open in the workbench cannot be named."""
    named = encode(PerfParams(path="/d/m.rknn", build=ModelTarget("/d/build.yaml")))
    unnamed = encode(PerfParams(path="/d/m.rknn", build=ModelTarget(recipe={"model": "a.onnx"})))
    assert command_of(DEVICES_PERF, named)[-2:] == ["--build", "/d/build.yaml"]
    assert command_of(DEVICES_PERF, unnamed) == ["rknntui", "perf", "run", "/d/m.rknn"]


def test_every_job_has_a_verb() -> None:
    assert [job.name for job in methods().values() if isinstance(job, Task) and not job.verb] == []


def _calls(folder: str) -> Iterator[tuple[str, ast.Call]]:
    for path in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call):
                yield path.relative_to(ROOT).as_posix(), node


def test_a_help_text_stands_in_one_module() -> None:
    homes: dict[str, set[str]] = {}
    for folder in ("engine/wire", "rknntui/cli", "rknntui/screens"):
        for path, call in _calls(folder):
            named = (
                call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
            )
            told = [word.value for word in call.keywords if word.arg == "help"]
            told += call.args[:1] if named == "output_flag" else []
            for text in told if named in ("Flag", "option", "output_flag") else ():
                if isinstance(text, ast.Constant):
                    homes.setdefault(text.value, set()).add(path)
    assert len(homes) > 100
    assert not {text: paths for text, paths in homes.items() if len(paths) > 1}


def _flags_of(command: click.Command, name: str) -> Iterator[tuple[str, click.Option]]:
    if isinstance(command, click.Group):
        for sub in command.list_commands(click.Context(command)):
            found = command.get_command(click.Context(command), sub)
            assert found is not None
            yield from _flags_of(found, f"{name} {sub}")
    for param in command.params:
        if isinstance(param, click.Option):
            yield name, param


def test_no_verb_has_bounds_of_its_own() -> None:
    """Numbers come from a request, a recipe or a limit, where their bounds are declared."""
    own = {
        f"{name} {param.opts[-1]}"
        for name, param in _flags_of(cli, "rknntui")
        if isinstance(param.type, click.IntRange | click.FloatRange)
        and not (param.name or "").startswith(("param_", "fail_"))
    }
    assert own == {"rknntui accuracy --count", "rknntui chips --fps"}  # of what is printed
